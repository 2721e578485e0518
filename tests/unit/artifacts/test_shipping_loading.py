"""Chunks that several peers get are read once for all of them, and not held any longer."""

import asyncio

import pytest

from distributed_grid.agent import shipping_loading
from distributed_grid.agent.shipping_loading import Loading
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.model.artifact import ASKED, CHUNK_BYTES_MAX, digest
from tests.unit.artifacts.lab import ADA, BOB, Wire, a_store, files_of, noise, plant

KIB = 1 << 10


class Counting(ChunkStore):
    """A store that tells what was read from it."""

    def __init__(self, root):
        super().__init__(root)
        self.open()
        self.read = []

    def get(self, digest):
        self.read.append(digest)
        return super().get(digest)


@pytest.fixture
def store(tmp_path):
    return Counting(str(tmp_path / "store"))


def kept(store, count, size=KIB):
    """So many chunks, each of this size, by their digests."""
    pieces = [noise(size, seed) for seed in range(count)]
    for piece in pieces:
        store.put(digest(piece), piece)
    return {digest(piece): piece for piece in pieces}


async def test_those_who_ask_at_the_same_time_share_one_read(store):
    ((name, data),) = kept(store, 1).items()
    loading = Loading(store)

    assert await asyncio.gather(*(loading.load(name) for _ in range(3))) == [data] * 3
    assert store.read == [name]


async def test_who_asks_a_little_later_gets_what_was_read(store):
    names = list(kept(store, 3))
    loading = Loading(store)
    for name in names * 3:
        await loading.load(name)

    assert store.read == names


async def test_what_is_held_is_bounded_and_the_longest_unused_goes_first(store, monkeypatch):
    monkeypatch.setattr(shipping_loading, "LOADED_BYTES_MAX", 2 * KIB)
    first, second, third = kept(store, 3)
    loading = Loading(store)
    for name in (first, second, first, third, first, third, second):
        await loading.load(name)

    assert store.read == [first, second, third, second]


async def test_a_chunk_that_is_not_here_is_looked_for_again(store):
    loading = Loading(store)
    data = noise(KIB)

    assert await loading.load(digest(data)) is None
    store.put(digest(data), data)

    assert await loading.load(digest(data)) == data


async def test_who_gives_up_does_not_take_it_from_the_others(store):
    ((name, data),) = kept(store, 1).items()
    loading = Loading(store)
    first, second = (asyncio.create_task(loading.load(name)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == data
    assert store.read == [name]


async def test_what_was_being_read_when_nothing_is_sent_any_more_is_not_held(store):
    ((name, data),) = kept(store, 1).items()
    loading = Loading(store)
    waiting = asyncio.create_task(loading.load(name))
    await asyncio.sleep(0)
    loading.forget()

    assert await waiting == data
    assert await loading.load(name) == data
    assert store.read == [name, name]


@pytest.mark.parametrize("is_withdrawn", [False, True])
async def test_nothing_is_held_once_nothing_is_sent(tmp_path, store, is_withdrawn):
    wire = Wire()
    ada = wire.plug(ADA, store)
    wire.plug(BOB, a_store(tmp_path / "bob"))
    root = plant(tmp_path / "w", {"large": noise(9 * CHUNK_BYTES_MAX)})
    name = files_of(store).pack(str(root), owner="job", amount=ASKED).id
    wire.up()
    shipment = await ada.ship(BOB, name)
    while not shipment.bytes_sent:
        await asyncio.sleep(0)
    read = store.read[-1]
    if is_withdrawn:
        ada.withdraw(BOB, name)
    await shipment.over.wait()
    await wire.close()
    before = store.read.count(read)
    await ada.loading.load(read)

    assert store.read.count(read) == before + 1
