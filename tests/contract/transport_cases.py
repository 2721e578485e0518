"""What every transport promises, as cases that run on any of them.

Lives here: one coroutine for each promise, its name a sentence. Never here: the transports.
"""

import asyncio

import pytest

from distributed_grid.edges.transport import (
    LANES,
    Datagram,
    Limits,
    Link,
    LinkClosed,
    TooLarge,
    Transport,
    Unreachable,
)
from distributed_grid.kernel.mesh.pool import LinkFacts, is_better
from distributed_grid.model.membership import Contact
from tests.contract import transport_stranger_cases
from tests.contract.transport_lab import (
    DIAL_MS,
    KIB,
    MIB,
    NOBODY,
    Lab,
    cases_in,
    flood,
    friends,
    got,
    meet,
)

# Messages


async def messages_arrive_whole_and_in_order(lab: Lab) -> None:
    one, other = await friends(lab)
    sent = [bytes([number % 256]) * (number * 7 % 3_000) for number in range(500)]

    async def send_all() -> None:
        for message in sent:
            await one.send(message)

    sending = asyncio.create_task(send_all())

    assert [await got(other) for _ in sent] == sent
    await sending


async def long_messages_arrive_between_short_ones(lab: Lab) -> None:
    """Around the sizes in which bytes are written and read."""
    one, other = await friends(lab)
    around = [64 * KIB + more for more in (-5, -4, -3, -1, 0, 1, 4)]
    sizes = [0, *around, 3, 512 * KIB, 512 * KIB + 80, 70, 0, 129 * KIB, 5_000, MIB, *around, 1]
    sent = [bytes([at + 1]) * size for at, size in enumerate(sizes)]

    async def send_all() -> None:
        for message in sent:
            await one.send(message, lane="bulk")

    sending = asyncio.create_task(send_all())

    assert [await got(other) for _ in sent] == sent
    await sending


async def both_ends_know_each_other(lab: Lab) -> None:
    one, other = await lab.end(), await lab.end()
    dialled, accepted = await meet(one, other)

    assert (dialled.peer, dialled.is_dialled) == (other.id, True)
    assert (accepted.peer, accepted.is_dialled) == (one.id, False)
    assert accepted.remote_address
    assert dialled.path().kind == "direct"
    assert dialled.path().address in other.contact().addresses


async def lanes_do_not_wait_for_each_other(lab: Lab) -> None:
    one, other = await friends(lab)

    async def send_much() -> None:
        for _ in range(24):
            await one.send(bytes(MIB), lane="bulk")

    sending = asyncio.create_task(send_much())
    first = await other.receive()
    await one.send(b"urgent")
    seen = []
    while (received := await other.receive()) != ("control", b"urgent"):
        seen.append(received)

    assert first == ("bulk", bytes(MIB))
    assert len(seen) < 12
    sending.cancel()


async def a_message_that_no_member_reads_is_not_sent(lab: Lab) -> None:
    one, other = await friends(lab)

    with pytest.raises(TooLarge):
        await one.send(bytes(64 * KIB + 1))
    with pytest.raises(TooLarge):
        await one.send(bytes(24 * MIB + 1), lane="job")
    with pytest.raises(TooLarge):
        await one.send(bytes(16 * MIB + 1), lane="bulk")
    await one.send(bytes(64 * KIB))
    await one.send(bytes(MIB), lane="job")  # A job with long arguments, an array in many pieces.
    await one.send(bytes(16 * MIB), lane="bulk")

    assert sorted([len(await got(other)) for _ in range(3)]) == [64 * KIB, MIB, 16 * MIB]


async def a_sender_waits_for_a_slow_reader(lab: Lab) -> None:
    one, other = await friends(lab)
    sent = 0

    async def send_much() -> None:
        nonlocal sent
        for number in range(400):
            await one.send(number.to_bytes(2, "big") * (32 * KIB), lane="job")
            sent += 1

    sending = asyncio.create_task(send_much())
    await asyncio.wait({sending}, timeout=0.3)
    waited_at = sent
    numbers = [int.from_bytes((await got(other))[:2], "big") for _ in range(400)]
    await sending

    assert waited_at < 100
    assert numbers == list(range(400))


async def a_reader_that_never_reads_is_let_go(lab: Lab) -> None:
    one, other = await lab.end(Limits(stalled_ms=200)), await lab.end()
    here, there = await meet(one, other)
    there.trust()

    with pytest.raises(LinkClosed, match="does not read"):
        await flood(here, bytes(64 * KIB), lane="job")

    assert one.counters.stalled == 1
    await there.closed.wait()


