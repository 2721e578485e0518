"""What a file can suffer: kills, full disks, damage, other versions of us."""

import asyncio
import contextlib
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from distributed_grid.edges import store as seam
from distributed_grid.edges.store import (
    AddEvent,
    JobRow,
    PutJob,
    PutLease,
    Store,
    StoreBroken,
    StoreError,
    StoreTooNew,
    StoreUnusable,
)
from distributed_grid.edges.store.migrations import APPLICATION_ID, VERSION, migrate
from distributed_grid.edges.store.sqlite import SqliteStore

ROOT = Path(__file__).resolve().parent.parent.parent
Maker = Callable[..., contextlib.AbstractAsyncContextManager[Store]]


def a_job(number: int, **what_matters) -> JobRow:
    fields = {
        "id": f"{number:064x}",
        "record": f"record {number}".encode(),
        "state": "waiting",
        "name": f"job-{number}",
        "user": "ada",
        "submitted_ms": 1_000 + number,
    }
    return JobRow(**{**fields, **what_matters})


def reopened(file: Path) -> seam.Remembered:
    async def read() -> seam.Remembered:
        store = SqliteStore(str(file))
        try:
            return await store.load_all()
        finally:
            await store.close()

    return asyncio.run(read())


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "grid.db"


@pytest.mark.rows("S4-30", "S4-69")
def test_what_was_committed_outlives_the_store(file):
    async def write() -> None:
        store = SqliteStore(str(file))
        await store.commit([PutJob(a_job(1)), PutLease("l", b"lease"), AddEvent(3, 1, b"")])
        await store.close()

    asyncio.run(write())
    first, second = reopened(file), reopened(file)

    assert (first.jobs, first.leases, first.last_event) == ((a_job(1),), {"l": b"lease"}, 3)
    assert first == second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.with_name("grid.db-wal").exists()


def test_it_is_synced_before_it_is_acknowledged(file):
    store = SqliteStore(str(file))
    try:
        assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    finally:
        asyncio.run(store.close())


def child(file: Path, mode: str, **how) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contract.store_child", str(file), mode],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        **how,
    )


@pytest.mark.slow
@pytest.mark.rows("S4-69", "S4-112", "S4-113")
@pytest.mark.parametrize("seed", range(6))
def test_everything_acknowledged_survives_a_kill_at_any_moment(file, seed):
    rng = random.Random(seed)
    acknowledged: set[int] = set()
    for writers in (1, 16):
        with child(file, str(writers)) as process:
            for _ in range(rng.randrange(1, 300)):
                acknowledged.add(int(process.stdout.readline()))
            process.send_signal(signal.SIGKILL)
            acknowledged |= {int(n) for n in process.stdout.read().split(b"\n")[:-1]}

        found = reopened(file)
        jobs = {int(job.id) for job in found.jobs}

        assert acknowledged <= jobs
        assert {int(lease) for lease in found.leases} == jobs, "half a batch"
        assert acknowledged


@pytest.mark.slow
def test_a_really_full_file_system_is_survived(tmp_path):
    """On a tmpfs of 1 MiB, in a mount namespace of its own."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare: install util-linux")
    script = 'mount -t tmpfs -o size=1m grid "$1" && exec "$2" -m tests.contract.store_child "$1/grid.db" --fill'
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            tmp_path,
            sys.executable,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    full, stored, again = done.stdout.splitlines()

    number = int(full.split()[1].rstrip(":"))
    assert "the disk is full; nothing was written" in full
    assert stored == f"stored {number}"
    assert again == f"again {number + 1} {number + 1}"


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_file_is_upgraded_with_everything_in_it(file, version):
    connection = sqlite3.connect(file, isolation_level=None)
    migrate(connection, str(file), upto=version)
    connection.execute(
        "INSERT INTO jobs VALUES (?, 'waiting', 'old', 'ada', 5, 0, ?)", ("a" * 64, b"old record")
    )
    connection.execute("INSERT INTO leases VALUES ('l', ?)", (b"old lease",))
    connection.execute("INSERT INTO meta VALUES ('node_id', ?)", (b"me",))
    connection.close()

    found = reopened(file)

    assert [(job.name, job.record) for job in found.jobs] == [("old", b"old record")]
    assert found.leases == {"l": b"old lease"}
    assert found.meta["node_id"] == b"me"
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()


def test_an_upgrade_that_fails_leaves_the_older_file(file):
    connection = sqlite3.connect(file, isolation_level=None)
    migrate(connection, str(file), upto=1)
    connection.execute("CREATE TABLE events (in_the_way)")

    with pytest.raises(StoreError):
        SqliteStore(str(file))

    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_a_newer_file_is_refused_with_a_clear_word(file):
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(StoreTooNew) as error:
        SqliteStore(str(file))

    assert (error.value.version, error.value.known) == (99, VERSION)
    assert "later Grid" in str(error.value)


def test_a_database_of_another_program_is_left_alone(file):
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE recipes (cake)")
    connection.close()
    before = file.read_bytes()

    with pytest.raises(StoreBroken, match="another program"):
        SqliteStore(str(file))

    assert file.read_bytes() == before


@pytest.mark.parametrize("harm", ["text", "header", "middle", "cut"])
def test_a_damaged_file_is_told_with_a_remedy(file, harm):
    async def write() -> None:
        store = SqliteStore(str(file))
        await store.commit([PutJob(a_job(n, record=bytes(2_000))) for n in range(200)])
        await store.close()

    asyncio.run(write())
    content = bytearray(file.read_bytes())
    if harm == "text":
        content = bytearray(b"no database at all\n" * 500)
    elif harm == "header":
        content[:16] = b"\xff" * 16
    elif harm == "middle":
        content[4_096 : len(content) // 2] = b"\xaa" * (len(content) // 2 - 4_096)
    else:
        del content[len(content) // 2 :]
    file.write_bytes(content)

    with pytest.raises(StoreBroken) as error:
        SqliteStore(str(file))

    assert "move it away" in error.value.remedy


def test_a_place_where_nothing_can_be_written_is_told(tmp_path):
    with pytest.raises(StoreUnusable, match="cannot be opened: No such file or directory"):
        SqliteStore(str(tmp_path / "nowhere" / "grid.db"))
    with pytest.raises(StoreUnusable, match="cannot be opened: Is a directory"):
        SqliteStore(str(tmp_path))


def test_a_file_that_somebody_holds_is_told(file, monkeypatch):
    monkeypatch.setattr(f"{seam.__name__}.sqlite.BUSY_S_MAX", 0)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreUnusable, match="in use by another program"):
        SqliteStore(str(file))

    holder.close()


def test_a_file_that_can_no_longer_be_read_is_told(file):
    async def read() -> None:
        store = SqliteStore(str(file))
        store._reader.close()
        try:
            with pytest.raises(StoreUnusable, match="cannot be read or written"):
                await store.jobs()
        finally:
            await store.close()

    asyncio.run(read())


def test_a_store_does_not_keep_threads_or_files_after_close(file):
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        descriptors = Path("/dev/fd")
    files, threads = len(list(descriptors.iterdir())), threading.active_count()

    reopened(file)

    assert len(list(descriptors.iterdir())) == files
    assert threading.active_count() == threads
