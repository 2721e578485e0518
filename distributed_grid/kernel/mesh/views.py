"""A node of the mesh as people see it from this one.

Lives here: putting together what it said, what was measured, and what was judged. Never here:
tables (`cli`).
"""

from typing import Final

from distributed_grid.kernel.mesh.coordinates import estimate_us
from distributed_grid.kernel.mesh.events import Now
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.proving import combined
from distributed_grid.kernel.mesh.rules import Link
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh_api import Health, NodeView
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Offered

CLONED: Final = "; let one keep it, and start the other with: grid up --new-identity"
DRAINED: Final = "drained: it takes no work"
FULL: Final = "its disk is full: it takes no work"
KEYLESS: Final = "mesh-authority.key is lost: nobody renews this node, nor those it let in"
OVERDUE: Final = "its certificate has expired; no admin was there to renew it"


def everyone(mesh: Mesh, now: Now) -> tuple[NodeView, ...]:
    """All nodes, this one first, then by name."""
    if mesh.roster is None:
        return ()
    nodes = {*mesh.roster.chains, *mesh.roster.standings} - {mesh.me}
    views = [view(mesh, node, now) for node in nodes]
    return (view(mesh, mesh.me, now), *sorted(views, key=lambda each: (each.name, each.id)))


def view(mesh: Mesh, node: NodeId, now: Now) -> NodeView:
    """One node."""
    profile = mesh.said.profile(node) or NodeProfile(node_class="", version="")
    load = mesh.said.load(node) or NodeLoad(cpu_milli_free=0, memory_bytes_free=0)
    health, since_ms, why, age_us = _health(mesh, node, now)
    link = mesh.links.get(node)
    standing = mesh.roster.standings.get(node) if mesh.roster else None
    changed_us = mesh.changed_us.get(node)
    verification, verification_why = _verification(mesh, node, profile)
    return NodeView(
        id=node,
        person=mesh.roster.label(node) if mesh.roster and standing else "",
        person_id=standing.person.id if standing else "",
        name=mesh.name_of(node),
        is_self=node == mesh.me,
        roles=standing.roles if standing else (),
        node_class=profile.node_class,
        version=profile.version,
        health=health,
        since_ms=since_ms,
        why=why,
        path="self" if node == mesh.me else link.path if link else "none",
        address=link.address if link else "",
        latency_us=mesh.liveness.rtt_us(node) if link else None,
        estimated_us=_estimate(mesh, node),
        bandwidth_kbps=_bandwidth(mesh, node, link),
        cpu_milli_total=profile.cpu_milli,
        cpu_milli_free=load.cpu_milli_free,
        memory_bytes_total=profile.memory_bytes,
        memory_bytes_free=load.memory_bytes_free,
        storage_bytes_total=profile.storage_bytes,
        storage_bytes_free=load.storage_bytes_free,
        gpus_total=len(profile.gpus),
        gpus_free_milli=load.gpus_free_milli,
        gpu_models=tuple(gpu.model for gpu in profile.gpus),
        load_milli=load.load_milli,
        jobs_running=load.jobs_running,
        jobs_waiting=load.jobs_waiting,
        offers=(mesh.said.offers(node) or Offered()).lines,
        labels=profile.labels,
        scores_tflops_milli=profile.tflops_milli,
        verification=verification,
        verification_why=verification_why,
        seen_age_ms=age_us // 1_000 if age_us is not None else None,
        record_age_ms=(now.mono_us - changed_us) // 1_000 if changed_us is not None else None,
        expires_ms=standing.expires_ms if standing else 0,
        note=_note(mesh, node, now) or _idle_note(load),
        faults=mesh.faults.count(node, now.mono_us),
        is_draining=load.is_draining,
    )


def _health(mesh: Mesh, node: NodeId, now: Now) -> tuple[Health, int, str, int | None]:
    if node == mesh.me:
        return "alive", mesh.start.now.wall_ms, "", 0
    if mesh.has_left(node):
        return "left", 0, "it said goodbye", None
    if mesh.roster is None or not mesh.roster.is_member(node):
        return "left", 0, "its certificate no longer holds", None
    vital = mesh.liveness.health(node)
    ago_ms = (now.mono_us - vital.since_us) // 1_000
    load = mesh.said.load(node)
    # Who has no link with it has not heard its goodbye; what it said of itself comes by others.
    is_told = vital.health == "dead" and load is not None and load.is_down
    if is_told or mesh.liveness.is_down(node):
        return "down", now.wall_ms - ago_ms, "", vital.age_us
    return vital.health, now.wall_ms - ago_ms, vital.why, vital.age_us


def _estimate(mesh: Mesh, node: NodeId) -> int | None:
    theirs = mesh.said.coordinate(node)
    return estimate_us(mesh.positioning.coordinate, theirs) if theirs else None


def _bandwidth(mesh: Mesh, node: NodeId, link: Link | None) -> int | None:
    if link is not None and link.bandwidth_kbps is not None:
        return link.bandwidth_kbps
    position = mesh.said.position(node)
    return position.bandwidth_kbps if position else None


def _verification(mesh: Mesh, node: NodeId, profile: NodeProfile) -> tuple[str, str]:
    """What others found together, and the words of one of them about it."""
    if profile.is_pretended:
        return "pretended", ""
    if mesh.roster is None:
        return "claimed", ""
    said = (mesh.said.verdicts(other) for other in sorted(mesh.roster.standings) if other != node)
    found = [each.of[node] for each in said if each and node in each.of]
    state = combined([word for word, _ in found])
    return state, next((why for word, why in found if word == state and why), "")


def _idle_note(load: NodeLoad) -> str:
    if load.is_draining:
        return DRAINED
    return FULL if load.is_disk_full else ""


def _note(mesh: Mesh, node: NodeId, now: Now) -> str:
    if node in mesh.quarantined:
        return f"{mesh.quarantined[node]}{CLONED if node == mesh.me else ''}"
    if node == mesh.me and mesh.membership.was_revoked:
        return "revoked by an admin of the mesh"
    if refused := mesh.faults.note(node, now.mono_us):
        return refused
    if node in mesh.refused_by:
        return f"refuses this node: {mesh.refused_by[node]}"
    standing = mesh.roster.standings.get(node) if mesh.roster else None
    if standing is not None and standing.state == "overdue":
        return OVERDUE
    return KEYLESS if node == mesh.me and mesh.membership.lacks_authority else ""