async def a_receive_that_is_cancelled_loses_nothing(lab: Lab) -> None:
    one, other = await friends(lab)
    sent = [number.to_bytes(2, "big") * 600 for number in range(300)]

    async def send_all() -> None:
        for number, message in enumerate(sent):
            await one.send(message)
            for _ in range(number % 9):
                await asyncio.sleep(0)

    sending = asyncio.create_task(send_all())
    received: list[bytes] = []
    cancelled = 0
    while len(received) < len(sent):
        taking = asyncio.create_task(other.receive())
        await asyncio.sleep(0)
        if not taking.done():
            cancelled += 1
            if cancelled % 2:
                taking.cancel()
        try:
            message = await taking
        except asyncio.CancelledError:
            continue
        assert message is not None
        received.append(message[1])
    await sending

    assert cancelled > 1
    assert received == sent


async def a_send_that_is_cancelled_leaves_the_lane_whole(lab: Lab) -> None:
    one, other = await friends(lab)
    sending = [asyncio.create_task(one.send(bytes([n]) * (60 * KIB))) for n in range(60)]
    await asyncio.wait(sending, timeout=0.1)
    for task in sending[40:]:
        task.cancel()
    await one_after_another(other, 40)
    await one.send(b"last")

    while (message := await got(other)) != b"last":
        assert message == message[:1] * (60 * KIB)


async def one_after_another(link: Link, count: int) -> None:
    for number in range(count):
        assert await got(link) == bytes([number]) * (60 * KIB)


# Datagrams


async def datagrams_arrive_in_batches(lab: Lab) -> None:
    one, other = await friends(lab)
    await one.send(b"ready")
    await got(other)
    seen: set[bytes] = set()
    for number in range(50):
        one.send_datagram(bytes([number]))
    while len(seen) < 50:
        batch = await other.receive_datagrams()
        assert batch
        seen.update(datagram.data for datagram in batch)

    assert seen == {bytes([number]) for number in range(50)}


async def a_datagram_that_is_too_large_is_dropped_and_counted(lab: Lab) -> None:
    sender = await lab.end()
    one, other = await meet(sender, await lab.end())
    other.trust()
    one.send_datagram(bytes(5_000))
    one.send_datagram(b"small")

    assert await other.receive_datagrams() == [Datagram(b"small")]
    assert sender.counters.datagrams_dropped == 1


async def datagrams_that_nobody_reads_do_not_pile_up(lab: Lab) -> None:
    one, other = await friends(lab)
    for number in range(2_000):
        one.send_datagram(number.to_bytes(2, "big") * 300)
        if number % 50 == 0:
            await asyncio.sleep(0.001)
    await one.send(b"done")
    await got(other)

    assert 0 < len(await other.receive_datagrams()) <= 256


async def datagrams_are_handed_to_who_wants_them_when_they_come(lab: Lab) -> None:
    one, other = await friends(lab)
    one.send_datagram(b"early")
    await one.send(b"ready")
    await got(other)
    taken: asyncio.Queue[bytes] = asyncio.Queue()
    other.hand_datagrams(lambda datagram: taken.put_nowait(datagram.data))
    one.send_datagram(b"late")

    assert {await taken.get(), await taken.get()} == {b"early", b"late"}


# Closing


async def both_ends_see_the_end_and_the_last_words(lab: Lab) -> None:
    one, other = await friends(lab)
    for number in range(20):
        await one.send(bytes([number]))
    await one.close("that was it")

    assert [await got(other) for _ in range(20)] == [bytes([number]) for number in range(20)]
    assert await other.receive() is None
    assert await other.receive_datagrams() == []
    assert other.closed.is_set()
    assert (one.why_closed, other.why_closed) == ("that was it", "that was it")
    assert await one.receive() is None
    for link in (one, other):
        with pytest.raises(LinkClosed):
            await link.send(b"more")
        link.send_datagram(b"more")
        assert link.path().kind == "none"
        await link.close()


async def a_transport_that_closes_takes_its_links_along(lab: Lab) -> None:
    one, other = await lab.end(), await lab.end()
    dialled, accepted = await meet(one, other)
    await one.close()
    await one.close()

    assert await accepted.receive() is None
    assert dialled.closed.is_set()
    assert await one.accept() is None
    with pytest.raises(Unreachable):
        await one.dial(other.contact(), timeout_ms=DIAL_MS)


