"""`grid job ID`: everything that is known of one job.

Lives here: its facts, its attempts, its story; and `grid job force`, a person's last word about
one. Never here: why it waits (`explain`).
"""

import shlex
from typing import Final

import click
from click.shell_completion import CompletionItem

from distributed_grid.cli import hints, outcome, text
from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    job_names,
    json_option,
    print_json,
)
from distributed_grid.client import across_calls, calls, mesh_calls
from distributed_grid.errors import NotPermitted
from distributed_grid.model import bytesize, duration
from distributed_grid.model.transit import Transit
from distributed_grid.wire.api import ENDED, AttemptView, JobView

ATTEMPTS_SHOWN: Final = 5  # The newest: an array has one for each chunk.


class JobGroup(click.Group):
    """`grid job ID` shows it; a job with the name of a command below is meant by name:NAME."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`show` is what is meant where no command is named."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of jobs beside those of the commands."""
        names = job_names(ctx, show.params[0], incomplete)
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, names)]


@click.group("job", cls=JobGroup)
def command() -> None:
    """Show one job (grid job ID), or have the last word about it."""


@command.command("show")
@job_argument()
@json_option
@data_dir_option
def show(*, word: str, as_json: bool, data_dir: str | None) -> None:
    """Show one job: its story with times and nodes, what it used, what limits it.

    The word show can be left out.
    """
    with caller(data_dir) as agent:
        view = agent.run(calls.job(word))
        names_nodes = (view.home or view.holders) and not as_json
        known = agent.run(mesh_calls.nodes()).nodes if names_nodes else ()
        hint = "" if as_json else hints.missing(agent, view)
    if as_json:
        print_json(view)
    else:
        _show(view, {node.id: text.printable(node.name) for node in known}, hint)


@command.command("force")
@job_argument()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@data_dir_option
def force(*, word: str, yes: bool, as_json: bool, data_dir: str | None) -> None:
    """Go on with an at-most-once job that is stuck because its machines are gone.

    Nobody can tell whether it still runs on one of them: it may run twice. Only do this if you know
    that they are off, or if twice is no harm.
    """
    with caller(data_dir) as agent:
        if not yes:
            view = agent.run(calls.job(word))
            word = f"id:{view.id}"
            _check_forcible(view)
            why = f" ({view.reason})" if view.reason else ""
            click.echo(f"{view.name} is {view.state}{why}; forced, it may run twice", err=True)
            click.confirm("Force it?", abort=True, err=True)
        view = agent.run(across_calls.force(word))
    if as_json:
        print_json(view)
    else:
        click.echo(f"{view.id[:12]}  {view.name}  {view.state}")


def _check_forcible(view: JobView) -> None:
    """Nobody is asked about what is refused whatever they say. Raises NotPermitted."""
    if not view.at_most_once:
        raise NotPermitted(
            f"{view.name} is no at-most-once job", remedy="Others go on by themselves"
        )
    if view.state in ENDED:
        raise NotPermitted(
            f"{view.name} is {view.state}, and not stuck", remedy="It has ended: submit it again"
        )


def _show(job: JobView, names: dict[str, str], hint: str) -> None:
    holders = [names.get(node, node[:12]) for node in job.holders]
    text.pairs(
        [
            ("job", f"{job.name}  {job.id}"),
            ("state", f"{text.state(job)}{f': {job.reason}' if job.reason else ''}"),
            ("hint", hint),
            ("files", "; ".join(text.printable(str(one)) for one in _others(job))),
            ("output", f"only on {job.output_only_on}" if job.output_only_on else ""),
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
            ("looked after by", names.get(job.home, job.home[:12])),
            ("copies on", ", ".join(holders)),
            ("gang", f"{job.gang} ranks" if job.gang > 1 else ""),
            ("at most once", "yes" if job.at_most_once else ""),
            ("submitted", text.moment(job.submitted_ms)),
            ("waited", text.span(job.submitted_ms, job.started_ms)),
            ("started", text.moment(job.started_ms)),
            ("ended", text.moment(job.ended_ms)),
            ("ran for", text.ran_for(job)),
            ("array", outcome.array_summary(job).partition(": ")[2] if job.array else ""),
        ]
    )
    for index, why in outcome.failures(job.array) if job.array else ():
        click.echo(f"  {index}: {text.printable(why)}")
    earlier = len(job.attempts) - ATTEMPTS_SHOWN
    if earlier > 0:
        click.echo(f"\nand {earlier} more attempts before these; --json has all that are kept")
    for attempt in job.attempts[-ATTEMPTS_SHOWN:]:
        _show_attempt(attempt)
    if job.story:
        click.echo(f"\n{click.style('story', bold=True)}")
    for line in job.story:
        click.echo(f"  {text.moment(line.at_ms)}  {line.what:<10} {line.detail}".rstrip())


def _others(job: JobView) -> list[Transit]:
    """What is on its way, beside what is told as the reason."""
    return [one for one in job.transits if str(one) != job.reason]


def _show_attempt(attempt: AttemptView) -> None:
    of = f" ({attempt.indices})" if attempt.indices else ""
    click.echo(f"\n{click.style(f'attempt {attempt.number}{of}', bold=True)}")
    limits = ", ".join(f"{what} by {how}" for what, how in sorted(attempt.limits.items()))
    cpu_us, runs = attempt.user_us + attempt.system_us, attempt.ended_ms is None
    cpu_time = duration.text(cpu_us // 1_000) if cpu_us or not runs else ""
    text.pairs(
        [
            ("  on", attempt.node),
            ("  state", f"{attempt.state}{f' ({attempt.how})' if attempt.how else ''}"),
            ("  suspended", attempt.suspended),
            ("  note", attempt.note),
            ("  exit code", "" if attempt.exit_code is None else str(attempt.exit_code)),
            ("  ran for", text.span(attempt.started_ms, attempt.ended_ms)),
            ("  cpu so far" if runs else "  cpu time", cpu_time),
            (
                "  memory now" if runs else "  peak memory",
                bytesize.text(size) if (size := attempt.memory_bytes_peak) else "",
            ),
            ("  cores", ", ".join(map(str, attempt.cores))),
            ("  GPUs", ", ".join(attempt.gpus)),
            ("  limits", limits),
        ]
    )
