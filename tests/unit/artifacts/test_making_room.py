"""A disk that is full: directories that nobody uses make room for what a job left behind."""

import pytest

from distributed_grid.edges.artifacts import CacheFull
from distributed_grid.model.artifact import ASKED
from tests.unit.artifacts.lab import a_store, files_of, noise, plant


@pytest.fixture
def world(tmp_path):
    """A directory that is kept for the next job, on a disk with room for that or for outputs."""

    class World:
        store = a_store(tmp_path / "cache")
        files = files_of(store)
        spares = tmp_path / "cache/spares"
        why = "the disk is full"

        def collect(self):
            root = plant(tmp_path / "left", {"a": noise(600_000)})
            return self.files.collect(str(root), owner="outputs", amount=ASKED, globs=("*",))

    made = World()
    packed = made.files.pack(str(plant(tmp_path / "w", {"b": "1"})), owner="j", amount=ASKED)
    made.files.unpack(packed.id, str(tmp_path / "x"))
    made.files.remove(str(tmp_path / "x"))
    put = made.store.put

    def put_where_there_is_room(digest, data, **options):
        if list(made.spares.iterdir()):
            raise CacheFull(wanted=len(data), bytes_max=1 << 30, pinned=0, why=made.why)
        put(digest, data, **options)

    made.store.put = put_where_there_is_room
    return made


def test_directories_that_are_kept_for_the_next_job_make_room_for_outputs(world):
    packed = world.collect()

    assert not world.store.lacking(world.store.manifest(packed.id).chunks)
    assert not list(world.spares.iterdir())


def test_they_stay_if_only_the_store_is_full(world):
    """They are not in it: it would be no less full without them."""
    world.why = ""
    with pytest.raises(CacheFull):
        world.collect()

    assert list(world.spares.iterdir())