async def closing_waits_for_what_was_taken(lab: Lab) -> None:
    one, other = await friends(lab, Limits(farewell_ms=20_000))
    sending = [asyncio.create_task(one.send(bytes([n]) * (60 * KIB))) for n in range(60)]
    await asyncio.wait(sending, timeout=0.1)
    closing = asyncio.create_task(one.close("enough"))
    await asyncio.sleep(0)  # It has begun: who waits is refused, and the others were taken.
    taken = sum(task.done() and task.exception() is None for task in sending)
    assert 0 < taken < 60  # Nobody reads yet, and so much does not fit in between.
    refused = await asyncio.wait_for(asyncio.gather(*sending, return_exceptions=True), 5)
    await asyncio.wait({closing}, timeout=0.1)
    received = []
    while (message := await other.receive()) is not None:
        received.append(message[1])
    await closing

    assert received == [bytes([n]) * (60 * KIB) for n in range(taken)]
    assert [type(why) for why in refused] == [type(None)] * taken + [LinkClosed] * (60 - taken)
    assert one.why_closed == "enough"


async def what_comes_during_the_farewell_is_refused_and_harms_nothing(lab: Lab) -> None:
    """On each lane, the one that was used and those that were not."""
    one, other = await friends(lab, Limits(farewell_ms=20_000))
    sent = [bytes([n]) * (20 * KIB) for n in range(10)]
    for message in sent:
        await one.send(message)
    say_farewell = one._farewell

    async def say_more() -> None:
        farewell = asyncio.create_task(say_farewell())
        await asyncio.sleep(0)  # It has begun.
        late = await asyncio.gather(
            *(one.send(b"late", lane=lane) for lane in LANES), return_exceptions=True
        )
        assert [str(why) for why in late] == [str(LinkClosed(one.peer, "enough"))] * len(LANES)
        await farewell

    one._farewell = say_more
    await one.close("enough")

    assert [await got(other) for _ in sent] == sent
    assert await other.receive() is None
    assert one.why_closed == "enough"


# Dialling


async def who_is_not_there_is_unreachable_within_the_timeout(lab: Lab) -> None:
    one = await lab.end()
    loop = asyncio.get_running_loop()
    before_s = loop.time()
    with pytest.raises(Unreachable) as refused:
        await one.dial(Contact(node=NOBODY, addresses=lab.nowhere), timeout_ms=300)

    assert refused.value.peer == NOBODY
    assert loop.time() - before_s < 2
    for addresses in ((), ("no such host.:1",), ("::::",)):
        with pytest.raises(Unreachable):
            await one.dial(Contact(node=NOBODY, addresses=addresses), timeout_ms=300)
    with pytest.raises(Unreachable):
        await one.dial(one.contact(), timeout_ms=300)


async def a_dial_can_be_cancelled(lab: Lab) -> None:
    one, other = await lab.end(), await lab.end()
    dialling = asyncio.create_task(
        one.dial(Contact(node=NOBODY, addresses=lab.nowhere), timeout_ms=DIAL_MS)
    )
    await asyncio.sleep(0)
    dialling.cancel()
    await asyncio.wait({dialling})

    await meet(one, other)


async def of_two_dials_that_cross_both_ends_keep_the_same(lab: Lab) -> None:
    one, other = await lab.end(), await lab.end()
    (a, b), (c, d) = await asyncio.gather(meet(one, other), meet(other, one))

    async def kept(own: Transport, links: list[Link]) -> Link:
        facts = [LinkFacts(is_dialled=link.is_dialled, since_us=n) for n, link in enumerate(links)]
        is_second = is_better(facts[1], facts[0], own=own.id, peer=links[0].peer)
        await links[not is_second].close("twice")
        return links[is_second]

    here, there = await asyncio.gather(kept(one, [a, d]), kept(other, [c, b]))
    here.trust()
    there.trust()
    await here.send(b"still here")

    assert await got(there) == b"still here"
    assert here.is_dialled == (one.id < other.id)
    assert sum(not link.closed.is_set() for link in (a, b, c, d)) == 2


async def two_hundred_links_work_at_once(lab: Lab) -> None:
    hub = await lab.end(Limits(strangers=200, stranger_idle_ms=30_000))
    ends = [await lab.end() for _ in range(10)]
    links = [await end.dial(hub.contact(), timeout_ms=DIAL_MS) for end in ends for _ in range(20)]
    accepted = [await hub.accept() for _ in links]
    for number, link in enumerate(links):
        link.trust()
        await link.send(number.to_bytes(2, "big"))
    seen = set()
    for link in accepted:
        assert link is not None
        link.trust()
        seen.add(await got(link))
        await link.send(b"welcome")

    assert len(seen) == 200
    assert [await got(link) for link in links] == [b"welcome"] * 200


CASES = cases_in(vars()) | transport_stranger_cases.CASES
