"""What a job would like, and what speaks against a node without ruling it out.

Lives here: preferences, affinity, battery, relayed paths, failed verification, as score parts.
Never here: what a job must have (`checks`), how policies order the rest (`policies`).
Invariant: one wish outweighs every policy, and wishes weigh alike; so a node that meets more
wishes always comes first, and the policy decides between those that meet as many.
"""

from collections.abc import Iterator

from distributed_grid.kernel.placement.rules import Rules
from distributed_grid.kernel.placement.view import Number, Truth, View
from distributed_grid.model.job import JobSpec, Where

WISH_UNIT = 10**15  # Above every policy's sum; 9,000 of them still fit in 63 bits.
UNVERIFIED_WISHES = 1_000  # More than a job can have wishes: such a node comes last.


def wishes(job: JobSpec, rules: Rules, view: View) -> dict[str, Number]:
    """What each unmet wish costs a node."""
    parts = {f"prefer.{what}": _cost(met, when=False) for what, met in _parts(job.prefer, view)}
    for what, met in _parts(job.avoid_if_possible, view):
        parts[f"avoid_if_possible.{what}"] = _cost(met, when=True)
    parts["unverified"] = view.unverified * (UNVERIFIED_WISHES * WISH_UNIT)
    if rules.policy is None:
        return parts  # By rank alone: nothing that the job did not ask for.
    if rules.power.prefer_ac_power:
        parts["battery"] = _cost(view.on_ac, when=False)
    parts["relayed"] = _cost(view.relayed, when=True)
    return parts


def unmet(job: JobSpec, view: View) -> Number:
    """How many of the wishes that somebody said a node does not meet."""
    missed = [_cost(met, when=False) for _, met in _parts(job.prefer, view)]
    missed += [_cost(met, when=True) for _, met in _parts(job.avoid_if_possible, view)]
    return sum(missed) // WISH_UNIT


def _parts(where: Where, view: View) -> Iterator[tuple[str, Truth]]:
    if where.classes:
        yield "class", view.in_class(where.classes)
    for key, value in where.labels:
        yield f"labels.{key}", view.has_label(key, value)
    if where.nodes:
        yield "nodes", view.is_named(where.nodes)
    if where.jobs:
        yield "jobs", view.runs(where.jobs)
    if where.latency_us_max is not None:
        yield "latency_us", view.latency_us <= where.latency_us_max


def _cost(truth: Truth, *, when: bool) -> Number:
    return (truth == when) * WISH_UNIT
