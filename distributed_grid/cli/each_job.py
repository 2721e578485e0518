"""One thing done to several jobs, each for itself: `cancel`, `requeue`."""

from collections.abc import Callable

import click

from distributed_grid.cli.agent import caller, print_json
from distributed_grid.client.calls import Call
from distributed_grid.errors import GridError, NoAgent
from distributed_grid.wire.api import JobView


def each_job(
    words: tuple[str, ...],
    ask: Callable[[str], Call[JobView]],
    *,
    as_json: bool,
    data_dir: str | None,
    remark: Callable[[JobView], str | None] = lambda _: None,
) -> int:
    """Show what became of each, with a remark; the exit code of the first that went wrong."""
    views: list[JobView] = []
    code = 0
    with caller(data_dir) as agent:
        for word in words:
            try:
                views.append(agent.run(ask(word)))
            except NoAgent:
                raise
            except GridError as error:  # One wrong word does not keep the others.
                click.echo(f"grid: {error}", err=True)
                code = code or error.exit_code
    if as_json:
        print_json(views)
    else:
        for view in views:
            click.echo(f"{view.id[:12]}  {view.name}  {view.state}")
    for said in filter(None, map(remark, views)):
        click.echo(f"grid: {said}", err=True)
    return code
