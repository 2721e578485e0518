"""One thing done to several jobs, each for itself: `cancel`, `requeue`."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from distributed_grid.cli.agent import caller, print_json
from distributed_grid.client.blocking import Caller
from distributed_grid.client.calls import Call
from distributed_grid.errors import GridError, NoAgent
from distributed_grid.wire.api import JobView

T = TypeVar("T")


def each_job(
    words: tuple[str, ...],
    ask: Callable[[str], Call[JobView]],
    *,
    as_json: bool,
    data_dir: str | None,
) -> int:
    """Show what became of each; the exit code of the first that went wrong."""
    with caller(data_dir) as agent:
        views, code = ask_each(agent, words, ask)
    show(views, as_json=as_json)
    return code


def ask_each(
    agent: Caller, words: Iterable[T], ask: Callable[[T], Call[JobView]]
) -> tuple[list[JobView], int]:
    """The answers, and the exit code of the first that went wrong, which is told."""
    views: list[JobView] = []
    code = 0
    for word in words:
        try:
            views.append(agent.run(ask(word)))
        except NoAgent:
            raise
        except GridError as error:  # One wrong word does not keep the others.
            click.echo(f"grid: {error}", err=True)
            code = code or error.exit_code
    return views, code


def show(
    views: Iterable[JobView],
    *,
    as_json: bool,
    state: Callable[[JobView], str] = lambda job: job.state,
) -> None:
    """A line for each, or JSON."""
    if as_json:
        print_json(list(views))
        return
    for view in views:
        click.echo(f"{view.id[:12]}  {view.name}  {state(view)}")
