"""Two nodes and a link: files arrive whole, once, whatever happens to the link."""

import asyncio

import pytest

from distributed_grid.agent import (
    shipping,
    shipping_out,
    shipping_receiving,
)
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.agent.shipping_out import WINDOW_BYTES
from distributed_grid.edges.artifacts import CacheFull
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    ManifestId,
)
from distributed_grid.wire.artifacts import (
    Chunk,
    Kept,
    ManifestPart,
)
from tests.unit.artifacts.lab import (
    ADA,
    BOB,
    EVE,
    Wire,
    a_store,
    files_of,
    noise,
    packed,
    picture,
    plant,
    shipped,
    two_nodes,
)

TREE = {
    "src/a.py": "print(1)\n",
    "empty": "",
    "large": noise(5 * CHUNK_BYTES_MAX + 5),
    "twice": noise(5 * CHUNK_BYTES_MAX + 5),
    "link": ("src/a.py",),
}


def kinds(wire, sender) -> list[str]:
    return [type(message).__name__ for who, message in wire.said if who == sender]


async def test_files_arrive_and_are_known_to_be_safe(tmp_path):
    root = plant(tmp_path / "w", TREE)
    arrived = []
    async with two_nodes(tmp_path, arrived=lambda *what: arrived.append(what)) as (wire, ada, bob):
        name = packed(ada, root)
        assert not ada.is_safe(name, BOB)
        shipment = await shipped(wire, ada, name)
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))
        progress = shipment.progress()

        assert picture(tmp_path / "x") == picture(root)
        assert ada.is_safe(name, BOB)
        assert arrived == [(ADA, name)]
        assert (progress.state, progress.bytes_left) == ("complete", 0)
        assert progress.bytes_total == 10 * CHUNK_BYTES_MAX + 10 + 9
        # The same bytes travel once.
        assert kinds(wire, ADA).count("Chunk") == 7
        assert ada.bytes_sent == bob.bytes_received == 5 * CHUNK_BYTES_MAX + 5 + 9
        assert ada.progress() == []


async def test_the_second_time_next_to_nothing_travels(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        first = await shipped(wire, ada, name)
        assert await ada.ship(BOB, name) is first
        wire.said.clear()
        plant(root, {"src/b.py": "print(2)\n"})
        await shipped(wire, ada, packed(ada, root))

        assert kinds(wire, ADA) == ["Offer", "ManifestPart", "Chunk"]
        assert bob.chunks.status().hits == 6


async def test_what_is_there_already_is_only_confirmed(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        assert packed(bob, root) == name
        await shipped(wire, ada, name)

        assert (kinds(wire, ADA), kinds(wire, BOB)) == (["Offer"], ["Complete"])


async def test_a_job_can_run_before_its_files_are_durable(tmp_path, monkeypatch):
    root = plant(tmp_path / "w", TREE)
    synced = []
    async with two_nodes(tmp_path) as (wire, ada, bob):
        real = bob.chunks.sync
        monkeypatch.setattr(bob.chunks, "sync", lambda names: (synced.extend(names), real(names)))
        name = packed(ada, root)
        await bob.fetch(ADA, name, durable=False)
        shipment = ada.shipment(name, BOB)
        await shipment.over.wait()
        assert (shipment.state, synced, ada.is_safe(name, BOB)) == ("complete", [], False)
        assert await ada.ship(BOB, name, durable=False) is shipment
        wire.said.clear()
        await shipped(wire, ada, name)

        assert ada.is_safe(name, BOB)
        assert {*bob.chunks.manifest(name).chunks, bytes.fromhex(name)} == set(synced)
        assert (kinds(wire, ADA), kinds(wire, BOB)) == (["Offer"], ["Complete"])


async def test_what_is_under_way_can_still_become_durable(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        fetching = asyncio.get_running_loop().create_task(bob.fetch(ADA, name, durable=False))
        while not any(isinstance(message, Chunk) for _, message in wire.said):
            await asyncio.sleep(0)
        shipment = await ada.ship(BOB, name)
        await asyncio.gather(fetching, bob.fetch(ADA, name), shipment.over.wait())

        assert ada.is_safe(name, BOB)
        assert {*bob.chunks.manifest(name).chunks, bytes.fromhex(name)} <= bob.chunks._synced


async def test_an_empty_directory_arrives(tmp_path):
    root = plant(tmp_path / "w", {})
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        await shipped(wire, ada, name)
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))

    assert picture(tmp_path / "x") == picture(root)


@pytest.mark.slow
async def test_the_link_may_break_at_every_message(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path / "calm") as (wire, ada, _):
        await shipped(wire, ada, packed(ada, root))
        messages = len(wire.said)
    assert messages > 10
    for number in range(1, messages + 1):
        place = tmp_path / f"{number}"
        async with two_nodes(place) as (wire, ada, bob):
            wire.breaks_after = {number}
            name = packed(ada, root)
            shipment = await shipped(wire, ada, name)
            files_of(bob.chunks).unpack(name, str(place / "x"))
            chunks = kinds(wire, ADA).count("Chunk")

            assert shipment.state == "complete"
            assert picture(place / "x") == picture(root)
            # What was in the store is not sent again: at most a window of it is.
            assert chunks <= 7 + 7


@pytest.mark.slow
async def test_the_link_may_break_again_and_again(tmp_path):
    root = plant(tmp_path / "w", {f"{n}": noise(2 * CHUNK_BYTES_MAX, n) for n in range(20)})
    async with two_nodes(tmp_path) as (wire, ada, bob):
        wire.breaks_after = set(range(3, 120, 9))
        name = packed(ada, root)
        await shipped(wire, ada, name)
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))

        assert picture(tmp_path / "x") == picture(root)
        # How much is said between two breaks is a matter of luck; that it broke often is not.
        assert sum(number <= len(wire.said) for number in wire.breaks_after) >= 10


