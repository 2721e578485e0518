"""Reading what a client sends, within bounds.

Lives here: how much of one request, and of all at once; its bytes as the struct of its route. Never
here: what it means (`routes`).
"""

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request

from distributed_grid.errors import BadValue, Overloaded
from distributed_grid.model.job import JobSpec
from distributed_grid.web.mistakes import REMEDY, mistakes_of, refuse
from distributed_grid.web.new_jobs import new_jobs
from distributed_grid.wire.api import REQUEST_BYTES_MAX, Submit

ROOM_BYTES = 2 * REQUEST_BYTES_MAX  # Of all bodies that are being read: two of the largest.


class Room:
    """How many bytes of bodies the agent holds now."""

    def __init__(self, bytes_max: int = ROOM_BYTES) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0

    async def read(self, request: Request) -> bytes:
        """The whole body. What is too long is refused before it is read, if the client says so."""
        told = request.headers.get("content-length", "")
        if told.isascii() and told.isdigit() and int(told[:19]) > REQUEST_BYTES_MAX:
            raise _too_long(int(told[:19]))
        parts: list[bytes] = []
        size = 0
        try:
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                self.held_bytes += len(part)
                if size > REQUEST_BYTES_MAX:
                    raise _too_long(size)
                if self.held_bytes > self.bytes_max:
                    raise Overloaded("bytes of requests being read", most=self.bytes_max)
            return b"".join(parts)
        finally:
            self.held_bytes -= size


_room = Room()
_submission = msgspec.json.Decoder(Submit)


async def body(
    request: Request, kind: type[Any], decode: Callable[..., Any] = msgspec.json.decode
) -> Any:
    """The body of a request as this struct; an empty one is the struct's defaults."""
    data = await _room.read(request)
    try:
        return decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if decode is msgspec.json.decode:
            refuse(mistakes_of(plain(data), kind))
        raise BadValue(str(error), expected=f"a {kind.__name__}", remedy=REMEDY) from None


async def submitted(request: Request) -> tuple[JobSpec, ...]:
    """The jobs of a submission; most are whole, and what others leave out is filled in."""
    data = await _room.read(request)
    try:
        return _submission.decode(data).jobs
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return new_jobs(plain(data))


def plain(data: bytes) -> Any:
    """A body as dicts and lists."""
    try:
        return msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadValue(str(error), expected="JSON", remedy=REMEDY) from None


def _too_long(size: int) -> BadValue:
    return BadValue(
        size, expected=f"at most {REQUEST_BYTES_MAX} bytes", remedy="Submit less at once"
    )
