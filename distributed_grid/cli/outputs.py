"""`grid outputs ID`: the files that a job left behind, into a directory of this machine.

Lives here: options, and what is told. Never here: fetching and placing them (the agent).
"""

from pathlib import Path

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
    print_json,
)
from distributed_grid.client import across_calls
from distributed_grid.errors import BadInput
from distributed_grid.wire.across_api import OutputsBrought


@click.command("outputs")
@job_argument()
@click.option("--to", default=".", show_default=True, metavar="DIR", help="Where to put them.")
@click.option("--overwrite", is_flag=True, help="Also over files that are there and differ.")
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    word: str,
    to: str,
    overwrite: bool,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Fetch the files that a job left behind (run --output GLOB), from the node that has them.

    They come back by themselves into the directory of the job. This is for when they could not,
    because the machine it was submitted on was gone; or for a second copy, as long as there is one.
    """
    there = Path(to).absolute()
    try:
        there.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            to, path="--to", problem=error.strerror or str(error), remedy="Name another directory"
        ) from error
    with caller(data_dir) as agent:
        brought = agent.run(across_calls.bring_outputs(word, str(there), overwrite=overwrite))
    if as_json:
        print_json(brought)
    else:
        _show(brought, str(there))
    ctx.exit(1 if brought.conflicts else 0)


def _show(brought: OutputsBrought, there: str) -> None:
    for path in brought.written:
        click.echo(text.printable(path))
    more = brought.files - len(brought.written)
    if more > 0:
        click.echo(f"grid: and {more} more", err=True)
    if brought.unchanged:
        click.echo(f"grid: {len(brought.unchanged)} were in {there} already", err=True)
    for path, why in brought.conflicts:
        told = f"grid: {text.printable(path)} stays as it is: {why}. To replace it: --overwrite"
        click.echo(told, err=True)
