"""The way from a command to the agent: which one, and how its answers are printed as JSON.

Lives here: what every command that asks the agent shares. Never here: what is asked (its own file).
Nothing heavy is imported, click neither: `grid run` starts through here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from distributed_grid.client import calls, door
from distributed_grid.client.blocking import Caller
from distributed_grid.errors import GridError

if TYPE_CHECKING:
    import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def data_dir_option(function: Decorated) -> Decorated:
    """`--data-dir`: which agent."""
    import click

    return click.option(
        "--data-dir",
        metavar="DIR",
        help="The agent that serves this directory, instead of GRID_HOME or the usual place.",
    )(function)


def json_option(function: Decorated) -> Decorated:
    """`--json`: one value on stdout, for programs."""
    import click

    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def caller(data_dir: str | None, *, wake_fd: int | None = None) -> Caller:
    """Who carries questions to the agent; waiting ends when `wake_fd` is readable."""
    return Caller(door.home_of(data_dir).socket, wake_fd=wake_fd)


def print_json(value: Any) -> None:
    """A value as it is, on stdout."""
    import click

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def job_names(ctx: "click.Context", param: "click.Parameter", incomplete: str) -> list[str]:
    """Names and short ids of jobs, for completion in a shell; none if nobody answers."""
    del param
    try:
        with caller(ctx.params.get("data_dir")) as agent:
            page = agent.run(calls.jobs(limit=200))
    except GridError:
        return []
    words = {word for job in page.jobs for word in (job.name, job.id[:12])}
    return sorted(word for word in words if word.startswith(incomplete))


def job_argument(*, many: bool = False, required: bool = True) -> Callable[[Decorated], Decorated]:
    """The argument that names a job, or several."""
    import click

    def decorate(function: Decorated) -> Decorated:
        return click.argument(
            "words" if many else "word",
            nargs=-1 if many else 1,
            required=required,
            metavar="ID..." if many else "ID",
            shell_complete=job_names,
        )(function)

    return decorate
