"""`grid cancel ID…`: end jobs, or take them out of the queue.

Invariant: those that wait are cancelled before those that run, so that none of them starts in the
room that another leaves.
"""

import sys
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

import click
import msgspec

from distributed_grid.cli import outcome
from distributed_grid.cli.agent import caller, data_dir_option, job_argument, json_option
from distributed_grid.cli.each_job import ask_each, show
from distributed_grid.cli.text import counted
from distributed_grid.client import across_calls, calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import user_name
from distributed_grid.errors import GridError, NotFound
from distributed_grid.wire.api import ENDED, JOBS_MAX, JobView

SETTLE_MS: Final = 2_000  # Most processes end at once; for those that take leave nobody waits.


@click.command("cancel")
@job_argument(many=True, required=False)
@click.option("--all", "everything", is_flag=True, help="All of yours that wait or run.")
@click.option(
    "--index",
    type=click.IntRange(0, 10**9),
    multiple=True,
    metavar="N",
    help="Only this index of an array; may be told several times.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    words: tuple[str, ...],
    everything: bool,
    index: tuple[int, ...],
    yes: bool,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Cancel jobs; those that have ended stay as they are.

    A word with * or ? means all of such names that wait or run: grid cancel 'sweep-*'.
    """
    if everything == bool(words):
        raise click.UsageError("Name jobs, or say --all.")
    if index and len(words) != 1:
        raise click.UsageError("--index is of one array: name it, and no other.")
    with caller(data_dir) as agent:
        if index:
            views, code = ask_each(agent, index, partial(across_calls.cancel_index, words[0]))
            show(views[-1:], as_json=as_json, state=counted)
            ctx.exit(code)
        if everything:
            found, code = _unfinished(agent, user=user_name()), 0
            if found and not yes:
                _ask(f"Cancel {len(found)} jobs?")
        else:
            found, code = _named(agent, words)
        found.sort(key=lambda job: job.state != "waiting")
        ids = dict.fromkeys(f"id:{job.id}" for job in found)
        views, failed = ask_each(agent, ids, calls.cancel)
        views = _settled(agent, views)
    if not views and not code:
        click.echo("grid: nothing waits or runs", err=True)
    show(views, as_json=as_json, state=_state)
    for said in filter(None, map(outcome.too_late, views)):
        click.echo(f"grid: {said}", err=True)
    ctx.exit(code or failed)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is nobody to ask: say --yes.")
    click.confirm(question, abort=True, err=True)


def _named(agent: Caller, words: tuple[str, ...]) -> tuple[list[JobView], int]:
    """The jobs of all words, and the code of the first word that means nothing."""
    plain = [word for word in words if not _is_pattern(word)]
    found, code = ask_each(agent, plain, calls.job)
    if len(plain) < len(words):
        there = _unfinished(agent)
        for word in filter(_is_pattern, words):
            matching = [job for job in there if fnmatchcase(job.name, word)]
            if not matching:
                error = NotFound("job", word)
                click.echo(f"grid: {error}", err=True)
                code = code or error.exit_code
            found += matching
    return found, code


def _is_pattern(word: str) -> bool:
    return "*" in word or "?" in word


def _unfinished(agent: Caller, user: str = "") -> list[JobView]:
    pages = (
        agent.run(calls.jobs(state=state, user=user, limit=JOBS_MAX))
        for state in ("running", "waiting")
    )
    return [job for page in pages for job in page.jobs]


def _settled(agent: Caller, views: list[JobView]) -> list[JobView]:
    """The same a moment later, when their processes have ended."""
    left = [job.id for job in views if job.state not in ENDED and outcome.too_late(job) is None]
    later: dict[str, JobView] = {}
    with suppress(GridError):  # They are cancelled; only how far that has come is not known.
        waited = agent.run(calls.wait_many(left, timeout_ms=SETTLE_MS)) if left else []
        later = {job.id: job for job in waited}
    return [
        msgspec.structs.replace(job, state=now.state, ended_ms=now.ended_ms, reason=now.reason)
        if (now := later.get(job.id))
        else job
        for job in views
    ]


def _state(job: JobView) -> str:
    if job.state in ENDED or outcome.too_late(job):
        return job.state
    return job.reason if job.reason.startswith("cancelling") else "cancelling"
