"""`grid requeue ID…`: run jobs that nobody keeps track of any more."""

import click

from distributed_grid.cli.agent import data_dir_option, job_argument, json_option
from distributed_grid.cli.each_job import each_job
from distributed_grid.client import across_calls


@click.command("requeue")
@job_argument(many=True)
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context, *, words: tuple[str, ...], as_json: bool, data_dir: str | None
) -> None:
    """Run jobs that are untracked.

    A job is untracked if its node was away so long that nobody remembers whether it ended: it is
    not run again by itself, for it may have. Those that wait or run stay as they are.
    """
    ctx.exit(each_job(words, across_calls.requeue, as_json=as_json, data_dir=data_dir))
