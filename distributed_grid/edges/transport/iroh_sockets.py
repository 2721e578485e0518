"""One address means one socket: iroh opens one of the other family too, on a port it chooses.

Lives here: taking that socket away. Never here: which one is wanted (`iroh_endpoint`).
Source: the wheel takes one `bind_addr`; its builder adds the other family (`[::]:0` beside IPv4)
and offers that to every peer as one more path. It counts as optional: without it the rest goes on.
"""

import contextlib
import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from distributed_grid.edges.transport import addresses

NEEDED_BY: Final = frozenset({"1.2.0"})


def close_others(bound: Iterable[str], wanted: str) -> None:
    """Of the sockets that iroh has bound, leave only those of the wanted address's family.

    The number of the file stays iroh's; behind it is from now on a socket that reaches nobody. To
    be called again now and then: after a change of the network iroh binds anew.
    """
    is_v6 = ":" in addresses.split(wanted)[0]
    ports = [port for host, port in map(addresses.split, bound) if (":" in host) != is_v6]
    if not ports:
        return
    family = socket.AF_INET if is_v6 else socket.AF_INET6
    for number in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        with contextlib.suppress(OSError):  # Closed meanwhile, or no socket.
            if _port_of(number, family) in ports:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nowhere:
                    os.dup2(nowhere.fileno(), number, inheritable=False)


def _port_of(number: int, family: socket.AddressFamily) -> int | None:
    """The port of a UDP socket of this family."""
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        return None
    with socket.socket(fileno=os.dup(number)) as held:
        if held.type != socket.SOCK_DGRAM or held.family != family:
            return None
        return int(held.getsockname()[1])
