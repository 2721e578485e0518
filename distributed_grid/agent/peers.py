"""The members of a mesh as jobs see them: who lives, who may do what, what is free where.

Lives here: turning what nodes say of themselves into records that placement reads. Never here:
choosing one (`kernel.across`), spreading it (`kernel.mesh`).
Invariant: what a member says of itself may be nonsense; then it is a member without a record.
"""

from collections.abc import Iterator
from functools import lru_cache

from distributed_grid.errors import BadValue
from distributed_grid.kernel.across.peers import Peer, Peers
from distributed_grid.kernel.mesh.events import Now
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.views import view
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.ids import NodeId
from distributed_grid.model.milli import WHOLE
from distributed_grid.model.node import LATENCY_US_MAX, Network, NodeRecord, Power
from distributed_grid.model.node_class import AnyNodeClass, DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Resources, sorted_amounts
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Offered

_CLASSES: dict[str, type[AnyNodeClass]] = {
    "datacenter": DataCenter,
    "workstation": Workstation,
    "laptop": Laptop,
    "edge": Edge,
}


def peers_of(mesh: Mesh, now: Now) -> tuple[Peers, NodeRecord | None]:
    """The others that know of jobs across machines, and this node as it tells of itself."""
    peers = {}
    for node in mesh.present():
        if node != mesh.me and (peer := peer_of(mesh, node, now)):
            peers[node] = peer
    return peers, record_of(mesh, mesh.me, now)


def peer_of(mesh: Mesh, node: NodeId, now: Now) -> Peer | None:
    """One of them; None: its version is too old."""
    profile = mesh.said.profile(node)
    if profile is not None and not profile.jobs:
        return None
    roles = mesh.roster.standings[node].roles if mesh.roster else ()
    load = mesh.said.load(node)
    offered = mesh.said.offers(node)
    contact = mesh.contact(node)
    record = record_of(mesh, node, now)
    return Peer(
        id=node,
        name=mesh.name_of(node),
        is_alive=mesh.liveness.health(node).health != "dead" and node not in mesh.quarantined,
        is_dialable=bool(contact and contact.addresses),
        is_laptop=profile is not None and profile.node_class == "laptop",
        may_submit=any(role in roles for role in ("admin", "member", "guest")),
        may_lend=any(role in roles for role in ("admin", "member", "worker")),
        is_own=mesh.roster is not None and mesh.roster.is_kin(mesh.me, node),
        record=record,
        lent=lent_of(record.free, offered) if record is not None and offered is not None else None,
        restarting_until_ms=mesh.restarting.get(node, 0),
        jobs_waiting=load.jobs_waiting if load else 0,
        is_draining=load is not None and load.is_draining,
        is_disk_full=load is not None and load.is_disk_full,
        usage=offered.usage if offered else (),
        usage_step=offered.usage_step if offered else 0,
    )


def record_of(mesh: Mesh, node: NodeId, now: Now) -> NodeRecord | None:
    """One node, for placement; None: it has not told what it is, or what cannot be."""
    profile, load = mesh.said.profile(node), mesh.said.load(node)
    if profile is None or load is None:
        return None
    seen = view(mesh, node, now)
    latency_us = seen.latency_us if seen.latency_us is not None else seen.estimated_us
    if node == mesh.me:
        latency_us = 0  # Nobody measures the way to himself.
    try:
        total = _total(profile)
        return NodeRecord(
            id=node,
            name=seen.name,
            total=total,
            free=_free(total, load),
            node_class=_CLASSES.get(profile.node_class, Workstation)(),
            labels=dict(profile.labels),
            arch=profile.arch,
            features=_features(profile.features),
            power=Power(
                on_battery=load.on_battery,
                battery_percent=load.battery_percent,
                temperature_centi=load.temperature_centi,
                idle_mw=profile.idle_mw,
                max_mw=profile.max_mw,
            ),
            network=Network(
                bandwidth_kbps=seen.bandwidth_kbps,
                latency_us=None if latency_us is None else min(latency_us, LATENCY_US_MAX),
                reachability="relayed" if seen.path == "relayed" else "direct",
            ),
            price_micro_per_hour=profile.price_micro_per_hour,
            jobs=min(load.jobs_running, 10**6),
            running=load.running,
            age_ms=seen.seen_age_ms or 0,
            verification="failed" if seen.verification == "failed" else "claimed",
            pretended=profile.is_pretended,
        )
    except BadValue:
        return None


@lru_cache(maxsize=64)  # Kinds of processors in one mesh; a view of all nodes comes every moment.
def _features(told: str) -> tuple[str, ...]:
    return tuple(sorted(set(told.split())))


def lent_of(free: Resources, offered: Offered) -> Resources | None:
    """What of it would be lent, as it was told; never more than is free."""
    if offered.lent is None:
        return None
    cpu_milli, memory_bytes, storage_bytes, gpus_milli = offered.lent
    return Resources(
        cpu_milli=min(free.cpu_milli, cpu_milli),
        memory_bytes=min(free.memory_bytes, memory_bytes),
        storage_bytes=min(free.storage_bytes, storage_bytes),
        gpus=free.gpus[: gpus_milli // WHOLE],
        custom=free.custom,
    )


def _total(profile: NodeProfile) -> Resources:
    gpus = (
        Gpu(device=gpu.device, model=gpu.model, memory_bytes=gpu.memory_bytes)
        for gpu in profile.gpus
    )
    return Resources(
        cpu_milli=profile.cpu_milli,
        memory_bytes=profile.memory_bytes,
        storage_bytes=profile.storage_bytes,
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.device)),
        custom=sorted_amounts(profile.custom),
    )


def _free(total: Resources, load: NodeLoad) -> Resources:
    return Resources(
        cpu_milli=min(load.cpu_milli_free, total.cpu_milli),
        memory_bytes=min(load.memory_bytes_free, total.memory_bytes),
        storage_bytes=min(load.storage_bytes_free, total.storage_bytes),
        gpus=tuple(_free_gpus(total, load.gpus_free_milli)),
        custom=total.custom,  # How many of them are free is not told; the owner knows.
    )


def _free_gpus(total: Resources, free_milli: int) -> Iterator[Gpu]:
    """As many as are free; which ones only their owner knows."""
    for gpu in total.gpus:
        if free_milli < WHOLE:
            return
        free_milli -= WHOLE
        yield gpu
