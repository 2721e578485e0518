"""What every transport promises about strangers, as cases that run on any of them.

Lives here: one coroutine for each promise, its name a sentence. Never here: the transports.
"""

import asyncio

import pytest

from distributed_grid.edges.transport import Limits, LinkClosed, Transport, Unreachable
from tests.contract.transport_lab import (
    DIAL_MS,
    KIB,
    Lab,
    cases_in,
    flood,
    got,
    meet,
    take_all,
    until,
)


async def a_stranger_says_little(lab: Lab) -> None:
    hub = await lab.end()
    rude, served = await meet(await lab.end(), hub)
    polite, accepted = await meet(await lab.end(), hub)
    await rude.send(bytes(8 * KIB + 1))
    await polite.send(bytes(8 * KIB))

    assert await got(accepted) == bytes(8 * KIB)
    assert await served.receive() is None
    await rude.closed.wait()
    assert hub.counters.malformed == 1
    assert not polite.closed.is_set()


async def what_follows_a_greeting_is_judged_after_it(lab: Lab) -> None:
    one, other = await meet(await lab.end(), await lab.end())
    await one.send(b"hello")
    await one.send(bytes(32 * KIB))
    await one.send(b"work", lane="job")

    assert await other.receive() == ("control", b"hello")
    other.trust()
    assert {await other.receive(), await other.receive()} == {
        ("control", bytes(32 * KIB)),
        ("job", b"work"),
    }


async def only_a_members_other_lanes_and_datagrams_are_read(lab: Lab) -> None:
    hub = await lab.end()
    one, other = await meet(await lab.end(), hub)
    await one.send(b"work", lane="job")
    one.send_datagram(b"rumour")
    await one.send(b"hello")

    assert await other.receive() == ("control", b"hello")
    await until(lambda: hub.counters.datagrams_dropped == 1)
    waiting = asyncio.create_task(other.receive())
    await asyncio.wait({waiting}, timeout=0.05)
    assert not waiting.done()
    other.trust()
    assert await waiting == ("job", b"work")


async def a_stranger_that_says_nothing_is_closed(lab: Lab) -> None:
    hub = await lab.end(Limits(stranger_idle_ms=100))
    silent, _ = await meet(await lab.end(), hub)
    await silent.closed.wait()

    assert hub.counters.strangers_closed == 1


async def a_stranger_does_not_stay(lab: Lab) -> None:
    hub = await lab.end(Limits(stranger_ms=300))
    chatty, accepted = await meet(await lab.end(), hub)
    taking = asyncio.create_task(take_all(accepted))
    with pytest.raises(LinkClosed):
        await flood(chatty, b"one more thing", pause_s=0.01)
    await taking

    assert hub.counters.strangers_closed == 1


async def a_stranger_cannot_make_us_keep_much(lab: Lab) -> None:
    hub = await lab.end(Limits(stranger_bytes=100_000, stranger_idle_ms=500))
    loud, _ = await meet(await lab.end(), hub)
    with pytest.raises(LinkClosed):
        await flood(loud, bytes(8 * KIB))

    assert hub.counters.strangers_closed == 1


async def so_many_strangers_and_no_more(lab: Lab) -> None:
    hub, caller = await lab.end(Limits(strangers=3)), await lab.end()
    accepted = [(await meet(caller, hub))[1] for _ in range(3)]
    with pytest.raises(Unreachable):
        await caller.dial(hub.contact(), timeout_ms=DIAL_MS)
    refused = hub.counters.not_admitted
    accepted[0].trust()
    await accepted[1].close()
    await until(lambda: hub_has_room(hub))

    await meet(caller, hub)
    assert refused == 1


def hub_has_room(hub: Transport) -> bool:
    strangers = getattr(hub, "strangers", None) or getattr(hub, "_strangers")  # noqa: B009
    return strangers.has_room()


async def an_address_that_is_not_admitted_gets_no_handshake(lab: Lab) -> None:
    asked: list[str] = []

    def admit(address: str) -> bool:
        asked.append(address)
        return False

    hub, caller = await lab.end(admit=admit), await lab.end()
    with pytest.raises(Unreachable):
        await caller.dial(hub.contact(), timeout_ms=DIAL_MS)

    assert asked
    assert all(asked)
    assert hub.counters.not_admitted == len(asked)


CASES = cases_in(vars())
