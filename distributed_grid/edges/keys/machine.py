"""What tells this machine from all others, without saying which one it is.

Lives here: the fingerprint, from what the system says of itself. Never here: what it is
compared with (`identity`).
Invariant: the same machine gives the same fingerprint after a reboot; what it was made from cannot
be read from it.
"""

import hashlib
import socket
import uuid
from pathlib import Path
from typing import Final

MACHINE_ID: Final = Path("/etc/machine-id")
DMI_UUID: Final = Path("/sys/class/dmi/id/product_uuid")
NETWORK: Final = Path("/sys/class/net")
READ_BYTES_MAX: Final = 256
DIGITS_MIN: Final = 16  # `uninitialized`, `None` and the like are no ids.
MULTICAST_BIT: Final = 1 << 40  # Of an address that Python has made up.


def machine_fingerprint(
    *,
    machine_id: Path = MACHINE_ID,
    dmi_uuid: Path = DMI_UUID,
    network: Path = NETWORK,
    host: str | None = None,
) -> str:
    """64 hex digits: the system's id, else the board's, else host name and network card, hashed."""
    for kind, path in (("machine-id", machine_id), ("dmi", dmi_uuid)):
        found = _id_in(path)
        if found:
            return _hashed(kind, found)
    return _hashed("host", f"{host or socket.gethostname()}\0{_card(network)}")


def _id_in(path: Path) -> str:
    """The hex digits in a file, if they are somebody's."""
    try:
        with path.open("rb") as file:
            text = file.read(READ_BYTES_MAX).decode("ascii", "replace")
    except OSError:
        return ""
    digits = text.strip().replace("-", "").lower()
    is_hex = len(digits) >= DIGITS_MIN and set(digits) <= set("0123456789abcdef")
    # Boards whose maker wrote no id say all zeros, or all ones.
    return digits if is_hex and len(set(digits)) > 1 else ""


def _card(network: Path) -> str:
    """The address of a network card that is really there: bridges and tunnels come and go."""
    try:
        cards = sorted(card.parent for card in network.glob("*/device"))
        addresses = [(card / "address").read_text("ascii").strip() for card in cards]
    except (OSError, ValueError):
        addresses = []
    if addresses:
        return addresses[0]
    number = uuid.getnode()
    return "" if number & MULTICAST_BIT else f"{number:012x}"


def _hashed(kind: str, value: str) -> str:
    return hashlib.sha256(f"grid machine 1\0{kind}\0{value}".encode()).hexdigest()