async def test_a_link_that_fails_after_the_next_one_is_up_stops_nothing(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, _):
        name = packed(ada, plant(tmp_path / "tree", TREE))
        stuck, gone, send = asyncio.Event(), asyncio.Event(), ada.send

        async def hanging(peer, message):
            if not isinstance(message, Chunk) or gone.is_set():
                return await send(peer, message)
            stuck.set()
            await gone.wait()  # It waits for room on a link that nobody reads any more.
            return False

        ada.send = hanging
        shipment = await ada.ship(BOB, name)
        await stuck.wait()
        wire.down()
        wire.up()
        gone.set()
        await asyncio.wait_for(shipment.over.wait(), 10)

        assert shipment.state == "complete"


async def test_while_there_is_no_link_everything_waits(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        wire.down()
        name = packed(ada, root)
        shipment = await ada.ship(BOB, name)
        fetching = asyncio.get_running_loop().create_task(bob.fetch(ADA, name))
        await asyncio.sleep(0)
        assert [one.state for one in ada.progress()] == ["offering"]
        assert wire.said == []
        wire.up()
        await asyncio.gather(shipment.over.wait(), fetching)

        assert ada.is_safe(name, BOB)


async def test_no_more_than_a_window_flies(tmp_path):
    root = plant(tmp_path / "w", {"large": noise(3 * WINDOW_BYTES)})
    async with two_nodes(tmp_path) as (wire, ada, _):
        await shipped(wire, ada, packed(ada, root))
    flying = most = 0
    for _, message in wire.said:
        if isinstance(message, Chunk):
            flying += 1
        elif isinstance(message, Kept):
            flying -= len(message.indices)
        most = max(most, flying)

    assert 2 < most <= WINDOW_BYTES // CHUNK_BYTES_MAX


# Fetching


async def test_something_is_fetched_from_who_has_it(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        await asyncio.gather(bob.fetch(ADA, name), bob.fetch(ADA, name))
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))
        await ada.shipment(name, BOB).over.wait()

        assert picture(tmp_path / "x") == picture(root)
        assert kinds(wire, BOB).count("Fetch") == 1
        assert ada.is_safe(name, BOB)


