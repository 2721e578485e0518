"""`grid cancel ID…`: end jobs, or take them out of the queue."""

import click

from distributed_grid.cli import outcome
from distributed_grid.cli.agent import data_dir_option, job_argument, json_option
from distributed_grid.cli.each_job import each_job
from distributed_grid.client import calls


@click.command("cancel")
@job_argument(many=True)
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context, *, words: tuple[str, ...], as_json: bool, data_dir: str | None
) -> None:
    """Cancel jobs; those that have ended stay as they are."""
    remark = outcome.too_late
    ctx.exit(each_job(words, calls.cancel, as_json=as_json, data_dir=data_dir, remark=remark))
