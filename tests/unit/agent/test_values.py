"""Large values of maps on two machines: how one gets them from the other, and when they go."""

import asyncio
import hashlib
import random
from pathlib import Path

import pytest

from distributed_grid.agent import values as module
from distributed_grid.agent.values import Values
from distributed_grid.errors import NotFound
from tests.unit.agent.luggage_lab import Lab

MAP, OTHER = "a1" * 32, "b2" * 32


class Machines:
    """Two of them."""

    def __init__(self, tmp_path):
        self.lab = Lab(tmp_path)
        self.roots = [tmp_path / "one", tmp_path / "two"]
        self.home, self.far = (
            Values(str(root), files, store, fetching)
            for root, files, store, fetching in zip(
                self.roots, self.lab.files, self.lab.stores, self.lab.fetching, strict=True
            )
        )

    def put(self, content, map_id=MAP):
        name = hashlib.sha256(content).hexdigest()
        place = self.roots[0] / "values" / map_id / name
        place.mkdir(parents=True)
        (place / "data").write_bytes(content)
        return name

    def has(self, map_id, name):
        return Path(self.home.path(map_id, name)).exists()

    async def brought(self, name, map_id=MAP):
        manifest = await self.home.packed(map_id, name)
        return Path(await self.far.brought(self.lab.home.me, manifest))


async def test_a_value_is_brought_once_however_many_ask(tmp_path):
    two = Machines(tmp_path)
    content = random.Random(7).randbytes(5_000_000)
    name = two.put(content)
    paths = await asyncio.gather(*(two.brought(name) for _ in range(4)))

    assert len(set(paths)) == 1
    assert paths[0].read_bytes() == content
    assert 5_000_000 <= two.lab.ships[1].bytes_received < 5_100_000


async def test_of_those_of_others_the_longest_unused_make_room(tmp_path, monkeypatch):
    two = Machines(tmp_path)
    monkeypatch.setattr(module, "KEPT_BYTES", 2_500)
    names = [two.put(bytes([n]) * 1_000) for n in range(3)]
    first, second = [await two.brought(name) for name in names[:2]]
    assert await two.brought(names[0]) == first
    third = await two.brought(names[2])

    assert [path.exists() for path in (first, second, third)] == [True, False, True]
    assert (await two.brought(names[1])).read_bytes() == b"\1" * 1_000


async def test_a_map_that_is_over_leaves_nothing(tmp_path):
    two = Machines(tmp_path)
    name, kept = two.put(b"one"), two.put(b"other", OTHER)
    await two.home.packed(MAP, name)
    await two.home.forget(MAP)
    await two.home.forget("../..")

    assert not two.has(MAP, name)
    assert two.has(OTHER, kept)
    assert two.lab.stores[0].status().bytes_pinned == 0


async def test_after_a_start_what_no_map_needs_goes(tmp_path, monkeypatch):
    two = Machines(tmp_path)
    monkeypatch.setattr(module, "RETURN_S", 0)
    gone, kept = two.put(b"one"), two.put(b"other", OTHER)
    old = two.roots[0] / "brought" / "old"
    old.mkdir(parents=True)
    await two.home.tidy(lambda map_id: map_id == OTHER)

    assert not two.has(MAP, gone)
    assert two.has(OTHER, kept)
    assert not old.exists()


@pytest.mark.parametrize(("map_id", "value"), [(MAP, "../x"), ("..", "c" * 64), (MAP, "c" * 64)])
async def test_nothing_else_is_sent(tmp_path, map_id, value):
    two = Machines(tmp_path)
    with pytest.raises(NotFound):
        await two.home.packed(map_id, value)


async def test_a_name_that_leads_elsewhere_is_not_brought(tmp_path):
    two = Machines(tmp_path)
    with pytest.raises(NotFound):
        await two.far.brought(two.lab.home.me, "../../elsewhere")
