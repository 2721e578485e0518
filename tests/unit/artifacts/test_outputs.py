"""Outputs come back: whole, where they belong, and over nothing that somebody changed meanwhile."""

import os
import time

import pytest

from distributed_grid.edges.artifacts import CannotUnpack, Refused, outputs
from distributed_grid.edges.artifacts.choosing import globs_of
from distributed_grid.edges.artifacts.outputs import SYNCED_MAX
from distributed_grid.errors import BadValue
from distributed_grid.model import artifact
from distributed_grid.model.artifact import ASKED, ROOT, File, Folder, Manifest, ManifestId, Symlink
from tests.unit.artifacts.lab import a_store, files_of, noise, picture, plant

ALL = ("**",)


@pytest.fixture
def store(tmp_path):
    return a_store(tmp_path / "cache")


@pytest.fixture
def world(tmp_path, store):
    """A job's directory, the person's directory, and the way between."""

    class World:
        job = plant(tmp_path / "job", {})
        home = plant(tmp_path / "home", {})
        files = files_of(store)

        def collect(self, *globs):
            return self.files.collect(str(self.job), owner="job", amount=ASKED, globs=globs)

        def bring(self, *globs, since_ns=None, overwrite=False):
            packed = self.collect(*globs)
            since_ns = time.time_ns() if since_ns is None else since_ns
            return self.files.bring(
                packed.id, str(self.home), globs=globs, since_ns=since_ns, overwrite=overwrite
            )

    return World()


@pytest.mark.parametrize(
    ("globs", "found"),
    [
        (("*.csv",), {"a.csv"}),
        (("**/*.csv",), {"a.csv", "r/b.csv", "r/s/c.csv"}),
        (("r",), {"r/b.csv", "r/s/c.csv", "r/d.txt"}),
        (("r/**",), {"r/b.csv", "r/s/c.csv", "r/d.txt"}),
        (("r/*.txt", "./a.csv"), {"r/d.txt", "a.csv"}),
        (("r/?.csv",), {"r/b.csv"}),
        (("nothing*",), set()),
        (("x/y/z",), set()),
    ],
)
def test_a_glob_names_files_and_a_folder_all_that_is_in_it(world, globs, found):
    plant(world.job, {"a.csv": "1", "r/b.csv": "2", "r/s/c.csv": "3", "r/d.txt": "4", "x/e": "5"})
    brought = world.bring(*globs)

    assert set(brought.written) == found
    assert {str(p.relative_to(world.home)) for p in world.home.rglob("*") if p.is_file()} == found


@pytest.mark.parametrize("glob", ["", "/etc/*", "../x", "a/../b", ".", "a\0b"])
def test_a_glob_outside_of_the_work_directory_is_refused(glob):
    with pytest.raises(BadValue):
        globs_of([glob])


def test_globs_are_bounded():
    with pytest.raises(BadValue, match="at most 256"):
        globs_of(["a"] * 257)


def test_outputs_come_back_as_they_were(world):
    plant(world.job, {"r/a": "1", "r/large": noise(1_300_000), "r/e": "", "r/l": ("a",)})
    (world.job / "r/a").chmod(0o755)
    world.bring(*ALL)

    assert picture(world.home / "r") == picture(world.job / "r")


def test_what_may_not_travel_is_left_out_and_told(world):
    plant(world.job, {"a": "1", "out": ("/etc",)})
    os.mkfifo(world.job / "pipe")
    packed = world.collect(*ALL)

    assert {one.path for one in packed.refused} == {"out", "pipe"}
    assert packed.files == 1


def test_ignore_files_are_not_for_outputs(world):
    plant(world.job, {"a.log": "1", ".gridignore": "*.log"})

    assert set(world.bring("*.log").written) == {"a.log"}


def test_a_file_that_changed_here_since_stays(world):
    before_ns = time.time_ns()
    plant(world.home, {"a": "mine", "b": "same"})
    plant(world.job, {"a": "theirs", "b": "same", "c": "new"})
    brought = world.bring(*ALL, since_ns=before_ns - 10**9)

    assert brought.written == ("c",)
    assert brought.unchanged == ("b",)
    why = "it has changed here since the job was submitted"
    assert brought.conflicts == (Refused("a", why),)
    assert (world.home / "a").read_text() == "mine"
    again = world.bring(*ALL, since_ns=before_ns - 10**9, overwrite=True)
    assert again.written == ("a",)
    assert (world.home / "a").read_text() == "theirs"


