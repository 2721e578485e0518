"""Somebody works in a directory while outputs are brought there, or was cut short in it before."""

import errno
import os
import time

import pytest

from distributed_grid.edges.artifacts import CannotUnpack, Refused, outputs
from distributed_grid.edges.artifacts.outputs import CHANGED
from distributed_grid.edges.artifacts.walking import is_draft
from distributed_grid.model.artifact import ASKED
from tests.unit.artifacts.lab import a_store, files_of, noise, picture, plant

HOUR_NS = 3_600 * 10**9
LEFT = ".grid-draft-" + "0123456789abcdef" * 2


class World:
    """A job's directory, the person's directory, and the way between."""

    def __init__(self, tmp_path):
        self.store = a_store(tmp_path / "cache")
        self.files = files_of(self.store)
        self.job = plant(tmp_path / "job", {})
        self.home = plant(tmp_path / "home", {})

    def bring(self, *, since_ns, overwrite=False):
        packed = self.files.collect(str(self.job), owner="job", amount=ASKED, globs=("**",))
        return self.files.bring(
            packed.id, str(self.home), globs=("**",), since_ns=since_ns, overwrite=overwrite
        )

    def meanwhile(self, work):
        """Do something while the bytes of a file are written, once."""
        get, todo = self.store.get, [work]

        def meddling(digest):
            while todo and any(is_draft(os.fsencode(one.name)) for one in self.home.iterdir()):
                todo.pop()()
            return get(digest)

        self.store.get = meddling


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture(params=["links", "no links"])
def links(request, monkeypatch):
    """Not every file system has hard links."""
    if request.param == "no links":

        def refused(*_, **__):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(outputs.os, "link", refused)


