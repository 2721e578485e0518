"""Offers, allocations and the cluster as the programs of seed 003 read them: plain dicts.

Lives here: their keys, units (devices, cores, GiB) and ISO times. Never here: tables (`cli`).
"""

import os
from datetime import UTC, datetime
from typing import Any, Final

from distributed_grid.client.borrowing import SIZES
from distributed_grid.model import bytesize, milli
from distributed_grid.model.lending import Offer
from distributed_grid.wire.across_api import SharingEverywhere
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.mesh_api import NodeView
from distributed_grid.wire.sharing import AllocationView, SharingStatus

# Our kinds -> the values of ResourceType; a kind of one's own keeps its name.
TYPES: Final = {"storage": "disk"}


def shared_status(status: SharingStatus) -> dict[str, Any]:
    """What `get_shared_resource_status` gives; more than the seed's two keys."""
    return {
        "offers": [offer_dict(offer, status.node) for offer in status.offers],
        "allocations": [allocation_dict(one, status.node) for one in status.allocations],
        "withheld": [
            {
                "node_id": status.node,
                "resource_type": resource_type(one.kind),
                "threshold": one.threshold,
                "limit": one.limit,
                "measured": one.measured,
                "gpu_id": one.device or None,
            }
            for one in status.withheld
        ],
        "node": status.node,
        "enabled": status.is_enabled,
        "state": status.state,
        "mode": status.mode,
        "policy": status.policy,
        "paused_until": iso(status.paused_until_ms),
        "not_joined": list(status.not_joined),
    }


def shared_everywhere(found: SharingEverywhere) -> dict[str, Any]:
    """The same of a whole mesh: lists of every node, and the rest of this one."""
    own, *others = [shared_status(one) for one in found.nodes]
    here = {one.node for one in found.nodes}
    for other in others:
        for key in ("offers", "allocations", "withheld"):
            own[key] += other[key]
    own["not_joined"] = [name for name in own["not_joined"] if name not in here]
    own["states"] = {one.node: one.state for one in found.nodes}
    own["missing"] = list(found.missing)
    return own


def offer_dict(offer: Offer, node: str) -> dict[str, Any]:
    """One offer."""
    total = amount_number(offer.kind, offer.total)
    conditions: dict[str, Any] = {"total": total}
    if offer.device:
        conditions = {
            "gpu_id": offer.device,
            "memory_free_mb": offer.memory_free_bytes >> 20,
            "memory_total_mb": offer.memory_total_bytes >> 20,
            **conditions,
        }
    return {
        "node_id": node,
        "resource_type": resource_type(offer.kind),
        "amount": amount_number(offer.kind, offer.amount),
        "total": total,
        "available_until": iso(offer.expires_ms),
        "conditions": conditions,
    }


def allocation_dict(allocation: AllocationView, node: str) -> dict[str, Any]:
    """One kind of what one job has borrowed."""
    return {
        "request_id": allocation.request_id,
        "node_id": node,
        "resource_type": resource_type(allocation.kind),
        "amount": amount_number(allocation.kind, allocation.amount),
        "allocated_at": iso(allocation.allocated_ms),
        "expires_at": iso(allocation.expires_ms),
        "name": allocation.name,
        "user": allocation.user,
        "devices": list(allocation.devices),
        "suspended": allocation.is_suspended,
    }


def _other_node(node: NodeView, now_ms: int) -> dict[str, Any]:
    """A machine that this one has joined."""
    seen_ms = None if node.seen_age_ms is None else now_ms - node.seen_age_ms
    return {
        "name": node.name,
        "is_online": node.health in ("alive", "suspect"),
        "gpu_count": node.gpus_total,
        "memory_gb": amount_number("memory", node.memory_bytes_total),
        "last_check": iso(seen_ms),
        "load_average": [node.load_milli / milli.WHOLE],
        "gpu_utilization": [],
        "jobs_running": node.jobs_running,
        "jobs_waiting": node.jobs_waiting,
    }


def cluster_status(
    status: NodeStatus,
    sharing: SharingStatus,
    *,
    now_ms: int,
    name: str = "",
    listed: tuple[str, ...] = (),
    others: tuple[NodeView, ...] = (),
) -> dict[str, Any]:
    """The fields of a cluster: this machine, the others of its mesh, and those only listed."""
    here = {
        "name": status.name,
        "is_online": True,
        "gpu_count": status.gpus_total,
        "memory_gb": amount_number("memory", status.memory_bytes_total),
        "last_check": iso(now_ms),
        "load_average": load_average(),
        "gpu_utilization": _gpu_utilization(status, sharing),
    }
    joined = [_other_node(node, now_ms) for node in others]
    online = [node for node in others if node.health in ("alive", "suspect")]
    names = {status.name, *(node.name for node in others)}
    absent = sorted({*listed, *sharing.not_joined} - names)
    away: list[dict[str, Any]] = [
        {
            "name": other,
            "is_online": False,
            "gpu_count": 0,
            "memory_gb": 0,
            "last_check": None,
            "load_average": [],
            "gpu_utilization": [],
            "note": "not joined",
        }
        for other in absent
    ]
    return {
        "name": name or status.name,
        "total_nodes": 1 + len(joined) + len(away),
        "online_nodes": 1 + len(online),
        "total_gpus": status.gpus_total + sum(node.gpus_total for node in online),
        "available_gpus": milli.number(
            status.gpus_free_milli + sum(node.gpus_free_milli for node in online)
        ),
        "nodes": [here, *joined, *away],
        "last_update": iso(now_ms),
    }


def _gpu_utilization(status: NodeStatus, sharing: SharingStatus) -> list[float]:
    """Of each GPU, from 0 to 1; 0 where nothing was measured."""
    used = dict(sharing.owner.gpu_used_milli) if sharing.owner else {}
    shares = [share / milli.WHOLE for _, share in sorted(used.items())]
    return [*shares, *([0.0] * (status.gpus_total - len(shares)))]


def load_average() -> list[float]:
    """Of 1, 5 and 15 minutes; empty where the system has none."""
    try:
        return list(os.getloadavg())
    except (AttributeError, OSError):
        return []


def resource_type(kind: str) -> str:
    """Our kind as the seed calls it."""
    return TYPES.get(kind, kind)


def amount_number(kind: str, amount: int) -> int | float:
    """Devices, cores, or GiB, as a plain number; sizes rounded down to a thousandth."""
    if kind in SIZES:
        return milli.number(amount * milli.WHOLE // bytesize.GIB)
    return milli.number(amount)


def iso(at_ms: int | None) -> str | None:
    """A moment as ISO 8601 in UTC."""
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1_000, tz=UTC).isoformat()
