"""`grid job ID`: everything that is known of one job.

Lives here: its facts, its attempts, its story. Never here: why it waits (`explain`).
"""

import shlex
from typing import Final

import click

from distributed_grid.cli import outcome, text
from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
    print_json,
)
from distributed_grid.client import calls
from distributed_grid.model import bytesize, duration
from distributed_grid.wire.api import AttemptView, JobView

ATTEMPTS_SHOWN: Final = 5  # The newest: an array has one for each chunk.


@click.command("job")
@job_argument()
@json_option
@data_dir_option
def command(*, word: str, as_json: bool, data_dir: str | None) -> None:
    """Show one job: its story with times, what it used, what limits it."""
    with caller(data_dir) as agent:
        view = agent.run(calls.job(word))
    if as_json:
        print_json(view)
    else:
        _show(view)


def _show(job: JobView) -> None:
    text.pairs(
        [
            ("job", f"{job.name}  {job.id}"),
            ("state", f"{job.state}{f': {job.reason}' if job.reason else ''}"),
            ("exit code", "" if job.exit_code is None else str(job.exit_code)),
            ("command", shlex.join(job.argv)),
            ("directory", job.cwd),
            ("user", job.user),
            ("asked for", text.wants(job)),
            ("priority", f"{job.priority}{', borrowed' if job.is_shared else ''}"),
            ("project", job.project),
            ("booking", job.booking),
            ("not before", text.moment(job.start_ms or None)),
            ("deadline", text.moment(job.deadline_ms or None)),
            ("node", job.node or ""),
            ("submitted", text.moment(job.submitted_ms)),
            ("waited", text.span(job.submitted_ms, job.started_ms)),
            ("started", text.moment(job.started_ms)),
            ("ended", text.moment(job.ended_ms)),
            ("ran for", text.ran_for(job)),
            ("array", outcome.array_summary(job).partition(": ")[2] if job.array else ""),
        ]
    )
    earlier = len(job.attempts) - ATTEMPTS_SHOWN
    if earlier > 0:
        click.echo(f"\nand {earlier} more attempts before these; --json has all that are kept")
    for attempt in job.attempts[-ATTEMPTS_SHOWN:]:
        _show_attempt(attempt)
    if job.story:
        click.echo(f"\n{click.style('story', bold=True)}")
    for line in job.story:
        click.echo(f"  {text.moment(line.at_ms)}  {line.what:<10} {line.detail}".rstrip())


def _show_attempt(attempt: AttemptView) -> None:
    click.echo(f"\n{click.style(f'attempt {attempt.number}', bold=True)}")
    limits = ", ".join(f"{what} by {how}" for what, how in sorted(attempt.limits.items()))
    cpu_ms = (attempt.user_us + attempt.system_us) // 1_000
    text.pairs(
        [
            ("  on", attempt.node),
            ("  state", f"{attempt.state}{f' ({attempt.how})' if attempt.how else ''}"),
            ("  note", attempt.note),
            ("  exit code", "" if attempt.exit_code is None else str(attempt.exit_code)),
            ("  ran for", text.span(attempt.started_ms, attempt.ended_ms)),
            ("  cpu time", duration.text(cpu_ms) if attempt.ended_ms is not None else ""),
            ("  peak memory", bytesize.text(peak) if (peak := attempt.memory_bytes_peak) else ""),
            ("  cores", ", ".join(map(str, attempt.cores))),
            ("  GPUs", ", ".join(attempt.gpus)),
            ("  limits", limits),
        ]
    )
