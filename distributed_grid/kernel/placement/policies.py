"""The eight built-in policies: how nodes that fit are ordered.

Lives here: formulas only, in the words of `view`. Never here: filters (`checks`), the job's own
wishes (`wishes`), names (`registry`).
Invariant: every part is an integer of 0 or more and below WISH_UNIT in sum; lower is better.
"""

from distributed_grid.kernel.placement.rules import Policy
from distributed_grid.kernel.placement.view import (
    MEMORY_SHIFT,
    POWER_UNKNOWN,
    Number,
    View,
    worth,
)
from distributed_grid.model.job import JobSpec
from distributed_grid.model.resources import Request

MILLION = 1_000_000


def best_fit(job: JobSpec, view: View) -> dict[str, Number]:
    """Minimise waste: what would stay free, in milli-cores, is smallest."""
    return {"waste": view.free_worth - _worth(job.request)}


def first_fit(job: JobSpec, view: View) -> dict[str, Number]:  # noqa: ARG001
    """The first that fits, in the order of node ids: the same first for everyone."""
    return {"order": view.order}


def round_robin(job: JobSpec, view: View) -> dict[str, Number]:  # noqa: ARG001
    """Everyone in turn: the fewest running jobs first, then by rank."""
    return {"jobs": view.jobs}


def power_aware(job: JobSpec, view: View) -> dict[str, Number]:
    """Minimise power: the draw that the job adds, in milliwatts."""
    # In millionths of the machine first: the product of both would not fit in 63 bits.
    share_ppm = _worth(job.request) * MILLION // view.maximum(view.total_worth, 1)
    is_known = view.dynamic_mw != POWER_UNKNOWN
    return {
        "power_mw": view.where(is_known, view.dynamic_mw * share_ppm // MILLION, 0),
        "assumed_power_mw": view.where(is_known, 0, view.assumed_mw * share_ppm // MILLION),
    }


def locality_aware(job: JobSpec, view: View) -> dict[str, Number]:  # noqa: ARG001
    """Minimise network distance: the lowest latency; where it is unknown, last."""
    return {"latency_us": view.latency_us}


def cost_optimized(job: JobSpec, view: View) -> dict[str, Number]:  # noqa: ARG001
    """Minimise cost: the lowest price an hour, in millionths."""
    return {"price_micro": view.price_micro}


def balanced(job: JobSpec, view: View) -> dict[str, Number]:
    """Weigh everything: load, waste, power, distance, price and jobs, each from 0 to 1,000."""
    power = power_aware(job, view)
    power_mw = power["power_mw"] + power["assumed_power_mw"]
    waste = view.free_worth - _worth(job.request)
    return {
        "load": _load_milli(job.request, view),
        "waste": view.minimum(waste >> 8, 1_000),  # Full at 256 cores left over.
        "power": view.minimum(power_mw // 500, 1_000),  # Full at 500 W more.
        "distance": view.minimum(view.latency_us // 200, 1_000),  # Full at 200 ms.
        "price": view.minimum(view.price_micro // 10_000, 1_000),  # Full at 10 an hour.
        "jobs": view.minimum(view.jobs * 10, 1_000),  # Full at 100 jobs.
    }


def spread(job: JobSpec, view: View) -> dict[str, Number]:
    """The emptiest first: the busiest of cores, memory and GPUs is least busy afterwards."""
    return {"load": _load_milli(job.request, view)}


POLICIES = tuple(
    Policy(name=name, parts=parts)
    for name, parts in (
        ("BestFit", best_fit),
        ("FirstFit", first_fit),
        ("RoundRobin", round_robin),
        ("PowerAware", power_aware),
        ("LocalityAware", locality_aware),
        ("CostOptimized", cost_optimized),
        ("Balanced", balanced),
        ("Spread", spread),
    )
)


def _worth(request: Request) -> int:
    # By the rule that values what is free: else waste could be negative.
    return worth(request, request.gpus.milli if request.gpus else 0)


def _load_milli(request: Request, view: View) -> Number:
    """Thousandths in use, with the job, of whatever is used most."""
    cpu_used = view.cpu_total - view.cpu_free + request.cpu_milli
    cpu = cpu_used * 1_000 // view.maximum(view.cpu_total, 1)
    # In units of 4 MiB: thousandths of an exbyte would not fit in 63 bits.
    memory_used = (view.memory_total - view.memory_free + request.memory_bytes) >> MEMORY_SHIFT
    memory = memory_used * 1_000 // view.maximum(view.memory_total >> MEMORY_SHIFT, 1)
    busiest = view.maximum(cpu, memory)
    if request.gpus is None:
        return busiest
    gpus_used = view.gpu_total_milli - view.gpu_free_milli + request.gpus.milli
    return view.maximum(busiest, gpus_used * 1_000 // view.maximum(view.gpu_total_milli, 1))
