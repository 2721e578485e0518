"""A message between neighbours: over a link of the real transport, into another process and back.

Lives here: both ends. `python -m benchmarks.mesh_echo CONTACT` is the far one; it answers each
message of the control stream with the same bytes. A round trip is more than one message.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress

import msgspec

from benchmarks.mesh_fleet import quantiles
from distributed_grid.edges.transport import LinkClosed
from distributed_grid.edges.transport.iroh_endpoint import IrohTransport
from distributed_grid.model.membership import Contact

SIZE_BYTES = 300  # A delta with one entry.
TIMEOUT_MS = 10_000


def transport() -> IrohTransport:
    """An end on the loopback."""
    return IrohTransport(os.urandom(32), listen="127.0.0.1:0")


async def echo(contact: Contact) -> None:
    """The far end: dials, and says everything again."""
    end = transport()
    await end.open()
    link = await end.dial(contact, timeout_ms=TIMEOUT_MS)
    await link.send(b"here")
    link.trust()
    with suppress(LinkClosed):
        while (received := await link.receive()) is not None:
            await link.send(received[1])
    await end.close()


async def round_trips(count: int) -> list[float]:
    """The near end: milliseconds, one after the other."""
    end = transport()
    await end.open()
    told = msgspec.json.encode(end.contact()).decode()
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.mesh_echo", told)
    async with asyncio.timeout(60):
        link = await end.accept()
        assert link is not None, "somebody dials"
        await link.receive()
    link.trust()
    body, samples = os.urandom(SIZE_BYTES), []
    for _ in range(count):
        begin = time.perf_counter()
        await link.send(body)
        received = await link.receive()
        samples.append((time.perf_counter() - begin) * 1e3)
        assert received is not None, "the same"
        assert received[1] == body, "the same"
    await link.close("measured")
    await end.close()
    await child.wait()
    return samples


def measured(count: int) -> dict[str, float]:
    """p50 and p99 of round trips on the control stream, in milliseconds."""
    return quantiles(asyncio.run(round_trips(count)), digits=3)


if __name__ == "__main__":
    asyncio.run(echo(msgspec.json.decode(sys.argv[1].encode(), type=Contact)))
