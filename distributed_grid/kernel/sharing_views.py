"""Lending as others see it: offers, what is withheld, what is borrowed, what the owner uses.

Lives here: records turned into the structs of the API. Never here: decisions (`lending`).
"""

from collections.abc import Iterator

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.obstacles import survey_of
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Resources
from distributed_grid.wire.sharing import AllocationView, OwnerUse, SharingStatus


def sharing_status(
    coordinator: Coordinator, *, node: str, not_joined: tuple[str, ...], now_ms: int
) -> SharingStatus:
    """Everything about lending on this node."""
    host = coordinator.host
    lending, survey = host.lending, survey_of(host, now_ms)
    state = lending.state(now_ms)
    return SharingStatus(
        node=node,
        is_enabled=lending.terms.is_enabled,
        state=state,
        mode=lending.terms.mode,
        policy=lending.terms.policy,
        offers=survey.offers,
        withheld=survey.withheld,
        allocations=tuple(_allocations(coordinator)),
        bookings=tuple(host.bookings),
        owner=_owner(host),
        paused_until_ms=(lending.paused_until_ms or None) if state == "paused" else None,
        not_joined=not_joined,
        words=lending.words,
    )


def _owner(host: Host) -> OwnerUse | None:
    use = host.lending.use
    if use.latest is None:
        return None
    return OwnerUse(
        at_ms=use.latest.at_ms,
        cpu_used_milli=use.smoothed_milli("cpu"),
        memory_used_milli=use.smoothed_milli("memory"),
        gpu_used_milli=tuple(
            (gpu.device, use.smoothed_milli(gpu.device)) for gpu in use.latest.gpus
        ),
        idle_ms=use.latest.idle_ms,
    )


def _allocations(coordinator: Coordinator) -> Iterator[AllocationView]:
    host = coordinator.host
    tenants = _tenants(coordinator)
    limit_ms = host.lending.terms.allocation_ms_max
    for lease_id in sorted(host.borrowers):
        job, attempt = tenants[lease_id]
        lease = host.ledger.leases[lease_id]
        for kind, amount in _amounts(lease.resources):
            yield AllocationView(
                request_id=job.spec.id,
                name=job.spec.name,
                kind=kind,
                amount=amount,
                allocated_ms=attempt.granted_ms,
                expires_ms=attempt.granted_ms + limit_ms if limit_ms else None,
                devices=_devices(lease) if kind == "gpu" else (),
                is_suspended=lease_id in coordinator.giving_way.suspended,
                user=job.spec.user,
            )


def _tenants(coordinator: Coordinator) -> dict[str, tuple[Job, Attempt]]:
    """Who has each lease now: of those who share one in turn, whoever runs, or will first."""
    found: dict[str, tuple[Job, Attempt]] = {}
    for job in coordinator.jobs.values():
        for attempt in job.live_attempts if job.spec.is_shared else ():
            before = found.get(attempt.lease)
            if before is None or _turn(attempt) < _turn(before[1]):
                found[attempt.lease] = job, attempt
    return found


def _turn(attempt: Attempt) -> tuple[bool, int, str]:
    return attempt.state != "running", attempt.granted_ms, attempt.id


def _amounts(held: Resources) -> Iterator[tuple[str, int]]:
    amounts = [
        ("cpu", held.cpu_milli),
        ("memory", held.memory_bytes),
        ("storage", held.storage_bytes),
        ("gpu", sum(gpu.share_milli for gpu in held.gpus)),
        *held.custom,
    ]
    return ((kind, amount) for kind, amount in amounts if amount)


def _devices(lease: Lease) -> tuple[str, ...]:
    return tuple(gpu.device for gpu in lease.resources.gpus)
