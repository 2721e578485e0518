"""Workaround: the bindings of iroh copy bytes into Rust one at a time, at 5 MB/s.

Lives here: the methods that copy, with one `memmove` each; bytes go over in one allocation. Version
1.2.0 of the wheel needs it; a later one is left alone, and tests/contract/test_iroh_workarounds.py
says when this file can go.
"""

import ctypes
import struct
from importlib.metadata import version
from typing import Any, Final

from iroh import iroh_ffi

NEEDED_BY: Final = frozenset({"1.2.0"})
_Buffer: Final[Any] = iroh_ffi._UniffiRustBuffer  # noqa: SLF001
_LENGTH: Final = struct.Struct(">i")
_Room: Final[Any] = ctypes.c_char * (1 << 31)  # A type for every buffer: one each would cost 50 us.


def _append(buffer: Any, value: bytes) -> None:
    ctypes.memmove(ctypes.addressof(buffer.data.contents) + buffer.len, value, len(value))
    buffer.len += len(value)


def _write(builder: Any, value: bytes) -> None:
    if builder.rbuf.len + len(value) > builder.rbuf.capacity:
        builder.rbuf = _Buffer.reserve(builder.rbuf, len(value))
    _append(builder.rbuf, value)


def _pack_into(builder: Any, _size: int, layout: str, value: float) -> None:
    _write(builder, struct.pack(layout, value))


def _lower(value: bytes | memoryview) -> Any:
    size = len(value)
    buffer = _Buffer.alloc(_LENGTH.size + size)  # It comes filled with zeros, its length set.
    room = memoryview(_Room.from_address(ctypes.addressof(buffer.data.contents))).cast("B")
    _LENGTH.pack_into(room, 0, size)
    room[_LENGTH.size : _LENGTH.size + size] = value
    return buffer


def _lift(buffer: Any) -> bytes:
    try:
        found: bytes = buffer.data[_LENGTH.size : buffer.len]
        return found
    finally:
        buffer.free()


def hasten() -> None:
    """Copy at the speed of memory from now on."""
    if version("iroh") in NEEDED_BY:
        builder: Any = iroh_ffi._UniffiRustBufferBuilder  # noqa: SLF001
        builder.write, builder._pack_into = _write, _pack_into  # noqa: SLF001
        converter: Any = iroh_ffi._UniffiFfiConverterBytes  # noqa: SLF001
        converter.lower, converter.lift = staticmethod(_lower), staticmethod(_lift)
