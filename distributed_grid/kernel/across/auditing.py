"""Now and then a holder asks the home whether it still looks after a job, and a home its holders.

Lives here: when to ask. Never here: the answers (`guarding`).
Invariant: a home that lost its disk and came back at once is found out, though nobody saw it die;
so is a holder that was to drop its copy and did not hear of it.
"""

from itertools import chain, islice, takewhile
from typing import Final

from distributed_grid.model.ids import JobId

AUDIT_MS: Final = 30_000  # After the last word of the home.
AUDIT_TICK_MS: Final = 1_000
AUDITED_MAX: Final = 256  # In one second: one message to each home.


class Audits:
    """The unfinished jobs of others, the one whose home was silent longest first."""

    def __init__(self) -> None:
        self._due: dict[JobId, int] = {}  # In order: all wait equally long.
        self._soon: dict[JobId, None] = {}  # Their homes came back, maybe without their disks.
        self._looked_ms = 0

    def heard(self, job: JobId, now_ms: int) -> None:
        """Its home has spoken; or it was asked."""
        self.forget(job)
        self._due[job] = now_ms + AUDIT_MS

    def hurry(self, job: JobId) -> None:
        """Its home is to be asked at once."""
        self._soon[job] = None

    def forget(self, job: JobId) -> None:
        """It is held no longer, or has ended."""
        self._due.pop(job, None)
        self._soon.pop(job, None)

    def due(self, now_ms: int) -> list[JobId]:
        """Whose homes are to be asked now."""
        if now_ms - self._looked_ms < AUDIT_TICK_MS:
            return []
        self._looked_ms = now_ms
        late = takewhile(lambda job: self._due[job] <= now_ms, self._due)
        some = dict.fromkeys(islice(chain(self._soon, late), AUDITED_MAX))
        for job in some:
            self.heard(job, now_ms)
        return list(some)
