"""The owner's ledger: who holds what of this node, since when, until when.

Lives here: reserve, commit, release, expire, and putting leases back after a start. Never here:
who may ask (`host`), the order of those who wait (`waiting`), writing it down (`edges.store`).
Invariant: nothing is promised twice. What is free and what is leased add up to the inventory.

A reservation is volatile: it ends by itself, and with the process. A committed lease is durable
before anything is started in it. `now_ms` comes from a clock that never goes back.
"""

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from distributed_grid.errors import GridError
from distributed_grid.kernel.cores import Cores, Shares
from distributed_grid.kernel.devices import Devices
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request, Resources, sorted_amounts

RESERVATION_TTL_MS: Final = 5_000  # A round trip and a durable write take a tenth of that.
ENDED_KEPT: Final = 4_096  # Ids of ended leases, to tell a late repeat from a stranger.
_NEVER_MS: Final = 1 << 62


class LeaseRefused(GridError):
    """A lease id that cannot be used: unknown, expired, released, or taken by something else."""

    exit_code = 3

    def __init__(self, lease: str, *, why: str) -> None:
        self.lease, self.why = lease, why
        super().__init__(f"lease {lease} is {why}", remedy="Reserve again, under a new id")


class Shortfall(msgspec.Struct, frozen=True):
    """Why not: everything that is missing, as (what, wanted, free)."""

    missing: tuple[tuple[str, int, int], ...]


