"""A job of another node, as its record here tells it.

Lives here: finding it by what people call it, and those whose home is gone. Never here: asking a
home that is there (`agent.elsewhere`).
"""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from distributed_grid.kernel.across.guarding import Guarding
from distributed_grid.kernel.across.peers import Peers
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import JobId

PREFIX_MIN: Final = 4
LISTED_MAX: Final = 10_000  # As many as a page has.


def held_job(guarding: Guarding, word: str) -> Job | None:
    """By id, name or prefix; None: it is not held here, or two answer to this."""
    kind, _, rest = word.partition(":")
    wanted = rest if kind in ("id", "name") and rest else word
    record = guarding.find(JobId(wanted)) if kind != "name" else None
    if record is None:
        found = [one for one in _records(guarding) if _answers(one, wanted, kind)]
        record = found[0] if len(found) == 1 else None
    return job_of(record) if record is not None and not record.is_summary else None


def orphaned(
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


def _records(guarding: Guarding) -> list[JobRecord]:
    return list(guarding.shelf.whole())


def _answers(record: JobRecord, word: str, kind: str) -> bool:
    is_named = kind != "id" and standing_of(record.standing).name == word
    is_begun = kind != "name" and len(word) >= PREFIX_MIN and record.job.startswith(word)
    return is_named or is_begun