def test_a_file_that_is_older_than_the_job_is_replaced(world):
    plant(world.home, {"a": "old", "l": ("old",)})
    plant(world.job, {"a": "new", "l": ("a",)})
    brought = world.bring(*ALL, since_ns=time.time_ns() + 10**9)

    assert set(brought.written) == {"a", "l"}
    assert (world.home / "a").read_text() == "new"
    assert (world.home / "l").readlink().name == "a"


def test_bringing_twice_changes_nothing(world):
    plant(world.job, {"r/a": "1", "r/l": ("a",)})
    world.bring(*ALL)
    again = world.bring(*ALL, since_ns=1)

    assert again.written == ()
    assert set(again.unchanged) == {"r/a", "r/l"}


@pytest.mark.parametrize(
    ("here", "there", "path"),
    [
        ({"a": None}, {"a": "1"}, "a"),
        ({"r": "a file"}, {"r/a": "1"}, "r/a"),
        ({"a": "a file"}, {"a": ("b",)}, "a"),
        ({"a": ("b",)}, {"a": "1"}, "a"),
    ],
)
def test_what_is_of_another_kind_here_stays(world, here, there, path):
    plant(world.home, here)
    before = picture(world.home)
    plant(world.job, there)
    brought = world.bring(*ALL, since_ns=time.time_ns() + 10**9, overwrite=True)

    assert [one.path for one in brought.conflicts] == [path]
    assert picture(world.home) == before


def test_links_of_the_place_are_not_followed(world, tmp_path):
    outside = plant(tmp_path / "outside", {})
    plant(world.home, {"r": (str(outside),)})
    plant(world.job, {"r/a": "1"})
    brought = world.bring(*ALL, overwrite=True)

    assert [one.path for one in brought.conflicts] == ["r/a"]
    assert list(outside.iterdir()) == []


def test_nothing_comes_that_was_not_asked_for(world, store):
    name = store.put_manifest(
        artifact.encode(
            Manifest(
                folders=(Folder(ROOT, b"r", 0o755), Folder(ROOT, b".ssh", 0o700)),
                files=(File(0, b"a", 0o644, 0), File(1, b"authorized_keys", 0o644, 0)),
                links=(Symlink(ROOT, b"l", b"r"),),
            )
        )
    )
    brought = world.files.bring(name, str(world.home), globs=("r/*",), since_ns=0)

    assert brought.written == ("r/a",)
    assert {one.path for one in brought.conflicts} == {".ssh/authorized_keys", "l"}
    assert not (world.home / ".ssh").exists()


def test_a_file_is_replaced_whole_or_not_at_all(world, store, tmp_path):
    plant(world.home, {"a": "old"})
    plant(world.job, {"a": noise(1_300_000)})
    packed = world.collect(*ALL)
    lost = store.manifest(packed.id).chunks[-1]
    (tmp_path / "cache/chunks" / lost.hex()).unlink()

    with pytest.raises(CannotUnpack, match="a chunk is not here"):
        world.files.bring(packed.id, str(world.home), globs=ALL, since_ns=time.time_ns() + 10**9)
    assert picture(world.home).keys() == {b".", b"a"}
    assert (world.home / "a").read_text() == "old"


def test_what_is_not_here_or_has_no_place_is_told(world, tmp_path):
    plant(world.job, {"a": "1"})
    packed = world.collect(*ALL)

    with pytest.raises(CannotUnpack, match="manifest is not here"):
        world.files.bring(ManifestId("ab" * 32), str(world.home), globs=ALL, since_ns=0)
    with pytest.raises(CannotUnpack, match="No such file"):
        world.files.bring(packed.id, str(tmp_path / "gone"), globs=ALL, since_ns=0)


def test_many_files_are_synced_at_once(world, monkeypatch):
    calls = []
    monkeypatch.setattr(outputs.os, "sync", lambda: calls.append("all"))
    plant(world.job, {f"{n}": "" for n in range(SYNCED_MAX + 1)})
    world.bring(*ALL)

    assert calls == ["all"]


def test_holes_come_back_as_holes(world):
    with (world.job / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(9 << 20)
        file.write(b"middle")
        file.truncate(20 << 20)
    world.bring(*ALL)
    status = (world.home / "sparse").stat()

    assert (world.home / "sparse").read_bytes() == (world.job / "sparse").read_bytes()
    assert status.st_blocks * 512 < 4 << 20
