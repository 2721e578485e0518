"""What is wanted is asked for, however much it is; what nobody wants any more does not come."""

import asyncio

import pytest

from distributed_grid.agent import shipping, shipping_lane
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.model.artifact import CHUNK_BYTES_MAX, ManifestId
from distributed_grid.wire.artifacts import Chunk, Fetch, Offer, Refusal
from tests.unit.artifacts.lab import (
    ADA,
    BOB,
    EVE,
    a_store,
    noise,
    packed,
    plant,
    shipped,
    two_nodes,
)

MANY = 50
NAMES = [ManifestId(f"{number:064x}") for number in range(MANY)]
TEST_S = 20.0
LARGE = {"large": noise(40 * CHUNK_BYTES_MAX)}  # Five windows.


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(shipping_lane, "REPLIES_MAX", 10)
    monkeypatch.setattr(shipping_lane, "ASKED_MAX", 4)


class Silent:
    """A peer that hears everything, and says nothing by itself."""

    def __init__(self, tmp_path):
        self.heard = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.let_go = []
        self.bob = shipping.Shipping(a_store(tmp_path / "bob"), self.take)
        self.bob.hang_up = self.let_go.append
        self.bob.link_up(EVE)

    async def take(self, _, message):
        await self.reads.wait()
        self.heard.append(message)
        return True

    def asked(self):
        return [message.manifest for message in self.heard if isinstance(message, Fetch)]

    async def wait_for(self, count, kind=Fetch):
        async with asyncio.timeout(TEST_S):
            while sum(isinstance(message, kind) for message in self.heard) < count:
                await asyncio.sleep(0)
        await asyncio.sleep(0.01)  # Nor more than that.


# Asking


async def test_everything_that_is_wanted_is_asked_for(tmp_path):
    async with two_nodes(tmp_path) as (wire, _, bob):
        async with asyncio.timeout(TEST_S):
            fetches = [bob.fetch(ADA, name) for name in NAMES]
            answers = await asyncio.gather(*fetches, return_exceptions=True)

        assert [type(one) for one in answers] == [NotFetched] * MANY
        assert [one.manifest for _, one in wire.said if isinstance(one, Fetch)] == NAMES


async def test_few_questions_wait_for_an_answer_at_once_and_all_are_asked_on_the_next_link(
    tmp_path,
):
    eve = Silent(tmp_path)
    fetches = [asyncio.ensure_future(eve.bob.fetch(EVE, name)) for name in NAMES]
    await eve.wait_for(4)
    assert eve.asked() == NAMES[:4]
    eve.bob.received(EVE, Refusal(manifest=NAMES[1], reason="unknown"))
    await eve.wait_for(5)
    assert eve.asked() == NAMES[:5]
    eve.bob.link_down(EVE)
    eve.bob.link_up(EVE)
    await eve.wait_for(9)
    again = eve.asked()[5:]
    for name in NAMES:
        eve.bob.received(EVE, Refusal(manifest=name, reason="unknown"))
    async with asyncio.timeout(TEST_S):
        answers = await asyncio.gather(*fetches, return_exceptions=True)
    await eve.bob.close()

    assert again == [NAMES[0], *NAMES[2:5]]
    assert [type(one) for one in answers] == [NotFetched] * MANY


async def test_what_is_to_be_durable_after_all_is_asked_for_again(tmp_path):
    eve = Silent(tmp_path)
    fetches = [
        asyncio.ensure_future(eve.bob.fetch(EVE, NAMES[0], durable=durable))
        for durable in (False, True)
    ]
    await eve.wait_for(1)
    fetches.append(asyncio.ensure_future(eve.bob.fetch(EVE, NAMES[1], durable=False)))
    await eve.wait_for(2)
    fetches.append(asyncio.ensure_future(eve.bob.fetch(EVE, NAMES[1])))
    await eve.wait_for(3)
    await eve.bob.close()
    await asyncio.gather(*fetches, return_exceptions=True)

    said = [(one.manifest, one.is_durable) for one in eve.heard]
    assert said == [(NAMES[0], True), (NAMES[1], False), (NAMES[1], True)]


async def test_who_does_not_read_its_answers_is_let_go_and_none_is_lost(tmp_path):
    eve = Silent(tmp_path)
    eve.reads.clear()
    for name in NAMES:
        eve.bob.received(EVE, Fetch(manifest=name))
    async with asyncio.timeout(TEST_S):
        while not eve.let_go:
            await asyncio.sleep(0)
    assert eve.let_go == [EVE], "once"
    eve.reads.set()
    eve.bob.link_down(EVE)
    eve.bob.link_up(EVE)
    eve.bob.received(EVE, Fetch(manifest=NAMES[-1]))
    await eve.wait_for(2, Refusal)  # The first was on its way when it was let go.
    await eve.bob.close()

    assert [message.manifest for message in eve.heard] == [NAMES[0], NAMES[-1]]


