"""A job of another node, as its record here tells it.

Lives here: finding it by what people call it, and those whose home is gone. Never here: asking a
home that is there (`agent.anywhere`).
"""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from distributed_grid.errors import Ambiguous, NotFound
from distributed_grid.kernel.across.guarding import Guarding
from distributed_grid.kernel.across.peers import Peers
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.finding import find_job
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import JobId

LISTED_MAX: Final = 10_000  # As many as a page has.


def held_job(guarding: Guarding, word: str) -> Job | None:
    """By id, name or prefix, as of jobs of this node; None: it is not here, or two are meant."""
    kind, _, rest = word.partition(":")
    wanted = rest if kind in ("id", "name") and rest else word
    known = guarding.find(JobId(wanted)) if kind != "name" else None
    records = [known] if known is not None else guarding.shelf.whole()
    found = [
        job_of(one)
        for one in records
        if not one.is_summary and (one is known or _may_be(one, wanted.lower(), wanted))
    ]
    try:
        return find_job(word, found)
    except (Ambiguous, NotFound):
        return None


def homeless(
    guarding: Guarding, peers: Peers, *, name: str = "", user: str = "", before_ms: int = 0
) -> Iterator[Job]:
    """The jobs held here whose home is not there to tell of them; the newest `LISTED_MAX`."""
    found = []
    for record in guarding.shelf.whole():
        home = peers.get(record.home)
        if record.home == guarding.me or (home is not None and home.is_alive):
            continue
        standing = standing_of(record.standing)
        is_asked_for = (
            name in ("", standing.name)
            and user in ("", standing.user)
            and not 0 < before_ms <= standing.submitted_ms
        )
        if is_asked_for:
            found.append((-standing.submitted_ms, record.job, record))
    for _, _, record in nsmallest(LISTED_MAX, found, key=lambda one: one[:2]):
        yield job_of(record)


def _may_be(record: JobRecord, start: str, name: str) -> bool:
    """Whether it is worth being read whole."""
    return record.job.startswith(start) or standing_of(record.standing).name == name
