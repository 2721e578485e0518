"""Where the ranks of a gang could meet on this node: its address, and a port that is free.

Lives here: finding both. Never here: which node they meet on (`kernel.across.gangs`).
Invariant: the port was free a moment ago; whoever binds it first has it, as with any free port.
"""

import contextlib
import socket

from distributed_grid.agent.mesh import MeshSide


def meeting_place(mesh: MeshSide) -> tuple[str, int]:
    """This node's address as others reach it, empty if none is known; 0: no port is free."""
    contact = mesh.mesh.contact(mesh.mesh.me)
    first = contact.addresses[0] if contact and contact.addresses else ""
    return first.rpartition(":")[0].strip("[]"), free_port()


def free_port() -> int:
    """One that nobody listens on; 0: there is none."""
    with contextlib.suppress(OSError), socket.create_server(("", 0)) as found:
        return int(found.getsockname()[1])
    return 0