async def test_what_is_not_wanted_any_more_is_not_asked_for(tmp_path):
    eve = Silent(tmp_path)
    fetches = [asyncio.ensure_future(eve.bob.fetch(EVE, name)) for name in NAMES]
    await eve.wait_for(4)
    await cancelled(fetches[4])
    await cancelled(fetches[0])
    await eve.wait_for(5)
    await eve.bob.close()
    await asyncio.gather(*fetches, return_exceptions=True)

    assert eve.asked() == [*NAMES[:4], NAMES[5]]


async def test_a_no_of_somebody_else_is_not_for_those_who_wait(tmp_path):
    async with two_nodes(tmp_path) as (_, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        fetching = asyncio.ensure_future(bob.fetch(ADA, name))
        await asyncio.sleep(0)
        bob.link_up(EVE)
        bob.received(EVE, Refusal(manifest=name, reason="withdrawn"))
        async with asyncio.timeout(TEST_S):
            await fetching


# Not waiting any more


async def cancelled(fetching):
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching


async def chunks_come(wire):
    while not any(isinstance(message, Chunk) for _, message in wire.said):
        await asyncio.sleep(0)


async def over(shipment):
    async with asyncio.timeout(TEST_S):
        await shipment.over.wait()
    return shipment.state


@pytest.mark.parametrize("durable", [True, False])
async def test_what_nobody_waits_for_any_more_does_not_come(tmp_path, durable):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        fetching = asyncio.ensure_future(bob.fetch(ADA, name, durable=durable))
        await chunks_come(wire)
        shipment = ada.shipment(name, BOB)
        await cancelled(fetching)
        assert await over(shipment) == "refused"
        ada.chunks.unpin(name, "job")

        assert sum(isinstance(message, Chunk) for _, message in wire.said) < 40
        assert bob.chunks.status().bytes_pinned == ada.chunks.status().bytes_pinned == 0
        assert (bob.coming(name), bob._active) == (None, set())
        async with asyncio.timeout(TEST_S):
            await bob.fetch(ADA, name)


async def test_as_long_as_one_waits_it_comes(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        one, other = (asyncio.ensure_future(bob.fetch(ADA, name)) for _ in range(2))
        await chunks_come(wire)
        await cancelled(one)
        await other

        assert sum(isinstance(message, Refusal) for _, message in wire.said) == 0


async def test_who_waits_for_it_again_in_the_same_breath_loses_nothing(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        one = asyncio.ensure_future(bob.fetch(ADA, name))
        await chunks_come(wire)
        one.cancel()
        other = asyncio.ensure_future(bob.fetch(ADA, name))
        async with asyncio.timeout(TEST_S):
            await other

        assert sum(isinstance(message, Refusal) for _, message in wire.said) == 0


async def test_a_copy_to_keep_comes_though_nobody_waits_for_it_any_more(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        shipment = await ada.ship(BOB, name)
        fetching = asyncio.ensure_future(bob.fetch(ADA, name, durable=False))
        await chunks_come(wire)
        await cancelled(fetching)

        assert await over(shipment) == "complete"


async def test_an_answer_that_comes_too_late_is_refused(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        fetching = asyncio.ensure_future(bob.fetch(ADA, name, durable=False))
        while not any(isinstance(message, Offer) for _, message in wire.said):
            await asyncio.sleep(0)
        await cancelled(fetching)

        assert await over(ada.shipment(name, BOB)) == "refused"
        assert not any(isinstance(message, Chunk) for _, message in wire.said)


async def test_who_gives_up_while_there_is_no_link_holds_nothing(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        fetching = asyncio.ensure_future(bob.fetch(ADA, name, durable=False))
        await chunks_come(wire)
        shipment = ada.shipment(name, BOB)
        wire.down()
        await cancelled(fetching)
        async with asyncio.timeout(TEST_S):
            while bob.chunks.status().bytes_pinned:
                await asyncio.sleep(0)
        wire.up()

        assert await over(shipment) == "refused"
        assert bob.chunks.status().bytes_pinned == 0


async def test_what_was_given_up_as_the_link_broke_is_let_go_on_the_next_one(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        fetching = asyncio.ensure_future(bob.fetch(ADA, name, durable=False))
        await chunks_come(wire)
        shipment = ada.shipment(name, BOB)
        fetching.cancel()
        await asyncio.sleep(0)
        wire.down()
        assert bob.chunks.status().bytes_pinned > 0
        wire.up()

        assert await over(shipment) == "refused"
        assert bob.chunks.status().bytes_pinned == 0


async def test_who_wants_it_again_at_once_gets_it(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", LARGE))
        for _ in range(5):
            fetching = asyncio.ensure_future(bob.fetch(ADA, name, durable=False))
            await asyncio.sleep(0.002)
            await cancelled(fetching)
        async with asyncio.timeout(TEST_S):
            await bob.fetch(ADA, name, durable=False)
        wire.said.clear()

        assert (await shipped(wire, ada, name)).state == "complete"
