"""The second half of the tour: placement on a fleet that nobody owns.

Lives here: a mixed batch on a made-up fleet under every policy, and one refusal explained.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from distributed_grid.cli import placement_text, render
from distributed_grid.kernel.placement import Rules, Snapshot, place, snapshot
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.kernel.placement.policies import POLICIES, power_aware
from distributed_grid.kernel.placement.rules import Policy
from distributed_grid.kernel.placement.view import OneNode
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord
from distributed_grid.sim.fleet import random_fleet, random_jobs


class Outcome(NamedTuple):
    """What became of the batch under one policy."""

    policy: str
    placed: Sequence[tuple[JobSpec, NodeRecord]]
    refused: Sequence[JobSpec]
    left: Snapshot  # The fleet with the batch on it.
    decision_us: float


def show_fleet(console: Console, *, node_count: int, job_count: int, seed: int) -> None:
    """A mixed batch on a made-up fleet under every policy, and one refusal explained."""
    fleet, jobs = random_fleet(node_count, seed=seed), random_jobs(job_count, seed=seed)
    render.rule(console, "many machines, pretended · grid place")
    _show_fleet(console, fleet)
    with render.progress(render.talk()) as progress:
        outcomes = [_batch(policy, fleet, jobs, progress) for policy in (*POLICIES, None)]
    console.print(_table(outcomes, job_count))
    render.rule(console, "one refusal, explained")
    _explain(console, outcomes[0])


def _show_fleet(console: Console, fleet: list[NodeRecord]) -> None:
    classes = Counter(node.node_class.name for node in fleet)
    gpus = sum(len(node.total.gpus) for node in fleet)
    cores = sum(node.total.cpu_milli for node in fleet) // 1_000
    kinds = ", ".join(f"{count} {name}" for name, count in sorted(classes.items()))
    console.print(f"{len(fleet):,} nodes ({kinds}), {cores:,} cores, {gpus:,} GPUs")


def _batch(
    policy: Policy | None, fleet: list[NodeRecord], jobs: list[JobSpec], progress: Progress
) -> Outcome:
    """Place the jobs one after the other, each taking its resources."""
    name = policy.name if policy else "by rank alone"
    rules, held = Rules(policy=policy), snapshot(fleet)
    placed: list[tuple[JobSpec, NodeRecord]] = []
    refused: list[JobSpec] = []
    took_us: list[float] = []
    for job in progress.track(jobs, description=f"{name:14}"):
        start = perf_counter()
        best = place(job, held, rules).best
        took_us.append((perf_counter() - start) * 1e6)
        if best is None:
            refused.append(job)
        else:
            placed.append((job, best))
            held.update(after_placing(job, best))
    return Outcome(name, placed, refused, held, median(took_us))


def _table(outcomes: list[Outcome], job_count: int) -> object:
    columns = (
        "policy",
        "placed#",
        "nodes used#",
        "added W#",
        "rent/h#",
        "latency ms#",
        "decision us#",
    )
    rows = []
    for outcome in outcomes:
        nodes = {node.id: node for _, node in outcome.placed}
        watts = sum(power_aware(job, OneNode(node))["power_mw"] for job, node in outcome.placed)
        rent = sum(node.price_micro_per_hour for node in nodes.values()) / 1e6
        latencies = [node.network.latency_us or 0 for _, node in outcome.placed]
        rows.append(
            (
                outcome.policy,
                str(len(outcome.placed)),
                str(len(nodes)),
                f"{watts / 1_000:,.0f}",
                f"{rent:,.2f}",
                f"{sum(latencies) / max(len(latencies), 1) / 1_000:.1f}",
                f"{outcome.decision_us:.0f}",
            )
        )
    return render.table(f"{job_count} jobs under every policy", columns, rows)


def _explain(console: Console, outcome: Outcome) -> None:
    """The first job that found no room, and the nodes that came closest."""
    if not outcome.refused:
        console.print("every job found a node; try --jobs 2000")
        return
    decision = place(outcome.refused[0], outcome.left)
    console.print(placement_text.headline(decision))
    kinds = Counter(reason.kind for refusal in decision.refused for reason in refusal.reasons)
    for kind, count in kinds.most_common():
        console.print(Text(f"  {count:5,} x {kind}", "dim"))
    closest = sorted(
        decision.refused, key=lambda r: (len(r.reasons), r.reasons[0].kind == "capability", r.id)
    )
    rows = [
        (refusal.name if index == 0 else "", *placement_text.reason_row(reason))
        for refusal in closest[:5]
        for index, reason in enumerate(refusal.reasons)
    ]
    columns = ("node", "what", "wanted#", "has#", "kind")
    console.print(render.table("closest to fitting", columns, rows))
