"""Messages in a byte stream: four bytes of length, then msgpack.

Lives here: cutting and joining.
Invariant: a frame is never larger than its limit, whoever wrote it.
"""

from typing import Final

from distributed_grid.errors import GridError

LENGTH_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 32 << 20  # A chunk of 256 jobs with a 128 KiB environment each.


class BrokenFrame(GridError):
    """The other end sent something that is no frame of ours."""

    def __init__(self, length: int) -> None:
        self.length = length
        super().__init__(
            f"a frame of {length} bytes, at most {FRAME_BYTES_MAX} are read",
            remedy="Both ends must be Grid, of versions that know each other",
        )


def framed(body: bytes) -> bytes:
    """A body as it goes onto the stream."""
    if len(body) > FRAME_BYTES_MAX:
        raise BrokenFrame(len(body))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class Unframer:
    """Collects bytes and gives back whole bodies."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Every body that is complete now."""
        self._buffer += data
        bodies = []
        while len(self._buffer) >= LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            if length > FRAME_BYTES_MAX:
                raise BrokenFrame(length)
            end = LENGTH_BYTES + length
            if len(self._buffer) < end:
                break
            bodies.append(bytes(self._buffer[LENGTH_BYTES:end]))
            del self._buffer[:end]
        return bodies