def now_ns():
    """What was written before is older, whatever the clock of the file system."""
    return time.time_ns() + HOUR_NS


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("before", [{}, {"result": "old"}])
def test_what_somebody_writes_while_its_output_is_written_stays(world, before):
    plant(world.home, before)
    plant(world.job, {"result": noise(1_300_000)})
    world.meanwhile(lambda: plant(world.home, {"result": "new work"}))
    brought = world.bring(since_ns=now_ns())

    assert brought.conflicts == (Refused("result", CHANGED),)
    assert brought.written == ()
    assert (world.home / "result").read_text() == "new work"
    assert [one.name for one in world.home.iterdir()] == ["result"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_was_not_there_a_moment_ago_is_replaced_only_where_that_was_wanted(
    world, monkeypatch, overwrite
):
    plant(world.job, {"result": "theirs"})
    real = os.link

    def late(*words, **options):
        plant(world.home, {"result": "new work"})
        real(*words, **options)

    monkeypatch.setattr(outputs.os, "link", late)
    brought = world.bring(since_ns=now_ns(), overwrite=overwrite)

    assert (len(brought.written), len(brought.conflicts)) == (overwrite, not overwrite)
    assert (world.home / "result").read_text() == ("theirs" if overwrite else "new work")
    assert [one.name for one in world.home.iterdir()] == ["result"]


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("before", [{}, {"result": "old"}])
def test_it_is_replaced_where_that_was_wanted(world, before):
    plant(world.home, before)
    plant(world.job, {"result": noise(1_300_000)})
    world.meanwhile(lambda: plant(world.home, {"result": "new work"}))
    brought = world.bring(since_ns=now_ns(), overwrite=True)

    assert brought.written == ("result",)
    assert picture(world.home)[b"result"] == picture(world.job)[b"result"]
    assert (world.home / "result").stat().st_nlink == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_somebody_makes_meanwhile_is_in_the_way_of_that_file_only(world, overwrite):
    plant(world.job, {"a": noise(1_300_000), "b": noise(1_300_000, 2)})  # In this order.
    world.meanwhile(lambda: plant(world.home, {"a": None}))
    brought = world.bring(since_ns=now_ns(), overwrite=overwrite)

    assert brought.conflicts == (Refused("a", "something that is no file is there"),)
    assert brought.written == ("b",)


@pytest.mark.usefixtures("links")
def test_what_somebody_removes_meanwhile_comes(world):
    plant(world.home, {"result": "old"})
    plant(world.job, {"result": noise(1_300_000)})
    world.meanwhile((world.home / "result").unlink)

    assert world.bring(since_ns=now_ns()).written == ("result",)
    assert [one.name for one in world.home.iterdir()] == ["result"]


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("before", [{}, {"l": ("old",)}])
def test_so_with_symbolic_links(world, before, monkeypatch):
    plant(world.home, before)
    plant(world.job, {"a": "1", "l": ("a",)})
    real = os.symlink

    def meddling(target, name, **options):
        real(target, name, **options)
        monkeypatch.setattr(outputs.os, "symlink", real)
        (world.home / "l").unlink(missing_ok=True)
        plant(world.home, {"l": ("mine",)})

    monkeypatch.setattr(outputs.os, "symlink", meddling)
    brought = world.bring(since_ns=now_ns())

    assert brought.conflicts == (Refused("l", CHANGED),)
    assert (world.home / "l").readlink().name == "mine"
    assert {one.name for one in world.home.iterdir()} == {"a", "l"}


# Drafts


def test_no_two_drafts_have_the_same_name_and_none_is_left(world, monkeypatch):
    """A process that has the number of one that died would else find what that left behind."""
    plant(world.job, {"a": "1", "b": "2"})
    real, names = os.open, []

    def open_(path, flags, *words, **options):
        if flags & os.O_EXCL and options.get("dir_fd") is not None:
            names.append(path)
        return real(path, flags, *words, **options)

    monkeypatch.setattr(outputs.os, "open", open_)
    world.bring(since_ns=now_ns())

    assert len(set(names)) == 2
    assert all(is_draft(name) for name in names)
    assert {one.name for one in world.home.iterdir()} == {"a", "b"}


def test_a_draft_goes_with_what_stopped_it(world):
    plant(world.job, {"a": noise(1_300_000), "b": noise(1_300_000, 2)})

    def stop():
        raise OSError(errno.ENOSPC, "No space left on device")

    world.meanwhile(stop)
    why = "No space left on device, after 0 of 2 files were written"
    with pytest.raises(CannotUnpack, match=why):
        world.bring(since_ns=now_ns())

    assert list(world.home.iterdir()) == []


def test_what_was_written_before_the_disk_was_full_is_counted(world, monkeypatch):
    plant(world.job, {"a": "1", "b": "2", "c": "3"})
    real = outputs._write

    def write(descriptor, view):
        if view == b"3":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, view)

    monkeypatch.setattr(outputs, "_write", write)
    with pytest.raises(CannotUnpack, match="No space left on device, after 2 of 3 files"):
        world.bring(since_ns=now_ns())

    assert {one.name for one in world.home.iterdir()} == {"a", "b"}


def test_drafts_of_a_life_that_was_cut_short_do_not_travel(world):
    plant(world.home, {"a": "1", LEFT: "half", f"d/{LEFT}": ("half",), f"{LEFT}.txt": "mine"})
    packed = world.files.pack(str(world.home), owner="j", amount=ASKED)
    manifest = world.store.manifest(packed.id)

    assert {file.name.decode() for file in manifest.files} == {"a", f"{LEFT}.txt"}
    assert manifest.links == ()


def test_old_ones_go_when_outputs_are_brought_there(world):
    young = LEFT.replace("0", "f")
    plant(world.home, {LEFT: "half", young: "being written", f"d/{LEFT}": "half"})
    plant(world.home, {"other/" + LEFT: "half", ".grid-draft-of-a-letter": "mine"})
    for path in world.home.rglob(".grid-draft-*"):
        if path.name != young:
            os.utime(path, ns=(1, 1))
    plant(world.job, {"a": "1", "d/b": "2"})
    world.bring(since_ns=now_ns())

    assert {str(one.relative_to(world.home)) for one in world.home.rglob("*")} == {
        "a", "d", "d/b", young, "other", "other/" + LEFT, ".grid-draft-of-a-letter",
    }  # fmt: skip
