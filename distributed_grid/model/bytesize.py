"""Amounts of memory and storage, in bytes.

Lives here: `16GiB` to bytes and back. KiB, MiB, GiB, TiB, PiB are powers of 1024; K, M, G, T, P
(with or without B) are powers of 1000, as in the SI.
"""

import re

from distributed_grid.errors import BadValue
from distributed_grid.model import milli

KIB, MIB, GIB, TIB, PIB = (1 << shift for shift in (10, 20, 30, 40, 50))
BYTES_MAX = 1 << 60  # An exbibyte; sums of a fleet still fit in 63 bits.

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "kib": KIB, "ki": KIB,
    "m": 10**6, "mb": 10**6, "mib": MIB, "mi": MIB,
    "g": 10**9, "gb": 10**9, "gib": GIB, "gi": GIB,
    "t": 10**12, "tb": 10**12, "tib": TIB, "ti": TIB,
    "p": 10**15, "pb": 10**15, "pib": PIB, "pi": PIB,
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,20})(?:\.(\d{1,9}))?\s*([a-zA-Z]{0,3})")


def parse(value: object) -> int:
    """Bytes from `16GiB`, `16G`, `500M`, `1.5TiB` or a plain number of bytes."""
    match = _SIZE.fullmatch(milli.written(value))
    unit = _UNITS.get(match[3].lower()) if match else None
    if match is None or unit is None:
        raise BadValue(
            value, expected="an amount of bytes", remedy="Write it like 16GiB, 16G, 500M or 1048576"
        )
    decimals = match[2] or ""
    size: int = int(match[1] + decimals) * unit // 10 ** len(decimals)
    if size > BYTES_MAX:
        raise BadValue(value, expected=f"at most {text(BYTES_MAX)}", remedy="Check the unit")
    return size


def text(size: int) -> str:
    """Bytes as people read them: the largest binary unit, at most one decimal."""
    for unit, name in ((PIB, "PiB"), (TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            tenths = size * 10 // unit
            return f"{tenths // 10} {name}" if tenths % 10 == 0 else f"{tenths / 10:.1f} {name}"
    return f"{size} B"
