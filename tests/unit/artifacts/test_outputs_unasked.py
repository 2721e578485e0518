"""What a job changed comes back unasked: over nothing newer, and not where it could do harm."""

import errno
import os
import time
from types import SimpleNamespace

import pytest

from distributed_grid.edges.artifacts import CannotUnpack, Refused, outputs
from distributed_grid.model import artifact
from distributed_grid.model.artifact import ASKED, ROOT, File, Folder, Manifest
from tests.unit.artifacts.lab import a_store, files_of, plant

BESIDE = "grid-0123456789ab"
HOUR_NS = 3_600 * 10**9


class World:
    """A job's directory, the person's directory, and the way between."""

    def __init__(self, tmp_path):
        self.store = a_store(tmp_path / "cache")
        self.job, self.home = plant(tmp_path / "job", {}), plant(tmp_path / "home", {})
        self.files = files_of(self.store, home=str(tmp_path / "person"))

    def bring(self, *, since_ns=None, base="", **options):
        packed = self.files.collect(str(self.job), owner="job", amount=ASKED, globs=("**",))
        since_ns = time.time_ns() + HOUR_NS if since_ns is None else since_ns
        return self.files.bring(
            packed.id, str(self.home), globs=None, since_ns=since_ns, base=base, beside=BESIDE,
            **options,
        )  # fmt: skip

    def hostile(self, *paths):
        """A manifest that nobody's `collect` would make, with these paths."""
        folders, files = [], []
        for path in sorted(paths):
            *above, name = path.encode().split(b"/")
            parent = ROOT
            for step in above:
                folders.append(Folder(parent, step, 0o755))
                parent = len(folders) - 1
            files.append(File(parent, name, 0o644, 0))
        manifest = Manifest(folders=tuple(folders), files=tuple(files))
        return self.store.put_manifest(artifact.encode(manifest))

    @property
    def texts(self):
        return {
            str(path.relative_to(self.home)): path.read_text()
            for path in self.home.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_file_that_changed_here_stays_and_what_came_is_beside_it_each_time(world):
    plant(world.home, {"model": "mine"})
    for number, text in enumerate(("theirs", "again", "again"), 1):
        plant(world.job, {"model": text})
        brought = world.bring(since_ns=0)
        aside = f"model.{BESIDE}" + ("" if number == 1 else "-2")
        assert (brought.written, brought.beside) == ((), (("model", aside),))

    assert world.texts == {
        "model": "mine", f"model.{BESIDE}": "theirs", f"model.{BESIDE}-2": "again"
    }  # fmt: skip


def test_a_link_that_changed_here_stays_too(world):
    plant(world.home, {"l": ("mine",)})
    plant(world.job, {"l": ("a",), "a": ""})
    world.bring(since_ns=0)

    assert {os.readlink(world.home / name) for name in ("l", f"l.{BESIDE}")} == {"mine", "a"}  # noqa: PTH115


def test_a_long_name_is_cut_so_that_there_is_one_beside_it(world):
    name = "n" * 255
    plant(world.home, {name: "mine"})
    plant(world.job, {name: "theirs"})
    ((_, aside),) = world.bring(since_ns=0).beside

    assert (world.home / aside).read_text() == "theirs"
    assert (len(aside), aside.endswith(BESIDE)) == (255, True)


def test_a_file_that_was_only_touched_here_is_still_the_one_that_travelled(world):
    plant(world.home, {"d/in": "1", "top": "1", "longer": "1"})
    base = world.files.pack(str(world.home), owner="j", amount=ASKED).id
    for name in ("d/in", "top"):
        os.utime(world.home / name)
    plant(world.home, {"longer": "1 and more"})
    plant(world.job, {"d/in": "2", "top": "2", "longer": "2"})
    brought = world.bring(since_ns=0, base=base)

    assert sorted(brought.written) == ["d/in", "top"]
    assert [path for path, _ in brought.beside] == ["longer"]


def test_where_time_is_counted_in_seconds_a_change_in_the_second_of_submission_counts(
    world, monkeypatch
):
    plant(world.home, {"model": "mine"})
    base = world.files.pack(str(world.home), owner="j", amount=ASKED).id
    plant(world.home, {"model": "changed"})
    real = outputs._status

    def coarse(folder, name):
        seen = real(folder, name)
        if seen is None:
            return None
        second = 1_700_000_000 * 10**9
        return SimpleNamespace(st_ino=seen.st_ino, st_mode=seen.st_mode, st_size=seen.st_size,
                               st_mtime_ns=second, st_ctime_ns=second)  # fmt: skip

    monkeypatch.setattr(outputs, "_status", coarse)
    plant(world.job, {"model": "theirs"})
    brought = world.bring(since_ns=1_700_000_000_400_000_000, base=base)

    assert [path for path, _ in brought.beside] == ["model"]
    assert world.bring(since_ns=1_700_000_001_400_000_000, base=base).written == ("model",)


@pytest.mark.parametrize("words", [{}, {"overwrite": True}])
def test_what_did_not_travel_stays_and_what_came_is_beside_it(world, words):
    plant(world.home, {".gitignore": "*.db\nl", "my.db": "mine", "l": ("mine",), "in": "1"})
    base = world.files.pack(str(world.home), owner="j", amount=ASKED).id
    plant(world.job, {"my.db": "theirs", "in": "2", "l": ("in",)})
    brought = world.bring(base=base, **words)

    kept = () if words else (("my.db", f"my.db.{BESIDE}"), ("l", f"l.{BESIDE}"))
    assert (brought.beside, brought.conflicts) == (kept, ())
    assert world.texts["in"] == "2"
    assert (world.home / "my.db").read_text() == ("theirs" if words else "mine")
    named = world.files.collect(str(world.job), owner="k", amount=ASKED, globs=("my.db",)).id
    since_ns = time.time_ns() + HOUR_NS
    world.files.bring(named, str(world.home), globs=("my.db",), since_ns=since_ns)
    assert world.texts["my.db"] == "theirs"


def test_a_link_that_travelled_is_replaced(world):
    plant(world.home, {"a": "", "b": "", "l": ("a",)})
    base = world.files.pack(str(world.home), owner="j", amount=ASKED).id
    plant(world.job, {"a": "", "b": "", "l": ("b",)})

    assert world.bring(base=base).written == ("l",)


def test_what_came_from_a_job_is_replaced_by_the_next_until_somebody_changes_it(world):
    plant(world.job, {"out": "first"})
    world.bring()
    plant(world.job, {"out": "again"})
    assert world.bring().written == ("out",)
    plant(world.home, {"out": "moved"})
    os.utime(world.home / "out", ns=(1, 1))  # Nor by the length of the text.
    plant(world.job, {"out": "third"})

    assert world.bring().beside == (("out", f"out.{BESIDE}"),)
    assert world.texts["out"] == "moved"


def test_where_nothing_can_be_noted_on_a_file_the_next_one_is_beside_it(world, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(outputs.os, "setxattr", refused)
    for text in ("first", "again"):
        plant(world.job, {"out": text})
        brought = world.bring()

    assert brought.beside == (("out", f"out.{BESIDE}"),)


@pytest.mark.parametrize(
    ("here", "came", "then"),
    [(0o600, 0o666, 0o600), (0o600, 0o755, 0o700), (0o644, 0o755, 0o755), (0o755, 0o600, 0o644)],
)
def test_who_may_read_a_file_stays_so_when_it_is_replaced(world, here, came, then):
    plant(world.home, {"a": "1"})
    (world.home / "a").chmod(here)
    base = world.files.pack(str(world.home), owner="j", amount=ASKED).id
    plant(world.job, {"a": "2"})
    (world.job / "a").chmod(came)

    assert world.bring(base=base).written == ("a",)
    assert (world.home / "a").stat().st_mode & 0o7777 == then


PLACES = (".git/hooks/pre-commit", "sub/.git/config", ".ssh/authorized_keys", ".SSH/config",
          ".aws/credentials", ".kube/config", ".gnupg/gpg.conf", ".hg/hgrc")  # fmt: skip


@pytest.mark.parametrize("globs", [None, ("**",)])
@pytest.mark.parametrize("path", PLACES)
def test_nothing_is_written_into_the_places_of_keys_and_version_control(world, path, globs):
    name = world.hostile(path, "ok")
    brought = world.files.bring(name, str(world.home), globs=globs, since_ns=0, overwrite=True)

    assert [one.path for one in brought.conflicts] == [path]
    assert world.texts == {"ok": ""}


@pytest.mark.parametrize("path", [".git", "node_modules/x.js", "a/__pycache__/m.pyc"])
def test_litter_comes_only_if_it_was_asked_for(world, path):
    name = world.hostile(path)

    assert world.files.bring(name, str(world.home), globs=None, since_ns=0).written == ()
    assert world.texts == {}


STEERING = (".gridignore", "sub/.gridignore", ".gitignore", "a/b/.gitignore", "grid.toml")
SECRETS = (".env", ".ENV", "deep/server.key", ".docker/config.json")


@pytest.mark.parametrize("path", [*STEERING, *SECRETS])
def test_secrets_and_what_says_what_travels_come_only_if_they_were_named(world, path):
    name = world.hostile(path, "pyproject.toml")
    brought = world.files.bring(name, str(world.home), globs=None, since_ns=0, overwrite=True)

    assert brought.conflicts == (Refused(path, "nobody asked for it"),)
    assert world.texts == {"pyproject.toml": ""}
    asked = world.files.bring(name, str(world.home), globs=(path,), since_ns=0)
    assert asked.written == (path,)


@pytest.mark.parametrize("path", STEERING)
def test_who_fetches_all_that_a_job_left_does_not_get_what_says_what_travels(world, path):
    name = world.hostile(path, "result")
    brought = world.files.bring(name, str(world.home), globs=("**",), since_ns=-1)

    assert brought.conflicts == (Refused(path, "nobody asked for it"),)
    assert brought.written == ("result",)


def test_nothing_comes_into_an_environment_that_is_here(world):
    plant(world.home, {"env/pyvenv.cfg": ""})
    brought = world.files.bring(
        world.hostile("env/lib/site.py"), str(world.home), globs=None, since_ns=0
    )

    assert [one.why for one in brought.conflicts] == ["it belongs to a virtual environment here"]
    assert world.texts == {"env/pyvenv.cfg": ""}


@pytest.mark.parametrize("path", [".bashrc", "bin/ls", ".config/autostart/x.desktop"])
def test_into_a_home_only_plain_files_come_unasked(world, path):
    person = world.home = plant(world.home.parent / "person", {".bashrc": "mine", "bin/ls": "mine"})
    os.utime(person / ".bashrc", (1, 1))
    name = world.hostile(path, "result")
    brought = world.files.bring(name, str(person), globs=None, since_ns=time.time_ns() + HOUR_NS)

    assert brought.written == ("result",)
    assert "only plain files come to" in brought.conflicts[0].why
    assert world.texts == {".bashrc": "mine", "bin/ls": "mine", "result": ""}
    asked = world.files.bring(name, str(person), globs=("**",), since_ns=0, overwrite=True)
    assert path in asked.written


@pytest.mark.parametrize("tree", [{"a": "1234"}, {"a": "", "b": "", "l": ("a",)}])
def test_more_than_comes_back_by_itself_is_not_believed(world, monkeypatch, tree):
    monkeypatch.setattr(outputs, "RETURNED", artifact.Amount(bytes_max=3, files_max=2))
    plant(world.job, tree)
    with pytest.raises(CannotUnpack, match="more came"):
        world.bring()
    assert world.texts == {}
