"""A decision as log events: fixed names and fields, for programs and for grep.

Lives here: what is told about a decision. Never here: writing it anywhere (`cli.eventlog`).

    placement.capability   node, fits, checked: what it has of everything that was asked for
    placement.capacity     node, fits, checked: what of it is free
    placement.refused      node, reasons
    placement.decided      job, responsible, cluster, eligible, refused
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from distributed_grid.kernel.placement.decision import Decision, Reason
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Request, Resources


class PlacementEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be told."""

    name: str
    is_detail: bool  # Of interest to whoever looks closely only.
    fields: dict[str, Any]


def events(decision: Decision, nodes: list[NodeRecord]) -> Iterator[PlacementEvent]:
    """What happened to every node, then the decision itself."""
    refused = {refusal.id: refusal.reasons for refusal in decision.refused}
    for node in sorted(nodes, key=lambda node: node.id):
        why = refused.get(node.id, ())
        yield _pass("capability", decision, node, node.total, why)
        yield _pass("capacity", decision, node, node.free, why)
        if why:
            fields = {"job": decision.job.name, "node": node.name, "id": node.id}
            reasons = [msgspec.to_builtins(reason) for reason in why]
            yield PlacementEvent(
                name="placement.refused", is_detail=False, fields=fields | {"reasons": reasons}
            )
    yield PlacementEvent(
        name="placement.decided",
        is_detail=False,
        fields={
            "job": decision.job.name,
            "responsible": decision.responsible,
            "cluster": list(decision.cluster),
            "eligible": len(nodes) - len(refused),
            "refused": len(refused),
        },
    )


def _pass(
    kind: str, decision: Decision, node: NodeRecord, has: Resources, why: tuple[Reason, ...]
) -> PlacementEvent:
    checked = list(_amounts(decision.job.request, has))
    # A node that lacks the capability lacks the capacity too, though its reason names but one.
    is_short = any(amount["has"] < amount["wanted"] for amount in checked)
    fields = {
        "job": decision.job.name,
        "node": node.name,
        "id": node.id,
        "fits": not is_short and not any(reason.kind == kind for reason in why),
        "checked": checked,
    }
    return PlacementEvent(name=f"placement.{kind}", is_detail=True, fields=fields)


def _amounts(request: Request, has: Resources) -> Iterator[dict[str, Any]]:
    for what in ("cpu_milli", "memory_bytes", "storage_bytes"):
        yield {"what": what, "wanted": getattr(request, what), "has": getattr(has, what)}
    if request.gpus:
        available = request.gpus.available_milli(has.gpus)
        yield {"what": "gpu_milli", "wanted": request.gpus.milli, "has": available}
    amounts = dict(has.custom)
    for kind, wanted in request.custom:
        yield {"what": f"custom.{kind}", "wanted": wanted, "has": amounts.get(kind, 0)}
