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
        self._came = b""
        self._at = 0  # So much of it was taken.
        self._ahead = READ_BYTES  # So much is read at once where little is needed.

    async def exactly(self, count: int) -> bytes:
        """So many bytes. A long message is read in one go, and not copied once more."""
        while (lacking := self._at + count - len(self._came)) > 0:
            if lacking >= READ_BYTES:
                more = await self._stream.read_exact(lacking)
            else:
                more = await self._stream.read(max(lacking, self._ahead))
            if not more:
                raise EOFError
            rest = self._came[self._at :]
            self._came, self._at = rest + more if rest else more, 0
        taken = self._came[self._at : self._at + count]
        self._at += count
        if self._at == len(self._came):
            self._came, self._at = b"", 0
        # Behind a long one comes another: of that its length is read, and nothing else.
        self._ahead = LENGTH_BYTES if count >= READ_BYTES else READ_BYTES
        return taken
