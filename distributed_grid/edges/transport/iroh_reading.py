"""Workaround: in the bindings as they come, a read that is cancelled loses the bytes it had.

Lives here: frames from a stream, read by a task that nobody cancels; closing the connection ends
it. `iroh_waking` cures it too, for the versions that it knows; tests/contract/iroh_cases.py says
when a read may be cancelled in any case. (Reading this way would still be right.)
Invariant: the length of a message is judged before its bytes are collected.
"""

from typing import Final

from iroh import IrohError, RecvStream

from distributed_grid.edges.transport import LANES
from distributed_grid.edges.transport.end import LinkEnd

READ_BYTES: Final = 64 << 10
LENGTH_BYTES: Final = 4


async def read_lane(stream: RecvStream, link: LinkEnd) -> None:
    """Deliver every message of one stream, whose first byte names its lane."""
    frames = _Frames(stream)
    try:
        number = (await frames.exactly(1))[0]
        if number >= len(LANES):
            link.malformed(f"lane {number}")
            return
        lane = LANES[number]
        while True:
            length = int.from_bytes(await frames.exactly(LENGTH_BYTES), "big")
            if length > await link.limit_of_next(lane):
                link.malformed(f"{length} bytes on {lane}")
                return
            await link.deliver(lane, await frames.exactly(length))
    except (EOFError, IrohError):
        return  # Whoever closed it says why on the connection.


class _Frames:
    def __init__(self, stream: RecvStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def exactly(self, count: int) -> bytes:
        buffer = self._buffer
        while len(buffer) < count:
            more = await self._stream.read(READ_BYTES)
            if not more:
                raise EOFError
            buffer += more
        taken = bytes(buffer[:count])
        del buffer[:count]
        return taken
