"""What this node says about itself: profile, load and offers, as entries carry them.

Lives here: turning the node's state into the values of `wire.mesh_records`. Never here: measuring
(`edges.probe`), spreading (`kernel.mesh`).
Invariant: a load is told again only when it differs enough to change somebody's decision.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import msgspec

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Node
from distributed_grid.kernel.obstacles import survey_of
from distributed_grid.model import bytesize, milli
from distributed_grid.model.costs import COSTS, Costs
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.job import CONTAINERS
from distributed_grid.model.lending import Offer
from distributed_grid.wire.mesh import JOBS, Key
from distributed_grid.wire.mesh_records import (
    FEATURES_CHARACTERS_MAX,
    GPUS_MAX,
    LABELS_MAX,
    RUNNING_CHARACTERS_MAX,
    RUNNING_MAX,
    TEXT_MAX,
    USER_CHARACTERS_MAX,
    GpuProfile,
    NodeLoad,
    NodeProfile,
    Offered,
    fitted,
)

LOAD_STEP_MILLI: Final = 500  # Half a core: less is what a machine does by itself.
OFFER_STEP_MILLI: Final = 250
MEMORY_STEP_BYTES: Final = 256 << 20
STORAGE_STEP_BYTES: Final = 4 << 30
HEAT_STEP_CENTI: Final = 500  # Five degrees.
LOOKED_AT_MAX: Final = 256  # Attempts, for their names; this is asked twenty times a second.
DRIFT_MS: Final = 5_000  # Between two tellings of what only drifts: every telling goes to everyone.
_STEPS: Final = {
    "cpu": OFFER_STEP_MILLI,
    "memory": MEMORY_STEP_BYTES,
    "storage": STORAGE_STEP_BYTES,
}


def profile_of(
    hardware: HardwareProfile,
    inventory: Inventory,
    *,
    node_class: str,
    version: str,
    labels: Iterable[tuple[str, str]] = (),
    costs: Costs = COSTS,
    has_containers: bool = False,
) -> NodeProfile:
    """What the node is."""
    total, score = inventory.total, hardware.compute
    cores = len(inventory.cores)
    return NodeProfile(
        node_class=node_class,
        version=version,
        arch=_cut(hardware.cpu.arch),
        system=_cut(hardware.os.name),
        cpu_model=_cut(hardware.cpu.model),
        cores=cores,
        cpu_milli=total.cpu_milli,
        memory_bytes=total.memory_bytes,
        storage_bytes=total.storage_bytes,
        gpus=tuple(
            GpuProfile(_cut(gpu.device), _cut(gpu.model), gpu.memory_bytes)
            for gpu in total.gpus[:GPUS_MAX]
        ),
        custom={_cut(kind): amount for kind, amount in total.custom[:LABELS_MAX]},
        labels={_cut(key): _cut(value) for key, value in tuple(labels)[:LABELS_MAX]},
        mega_flops=score.mega_flops * cores // max(score.cores, 1) if score else 0,
        is_pretended=bool(hardware.pretended),
        jobs=JOBS,
        features=_joined(hardware, has_containers=has_containers),
        price_micro_per_hour=costs.price_micro_per_hour,
        idle_mw=costs.idle_mw,
        max_mw=costs.max_mw,
    )


def shortened(profile: NodeProfile, most: int) -> NodeProfile:
    """The profile with at most so many devices, custom kinds and labels."""
    first = profile.features.partition(" ")[0]
    return msgspec.structs.replace(
        profile,
        features=profile.features  # The first to make room, but for what decides most.
        if most >= LABELS_MAX
        else first * (first == CONTAINERS),
        gpus=profile.gpus[:most],
        custom=dict(islice(profile.custom.items(), most)),
        labels=dict(islice(profile.labels.items(), most)),
    )


class Values:
    """The values of one node, as they are told."""

    def __init__(self, node: Node, profile: NodeProfile, *, clock_ms: Callable[[], int]) -> None:
        self._node = node
        self._clock_ms = clock_ms
        self._profile = fitted(lambda most: shortened(profile, most), LABELS_MAX)
        self._told: NodeLoad | None = None
        self._told_ms = 0
        self._values: dict[Key, bytes] = {}
        self._offers: tuple[Offer, ...] = ()  # As they were told.

    def __call__(self, is_going_down: bool = False) -> dict[Key, bytes]:
        """Everything but how to reach it. What has not changed is the same bytes again.

        Jobs that come and go are told at once. Load and offers follow every breath of the machine:
        they are told when a while has passed.
        """
        load = msgspec.structs.replace(self.load(), is_down=is_going_down)
        now_ms = self._clock_ms()
        is_sudden = self._told is None or _exact(self._told) != _exact(load)
        if is_sudden or not 0 <= now_ms - self._told_ms < DRIFT_MS:
            if self._told is None or differs(self._told, load):
                self._told = load
            self._told_ms = now_ms
            self._values = {
                "profile": self._profile,
                "load": msgspec.msgpack.encode(self._told),
                "offers": self._offered(),
            }
        return self._values

    def load(self) -> NodeLoad:
        """What is free, and how busy it is, now."""
        free, coordinator = self._node.ledger.free(), self._node.coordinator
        running = sum(1 for job in coordinator.jobs.values() if job.state == "running")
        sample = self._node.host.lending.use.latest
        return NodeLoad(
            cpu_milli_free=free.cpu_milli,
            memory_bytes_free=free.memory_bytes,
            storage_bytes_free=free.storage_bytes,
            gpus_free_milli=sum(gpu.share_milli for gpu in free.gpus),
            load_milli=sample.cpu_used_milli if sample else 0,
            jobs_running=running,
            jobs_waiting=coordinator.unfinished - running,
            on_battery=sample.is_on_battery if sample else False,
            battery_percent=sample.battery_percent if sample else None,
            is_draining=self._node.host.is_draining,
            is_disk_full=self._node.across is not None and self._node.across.is_disk_full,
            temperature_centi=sample.temperature_centi if sample else None,
            running=self._running(),
        )

    def _running(self) -> tuple[str, ...]:
        """Names of what has run here longest: who comes and goes at once is nobody's company."""
        coordinator, found, left = self._node.coordinator, set[str](), RUNNING_CHARACTERS_MAX
        for job, _ in islice(coordinator.attempts.here.values(), LOOKED_AT_MAX):
            name = coordinator.jobs[job].spec.name
            if name in found or not 0 < len(name) <= min(left, TEXT_MAX):
                continue
            found.add(name)
            left -= len(name)
            if len(found) == RUNNING_MAX:
                break
        return tuple(sorted(found))

    def _offered(self) -> bytes:
        offers = survey_of(self._node.host, self._clock_ms()).offers[:LABELS_MAX]
        if _are_others(self._offers, offers):
            self._offers = offers
        lines = tuple(_line(offer) for offer in self._offers)
        across = self._node.across
        step, usage = across.shares.told() if across is not None else (0, ())
        usage = tuple((user[:USER_CHARACTERS_MAX], used) for user, used in usage)
        return fitted(
            lambda most: Offered(
                lines=lines[:most], usage=usage, usage_step=step, lent=_lent(self._offers)
            ),
            len(lines),
        )


