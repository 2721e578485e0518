"""A job of another node, as its record here tells it.

Lives here: finding it by what people call it, and those whose home is gone. Never here: asking a
home that is there (`agent.anywhere`).
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final

from distributed_grid.errors import Ambiguous, NotFound
from distributed_grid.kernel.across.guarding import Guarding
from distributed_grid.kernel.across.peers import Peers
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.shelf import Kept
from distributed_grid.kernel.finding import find_job
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import JobId

LISTED_MAX: Final = 10_000  # As many as a page has.
READ_BYTES_MAX: Final = 32 << 20  # From the disk for one list: some 50 ms. By its id each is found.


def held_job(guarding: Guarding, word: str) -> Job | None:
    """By id, name or prefix, as of jobs of this node; None: it is not here, or two are meant."""
    kind, _, rest = word.partition(":")
    wanted = rest if kind in ("id", "name") and rest else word
    known = guarding.find(JobId(wanted)) if kind != "name" else None
    if known is not None:
        records = [known]
    else:
        kept = [one for one in guarding.shelf.whole() if _may_be(one, wanted.lower(), wanted)]
        records = list(_read(guarding, kept[:LISTED_MAX]))
    try:
        return find_job(word, [job_of(one) for one in records if not one.is_summary])
    except (Ambiguous, NotFound):
        return None


def homeless(
    guarding: Guarding, peers: Peers, *, name: str = "", user: str = "", before_ms: int = 0
) -> Iterator[Job]:
    """The jobs held here whose home is not there to tell of them; the newest `LISTED_MAX`."""
    found = []
    for kept in guarding.shelf.whole():
        home = peers.get(kept.home)
        if kept.home == guarding.me or (home is not None and home.is_alive):
            continue
        is_asked_for = (
            name in ("", kept.name)
            and user in ("", kept.user)
            and not 0 < before_ms <= kept.submitted_ms
        )
        if is_asked_for:
            found.append(kept)
    found = nsmallest(LISTED_MAX, found, key=lambda one: (-one.submitted_ms, one.job))
    yield from map(job_of, _read(guarding, found))


def _may_be(kept: Kept, start: str, name: str) -> bool:
    """Whether it is worth being read whole."""
    return kept.job.startswith(start) or kept.name == name


def _read(guarding: Guarding, some: Iterable[Kept]) -> Iterator[JobRecord]:
    """The whole records; of those that only the disk has, as many as nobody notices."""
    left = READ_BYTES_MAX
    for kept in some:
        if kept.here is None:
            left -= kept.size
            if left < 0:
                continue
        record = guarding.shelf.find(kept.job)
        if record is not None:
            yield record
