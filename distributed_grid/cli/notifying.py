"""What a service tells systemd about itself: sd_notify, one datagram.

Never here: the service's unit (`service`).
"""

import contextlib
import socket


def notify(address: str | None, text: str) -> None:
    """Tell who started us, at the address in its NOTIFY_SOCKET; most of the time there is none."""
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        line.send(text.encode())
