"""A directory that a job has left is the next one's, as if it were new."""

import os

import pytest

from distributed_grid.edges.artifacts import spares
from distributed_grid.model.artifact import CHUNK_BYTES_MAX, UNASKED
from tests.unit.artifacts.lab import a_store, files_of, noise, picture, plant

TREE = {
    "run.py": "print(1)",
    "data/a": "a" * 5_000,
    "data/deep/b": "b",
    "data/large": noise(2 * CHUNK_BYTES_MAX + 7),
    "data/nothing": "",
    "empty": None,
    "link": ("data/a",),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(spares, "YOUNG_NS", -(10**9))  # As if all were written long ago.
    store = a_store(tmp_path / "cache")
    files = files_of(store)
    root = plant(tmp_path / "work", TREE)
    packed = files.pack(str(root), owner="job", amount=UNASKED)
    return store, files, root, packed.id


@pytest.fixture
def read(place, monkeypatch):
    """How many bytes were taken out of the store."""
    store, taken = place[0], []
    get = store.get

    def counted(digest):
        data = get(digest)
        taken.append(len(data or b""))
        return data

    monkeypatch.setattr(store, "get", counted)
    return taken


def nothing(_root):
    pass


def writes_in_place(root):
    (root / "data/a").write_text("x" * 5_000)


def writes_and_turns_back_the_time(root):
    before = (root / "data/a").stat()
    (root / "data/a").write_text("x" * 5_000)
    os.utime(root / "data/a", ns=(before.st_atime_ns, before.st_mtime_ns))


def exchanges(root):
    (root / "run.py").unlink()
    (root / "run.py").symlink_to("/etc/passwd")
    (root / "link").unlink()
    (root / "link").symlink_to("/etc")
    (root / "data/deep/b").unlink()
    (root / "data/deep").rmdir()
    (root / "data/deep").write_text("no folder any more")
    (root / "data/nothing").unlink()
    (root / "data/nothing").mkdir()


def adds(root):
    plant(root, {"out/log": "1", "data/.cache": "2", "more": ("/",), "empty/x": "3"})
    (root / "out").chmod(0o500)


def takes_away(root):
    for name in ("run.py", "link", "data/large", "data/nothing", "data/deep/b"):
        (root / name).unlink()
    (root / "data/deep").rmdir()
    (root / "empty").rmdir()


def changes_rights(root):
    for name in ("", "data", "run.py", "empty"):
        (root / name).chmod(0o777)


def shuts_a_folder(root):
    (root / "data").chmod(0)


def gives_other_rights(root):
    os.setxattr(root / "data", "user.note", b"1")


@pytest.mark.parametrize(
    "act",
    [nothing, writes_in_place, writes_and_turns_back_the_time, exchanges, adds, takes_away,
     changes_rights, shuts_a_folder, gives_other_rights],
)  # fmt: skip
def test_whatever_a_job_did_the_next_one_finds_its_files(place, tmp_path, act):
    _store, files, root, manifest = place
    first, second = tmp_path / "1", tmp_path / "2"
    files.unpack(manifest, str(first))
    act(first)
    files.remove(str(first))
    assert not first.exists()

    files.unpack(manifest, str(second))

    assert picture(second) == picture(root)
    assert not os.listxattr(second / "data")


def test_what_was_left_alone_is_not_written_again(place, read, tmp_path):
    _store, files, root, manifest = place
    files.unpack(manifest, str(tmp_path / "1"))
    (tmp_path / "1/data/a").write_text("other")
    files.remove(str(tmp_path / "1"))
    read.clear()

    files.unpack(manifest, str(tmp_path / "2"))

    assert 5_000 <= sum(read) < CHUNK_BYTES_MAX  # Small files share a chunk; the large one stayed.
    assert picture(tmp_path / "2") == picture(root)


def test_a_job_whose_files_differ_a_little_gets_one_too(place, read, tmp_path):
    _store, files, root, manifest = place
    files.unpack(manifest, str(tmp_path / "1"))
    was = (tmp_path / "1/data/large").stat().st_ino
    files.remove(str(tmp_path / "1"))
    plant(root, {"data/a": "A" * 5_000, "run.py": "print(2)", "new/c": "c"})
    (root / "data/deep/b").chmod(0o755)
    (root / "empty").rmdir()
    (root / "link").unlink()
    other = files.pack(str(root), owner="job", amount=UNASKED).id
    read.clear()

    files.unpack(other, str(tmp_path / "2"))

    assert picture(tmp_path / "2") == picture(root)
    assert (tmp_path / "2/data/large").stat().st_ino == was
    assert sum(read) < CHUNK_BYTES_MAX


def test_one_of_other_files_stays_for_its_own(place, tmp_path):
    _store, files, _root, manifest = place
    files.unpack(manifest, str(tmp_path / "1"))
    files.remove(str(tmp_path / "1"))
    other = plant(tmp_path / "other", {"run.py": "print(1)", "large": noise(CHUNK_BYTES_MAX, 3)})
    files.unpack(files.pack(str(other), owner="o", amount=UNASKED).id, str(tmp_path / "2"))

    assert picture(tmp_path / "2") == picture(other)
    assert len(list((tmp_path / "cache/spares").iterdir())) == 1


def test_two_jobs_at_once_never_share_one(place, tmp_path):
    _store, files, root, manifest = place
    for name in ("1", "2"):
        files.unpack(manifest, str(tmp_path / name))
    files.remove(str(tmp_path / "1"))
    files.unpack(manifest, str(tmp_path / "3"))
    (tmp_path / "3/run.py").write_text("mine")
    files.unpack(manifest, str(tmp_path / "4"))

    assert picture(tmp_path / "2") == picture(tmp_path / "4") == picture(root)


def test_a_file_so_young_that_a_change_need_not_show_is_written_again(
    place, read, tmp_path, monkeypatch
):
    _store, files, root, manifest = place
    monkeypatch.setattr(spares, "YOUNG_NS", 60 * 10**9)
    files.unpack(manifest, str(tmp_path / "1"))
    files.remove(str(tmp_path / "1"))
    read.clear()
    files.unpack(manifest, str(tmp_path / "2"))

    assert sum(read) > 2 * CHUNK_BYTES_MAX
    assert picture(tmp_path / "2") == picture(root)


def test_few_are_kept_and_none_from_an_earlier_life(place, tmp_path, monkeypatch):
    store, files, _root, manifest = place
    monkeypatch.setattr(spares, "SPARES_MAX", 2)
    for name in "1234":
        files.unpack(manifest, str(tmp_path / name))
    for name in "1234":
        files.remove(str(tmp_path / name))
    kept = tmp_path / "cache/spares"
    assert len(list(kept.iterdir())) == 2

    other = files_of(store)
    other.unpack(manifest, str(tmp_path / "5"))
    other.remove(str(tmp_path / "5"))
    assert len(list(kept.iterdir())) == 1

    other.clear()
    assert list(kept.iterdir()) == []


def test_a_large_one_and_one_with_shut_folders_are_not_kept(place, tmp_path):
    store, files, root, manifest = place
    store.bytes_max = 4 * CHUNK_BYTES_MAX
    files.unpack(manifest, str(tmp_path / "1"))
    files.remove(str(tmp_path / "1"))
    assert not (tmp_path / "cache/spares").exists()

    store.bytes_max = 1 << 30
    (root / "empty").chmod(0o500)
    shut = files.pack(str(root), owner="job", amount=UNASKED).id
    files.unpack(shut, str(tmp_path / "2"))
    files.remove(str(tmp_path / "2"))
    assert not (tmp_path / "cache/spares").exists()
    assert not (tmp_path / "2").exists()


def test_one_whose_chunks_are_gone_is_given_up(place, tmp_path):
    store, files, _root, manifest = place
    files.unpack(manifest, str(tmp_path / "1"))
    (tmp_path / "1/data/large").unlink()
    files.remove(str(tmp_path / "1"))
    store.unpin(manifest, "job")
    body = store.manifest_body(manifest)
    store.clear()
    store.put_manifest(body)

    with pytest.raises(spares.CannotUnpack):
        files.unpack(manifest, str(tmp_path / "2"))
    assert not (tmp_path / "2").exists()
    assert list((tmp_path / "cache/spares").iterdir()) == []
