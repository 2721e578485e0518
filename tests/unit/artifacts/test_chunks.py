"""The store of chunks: bounded, verified, pinned, and still there after everything."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts import CacheFailed, CacheFull, chunks
from distributed_grid.model import artifact
from distributed_grid.model.artifact import ROOT, File, Manifest, ManifestId
from tests.unit.artifacts.lab import a_store, noise

ROOT_DIR = Path(__file__).resolve().parents[3]


def put(store, size=1_000, seed=1, **options) -> bytes:
    data = noise(size, seed)
    store.put(artifact.digest(data), data, **options)
    return artifact.digest(data)


def a_manifest(*names: bytes, size=1_000) -> bytes:
    files = tuple(File(ROOT, b"%d" % n, 0o644, size) for n in range(len(names)))
    return artifact.encode(
        Manifest(files=files, digests=b"".join(names), sizes=(size,) * len(names))
    )


def test_a_chunk_is_kept_and_found_again_by_the_next_process(tmp_path):
    name = put(a_store(tmp_path))
    again = a_store(tmp_path)

    assert again.get(name) == noise(1_000, 1)
    assert again.lacking([name, b"x" * 32]) == [1]
    assert (again.status().hits, again.status().misses, again.status().bytes_saved) == (1, 1, 1_000)


def test_the_longest_unused_makes_room(tmp_path):
    store = a_store(tmp_path, bytes_max=3_000)
    first, second, third = (put(store, seed=n) for n in range(3))
    store.get(first)
    fourth = put(store, seed=4)

    assert store.lacking([first, second, third, fourth]) == [1]
    assert store.status().evicted == 1
    assert store.status().bytes_used == 3_000
    assert len(list((tmp_path / "chunks").iterdir())) == 3


def test_the_order_of_use_survives_a_restart(tmp_path):
    store = a_store(tmp_path)
    names = [put(store, seed=n) for n in range(3)]
    for age, name in enumerate(names):
        os.utime(tmp_path / "chunks" / name.hex(), (10**9 - age, 10**9 - age))
    a_store(tmp_path).get(names[2])  # Touched: the others are older now.
    again = a_store(tmp_path, bytes_max=1_000)

    assert again.lacking(names) == [0, 1]


def test_what_is_pinned_stays_and_the_rest_is_refused(tmp_path):
    store = a_store(tmp_path, bytes_max=2_500)
    kept = put(store, seed=1)
    manifest = store.put_manifest(a_manifest(kept), owner="job")
    put(store, seed=2)
    put(store, seed=3)

    assert store.get(kept) is not None
    with pytest.raises(CacheFull) as caught:
        put(store, size=2_000, seed=4)
    assert 1_000 < caught.value.pinned < 1_200
    store.unpin(manifest, "job")
    put(store, size=2_400, seed=4)
    assert store.get(kept) is None


def test_a_pin_is_counted_by_who_needs_it(tmp_path):
    store = a_store(tmp_path)
    kept = put(store)
    manifest = store.put_manifest(a_manifest(kept), owner="one")
    store.pin(manifest, "one")
    store.pin(manifest, "two")
    store.unpin(manifest, "one")
    store.unpin(manifest, "one")
    store.unpin(ManifestId("ab" * 32), "one")

    assert store.status().bytes_pinned > 1_000
    store.unpin(manifest, "two")
    assert store.status().bytes_pinned == 0
    assert store.clear().chunks == 2


def test_chunks_that_are_still_to_come_are_pinned_before_they_come(tmp_path):
    store = a_store(tmp_path)
    data = noise(1_000)
    store.put_manifest(a_manifest(artifact.digest(data)), owner="job")
    store.put(artifact.digest(data), data)

    assert store.clear().chunks == 0


def test_a_draft_holds_what_was_put_for_it(tmp_path):
    store = a_store(tmp_path)
    put(store, draft="pack")
    put(store, draft="pack")

    assert store.clear().bytes_left == 1_000
    store.release("pack")
    store.release("pack")
    assert store.clear().bytes_left == 0


def test_what_cannot_be_pinned_is_told(tmp_path):
    store = a_store(tmp_path)

    assert not store.pin(ManifestId("ab" * 32), "job")
    assert store.manifest(ManifestId("ab" * 32)) is None
    assert store.manifest(ManifestId("../../etc")) is None


def test_a_damaged_chunk_counts_as_not_there(tmp_path):
    name = put(a_store(tmp_path))
    (tmp_path / "chunks" / name.hex()).write_bytes(noise(1_000, 9))
    store = a_store(tmp_path)

    assert store.lacking([name]) == [0]
    assert store.status().damaged == 1
    assert not (tmp_path / "chunks" / name.hex()).exists()
    put(store)
    assert store.get(name) == noise(1_000, 1)


@pytest.fixture
def digested(monkeypatch) -> list[int]:
    """How long everything was whose digest was looked at."""
    seen: list[int] = []
    plain = artifact.digest

    def digest(data):
        seen.append(len(data))
        return plain(data)

    monkeypatch.setattr(artifact, "digest", digest)
    return seen


def test_what_was_just_written_is_read_without_another_look(tmp_path, digested):
    store = a_store(tmp_path)
    name = put(store)
    digested.clear()

    assert store.get(name) == noise(1_000, 1)
    assert not digested


def test_what_somebody_wrote_to_since_is_looked_through_however_young_it_is(tmp_path):
    store = a_store(tmp_path)
    name = put(store)
    file = tmp_path / "chunks" / name.hex()
    before = file.stat()
    file.write_bytes(noise(1_000, 9))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert store.get(name) is None
    assert store.status().damaged == 1


def test_trust_ends_after_a_moment_and_begins_with_the_next_look(tmp_path, digested, monkeypatch):
    store = a_store(tmp_path)
    name = put(store)
    digested.clear()
    monkeypatch.setattr(chunks.time, "monotonic_ns", lambda: 1 << 62)

    assert store.get(name) == store.get(name) == noise(1_000, 1)
    assert digested == [1_000]


def test_only_so_many_are_trusted_the_oldest_no_more(tmp_path, digested, monkeypatch):
    monkeypatch.setattr(chunks, "TRUSTED_MAX", 2)
    store = a_store(tmp_path)
    names = [put(store, seed=seed) for seed in range(3)]
    digested.clear()

    assert [store.get(name) for name in reversed(names)] == [noise(1_000, n) for n in (2, 1, 0)]
    assert digested == [1_000]


def test_a_damaged_manifest_counts_as_not_there(tmp_path):
    name = a_store(tmp_path).put_manifest(a_manifest())
    (tmp_path / "manifests" / name).write_bytes(b"else")

    assert a_store(tmp_path).manifest(name) is None


def test_a_manifest_of_a_later_version_counts_as_not_there(tmp_path):
    store = a_store(tmp_path)
    name = store.put_manifest(artifact.encode(Manifest(version=9)))

    assert store.manifest(name) is None
    assert not store.pin(name, "job")


def test_a_chunk_that_somebody_removed_counts_as_not_there(tmp_path):
    store = a_store(tmp_path)
    name = put(store)
    (tmp_path / "chunks" / name.hex()).unlink()

    assert store.get(name) is None
    assert store.status().damaged == 0
    assert store.status().bytes_used == 0


def test_files_of_others_are_left_alone(tmp_path):
    a_store(tmp_path)
    for name in ("README", "AB" * 32, "ab" * 31):
        (tmp_path / "chunks" / name).write_text("mine")
    store = a_store(tmp_path)
    store.clear()

    assert store.status().chunks == 0
    assert len(list((tmp_path / "chunks").iterdir())) == 3


def test_a_place_that_cannot_be_used_is_told(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(CacheFailed, match="File exists"):
        a_store(tmp_path / "file")


def test_a_disk_that_does_not_write_is_told(tmp_path, monkeypatch):
    store = a_store(tmp_path)

    def rename(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(chunks.os, "rename", rename)
    with pytest.raises(CacheFailed, match="Input/output error"):
        put(store)
    assert store.status().bytes_used == 0
    assert list((tmp_path / "drafts").iterdir()) == []


def test_a_disk_that_does_not_sync_is_told(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    name = put(store)

    def fsync(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(chunks.os, "fsync", fsync)
    with pytest.raises(CacheFailed):
        store.sync([name])


def test_what_is_durable_already_is_not_synced_again(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    name = put(store)
    store.sync([name, name])
    monkeypatch.setattr(chunks.os, "fsync", None)

    store.sync([name])


def test_many_threads_at_once_agree(tmp_path):
    store = a_store(tmp_path, bytes_max=50_000)

    def work(seed):
        for number in range(60):
            name = put(store, seed=number % 20 + seed)
            assert store.get(name) in (None, noise(1_000, number % 20 + seed))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (0, 0, 5, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = sum(path.stat().st_size for path in (tmp_path / "chunks").iterdir())

    assert store.status().bytes_used == used <= 50_000


CHILD = """
import sys
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.model import artifact
store = ChunkStore(sys.argv[1]); store.open()
for number in range(10_000):
    data = number.to_bytes(4, "big") * 50_000
    store.put(artifact.digest(data), data)
    if number % 5 == 0:
        store.sync([artifact.digest(data)])
        print(artifact.digest(data).hex(), flush=True)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_writes_leaves_only_whole_chunks(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT_DIR,
    )
    told = [child.stdout.readline().strip() for _ in range(8)]
    child.send_signal(signal.SIGKILL)
    told += child.communicate()[0].split()
    (tmp_path / "drafts/7").write_text("half")
    store = a_store(tmp_path)
    found = [bytes.fromhex(path.name) for path in (tmp_path / "chunks").iterdir()]

    assert store.lacking(found) == []
    assert store.lacking([bytes.fromhex(name) for name in told if len(name) == 64]) == []
    assert store.status().damaged == 0
    assert list((tmp_path / "drafts").iterdir()) == []
