"""What a job made or changed in its copy of a directory is found, and nothing else."""

import os

import pytest

from distributed_grid.edges.artifacts import changes, spares
from distributed_grid.model.artifact import ASKED, RETURNED, Amount
from tests.unit.artifacts.lab import a_store, files_of, noise, plant

TREE = {"in.txt": "one", "same": "same", "lib/a": "a", "lib/deep/b": "b", "l": ("in.txt",)}


class Place:
    """A directory as a job got it."""

    def __init__(self, tmp_path):
        self.store = a_store(tmp_path / "cache")
        self.files = files_of(self.store)
        work = plant(tmp_path / "work", TREE)
        self.base = self.files.pack(str(work), owner="job", amount=ASKED).id
        self.job = tmp_path / "job"
        self.files.unpack(self.base, str(self.job))

    def changed(self, *globs, amount=RETURNED, files=None):
        found = (files or self.files).changed(
            str(self.job), base=self.base, amount=amount, globs=globs
        )
        self.left = {os.fsdecode(path) for path in found.left}
        return {os.fsdecode(path) for path in found.coming}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(params=["remembered", "after a restart"])
def agent(request, place):
    """Who looks: one that remembers how the files looked, or one that has only the manifest."""
    return place.files if request.param == "remembered" else files_of(place.store)


def test_of_a_job_that_wrote_nothing_nothing_comes(place, agent):
    assert place.changed(files=agent) == set()


def test_what_was_made_or_changed_comes_and_what_only_looks_so_does_not(place, agent):
    plant(place.job, {"in.txt": "two", "new/er/c": "", "lib/d": "d", "lib/deep/b": "b"})
    (place.job / "same").touch()
    (place.job / "l").unlink()
    (place.job / "l").symlink_to("same")
    (place.job / "lib/a").unlink()
    found = place.changed(files=agent)

    assert found == {"in.txt", "new/er/c", "lib/d", "l"}


def test_what_was_one_thing_and_is_another_comes(place, agent):
    (place.job / "same").unlink()
    plant(place.job, {"same/inside": "x"})
    (place.job / "lib/deep/b").unlink()
    (place.job / "lib/deep").rmdir()
    plant(place.job, {"lib/deep": "no folder"})
    (place.job / "in.txt").unlink()
    (place.job / "in.txt").symlink_to("same")

    assert place.changed(files=agent) == {"same/inside", "lib/deep", "in.txt"}


def test_litter_and_what_belongs_to_git_or_keys_stays_unless_litter_is_asked_for(place):
    litter = {"__pycache__/x.pyc": "", ".venv/pyvenv.cfg": "", ".venv/lib/y": "", ".git/hooks/z": "",
              ".SSH/authorized_keys": "", "node_modules/a": "", "ok": ""}  # fmt: skip
    plant(place.job, litter)

    assert place.changed() == {"ok"}
    assert place.changed("__pycache__/**", ".venv") == {
        "__pycache__/x.pyc", ".venv/pyvenv.cfg", ".venv/lib/y"
    }  # fmt: skip


def test_globs_narrow_it_to_what_has_changed(place):
    plant(place.job, {"in.txt": "two", "out/a.csv": "", "junk": ""})

    assert place.changed("*.txt", "out/**", "same") == {"in.txt", "out/a.csv"}


@pytest.mark.parametrize(
    ("amount", "coming"),
    [(Amount(bytes_max=10, files_max=9), {"a", "b"}), (Amount(bytes_max=99, files_max=1), {"a"})],
)
def test_of_too_much_the_smallest_come_and_the_rest_is_left(place, amount, coming):
    plant(place.job, {"a": "1", "b": "22", "c": "x" * 50})

    assert place.changed(amount=amount) == coming
    assert coming | place.left == {"a", "b", "c"}


def test_many_files_are_counted_and_not_refused(place):
    plant(place.job, {f"out/{number}": "" for number in range(2_000)})
    found = place.changed(amount=Amount(bytes_max=1 << 20, files_max=500))

    assert (len(found), len(place.left)) == (500, 1_500)


def test_pipes_and_sockets_are_noted_so_that_somebody_says_why_they_stay(place):
    os.mkfifo(place.job / "pipe")
    os.mkfifo(place.job / "lib/pipe")
    (place.job / "in.txt").unlink()
    os.mkfifo(place.job / "in.txt")

    assert place.changed() == {"pipe", "lib/pipe", "in.txt"}


def test_what_vanishes_while_it_is_looked_at_is_not_there(place, monkeypatch):
    plant(place.job, {"gone": "1", "dir/x": "1", "stays": "1"})
    real = changes.Comparing._note

    def note(self, *words):
        (place.job / "gone").unlink(missing_ok=True)
        (place.job / "same").unlink(missing_ok=True)
        real(self, *words)
        if words[1] == b"dir":
            (place.job / "dir/x").unlink()
            (place.job / "dir").rmdir()

    monkeypatch.setattr(changes.Comparing, "_note", note)
    found = place.changed()

    assert "stays" in found
    assert "same" not in found


def test_a_directory_that_is_gone_is_an_error_of_its_own(place):
    place.files.remove(str(place.job))
    with pytest.raises(FileNotFoundError):
        place.changed()


def test_where_time_is_counted_in_seconds_a_change_in_the_same_second_is_found(place, monkeypatch):
    def by_the_second(status):
        second = 10**9
        return (status.st_ino, status.st_mode, status.st_size,
                status.st_mtime_ns // second * second, 1_700_000_000 * second)  # fmt: skip

    for module in (changes, spares):
        monkeypatch.setattr(module, "look_of", by_the_second)
    monkeypatch.setattr(spares.time, "time_ns", lambda: 1_700_000_000_500_000_000)
    place.files.remove(str(place.job))
    place.files.unpack(place.base, str(place.job))
    assert place.changed() == set()
    before = (place.job / "same").stat()
    (place.job / "same").write_text("SAME")
    os.utime(place.job / "same", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert place.changed() == {"same"}
    place.files.remove(str(place.job))
    place.files.unpack(place.base, str(place.job))
    assert (place.job / "same").read_text() == "same"


def test_what_was_unpacked_looks_older_than_whatever_a_job_does(place):
    (place.job / "new").touch()
    times = {path.stat().st_mtime_ns for path in place.job.rglob("*") if path.is_file()}
    unpacked = times - {(place.job / "new").stat().st_mtime_ns}

    assert (place.job / "new").stat().st_mtime_ns - max(unpacked) > 5 * 10**9


def test_a_chunk_that_is_gone_makes_a_file_count_as_changed(place):
    other = files_of(place.store)
    place.store.unpin(place.base, "job")
    body = place.store.manifest_body(place.base)
    place.store.clear()
    place.store.put_manifest(body)

    assert place.changed(files=other) == {"in.txt", "same", "lib/a", "lib/deep/b"}


def test_a_manifest_that_is_gone_makes_everything_new(place):
    place.store.unpin(place.base, "job")
    place.store.clear()

    assert "in.txt" in place.changed(files=files_of(place.store))


def test_a_large_file_that_changed_at_its_end_is_found(tmp_path):
    place = Place(tmp_path)
    plant(tmp_path / "work", {"large": noise(1_300_000)})
    place.base = place.files.pack(str(tmp_path / "work"), owner="job", amount=ASKED).id
    place.job = tmp_path / "job2"
    place.files.unpack(place.base, str(place.job))
    with (place.job / "large").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0")

    assert place.changed() == place.changed(files=files_of(place.store)) == {"large"}
