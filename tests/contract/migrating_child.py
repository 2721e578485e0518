"""Two ends of one link for test_migration: `serve`, or `call CONTACT`, which prints each answer."""

import asyncio
import sys

import msgspec
import uvloop

from distributed_grid.edges.transport.iroh_endpoint import IrohTransport
from distributed_grid.model.membership import Contact


async def serve() -> None:
    end = IrohTransport(bytes([1]) * 32)
    await end.open()
    print(msgspec.json.encode(end.contact()).decode(), flush=True)
    while (link := await end.accept()) is not None:
        link.trust()
        while (received := await link.receive()) is not None:
            await link.send(received[1])


async def call(contact: Contact) -> None:
    end = IrohTransport(bytes([2]) * 32)
    await end.open()
    link = await end.dial(contact, timeout_ms=5_000)
    link.trust()
    number = 0
    while not link.closed.is_set():
        number += 1
        await link.send(b"%d" % number)
        received = await link.receive()
        if received is None:
            break
        print(received[1].decode(), *end.contact().addresses, flush=True)
        await asyncio.sleep(0.05)
    print("closed", link.why_closed, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        uvloop.run(serve())
    else:
        uvloop.run(call(msgspec.json.decode(sys.argv[2], type=Contact)))
