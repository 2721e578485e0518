"""What a mesh is told once: the owner's rules, which start this is; what it keeps of a link.

Lives here: these nouns. Never here: what follows from them (`machine`).
"""

from typing import Final

import msgspec

from distributed_grid.kernel.mesh.dialling import Backoff
from distributed_grid.kernel.mesh.events import Now, PathKind
from distributed_grid.kernel.mesh.liveness import LAN, LivenessRules
from distributed_grid.model.mesh_settings import Topology
from distributed_grid.wire.mesh import JOBS, SPOKEN, Hello

SECOND_US: Final = 1_000_000
RESTART_MS: Final = 60_000  # Whoever says that it restarts, and is away for longer, does not.


class MeshRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner decided about the mesh."""

    liveness: LivenessRules = LAN
    topology: Topology = "hybrid"
    connections_max: int = 50
    idle_us: int = 300 * SECOND_US
    gossip_us: int = 200_000
    backoff: Backoff = Backoff()
    speaks: tuple[int, ...] = SPOKEN
    jobs: int = JOBS


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Which start of which machine this is."""

    nonce: str
    machine: str
    now: Now
    build_ms: int = 0  # No clock is right that is earlier than this.


class Link(msgspec.Struct, kw_only=True):
    """A connection to a member."""

    hello: Hello
    since_us: int
    wanted_us: int  # When it was last needed.
    path: PathKind = "none"
    address: str = ""
    bandwidth_kbps: int | None = None
