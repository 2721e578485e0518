"""The owner's side: who of the waiting gets what is free.

Lives here: the order of service and the rule for overtaking. Never here: a job's life
(`coordinator`), the arithmetic of devices (`ledger`).
Invariant: nothing is granted that the ledger did not reserve.
"""

from collections.abc import Callable, Iterator
from typing import Final

from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.waiting import Entry, WaitingLine
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request

# Smaller work may overtake the first in the line while that one waits for room, so that nothing
# idles; after this long it may not any more, so that the large ones get their turn.
OVERTAKING_MS_MAX: Final = 60_000


class Host:
    """Grants leases to those who wait."""

    def __init__(self, ledger: Ledger, *, new_lease_id: Callable[[], str]) -> None:
        self.ledger = ledger
        self.line = WaitingLine()
        self.new_id = new_lease_id

    def grants(self, now_ms: int) -> Iterator[tuple[Entry, Lease]]:
        """Leases for the waiting, best first, as long as something fits.

        The caller takes an entry out of the line when it wants no more.
        """
        progress = True
        while progress:
            progress = False
            for entry, request in self.line.first_of_each():
                lease = self._reserve(entry, request, now_ms)
                if lease is not None:
                    yield entry, lease
                    progress = True
                    break  # The line has changed.
                waited_ms = now_ms - entry.submitted_ms
                if waited_ms > OVERTAKING_MS_MAX and self.ledger.could_ever(request) is None:
                    return  # It has waited long enough: nobody overtakes it.

    def _reserve(self, entry: Entry, request: Request, now_ms: int) -> Lease | None:
        lease_id = self.new_id()
        got = self.ledger.reserve(lease_id, entry.job, "", request, now_ms=now_ms)
        return self.ledger.commit(lease_id, now_ms=now_ms) if isinstance(got, Lease) else None
