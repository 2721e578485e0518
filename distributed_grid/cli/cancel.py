"""`grid cancel ID…`: end jobs, or take them out of the queue."""

import click

from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
    print_json,
)
from distributed_grid.client import calls
from distributed_grid.errors import GridError, NoAgent
from distributed_grid.wire.api import JobView


@click.command("cancel")
@job_argument(many=True)
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context, *, words: tuple[str, ...], as_json: bool, data_dir: str | None
) -> None:
    """Cancel jobs; those that have ended stay as they are."""
    views: list[JobView] = []
    code = 0
    with caller(data_dir) as agent:
        for word in words:
            try:
                views.append(agent.run(calls.cancel(word)))
            except NoAgent:
                raise
            except GridError as error:  # One wrong word does not save the others.
                click.echo(f"grid: {error}", err=True)
                code = code or error.exit_code
    if as_json:
        print_json(views)
    else:
        for view in views:
            click.echo(f"{view.id[:12]}  {view.name}  {view.state}")
    ctx.exit(code)