async def test_who_has_lost_it_can_fetch_it_again(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        await shipped(wire, ada, name)
        bob.chunks._pinned.clear()
        bob.chunks._pins.clear()
        bob.chunks.clear()
        await bob.fetch(ADA, name)

        assert bob.chunks.lacking(bob.chunks.manifest(name).chunks) == []


async def test_who_fetches_and_has_no_room_is_told(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path, bytes_max=2 * CHUNK_BYTES_MAX) as (_, ada, bob):
        with pytest.raises(CacheFull):
            await bob.fetch(ADA, packed(ada, root))


async def test_who_does_not_have_it_says_so(tmp_path):
    async with two_nodes(tmp_path) as (_, ada, bob):
        with pytest.raises(NotFetched, match="unknown"):
            await bob.fetch(ADA, ManifestId("ab" * 32))
        assert (await ada.ship(BOB, ManifestId("ab" * 32))).reason == "unknown"


async def test_what_was_asked_for_is_taken_however_much_comes_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping_receiving, "ARRIVALS_MAX", 1)
    async with two_nodes(tmp_path) as (_, ada, bob):
        names = [packed(ada, plant(tmp_path / f"w{n}", {f"{n}": f"{n}"})) for n in range(5)]
        await asyncio.gather(*(bob.fetch(ADA, name) for name in names))

        assert all(bob.chunks.manifest(name) is not None for name in names)


async def test_whoever_waits_for_what_is_refused_here_hears_it(tmp_path):
    options = {"admit": lambda *_: ("not-permitted", "not from you")}
    async with two_nodes(tmp_path, **options) as (_, ada, bob):
        name = packed(ada, plant(tmp_path / "w", TREE))
        with pytest.raises(NotFetched, match="not from you"):
            await bob.fetch(ADA, name)


async def test_what_two_were_asked_for_can_be_asked_of_either_again(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", TREE))
        await asyncio.gather(bob.fetch(ADA, name), bob.fetch(EVE, name))  # Eve is not there.
        bob.chunks._pinned.clear()
        bob.chunks._pins.clear()
        bob.chunks.clear()
        async with asyncio.timeout(10):
            await bob.fetch(ADA, name)

        assert kinds(wire, BOB).count("Fetch") == 2


async def test_who_has_lost_a_chunk_says_so(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (_, ada, bob):
        name = packed(ada, root)
        lost = ada.chunks.manifest(name).chunks[-1]
        (tmp_path / "ada/chunks" / lost.hex()).unlink()
        with pytest.raises(NotFetched, match="gone"):
            await bob.fetch(ADA, name)

        assert ada.shipment(name, BOB).reason == "gone"
        packed(ada, root)
        await bob.fetch(ADA, name)
        await ada.shipment(name, BOB).over.wait()
        assert ada.is_safe(name, BOB)


# Refusing


async def test_an_offer_is_refused_with_a_reason(tmp_path):
    root = plant(tmp_path / "w", TREE)
    no = ("not-permitted", "guests bring nothing")
    async with two_nodes(tmp_path, admit=lambda *_: no) as (wire, ada, _):
        shipment = await shipped(wire, ada, packed(ada, root))

        assert (shipment.state, shipment.reason, shipment.detail) == ("refused", *no)
        assert shipment.progress().bytes_left == shipment.progress().bytes_total
        assert await ada.ship(BOB, shipment.manifest_id) is not shipment


async def test_who_has_no_room_says_so(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path, bytes_max=2 * CHUNK_BYTES_MAX) as (wire, ada, bob):
        shipment = await shipped(wire, ada, packed(ada, root))

        assert shipment.reason == "full"
        assert bob.chunks.status().bytes_pinned == 0


async def test_what_is_not_wanted_any_more_is_withdrawn(tmp_path):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        fetching = asyncio.get_running_loop().create_task(bob.fetch(ADA, name))
        while not any(isinstance(message, Chunk) for _, message in wire.said):
            await asyncio.sleep(0)
        ada.withdraw(BOB, name)
        with pytest.raises(NotFetched, match="withdrawn"):
            await fetching

        assert not ada.is_safe(name, BOB)
        assert bob.chunks.status().bytes_pinned == 0
        assert ada._lanes[BOB]._shipments == {}


async def test_a_peer_that_came_back_without_its_files_is_sent_them_again(tmp_path):
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, plant(tmp_path / "w", TREE))
        await shipped(wire, ada, name)
        wire.down()
        bob.chunks.unpin(name, f"shipping:{ADA}")
        bob.chunks.clear()
        wire.up()
        assert not ada.is_safe(name, BOB)
        await shipped(wire, ada, name)

        assert ada.is_safe(name, BOB)
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))
        assert picture(tmp_path / "x") == picture(tmp_path / "w")


