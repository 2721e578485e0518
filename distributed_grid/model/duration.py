"""Spans of time, in milliseconds.

Lives here: `60s` to milliseconds and back. Never here: reading a clock (`edges`).
"""

import re

from distributed_grid.errors import BadValue
from distributed_grid.model import milli

_UNITS_MS = {
    "ms": 1,
    "": 1_000,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_SPAN = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?\s*(ms|s|min|m|h|d|)")
DURATION_MS_MAX = 100 * 365 * 86_400_000  # A century; longer is a mistyped unit.


def parse(value: object) -> int:
    """Milliseconds from `60s`, `1.5h`, `250ms`; a bare number is seconds."""
    match = _SPAN.fullmatch(milli.written(value))
    if match is None:
        raise BadValue(
            value, expected="a span of time", remedy="Write it like 60s, 5m, 1.5h, 2d or 250ms"
        )
    decimals = match[2] or ""
    span_ms: int = int(match[1] + decimals) * _UNITS_MS[match[3]] // 10 ** len(decimals)
    if span_ms > DURATION_MS_MAX:
        raise BadValue(value, expected="at most a century", remedy="Check the unit")
    return span_ms


def text(span_ms: int) -> str:
    """Milliseconds as people read them: 90000 is 1m30s."""
    if span_ms < 1_000:
        return f"{span_ms}ms"
    if span_ms < 60_000:
        return f"{span_ms / 1_000:g}s"
    if span_ms < 3_600_000:
        return _pair(span_ms, (60_000, "m"), (1_000, "s"))
    if span_ms < 86_400_000:
        return _pair(span_ms, (3_600_000, "h"), (60_000, "m"))
    return _pair(span_ms, (86_400_000, "d"), (3_600_000, "h"))


def _pair(span_ms: int, big: tuple[int, str], small: tuple[int, str]) -> str:
    rest = span_ms % big[0] // small[0]
    return f"{span_ms // big[0]}{big[1]}" + (f"{rest}{small[1]}" if rest else "")
