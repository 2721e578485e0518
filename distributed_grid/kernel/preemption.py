"""Whose work gives way to work that is more important.

Lives here: choosing among those whom the rules allow to be stopped, and the proof that it helps.
Never here: those rules (the caller's, who passes only candidates that may be stopped), stopping
anybody (`edges.runner`).
Invariant: nobody is stopped in vain. The plan was carried out on a copy of the ledger, and the
ledger granted the request there.

Fewest first; of equally few the least important, where borrowed work counts below the owner's and
the most important victim is compared first; then the youngest, who lose least. How exact that is:
`victims`.
"""

from collections.abc import Iterable

import msgspec

from distributed_grid.kernel.cores import Shares
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.shortage import Shortage
from distributed_grid.kernel.victims import fewest
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request, Resources

_TRIAL = "on trial"  # No lease has this id: they are random digits.


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that may be ended, and how little its job deserves that."""

    lease: str
    job: JobId
    rank: int  # As lifted by ageing; a higher number is less important.
    is_shared: bool
    started_ms: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to stop, and what the request would get then."""

    victims: tuple[str, ...]  # Leases, the least deserving first. Empty: it fits as it is.
    cores: Shares
    resources: Resources


def plan(
    ledger: Ledger, candidates: Iterable[Candidate], request: Request, now_ms: int
) -> Plan | None:
    """Whom to stop so that the request fits; None if it would not, whoever is stopped.

    Candidates whose lease has ended are no victims. The ledger stays as it is.
    """
    leases = ledger.leases
    # The owner's work above borrowed work, then by rank; then the youngest, who lose least.
    running = sorted(
        (not one.is_shared, -one.rank, -one.started_ms, one.lease)
        for one in candidates
        if one.lease in leases
    )
    shortage = Shortage(ledger, request, [leases[lease_id] for *_, lease_id in running])
    chosen: tuple[int, ...] | None = ()
    if not shortage.fits():
        chosen = fewest(shortage, [(is_own, rank) for is_own, rank, *_ in running])
    if chosen is None:
        return None
    victims = tuple(running[number][-1] for number in reversed(chosen))
    trial = ledger.copy()
    for lease_id in victims:
        trial.release(lease_id)
    got = trial.reserve(_TRIAL, JobId(""), "", request, now_ms)
    assert isinstance(got, Lease), "the search and the ledger disagree"
    return Plan(victims=victims, cores=got.cores, resources=got.resources)
