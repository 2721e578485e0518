"""The real agent of a member that lies: it is alive, heard and honest, and says what it is told to.

It has a mouth, a socket in its data directory. A question there is one MessagePack list, the answer
another: `["say", peer, [message, …], seconds]` puts bytes on the job lane of a peer, in order, and
answers how many; `["heard"]` answers what others said to it there, as pairs of peer and bytes.

python -m tests.mesh.lying_app --data-dir DIR …
"""

import asyncio
import contextlib
import sys
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from distributed_grid import app
from distributed_grid.agent.across import AcrossSide
from distributed_grid.model.ids import NodeId

MOUTH = "mouth.sock"
SAID_S = 20.0  # For a link that is being dialled, and for what waits on it.
HEARD_MAX = 4_096
HEARD_BYTES_MAX = 1 << 20  # A longer one is of no interest here.

_look, _hear = AcrossSide.look, AcrossSide._heard
_heard: deque[tuple[str, bytes]] = deque(maxlen=HEARD_MAX)


async def _say(side: AcrossSide, peer: str, bodies: list[bytes], within_s: float) -> int:
    """So many were put on the lane before time was over."""
    mesh, said = side._mesh, 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            for body in bodies:
                while not mesh.send_job(NodeId(peer), body):
                    await asyncio.sleep(0.02)
                said += 1
    return said


async def _look_and_lie(side: AcrossSide) -> None:
    """As the product does, with a mouth beside it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        what, *words = msgspec.msgpack.decode(await reader.read(-1))
        answer: Any = list(_heard) if what == "heard" else await _say(side, *words)
        writer.write(msgspec.msgpack.encode(answer))
        await writer.drain()
        writer.close()

    directory = Path(sys.argv[sys.argv.index("--data-dir") + 1])
    (directory / MOUTH).unlink(missing_ok=True)
    async with await asyncio.start_unix_server(serve, str(directory / MOUTH)):
        await _look(side)


def _heard_too(side: AcrossSide, peer: NodeId, body: bytes) -> bool:
    if len(body) <= HEARD_BYTES_MAX:
        _heard.append((peer, body))
    return _hear(side, peer, body)


def main() -> int:
    AcrossSide.look = _look_and_lie
    AcrossSide._heard = _heard_too
    return app.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
