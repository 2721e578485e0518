"""A machine that lends, for tests: 16 cores, 64 GiB, 1 TiB, two GPUs, a licence.

Lives here: samples and a `Lab` with a clock. Never here: what the right answer is.
"""

from typing import Any

import msgspec

from distributed_grid.kernel.lending import Admission, Lending, Way
from distributed_grid.kernel.offers import Survey
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.lending import GpuUse, Sample, Terms, Thresholds
from distributed_grid.model.resources import Request, Resources

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
NOON = 12 * 60  # Of Monday.


def a_machine(*, gpus: int = 2, cpus: int = 16) -> Resources:
    return Resources(
        cpu_milli=cpus * 1_000,
        memory_bytes=64 * GIB,
        storage_bytes=1_024 * GIB,
        gpus=tuple(
            Gpu(device=f"gpu{n}", model="RTX4090", memory_bytes=24 * GIB) for n in range(gpus)
        ),
        custom=(("licence:matlab", 2_000),),
    )


def a_gpu(number: int = 0, *, used: int = 0, free: int = 24) -> GpuUse:
    return GpuUse(
        device=f"gpu{number}",
        utilization_milli=used,
        memory_free_bytes=free * GIB,
        memory_total_bytes=24 * GIB,
    )


def a_sample(**what_matters: Any) -> Sample:
    """An idle machine; `cpu` and `memory` in thousandths."""
    cpu, memory = what_matters.pop("cpu", 0), what_matters.pop("memory", 0)
    facts = {
        "at_ms": 0,
        "local_minute": NOON,
        "cpu_total_milli": 16_000,
        "cpu_used_milli": 16 * cpu,
        "memory_total_bytes": 64 * GIB,
        "memory_used_bytes": 64 * GIB * memory // 1_000,
        "storage_free_bytes": 500 * GIB,
        "gpus": (a_gpu(0), a_gpu(1)),
    }
    return Sample(**facts | what_matters)


class Lab:
    """Lending with a clock and a ledger of two numbers."""

    def __init__(self, total: Resources | None = None, **terms: Any) -> None:
        thresholds = {k: terms.pop(k) for k in Thresholds.__struct_fields__ if k in terms}
        terms.setdefault("offers_max", 20)
        self.terms = Terms(thresholds=Thresholds(**thresholds), **terms)
        self.total = total or a_machine()
        self.free, self.borrowed = self.total, Resources()
        self.lending = Lending(self.total, self.terms)
        self.now_ms = 10 * HOUR_MS

    def sample(self, *, after_ms: int = 0, **what_matters: Any) -> "Lab":
        self.now_ms += after_ms
        minute = NOON + (self.now_ms - 10 * HOUR_MS) // MINUTE_MS
        what_matters.setdefault("local_minute", minute % (7 * 24 * 60))
        self.lending.sampled(a_sample(at_ms=self.now_ms, **what_matters), self.now_ms)
        return self

    def change(self, **terms: Any) -> None:
        self.terms = msgspec.structs.replace(self.terms, **terms)
        self.lending.set_terms(self.terms)

    def lease(self, what: Resources, *, shared: bool) -> None:
        self.free -= what
        if shared:
            self.borrowed += what

    def survey(self) -> Survey:
        return self.lending.survey(self.free, self.borrowed, self.now_ms)

    def amounts(self) -> dict[str, int]:
        return {offer.device or offer.kind: offer.amount for offer in self.survey().offers}

    def reasons(self) -> dict[str, tuple[str, str, str]]:
        """What is withheld: device or kind, to threshold, limit and measured."""
        return {
            item.device or item.kind: (item.threshold, item.limit, item.measured)
            for item in self.survey().withheld
        }

    def admits(self, *, gpus: int = 0, **request: Any) -> Admission:
        wanted = Request(gpus=GpuRequest(milli=gpus * 1_000) if gpus else None, **request)
        return self.lending.admits(wanted, self.free, self.borrowed, self.now_ms)

    def way(self, *, after_ms: int = 0) -> Way:
        self.now_ms += after_ms
        return self.lending.gives_way(self.now_ms)

    def state(self) -> str:
        return self.lending.state(self.now_ms)
