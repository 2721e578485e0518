"""Whether this machine can listen where its owner says, asked before anything depends on it.

Lives here: trying it with a socket of our own. Never here: listening (`iroh_endpoint`).
Invariant: nothing is left open.
"""

import socket

from distributed_grid.edges.transport import CannotListen, addresses


def check_listen(listen: str) -> None:
    """Raise CannotListen unless `address:port` is an address of this machine, its port free.

    A port that is left out is chosen later: then any will do.
    """
    wanted = addresses.bind_address(listen)
    host, port = addresses.split(wanted)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((host, port))
    except OSError as error:
        raise CannotListen(wanted, error.strerror or str(error)) from None
