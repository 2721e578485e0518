"""One vocabulary for one node and for a hundred thousand.

Lives here: `View`, the words in which checks, policies and wishes are written, and `OneNode`,
which answers them with plain integers. `columns.Columns` answers the same words with arrays.
Invariant: a rule is written once and only uses +, -, *, //, >>, &, |, comparisons, and the two
functions below; so it means the same for a number and for an array.
"""

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Request, Resources

Number: TypeAlias = Any  # An int for one node, an int64 array for many.
Truth: TypeAlias = Any  # A bool for one node, a bool array for many.

# What one milli-core is worth in other resources, so that leftovers can be added up: a core is
# taken for 4 GiB of memory or 64 GiB of storage, a GPU for 16 cores. Shifts keep it exact.
MEMORY_SHIFT = 22  # 4 MiB a milli-core.
STORAGE_SHIFT = 26  # 64 MiB a milli-core.
GPU_WORTH = 16

# Unknown facts as numbers that fail, or pass, the comparisons they are used in.
LATENCY_US_UNKNOWN = 1 << 40  # Further than anything on this planet: fails every limit.
BATTERY_UNKNOWN = -1  # Below every minimum.
TEMPERATURE_UNKNOWN = -27_315  # Nothing is colder: passes every limit.
POWER_UNKNOWN = -1

# Draw of a machine that does not say: per core and per GPU, as is usual for desktops.
CORE_MW_ASSUMED = 5_000
GPU_MW_ASSUMED = 75_000

ORDER_BITS = 48  # Of the node id; two of 100,000 nodes share them once in 50,000 fleets.


class View(ABC):
    """What rules may ask about a node, or about all of them at once."""

    cpu_total: Number
    cpu_free: Number
    memory_total: Number
    memory_free: Number
    storage_total: Number
    storage_free: Number
    total_worth: Number  # Everything there is, in milli-cores.
    free_worth: Number
    gpu_total_milli: Number
    gpu_free_milli: Number
    on_ac: Truth
    battery_percent: Number
    temperature_centi: Number
    dynamic_mw: Number  # Between idle and full load; POWER_UNKNOWN if it does not say.
    assumed_mw: Number  # The same, estimated from cores and GPUs.
    latency_us: Number
    relayed: Truth
    price_micro: Number
    age_ms: Number
    jobs: Number
    unverified: Truth  # A check of its claims has failed.
    order: Number  # The first bits of its id.

    @abstractmethod
    def gpu_free(self, request: GpuRequest) -> Number:
        """How much of the request its devices could give now."""

    @abstractmethod
    def custom_free(self, kind: str) -> Number:
        """How much of a custom kind is free."""

    @abstractmethod
    def in_class(self, classes: tuple[str, ...]) -> Truth:
        """Whether its class is one of these."""

    @abstractmethod
    def has_label(self, key: str, value: str) -> Truth:
        """Whether it carries this label with this value."""

    @abstractmethod
    def is_named(self, names: tuple[str, ...]) -> Truth:
        """Whether its name or id is one of these."""

    @abstractmethod
    def runs(self, jobs: tuple[str, ...]) -> Truth:
        """Whether one of these jobs runs there."""

    @abstractmethod
    def has_arch(self, arch: str) -> Truth:
        """Whether it is of this architecture."""

    @abstractmethod
    def has_feature(self, feature: str) -> Truth:
        """Whether it has this feature."""

    @abstractmethod
    def maximum(self, left: Number, right: Number) -> Number:
        """The larger of two."""

    @abstractmethod
    def minimum(self, left: Number, right: Number) -> Number:
        """The smaller of two."""

    @abstractmethod
    def where(self, truth: Truth, then: Number, otherwise: Number) -> Number:
        """One or the other."""


NUMBERS = (
    "cpu_total", "cpu_free", "memory_total", "memory_free", "storage_total", "storage_free",
    "total_worth", "free_worth", "gpu_total_milli", "gpu_free_milli", "battery_percent",
    "temperature_centi", "dynamic_mw", "assumed_mw", "latency_us", "price_micro", "age_ms", "jobs",
    "order",
)  # fmt: skip
TRUTHS = ("on_ac", "relayed", "unverified")


def numbers_of(record: NodeRecord) -> list[int]:
    """The numbers of a node, in the order of NUMBERS."""
    total, free, power = record.total, record.free, record.power
    gpu_total_milli = sum(gpu.share_milli for gpu in total.gpus)
    gpu_free_milli = sum(gpu.share_milli for gpu in free.gpus)
    latency_us, battery = record.network.latency_us, power.battery_percent
    temperature = power.temperature_centi
    known = power.idle_mw is not None and power.max_mw is not None
    return [
        total.cpu_milli, free.cpu_milli, total.memory_bytes, free.memory_bytes,
        total.storage_bytes, free.storage_bytes, worth(total, gpu_total_milli),
        worth(free, gpu_free_milli), gpu_total_milli, gpu_free_milli,
        BATTERY_UNKNOWN if battery is None else battery,
        TEMPERATURE_UNKNOWN if temperature is None else temperature,
        max(0, (power.max_mw or 0) - (power.idle_mw or 0)) if known else POWER_UNKNOWN,
        (total.cpu_milli * CORE_MW_ASSUMED + gpu_total_milli * GPU_MW_ASSUMED) // 1_000,
        LATENCY_US_UNKNOWN if latency_us is None else latency_us,
        record.price_micro_per_hour, record.age_ms, record.jobs,
        int(record.id[: ORDER_BITS // 4], 16),
    ]  # fmt: skip


def truths_of(record: NodeRecord) -> list[bool]:
    """The yes-or-no facts of a node, in the order of TRUTHS."""
    return [
        not record.power.on_battery,
        record.network.reachability == "relayed",
        record.verification == "failed",
    ]


def worth(amounts: Resources | Request, gpu_milli: int) -> int:
    """Amounts of different kinds as one number of milli-cores."""
    return (
        amounts.cpu_milli
        + (amounts.memory_bytes >> MEMORY_SHIFT)
        + (amounts.storage_bytes >> STORAGE_SHIFT)
        + gpu_milli * GPU_WORTH
    )


class OneNode(View):
    """The view of a single node, in plain integers."""

    def __init__(self, record: NodeRecord) -> None:
        self.record = record
        self.__dict__.update(zip(NUMBERS, numbers_of(record), strict=True))
        self.__dict__.update(zip(TRUTHS, truths_of(record), strict=True))

    def gpu_free(self, request: GpuRequest) -> int:
        return request.available_milli(self.record.free.gpus)

    def custom_free(self, kind: str) -> int:
        return dict(self.record.free.custom).get(kind, 0)

    def in_class(self, classes: tuple[str, ...]) -> bool:
        return self.record.node_class.name in classes

    def has_label(self, key: str, value: str) -> bool:
        return self.record.labels.get(key) == value

    def is_named(self, names: tuple[str, ...]) -> bool:
        return self.record.name in names or self.record.id in names

    def runs(self, jobs: tuple[str, ...]) -> bool:
        return any(job in self.record.running for job in jobs)

    def has_arch(self, arch: str) -> bool:
        return self.record.arch == arch

    def has_feature(self, feature: str) -> bool:
        return feature in self.record.features

    def maximum(self, left: int, right: int) -> int:
        return max(left, right)

    def minimum(self, left: int, right: int) -> int:
        return min(left, right)

    def where(self, truth: bool, then: int, otherwise: int) -> int:
        return then if truth else otherwise