def differs(told: NodeLoad, now: NodeLoad) -> bool:
    """Whether somebody might decide otherwise."""
    return (
        abs(told.load_milli - now.load_milli) >= LOAD_STEP_MILLI
        or abs(told.memory_bytes_free - now.memory_bytes_free) >= MEMORY_STEP_BYTES
        or abs(told.storage_bytes_free - now.storage_bytes_free) >= STORAGE_STEP_BYTES
        or _heat_differs(told.temperature_centi, now.temperature_centi)
        or told.running != now.running
        or _exact(told) != _exact(now)
    )


def _exact(load: NodeLoad) -> tuple[int | bool | None, ...]:
    return (
        load.cpu_milli_free,
        load.gpus_free_milli,
        load.jobs_running,
        load.jobs_waiting,
        load.on_battery,
        load.battery_percent,
        load.is_draining,
        load.is_disk_full,
        load.is_down,
    )


def _heat_differs(told_centi: int | None, now_centi: int | None) -> bool:
    if told_centi is None or now_centi is None:
        return told_centi != now_centi
    return abs(told_centi - now_centi) >= HEAT_STEP_CENTI


def _are_others(told: tuple[Offer, ...], now: tuple[Offer, ...]) -> bool:
    """Whether it is worth hearing: an amount that swings about a step is not."""
    if [(offer.kind, offer.device) for offer in told] != [(o.kind, o.device) for o in now]:
        return True
    return any(
        abs(before.amount - after.amount) >= _STEPS.get(after.kind, 1)
        for before, after in zip(told, now, strict=True)
    )


def _lent(offers: tuple[Offer, ...]) -> tuple[int, int, int, int]:
    """How much of each kind, for whoever would borrow several at once."""
    of = Counter[str]()
    for offer in offers:
        of[offer.kind] += _rounded(offer)
    return of["cpu"], of["memory"], of["storage"], of["gpu"]


def _rounded(offer: Offer) -> int:
    return offer.amount - offer.amount % _STEPS.get(offer.kind, 1)


def _line(offer: Offer) -> str:
    rounded = _rounded(offer)
    is_bytes = offer.kind in ("memory", "storage")
    amount = bytesize.text(rounded) if is_bytes else milli.text(rounded)
    return f"{offer.kind} {offer.device} {amount}" if offer.device else f"{offer.kind} {amount}"


def _joined(hardware: HardwareProfile, *, has_containers: bool) -> str:
    """As one text, what decides most first; whatever it has no room for is left out."""
    first = [CONTAINERS] if has_containers else []
    runtimes = sorted({one.name for one in hardware.runtimes})
    told = " ".join([*first, *runtimes, *sorted(set(hardware.cpu.features))])
    return (
        told
        if len(told) <= FEATURES_CHARACTERS_MAX
        else told[: told.rfind(" ", 0, FEATURES_CHARACTERS_MAX + 1)]
    )


def _cut(text: str | None) -> str:
    return (text or "")[:TEXT_MAX]
