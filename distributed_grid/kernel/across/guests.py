"""Another node's job, as a guest of this one: what is left of its wishes, and what stands against.

Lives here: the guest's own specification. Never here: its life (`hosting`, `kernel.coordinator`).
Invariant: a guest has no wishes of its own about time, order or other jobs; those are its home's.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.travelling import travelling
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import SAVED_KEPT
from distributed_grid.model import bytesize
from distributed_grid.model.across import Origin
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import NOWHERE, JobSpec
from distributed_grid.model.priority import RANKS
from distributed_grid.model.resources import Request
from distributed_grid.wire.across import Start

DRAINED: Final = "this node is being drained"
LENDS_NOTHING: Final = "this node does not lend"
ENTRY_BYTES: Final = 1 << 10  # Of one who waits, beside what it wants.
_encode: Final = msgspec.msgpack.Encoder().encode
SLOT_MILLI: Final = 20  # Of a core, at least: what costs nothing could be had without end.
PREFIX: Final = "~"  # No id begins with it: a job may wait here for itself and for another node.


def guest_spec(spec: JobSpec, home: Peer, *, start: Start | None = None) -> JobSpec:
    """The job as a borrower here: its user is certified by the node that it comes from.

    A node that took the job over vouches for the one whose user it was; one that is only a guest
    of the mesh takes nothing over, and speaks for its own users alone. From another machine of the
    same person it is the owner's own, unless that one took it over from others (`foreign_spec`).
    """
    name, at, _ = spec.user.partition("@")
    user = spec.user if at and home.may_lend else f"{name}@{home.name}"
    bare = msgspec.structs.replace(
        travelling(spec),  # Whatever its sender says: here it is abroad.
        request=with_slot(spec.request),
        user=user,
        is_shared=not home.is_own or bool(spec.is_shared and at),
        require=NOWHERE,
        avoid=NOWHERE,
        prefer=NOWHERE,
        avoid_if_possible=NOWHERE,
        array=None,
        after=(),
        retries=0,
        losses_max=0,
        start_ms=0,
        deadline_ms=0,
        booking="",
        gang=1,
        at_most_once=False,
        origin=None,
    )
    if start is None:
        return bare
    return msgspec.structs.replace(
        bare,
        id=JobId(start.lease),
        at_most_once=start.standing is not None,
        origin=Origin(
            home=home.id,
            job=start.job,
            epoch=start.epoch,
            attempt=start.lease,
            number=start.attempt,
            indices=start.indices,
            rank=start.rank,
            ranks=start.ranks,
            peers=start.peers,
            rendezvous=start.rendezvous,
            saved=start.saved[:SAVED_KEPT],
            holders=start.holders,
        ),
    )


def with_slot(request: Request) -> Request:
    """What another node's job holds here: some of a device or of a core, whatever it asks for."""
    if request.cpu_milli >= SLOT_MILLI or request.gpus is not None:
        return request
    return msgspec.structs.replace(request, cpu_milli=SLOT_MILLI)


def foreign_spec(spec: JobSpec) -> JobSpec:
    """A job that this node took over from others: it borrows here, as it would anywhere else.

    Its wishes stay: this node is its home. A name that nobody vouches for is none of ours.
    """
    user = spec.user if not spec.user or "@" in spec.user else f"{spec.user}@elsewhere"
    return msgspec.structs.replace(spec, user=user, is_shared=True, booking="")


def barred(coordinator: Coordinator, job_id: JobId) -> tuple[str, ...]:
    """Why this node does not run a job of others that it is the home of; none: it may."""
    job = coordinator.jobs.get(job_id)
    return obstacles(coordinator.host, job.spec) if job is not None and job.is_foreign else ()


def obstacles(host: Host, spec: JobSpec) -> tuple[str, ...]:
    """Why it will never run here, in words; none: it may wait."""
    if host.is_draining:
        return (DRAINED,)
    if spec.is_shared and (unlent := _unlent(host, spec)):
        return (unlent,)
    lacking = host.ledger.could_ever(spec.request)
    if lacking is not None:
        return tuple(
            f"{what}: {wanted} wanted, {has} there" for what, wanted, has in lacking.missing
        )
    return too_much(host, spec)


def _unlent(host: Host, spec: JobSpec) -> str:
    """Why such a job is never lent anything here; empty: it may be."""
    terms = host.lending.terms
    if not terms.is_enabled:
        return LENDS_NOTHING
    if spec.priority == "urgent" and not terms.allow_urgent:
        return "borrowers may not be urgent here"
    is_bound = spec.preempt.is_forbidden and not terms.allow_no_preempt
    return "borrowers have to give way here" if is_bound else ""


def too_much(host: Host, spec: JobSpec) -> tuple[str, ...]:
    """Why its files will never be here, in words; none: they can come."""
    size_bytes = spec.ship.size_bytes if spec.ship is not None else 0
    if not 0 < host.files_bytes_max < size_bytes:
        return ()
    size, most = bytesize.text(size_bytes), bytesize.text(host.files_bytes_max)
    return (f"its files have {size}, and there is room for {most} here (grid cache)",)


def size_of(spec: JobSpec) -> int:
    """What is accounted for one who waits here."""
    return ENTRY_BYTES + len(_encode(spec))


def entry_name(job: JobId, home: NodeId) -> JobId:
    """Of one who waits here for another node: whoever names the same job has one of its own."""
    return JobId(f"{PREFIX}{job}{PREFIX}{home}")


def entry_of(name: JobId, spec: JobSpec, since_ms: int, *, may_clear: bool = False) -> Entry:
    """One who waits here for another node, as the line sees it.

    Nobody gives way to the owner's own that may still find room elsewhere.
    """
    return Entry(
        submitted_ms=since_ms,
        job=name,
        rank=RANKS[spec.priority],
        is_shared=spec.is_shared,
        may_evict=spec.is_shared or may_clear,
        user=spec.user,
        project=spec.project,
        request=spec.request,
    )
