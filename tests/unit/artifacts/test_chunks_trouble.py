"""The store of chunks on a bad day: a disk that fails for a moment, that is full, much at once."""

import errno
import os
import threading

import pytest

from distributed_grid.edges.artifacts import CacheFailed, CacheFull, chunks
from distributed_grid.model import artifact
from distributed_grid.model.artifact import ROOT, File, Manifest
from tests.unit.artifacts.lab import a_store, noise

WHY = {number: os.strerror(number) for number in (errno.EMFILE, errno.EIO, errno.EACCES)}


def put(store, seed, size=1_000, **options) -> bytes:
    data = noise(size, seed)
    store.put(artifact.digest(data), data, **options)
    return artifact.digest(data)


def a_manifest(*names: bytes) -> bytes:
    files = tuple(File(ROOT, b"%d" % n, 0o644, 1_000) for n in range(len(names)))
    sizes = (1_000,) * len(names)
    return artifact.encode(Manifest(files=files, digests=b"".join(names), sizes=sizes))


def failing(number, *, times=1, real=None):
    """A call of the system that goes wrong at first."""
    left = [times]

    def call(*words, **options):
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(number, os.strerror(number))
        return real(*words, **options)

    return call


@pytest.mark.parametrize("number", WHY)
def test_what_cannot_be_read_now_is_told_and_stays(tmp_path, monkeypatch, number):
    name = put(a_store(tmp_path), 1)
    store = a_store(tmp_path)
    monkeypatch.setattr(chunks, "open", failing(number, times=2, real=open), raising=False)

    with pytest.raises(CacheFailed, match=WHY[number]):
        store.get(name)
    with pytest.raises(CacheFailed, match=WHY[number]):
        store.lacking([name])
    assert store.get(name) == noise(1_000, 1)
    assert store.status().damaged == 0


def test_a_manifest_that_cannot_be_read_now_is_not_taken_for_gone(tmp_path, monkeypatch):
    made = a_store(tmp_path).put_manifest(a_manifest())
    store = a_store(tmp_path)
    monkeypatch.setattr(chunks, "open", failing(errno.EMFILE, real=open), raising=False)

    with pytest.raises(CacheFailed, match="Too many open files"):
        store.pin(made, "job")
    assert store.pin(made, "job")


def test_a_chunk_whose_time_cannot_be_set_is_read_all_the_same(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    name = put(store, 1)
    os.utime(tmp_path / "chunks" / name.hex(), (10**9, 10**9))
    monkeypatch.setattr(chunks.os, "utime", failing(errno.EROFS))

    assert store.get(name) == noise(1_000, 1)
    assert (tmp_path / "chunks" / name.hex()).exists()


def test_what_was_written_anew_since_it_was_missed_stays(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    name = put(store, 1)
    monkeypatch.setattr(chunks, "open", failing(errno.ENOENT, real=open), raising=False)

    assert store.get(name) is None
    assert store.get(name) == noise(1_000, 1)


def test_a_manifest_that_makes_room_for_itself_is_there_and_pinned(tmp_path):
    first = a_store(tmp_path)
    body = a_manifest(*(put(first, seed) for seed in range(3)))
    made = first.put_manifest(body)
    os.utime(tmp_path / "manifests" / made, (10**9, 10**9))  # The longest unused.
    store = a_store(tmp_path, bytes_max=first.status().bytes_used)
    store.put_manifest(body, owner="job")

    assert store.status().evicted == 1
    assert store.status().manifests == 1
    assert store.clear().chunks == 0


def test_a_manifest_that_does_not_stay_is_told(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    monkeypatch.setattr(store, "manifest", lambda _: None)  # It made room for another at once.

    with pytest.raises(CacheFailed, match="does not stay"):
        store.put_manifest(a_manifest(), owner="job")


class CountingLock:
    """A lock that knows how many files were removed while it was held."""

    def __init__(self):
        self._lock = threading.Lock()
        self.held = []

    def __enter__(self):
        self._lock.acquire()
        self.held.append(0)

    def __exit__(self, *_):
        self._lock.release()


def test_whoever_clears_lets_others_in_between(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "REMOVED_MAX", 5)
    store = a_store(tmp_path)
    for seed in range(23):
        put(store, seed, size=10)
    lock = store._lock = CountingLock()
    unlink = os.unlink

    def counted(path):
        lock.held[-1] += 1
        unlink(path)

    monkeypatch.setattr(chunks.os, "unlink", counted)
    cleared = store.clear()

    assert (cleared.chunks, cleared.bytes_removed, cleared.bytes_left) == (23, 230, 0)
    assert max(lock.held) == 5


def test_whoever_waits_while_it_is_cleared_is_heard_before_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "REMOVED_MAX", 1)
    store = a_store(tmp_path)
    for seed in range(300):
        put(store, seed, size=10)
    has_begun, unlink = threading.Event(), os.unlink

    def telling(path):
        has_begun.set()
        unlink(path)

    monkeypatch.setattr(chunks.os, "unlink", telling)
    clearing = threading.Thread(target=store.clear)
    clearing.start()
    has_begun.wait(10)
    left = store.status().chunks
    clearing.join()

    assert left > 0
    assert store.status().chunks == 0


def test_what_is_pinned_while_it_is_cleared_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "REMOVED_MAX", 1)
    store = a_store(tmp_path)
    names = [put(store, seed) for seed in range(3)]
    monkeypatch.setattr(chunks.time, "sleep", lambda _: store.keep(names[2], draft="pack"))

    assert store.clear().chunks == 2
    assert store.get(names[2]) is not None


def full_for(monkeypatch, *, times):
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC, times=times, real=os.write))


def test_on_a_full_disk_what_nobody_needs_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "SHED_BYTES", 2_000)
    store = a_store(tmp_path)
    pinned = put(store, 0, draft="pack")
    loose = [put(store, seed) for seed in range(1, 5)]
    full_for(monkeypatch, times=1)
    new = put(store, 9)

    assert store.get(new) == noise(1_000, 9)
    assert store.lacking([pinned, *loose]) == [1, 2]
    assert store.status().evicted == 2
    assert store.status().bytes_used == 4_000
    assert list((tmp_path / "drafts").iterdir()) == []


def test_on_a_disk_that_stays_full_it_is_tried_once_more_and_told(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    pinned = put(store, 0, draft="pack")
    put(store, 1)
    full_for(monkeypatch, times=2)

    with pytest.raises(CacheFull, match="the disk is full"):
        put(store, 9)
    assert store.get(pinned) is not None
    assert store.status().bytes_used == 1_000
    assert list((tmp_path / "drafts").iterdir()) == []


def test_on_a_full_disk_with_nothing_to_remove_it_is_not_tried_again(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    put(store, 0, draft="pack")
    full_for(monkeypatch, times=1)

    with pytest.raises(CacheFull, match="the disk is full"):
        put(store, 9)
