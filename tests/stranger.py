"""An attacker with the code: greets, redeems, forges, floods. Run inside the victim's network.

`python -m tests.stranger DEED VICTIM_ID ADDRESS [JSON]` prints what it got as one JSON object.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from distributed_grid.edges.keys import Key
from distributed_grid.edges.transport import Link, TransportError
from distributed_grid.edges.transport.iroh_endpoint import IrohTransport
from distributed_grid.kernel.mesh.membership import Own
from distributed_grid.kernel.mesh.trust import found
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact, MeshId
from distributed_grid.wire.mesh import (
    Delta,
    Entry,
    Hello,
    Ranges,
    Redeem,
    Refused,
    Remember,
    decode,
    encode,
)

WAIT_S = 8.0
ADDRESS = f"127.9.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
NOW_MS = time.time_ns() // 1_000_000
Deed = Callable[["Stranger", dict[str, Any]], Awaitable[Any]]


class Stranger:
    """One key, and what it tries."""

    def __init__(self, victim: Contact, secret: bytes | None = None) -> None:
        self.victim = victim
        self.key = Key(secret or os.urandom(32))
        # From an address of its own: what it does there is not counted against the members.
        self.transport = IrohTransport(self.key.secret(), listen=f"{ADDRESS}:0")

    async def dial(self) -> Link:
        return await self.transport.dial(self.victim, timeout_ms=5_000)

    async def says(self, link: Link, body: bytes) -> list[str]:
        """Everything that comes back until it is over: the names of the messages."""
        await link.send(body)
        return await self.hears(link)

    async def hears(self, link: Link) -> list[str]:
        got: list[str] = []
        try:
            async with asyncio.timeout(WAIT_S):
                while (received := await link.receive()) is not None:
                    message = decode(received[1])
                    is_refusal = isinstance(message, Refused)
                    got.append(message.reason if is_refusal else type(message).__name__)
        except TimeoutError:
            got.append("still open")
        return got


async def greet(stranger: Stranger, facts: dict[str, Any]) -> Any:
    """Each way of not being a member, and gossip behind it, as if it had been one."""
    mesh, me = MeshId(facts["mesh"]), NodeId(stranger.key.public)
    own_mesh = found(Key(os.urandom(32)), me, "eve", NOW_MS)
    forged = (msgspec.structs.replace(own_mesh[0], mesh=mesh, issuer=mesh),)
    hellos = {
        "no certificate": Hello(mesh=mesh, chain=()),
        "forged": Hello(mesh=mesh, chain=forged),
        "another mesh's": Hello(mesh=mesh, chain=own_mesh),
        "another mesh": Hello(mesh=own_mesh[0].mesh, chain=own_mesh),
        "no common version": Hello(mesh=mesh, chain=(), speaks=(99,)),
    }
    found_out = {}
    for name, hello in hellos.items():
        link = await stranger.dial()
        await link.send(encode(hello))
        await link.send(encode(Delta(number=1, entries=(_entry(stranger, mesh),))))
        found_out[name] = await stranger.hears(link)
        await link.close()
    link = await stranger.dial()
    found_out["gossip at once"] = await stranger.says(link, encode(Ranges(ranges=())))
    return found_out


def _entry(stranger: Stranger, mesh: MeshId) -> Entry:
    entry = Entry(NodeId(stranger.key.public), 1, "load", 1, b"x")
    return msgspec.structs.replace(entry, signature=stranger.key.sign(entry.signed_bytes(mesh)))


async def replay(stranger: Stranger, facts: dict[str, Any]) -> Any:
    """A join that somebody else made, word for word; and the same in our own name."""
    redeem = msgspec.convert(facts["redeem"], Redeem)
    link = await stranger.dial()
    as_it_was = await stranger.says(link, encode(redeem))
    await link.close()
    ours = msgspec.structs.replace(redeem, node=NodeId(stranger.key.public))
    link = await stranger.dial()
    return {"as it was": as_it_was, "in our name": await stranger.says(link, encode(ours))}


async def insider(stranger: Stranger, facts: dict[str, Any]) -> Any:
    """A member whose data we hold says things about others, and sends junk."""
    chain = msgspec.msgpack.decode(bytes.fromhex(facts["own"]), type=Own).chain
    mesh, about = MeshId(facts["mesh"]), NodeId(facts["about"])
    link = await stranger.dial()
    await link.send(encode(Hello(mesh=mesh, chain=chain, nonce="evil", machine=facts["machine"])))
    received = await link.receive()
    got = decode(received[1]) if received else None
    if isinstance(got, Refused):
        return {"greeted": got.reason}
    lies = [
        Entry(about, 10**6, "load", 1, b"\x81\xa1x\x01", b"\0" * 64),
        Entry(about, 10**6, "left", 2, b"1", stranger.key.sign(b"anything")),
        Entry(about, 2**62, "revoked", 1, b"junk", b""),
        Entry(NodeId("f" * 64), 1, "profile", 1, b"junk", b"\0" * 64),
    ]
    link.trust()
    await link.send(encode(Delta(number=1, entries=tuple(lies))))
    await link.send(encode(Remember(generation=2**61)))
    await link.send(os.urandom(200))
    return {"greeted": type(got).__name__, "then": await stranger.hears(link)}


async def junk(stranger: Stranger, _: dict[str, Any]) -> Any:
    """Bytes that mean nothing, a message too long, and one that never ends."""
    dice = random.Random(7)
    found_out: Counter[str] = Counter()
    for size in (1, 10, 100, 4_000, 60_000):
        try:
            link = await stranger.dial()
            found_out[",".join(await stranger.says(link, dice.randbytes(size))) or "closed"] += 1
            await link.close()
        except TransportError:  # Junk makes the next knock dearer: there may be no answer at all.
            found_out["closed"] += 1
    return found_out


async def linger(stranger: Stranger, _: dict[str, Any]) -> Any:
    """Connect and say nothing; how long we are put up with."""
    begin = time.monotonic()
    try:
        link = await stranger.dial()
        got = await stranger.hears(link)
    except TransportError:
        got = ["refused at the door"]
    return {"got": got, "seconds": time.monotonic() - begin}


async def flood(stranger: Stranger, facts: dict[str, Any]) -> Any:
    """So many attempts, many at once, from so many keys."""
    left, outcomes = facts["attempts"], Counter[str]()
    keys = [stranger] + [Stranger(stranger.victim) for _ in range(facts["keys"] - 1)]
    for other in keys[1:]:
        await other.transport.open()
    hello = encode(Hello(mesh=MeshId(facts["mesh"]), chain=()))
    begin, used_s = time.monotonic(), time.process_time()

    async def attempt(who: Stranger) -> str:
        try:
            link = await who.transport.dial(who.victim, timeout_ms=300)
            async with asyncio.timeout(0.5):
                await link.send(hello)
                got = await link.receive()
            await link.close()
        except (TransportError, TimeoutError):
            return "nothing"
        return "answered" if got else "closed"

    async def attempts(who: Stranger) -> None:
        nonlocal left
        while left > 0 and time.monotonic() - begin < facts["seconds"]:
            left -= 1
            outcomes[await attempt(who)] += 1
            # Half a core, in all: what is attacked runs on the same machine.
            while time.process_time() - used_s > (time.monotonic() - begin) / 2:
                await asyncio.sleep(0.02)

    await asyncio.gather(*(attempts(keys[n % len(keys)]) for n in range(facts["abreast"])))
    for other in keys[1:]:
        await other.transport.close()
    return {"outcomes": outcomes, "seconds": time.monotonic() - begin}


DEEDS: dict[str, Deed] = {
    deed.__name__: deed for deed in (greet, replay, insider, junk, linger, flood)
}


async def main(deed: str, victim: str, address: str, facts: dict[str, Any]) -> None:
    key = bytes.fromhex(facts["key"]) if "key" in facts else None
    stranger = Stranger(Contact(node=NodeId(victim), addresses=(address,)), key)
    await stranger.transport.open()
    result = await DEEDS[deed](stranger, facts)
    await stranger.transport.close()
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], json.loads(sys.argv[4] if len(sys.argv) > 4 else "{}")))
