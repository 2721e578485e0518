"""The attempts that live: here, and on other nodes.

Lives here: finding them by the id under which they are reported. Never here: what becomes of them.
Invariant: an attempt lives in one of both tables, as long as its job says that it is live. A node
may be home and owner of one attempt, after a takeover: then its id is in both, for two jobs.
"""

from collections.abc import Iterable

from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId
from distributed_grid.wire.keeper import Ended

Found = tuple[JobId, Attempt]


class LiveAttempts:
    """Those of one coordinator."""

    def __init__(self) -> None:
        self.here: dict[str, Found] = {}
        self.away: dict[str, Found] = {}
        self.strays: set[str] = set()  # What the keeper runs and nobody knows, until it has ended.

    def add(self, job: JobId, attempt: Attempt) -> None:
        """It begins, or was found to live."""
        (self.here if attempt.host == HERE else self.away)[attempt.id] = (job, attempt)

    def find(self, attempt: str, *, is_away: bool = False) -> Found | None:
        """By its id; None: it does not live."""
        return (self.away if is_away else self.here).get(attempt)

    def remove(self, attempt: Attempt) -> None:
        """It lives no more."""
        (self.here if attempt.host == HERE else self.away).pop(attempt.id, None)

    def stray_ended(self, report: Ended) -> None:
        """Something that nobody knows is gone, or a part of it."""
        if report.is_last:
            self.strays.discard(report.attempt)

    def check(self, jobs: Iterable[Job]) -> dict[str, set[str]]:
        """Compare with what the jobs say; answers the attempts of each lease of this node."""
        live: dict[str, set[str]] = {}
        here: set[str] = set()
        away: set[str] = set()
        for job in jobs:
            for attempt in job.live_attempts:
                (here if attempt.host == HERE else away).add(attempt.id)
                if attempt.host == HERE:
                    live.setdefault(attempt.lease, set()).add(attempt.id)
        assert here == set(self.here), "a live attempt is not known by its id"
        assert away == set(self.away), "a live attempt elsewhere is not known by its id"
        return live