class Ledger:
    """Grants an inventory, never more than once."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.total = inventory.total
        self._cores = Cores(inventory.cores, cpu_milli=inventory.cpu_milli)
        self._devices = Devices(inventory.gpus, inventory.links)
        self._memory_bytes = inventory.memory_bytes
        self._storage_bytes = inventory.storage_bytes
        self._custom = dict(inventory.custom)
        self._leases: dict[str, Lease] = {}
        self._soonest_ms = _NEVER_MS  # No reservation expires before this.
        self.version = 0  # Goes up whenever something is held or given back.
        self._ended: OrderedDict[str, str] = OrderedDict()  # Id to how it ended.

    @property
    def leases(self) -> Mapping[str, Lease]:
        """Every lease that holds something, by id."""
        return MappingProxyType(self._leases)

    @property
    def used_cores(self) -> Mapping[int, int]:
        """Thousandths in use of every core of which something is."""
        return MappingProxyType(self._cores.used)

    def copy(self) -> "Ledger":
        """The same ledger again, to try things on; leases never change, so they are not copied."""
        other = Ledger.__new__(Ledger)
        other.__dict__.update(
            self.__dict__,
            _cores=self._cores.copy(),
            _devices=self._devices.copy(),
            _custom=self._custom.copy(),
            _leases=self._leases.copy(),
            _ended=self._ended.copy(),
        )
        return other

    def free(self) -> Resources:
        """What is not leased."""
        return Resources(
            cpu_milli=self._cores.free_milli,
            memory_bytes=self._memory_bytes,
            storage_bytes=self._storage_bytes,
            gpus=tuple(self._devices.free[name] for name in sorted(self._devices.free)),
            custom=sorted_amounts(self._custom),
        )

    def could_ever(self, request: Request) -> Shortfall | None:
        """What is missing even when everything is free; None if nothing."""
        missing = self.total.shortfall(request)
        return Shortfall(tuple(missing)) if missing else None

    def reserve(
        self,
        lease_id: str,
        job: JobId,
        attempt: str,
        request: Request,
        now_ms: int,
        *,
        ttl_ms: int = RESERVATION_TTL_MS,
        among: frozenset[str] | None = None,
    ) -> Lease | Shortfall:
        """Hold what a job asks for until it is committed, released or expired; all or nothing.

        The same again gives the same lease; another request under a used id is refused. Devices
        come from those in `among`; None: from all.
        """
        held = self._leases.get(lease_id)
        if held is not None:
            if (held.job, held.attempt) != (job, attempt) or not _answers(held, request):
                raise LeaseRefused(lease_id, why="taken by another request")
            return held
        if lease_id in self._ended:
            raise LeaseRefused(lease_id, why=self._ended[lease_id])
        shares = self._cores.choose(request.cpu_milli)
        gpus = self._devices.choose(request.gpus, among) if request.gpus else ()
        missing = self._missing(request, shares, gpus)
        if missing or shares is None:
            return Shortfall(tuple(missing))
        lease = Lease(
            id=lease_id,
            job=job,
            attempt=attempt,
            cores=shares,
            resources=Resources(
                cpu_milli=request.cpu_milli,
                memory_bytes=request.memory_bytes,
                storage_bytes=request.storage_bytes,
                gpus=gpus,
                custom=tuple((kind, amount) for kind, amount in request.custom if amount),
            ),
            state="reserved",
            granted_ms=now_ms,
            expires_ms=now_ms + ttl_ms,
        )
        self._hold(lease)
        self._soonest_ms = min(self._soonest_ms, now_ms + ttl_ms)
        return lease

    def commit(self, lease_id: str, now_ms: int) -> Lease:
        """Hold it for good. The same again gives the same lease."""
        lease = self._leases.get(lease_id)
        if lease is None:
            raise LeaseRefused(lease_id, why=self._ended.get(lease_id, "unknown"))
        if lease.expires_ms is None:
            return lease
        if now_ms >= lease.expires_ms:
            self._let_go(lease, "expired")
            raise LeaseRefused(lease_id, why="expired")
        committed = msgspec.structs.replace(lease, state="committed", expires_ms=None)
        self._leases[lease_id] = committed
        return committed

    def release(self, lease_id: str) -> Lease | None:
        """Give everything back. None: it had ended before, and there is nothing to do."""
        lease = self._leases.get(lease_id)
        if lease is not None:
            self._let_go(lease, "released")
        elif lease_id not in self._ended:
            raise LeaseRefused(lease_id, why="unknown")
        return lease

    def expire(self, now_ms: int) -> list[Lease]:
        """End the reservations whose time has come; tells which."""
        if now_ms < self._soonest_ms:
            return []
        timed = [
            (lease.expires_ms, lease)
            for lease in self._leases.values()
            if lease.expires_ms is not None
        ]
        expired = [lease for expires_ms, lease in timed if now_ms >= expires_ms]
        for lease in expired:
            self._let_go(lease, "expired")
        self._soonest_ms = min(
            (expires_ms for expires_ms, _ in timed if now_ms < expires_ms), default=_NEVER_MS
        )
        return sorted(expired, key=lambda lease: lease.id)

    def restore(self, lease: Lease) -> Shortfall | None:
        """Put a committed lease back, exactly as it was; or tell what of it is no longer there.

        What is left of such a lease is held all the same: its processes may still run, and what
        they use must not be sold beneath them. It is released as any other.
        """
        if lease.state != "committed":
            raise LeaseRefused(lease.id, why="not committed")
        held = self._leases.get(lease.id)
        if held is not None:
            if (held.job, held.attempt) != (lease.job, lease.attempt):
                raise LeaseRefused(lease.id, why="taken by another lease")
            self._let_go(held, "restored")  # Told again, perhaps with less left of it before.
        left, missing = self._still_there(lease)
        self._hold(left)
        return Shortfall(missing) if missing else None

    def check(self) -> None:
        """Re-derive everything that must be true; nothing is oversold."""
        held = Resources()
        used: dict[int, int] = {}
        for lease in self._leases.values():
            held += lease.resources  # Refuses when the shares of a device exceed it.
            shares = sum(share for _, share in lease.cores)
            assert shares == lease.resources.cpu_milli, "a lease whose cores do not add up"
            assert (lease.expires_ms is None) == (lease.state == "committed"), "odd expiry"
            assert lease.expires_ms is None or self._soonest_ms <= lease.expires_ms, "overslept"
            assert lease.id not in self._ended, "an ended lease that lives"
            for core, share in lease.cores:
                used[core] = used.get(core, 0) + share
        self._cores.check()
        self._devices.check()
        assert used == self._cores.used, "cores and leases disagree"
        assert self.free() + held == self.total, "free and held do not add up to the total"
        assert len(self._ended) <= ENDED_KEPT, "remembers without bound"

    def _missing(
        self, request: Request, shares: Shares | None, gpus: tuple[Gpu, ...]
    ) -> list[tuple[str, int, int]]:
        missing = []
        if shares is None:
            available = self._cores.available_milli(request.cpu_milli)
            missing.append(("cpu_milli", request.cpu_milli, available))
        if request.memory_bytes > self._memory_bytes:
            missing.append(("memory_bytes", request.memory_bytes, self._memory_bytes))
        if request.storage_bytes > self._storage_bytes:
            missing.append(("storage_bytes", request.storage_bytes, self._storage_bytes))
        if request.gpus and not gpus:
            available = self._devices.available_milli(request.gpus)
            missing.append(("gpu_milli", request.gpus.milli, available))
        for kind, amount in request.custom:
            if amount > self._custom.get(kind, 0):
                missing.append((f"custom.{kind}", amount, self._custom.get(kind, 0)))
        return missing

    def _hold(self, lease: Lease) -> None:
        resources = lease.resources
        self._cores.take(lease.cores)
        self._devices.take(resources.gpus)
        self._memory_bytes -= resources.memory_bytes
        self._storage_bytes -= resources.storage_bytes
        for kind, amount in resources.custom:
            self._custom[kind] -= amount
        self._leases[lease.id] = lease
        self._ended.pop(lease.id, None)
        self.version += 1

    def _let_go(self, lease: Lease, how: str) -> None:
        resources = lease.resources
        self._cores.give(lease.cores)
        self._devices.give(resources.gpus)
        self._memory_bytes += resources.memory_bytes
        self._storage_bytes += resources.storage_bytes
        for kind, amount in resources.custom:
            self._custom[kind] += amount
        del self._leases[lease.id]
        self.version += 1
        self._ended[lease.id] = how
        if len(self._ended) > ENDED_KEPT:
            self._ended.popitem(last=False)

    def _still_there(self, lease: Lease) -> tuple[Lease, tuple[tuple[str, int, int], ...]]:
        """The part of a lease that is free here now, and what is not."""
        had = lease.resources
        # A container may have been given less cpu than its cores have room for.
        free_milli = self._cores.free_milli
        cores: list[tuple[int, int, int]] = []  # (core, wanted, free)
        for core, share in lease.cores:
            room = min(self._cores.room(core), free_milli)
            free_milli -= min(share, room)
            cores.append((core, share, room))
        gpus = [(gpu, self._devices.room(gpu.device)) for gpu in had.gpus]
        custom = [(kind, amount, self._custom.get(kind, 0)) for kind, amount in had.custom]
        memory_bytes = min(had.memory_bytes, self._memory_bytes)
        storage_bytes = min(had.storage_bytes, self._storage_bytes)
        shares = tuple((core, min(want, room)) for core, want, room in cores if room)
        left = Resources(
            cpu_milli=sum(share for _, share in shares),
            memory_bytes=memory_bytes,
            storage_bytes=storage_bytes,
            gpus=tuple(
                msgspec.structs.replace(
                    self._devices.all[gpu.device], share_milli=min(gpu.share_milli, room)
                )
                for gpu, room in gpus
                if room
            ),
            custom=sorted_amounts({kind: min(amount, has) for kind, amount, has in custom}),
        )
        wants = [
            *((f"core {core}", want, room) for core, want, room in cores),
            ("memory_bytes", had.memory_bytes, memory_bytes),
            ("storage_bytes", had.storage_bytes, storage_bytes),
            *((f"gpu {gpu.device}", gpu.share_milli, room) for gpu, room in gpus),
            *((f"custom.{kind}", amount, has) for kind, amount, has in custom),
        ]
        missing = tuple(want for want in wants if want[1] > want[2])
        return msgspec.structs.replace(lease, cores=shares, resources=left), missing


def _answers(lease: Lease, request: Request) -> bool:
    """Whether a lease is what this request would have been given."""
    held = lease.resources
    return (
        (held.cpu_milli, held.memory_bytes, held.storage_bytes)
        == (request.cpu_milli, request.memory_bytes, request.storage_bytes)
        and sum(gpu.share_milli for gpu in held.gpus) == (request.gpus.milli if request.gpus else 0)
        and all(request.gpus is not None and request.gpus.accepts(gpu) for gpu in held.gpus)
        and held.custom == tuple((kind, amount) for kind, amount in request.custom if amount)
    )