# Several at once


async def test_several_targets_and_several_directories_at_once(tmp_path):
    roots = [plant(tmp_path / f"w{n}", {f"{n}": noise(3_000_000, n)}) for n in range(6)]
    wire = Wire()
    ada = wire.plug(ADA, a_store(tmp_path / "ada"))
    bob = wire.plug(BOB, a_store(tmp_path / "bob"))
    wire.up()
    there = [packed(ada, root) for root in roots]
    back = [
        packed(bob, plant(tmp_path / f"v{n}", {"x": noise(3_000_000, n + 50)})) for n in range(6)
    ]
    shipments = [await ada.ship(BOB, name) for name in there]
    shipments += [await bob.ship(ADA, name) for name in back]
    await asyncio.gather(*(one.over.wait() for one in shipments))
    await wire.close()

    assert {one.state for one in shipments} == {"complete"}


async def test_places_are_few_and_everyone_gets_one(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "ACTIVE_MAX", 1)
    async with two_nodes(tmp_path) as (wire, ada, bob):
        names = [packed(ada, plant(tmp_path / f"w{n}", {"a": noise(900_000, n)})) for n in range(5)]
        shipments = [await ada.ship(BOB, name) for name in names]
        while len(bob._active) == 0:
            await asyncio.sleep(0)
        assert len(bob._active) == 1
        wire.down()
        assert len(bob._active) == 0
        assert len(bob._waiting) == 0
        wire.up()
        await asyncio.gather(*(one.over.wait() for one in shipments))

        assert len(bob._active) == 0


async def test_finished_transfers_are_forgotten_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "FINISHED_MAX", 2)
    async with two_nodes(tmp_path) as (wire, ada, _):
        names = [packed(ada, plant(tmp_path / f"w{n}", {"a": f"{n}"})) for n in range(4)]
        for name in names:
            await shipped(wire, ada, name)

        assert [ada.is_safe(name, BOB) for name in names] == [False, False, True, True]


async def test_an_error_of_the_store_while_chunks_come_is_a_refusal(tmp_path, monkeypatch):
    root = plant(tmp_path / "w", TREE)
    async with two_nodes(tmp_path) as (wire, ada, bob):

        def put(*_, **__):
            raise CacheFull(wanted=1, bytes_max=1, pinned=1, why="the disk is full")

        monkeypatch.setattr(bob.chunks, "put", put)
        shipment = await shipped(wire, ada, packed(ada, root))

        assert (shipment.reason, "the disk is full" in shipment.detail) == ("full", True)


@pytest.mark.slow
async def test_many_small_files_are_few_messages(tmp_path):
    root = tmp_path / "w"
    for folder in range(20):
        plant(root / f"{folder}", {f"{n}.txt": f"{folder} {n} " * 20 for n in range(150)})
    async with two_nodes(tmp_path) as (wire, ada, bob):
        name = packed(ada, root)
        await shipped(wire, ada, name)
        files_of(bob.chunks).unpack(name, str(tmp_path / "x"))

        assert picture(tmp_path / "x") == picture(root)
        assert len(wire.said) < 40


async def test_a_long_manifest_comes_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping_out, "PART_BYTES_MAX", 100)
    root = plant(tmp_path / "w", {f"{n:03}-{'long' * 20}": "" for n in range(20)})
    async with two_nodes(tmp_path) as (wire, ada, _):
        await shipped(wire, ada, packed(ada, root))
        offsets = [said.offset for _, said in wire.said if isinstance(said, ManifestPart)]

    assert offsets == list(range(0, 1_900, 100))
