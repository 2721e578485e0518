"""`grid wait ID…`: until jobs have ended, with the exit code of the job."""

import click

from distributed_grid.cli import foreground, outcome
from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
)
from distributed_grid.cli.interrupts import Interrupts
from distributed_grid.cli.running import print_all
from distributed_grid.cli.tell import tell
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller, Woken
from distributed_grid.errors import GridError
from distributed_grid.model import duration
from distributed_grid.wire.api import ENDED, JobView


@click.command("wait")
@job_argument(many=True)
@click.option("--timeout", metavar="SPAN", help="At most this long, all together; then 124.")
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    words: tuple[str, ...],
    timeout: str | None,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Wait until jobs have ended.

    Exits with the code of the job; of several with 0 if all ended well, else with the first that
    did not. 124 also if the time is over, 125 if Grid failed, cancelled, lost or skipped a job, or
    there is no such job, or no agent answers.
    """
    timeout_ms = None if timeout is None else duration.parse(timeout)
    with Interrupts() as interrupts:
        try:
            with caller(data_dir, wake_fd=interrupts.fileno()) as agent:
                views = _waited(agent, words, timeout_ms)
        except Woken:
            ctx.exit(interrupts.code)
        except GridError as error:
            tell(f"grid: {error}")
            ctx.exit(outcome.code_of(error))
    if as_json:
        print_all(views[0] if len(views) == 1 else views)
    codes = [_told(view) for view in views]
    ctx.exit(next((code for code in codes if code), 0))


def _waited(agent: Caller, words: tuple[str, ...], timeout_ms: int | None) -> list[JobView]:
    foreground.explain_wait(agent, words, has_line=False)
    if len(words) == 1:
        return [agent.run(calls.wait(words[0], timeout_ms=timeout_ms))]
    # First all of them, so that a wrong word is told now and not in an hour.
    ids = [agent.run(calls.job(word)).id for word in words]
    return agent.run(calls.wait_many(ids, timeout_ms=timeout_ms))


def _told(view: JobView) -> int:
    if view.state not in ENDED:
        tell(f"grid: job {view.name} ({view.id[:12]}) is still {view.state}")
        return outcome.EXIT_NOT_IN_TIME
    return foreground.finish(view)
