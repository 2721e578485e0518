"""Reading what a client sends, within bounds.

Lives here: how much of one request, and of all at once. Never here: what it means (`routes`).
"""

from starlette.requests import Request

from distributed_grid.errors import BadValue, Overloaded
from distributed_grid.wire.api import REQUEST_BYTES_MAX

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


def _too_long(size: int) -> BadValue:
    return BadValue(
        size, expected=f"at most {REQUEST_BYTES_MAX} bytes", remedy="Submit less at once"
    )
