"""A manifest becomes a directory, whole or not at all, and touches nothing else."""

import os

import pytest

from distributed_grid.edges.artifacts import CannotUnpack, unpacking
from distributed_grid.model import artifact
from distributed_grid.model.artifact import (
    ASKED,
    CHUNK_BYTES_MAX,
    ROOT,
    UNASKED,
    File,
    Folder,
    Manifest,
    ManifestId,
    Symlink,
)
from tests.unit.artifacts.lab import a_store, files_of, noise, picture, plant

HOSTILE = [
    Manifest(files=(File(ROOT, b"../out", 0o644, 0),)),
    Manifest(files=(File(ROOT, b"..", 0o644, 0),)),
    Manifest(files=(File(ROOT, b"/etc/out", 0o644, 0),)),
    Manifest(folders=(Folder(ROOT, b"..", 0o755),), files=(File(0, b"out", 0o644, 0),)),
    Manifest(links=(Symlink(ROOT, b"l", b"/"),)),
    Manifest(links=(Symlink(ROOT, b"l", b".."),)),
    Manifest(
        folders=(Folder(ROOT, b"l", 0o755),),
        files=(File(0, b"out", 0o644, 0),),
        links=(Symlink(ROOT, b"l", b"x"),),
    ),
    Manifest(
        folders=(Folder(ROOT, b"x", 0o755), Folder(0, b"y", 0o755)),
        links=(Symlink(1, b"up", b"../.."), Symlink(ROOT, b"out", b"x/y/up/..")),
    ),
]


@pytest.fixture
def store(tmp_path):
    return a_store(tmp_path / "cache")


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_manifest_writes_nothing_anywhere(tmp_path, store, number):
    name = store.put_manifest(artifact.encode(HOSTILE[number]))
    before = picture(tmp_path)

    with pytest.raises(CannotUnpack):
        files_of(store).unpack(name, str(tmp_path / "deep/x"))
    assert picture(tmp_path) == before


def test_it_is_there_whole_or_not_at_all(tmp_path, store):
    root = plant(tmp_path / "w", {"a": "1", "large": noise(3 * CHUNK_BYTES_MAX), "d/b": "2"})
    (root / "d").chmod(0o555)
    packed = files_of(store).pack(str(root), owner="job", amount=UNASKED)
    lost = store.manifest(packed.id).chunks[-1]
    (tmp_path / "cache/chunks" / lost.hex()).unlink()

    with pytest.raises(CannotUnpack, match="1 of its 4 chunks") as caught:
        files_of(store).unpack(packed.id, str(tmp_path / "x"))
    assert caught.value.lacking
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "w"]


def test_what_has_no_manifest_here_is_told(tmp_path, store):
    with pytest.raises(CannotUnpack, match="manifest is not here"):
        files_of(store).unpack(ManifestId("ab" * 32), str(tmp_path / "x"))


def test_what_is_there_is_not_written_over(tmp_path, store):
    packed = files_of(store).pack(
        str(plant(tmp_path / "w", {"a": "1"})), owner="job", amount=UNASKED
    )
    plant(tmp_path / "x", {"mine": "!"})

    with pytest.raises(CannotUnpack, match="something else is there"):
        files_of(store).unpack(packed.id, str(tmp_path / "x"))
    assert (tmp_path / "x/mine").read_text() == "!"
    (tmp_path / "y").mkdir()
    files_of(store).unpack(packed.id, str(tmp_path / "y"))
    assert (tmp_path / "y/a").read_text() == "1"


def test_writing_into_a_copy_does_not_touch_the_store(tmp_path, store):
    root = plant(tmp_path / "w", {"a": noise(CHUNK_BYTES_MAX)})
    packed = files_of(store).pack(str(root), owner="job", amount=UNASKED)
    files_of(store).unpack(packed.id, str(tmp_path / "x"))
    with (tmp_path / "x/a").open("r+b") as file:
        file.write(b"changed")
    files_of(store).unpack(packed.id, str(tmp_path / "y"))

    assert (tmp_path / "y/a").read_bytes() == noise(CHUNK_BYTES_MAX)


def test_a_hole_stays_a_hole_and_is_kept_once(tmp_path, store):
    root = plant(tmp_path / "w", {})
    with (root / "sparse").open("wb") as file:
        file.seek(40 << 20)
        file.write(b"end")
        file.truncate(50 << 20)
    packed = files_of(store).pack(str(root), owner="job", amount=ASKED)
    files_of(store).unpack(packed.id, str(tmp_path / "x"))
    copy = tmp_path / "x/sparse"

    assert store.status().chunks == 2
    assert copy.stat().st_size == 50 << 20
    assert copy.stat().st_blocks * 512 < 2 << 20
    assert copy.read_bytes() == (root / "sparse").read_bytes()


def test_folders_without_rights_can_be_taken_away_again(tmp_path):
    root = plant(tmp_path / "w", {"a/b/c": "1", "a/d": "2"})
    (root / "a/b").chmod(0o500)
    (root / "a").chmod(0o500)
    unpacking.remove(os.fsencode(root))

    assert not root.exists()
