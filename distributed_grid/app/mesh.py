"""The mesh of an agent, put together: identity, keys, transport, and the kernel between them.

Lives here: what is plugged into what. The keys and the transport are loaded for nodes that are in a
mesh only: alone, an agent is 20 MB smaller without them.
"""

import ipaddress
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from distributed_grid.agent.mesh import Ground, Parts
from distributed_grid.agent.mesh_proving import Proving
from distributed_grid.agent.mesh_values import Values
from distributed_grid.app.across import user_name
from distributed_grid.edges.transport import Transport
from distributed_grid.kernel.mesh.events import Now
from distributed_grid.kernel.mesh.liveness import LAN, WAN
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.rules import MeshRules, Start
from distributed_grid.kernel.mesh.signing import Signer
from distributed_grid.kernel.mesh.tickets import SECRET_BYTES
from distributed_grid.kernel.mesh.trust import is_name
from distributed_grid.kernel.mesh.views import KEYLESS
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.mesh_settings import MeshSettings
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.mesh_api import NodeView
from distributed_grid.wire.mesh_records import NodeProfile

BUILD_MS: Final = 1_790_000_000_000  # September 2026: no clock of this programme is earlier.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> Now:
    """Both clocks; the second one goes on while the machine sleeps."""
    return Now(time.time_ns() // 1_000_000, time.clock_gettime_ns(_STEADY) // 1_000)


def settle(data_dir: str, *, new_identity: str, moved_here: bool) -> None:
    """Who this node is from now on, if its owner says so.

    A keeper starts its agent with the same words after a crash: a new identity is made once for
    each token.
    """
    if not new_identity and not moved_here:
        return
    from distributed_grid.edges.keys import load_identity, machine_fingerprint

    done = Path(data_dir) / "identity.token"
    if new_identity and done.exists() and done.read_text() == new_identity:
        return
    load_identity(
        Path(data_dir),
        machine=machine_fingerprint(),
        when_moved="new-identity" if new_identity else "moved-here",
    )
    if new_identity:
        done.write_text(new_identity)


def ground(
    *,
    name: str,
    data_dir: str,
    settings: MeshSettings,
    values: Values,
    profile: NodeProfile,
    status: NodeStatus,
    publish: Callable[[Happened], None],
    remember: Callable[[str], None],
) -> Ground:
    """What the agent's side of the mesh stands on."""
    return Ground(
        name=name if is_name(name) else "unnamed",  # A host may be called what nobody can type.
        assemble=lambda memory: _assemble(memory, Path(data_dir), settings),
        now=now,
        secret=lambda: os.urandom(SECRET_BYTES),
        values=values,
        alone=lambda: _alone(status, profile, values),
        publish=publish,
        connection_timeout_ms=settings.connection_timeout_ms,
        remember=remember,
        user=user_name(),
    )


def _assemble(memory: Mapping[str, bytes], data_dir: Path, settings: MeshSettings) -> Parts:
    # Imported here: see above.
    from distributed_grid.edges.keys import (
        AUTHORITY_FILE,
        create_authority,
        load_authority,
        load_identity,
        machine_fingerprint,
        set_authority_aside,
        verify,
    )
    from distributed_grid.edges.probe.proving import Prover
    from distributed_grid.kernel.mesh.doorman import Doorman

    identity = load_identity(data_dir, machine=machine_fingerprint())
    if identity.is_new and memory.get("mesh.own"):
        sys.stderr.write("grid: identity.key was not there: this is a new node, in no mesh\n")
    dice = random.SystemRandom()
    start = Start(
        nonce=f"{dice.getrandbits(128):032x}",
        machine=identity.machine,
        now=now(),
        build_ms=BUILD_MS,
    )
    mesh = Mesh(
        me=identity.node,
        signer=identity.key,
        verify=verify,
        chance=dice.randrange,
        rules=_rules(settings),
        start=start,
        memory={} if identity.is_new else memory,
    )
    authority = load_authority(data_dir)
    if authority is not None and authority.public == mesh.id:
        mesh.membership.hold_authority(authority)
    if mesh.membership.lacks_authority:
        sys.stderr.write(
            f"grid: {KEYLESS}; copy the recovery key of the mesh to {data_dir / AUTHORITY_FILE},"
            " mode 600, and start again\n"
        )

    def new_authority() -> tuple[Signer, str]:
        made = create_authority(data_dir)
        return made.key, str(made.recovery)

    return Parts(
        mesh=mesh,
        doorman=Doorman(allow=_networks(settings.allow), deny=_networks(settings.deny)),
        new_transport=_transports(identity.key.secret(), settings),
        new_authority=new_authority,
        set_authority_aside=lambda: set_authority_aside(data_dir),
        proving=Proving(mesh, Prover(), chance=dice.randrange, now=now)
        if settings.verify_capabilities
        else None,
    )


def _transports(
    secret: bytes, settings: MeshSettings
) -> Callable[[Callable[[str], bool], int], Transport]:
    def new_transport(admit: Callable[[str], bool], kept_port: int) -> Transport:
        from distributed_grid.edges.transport.iroh_endpoint import IrohTransport

        return IrohTransport(
            secret,
            listen=settings.listen,
            kept_port=kept_port,
            advertise=settings.advertise,
            relay=settings.relay,
            admit=admit,
        )

    return new_transport


def _rules(settings: MeshSettings) -> MeshRules:
    return MeshRules(
        liveness=WAN if settings.preset == "wan" else LAN,
        topology=settings.topology,
        connections_max=settings.max_connections_per_node,
        idle_us=settings.idle_connection_ms * 1_000,
        gossip_us=settings.gossip_interval_ms * 1_000,
    )


def power_of(settings: MeshSettings) -> PowerPolicy:
    """What this node's battery and heat allow its own work."""
    return PowerPolicy(
        battery_percent_min=settings.battery_threshold_percent,
        prefer_ac_power=settings.prefer_ac_power,
        temperature_centi_max=settings.thermal_limit_centi,
    )


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(text, strict=False)) for text in texts)


def _alone(status: NodeStatus, profile: NodeProfile, values: Values) -> NodeView:
    load = values.load()
    return NodeView(
        id=status.id,
        name=status.name,
        is_self=True,
        node_class=status.node_class,
        version=status.version,
        since_ms=status.since_ms,
        path="self",
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
        labels=profile.labels,
        scores_tflops_milli=profile.tflops_milli,
        verification="pretended" if profile.is_pretended else "claimed",
    )
