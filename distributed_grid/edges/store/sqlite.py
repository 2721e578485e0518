"""The store on disk: one SQLite file in WAL mode, fully synced before anything is acknowledged.

Lives here: the file, who writes to it when, what SQLite's errors mean. Never here: the schema
(`migrations`), rows and statements (`rows`).
Invariant: batches are written in the order in which they came, by one writer at a time. Those that
come together, or while it syncs, go into one transaction, so that a hundred promises cost one sync.

Where a sync takes less than a millisecond the loop itself writes: to hand a batch to a thread and
to be told by it takes as long as the sync, and longer while both want to run Python. Where syncs
are slow, or others watch whether this agent answers, the thread writes and the loop goes on.
"""

import asyncio
import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple, TypeVar

from distributed_grid.edges.store import (
    EVENTS_KEPT,
    EVERY_JOB,
    JOBS_READ_MAX,
    Event,
    JobFilter,
    JobRow,
    Remembered,
    StoreBroken,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
    Write,
    rows,
)
from distributed_grid.edges.store.migrations import check_version, migrate

T = TypeVar("T")

GROUP_BATCHES_MAX: Final = 1_000  # In one transaction; then those who wait are told.
QUICK_S: Final = 0.002  # A write that usually takes less does not hold up the loop for long.
SLOW_S_MAX: Final = 0.008  # As which the slowest counts: a checkpoint now and then is no habit.
STUCK_S: Final = 0.1  # But this is no checkpoint: the disk is busy, or somebody holds a lock.
BUSY_S_MAX: Final = 5  # For a backup program that reads the file; agents are kept apart by a lock.
CHECK_BYTES_MAX: Final = 64 << 20  # A larger file is not checked at the start: over 0.3 s.
WAL_BYTES_KEPT: Final = 16 << 20  # After a checkpoint; a burst does not keep its space for ever.
ROOM_BYTES: Final = 2 << 20  # Of a commit with its part of the log, and as much again.
NO_SPACE_BYTES: Final = 64 << 10  # With less than this free, an I/O error means a full disk.


class _Batch(NamedTuple):
    writes: Sequence[Write]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[None]"


_Answer = tuple[_Batch, Exception | None]


class SqliteStore:
    """Opens, and if need be makes or upgrades, the file. Raises a StoreError if it cannot."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._writer = _opened(file)
        self._reader = _connected(file)
        self._at_once = _connected(file)  # For what the loop itself reads.
        self._pending: list[_Batch] = []  # Not handed to a writer yet; the loop's alone.
        self._handing: asyncio.Handle | None = None  # When they will be,
        self._handing_at_s = 0.0  # by the loop's clock.
        self._queue: SimpleQueue[list[_Batch] | None] = SimpleQueue()
        self._queued = 0  # Groups that the thread has and has not told of; the loop's alone.
        self._is_aside = False  # Others watch whether the loop answers.
        self._usual_s = 0.0  # How long a transaction takes, the last ones counting most.
        self._is_closed = False
        self._reads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-reader")
        # Not joined at exit: who dies without `close` was promised only what is on disk.
        self._thread = threading.Thread(target=self._write_all, name="store-writer", daemon=True)
        self._thread.start()

    async def commit(self, writes: Sequence[Write], *, within_s: float = 0) -> None:
        """Write a batch, durably. One for which nobody waits may wait so long for company."""
        if self._is_closed:
            raise StoreClosed(self.file)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._pending.append(_Batch(tuple(writes), loop, done))
        at_s = loop.time() + within_s
        if self._handing is None or at_s < self._handing_at_s:
            self._hand_over_never()
            self._handing_at_s = at_s if within_s else 0
            # At the soonest after those that are about to run: they may write something, too.
            handing, later = self._hand_over, loop.call_at
            self._handing = later(at_s, handing) if within_s else loop.call_soon(handing)
        await done

    def _hand_over_never(self) -> None:
        if self._handing is not None:
            self._handing.cancel()
        self._handing = None

    def _hand_over(self) -> None:
        """Have everything written that waits for it."""
        self._hand_over_never()
        group, self._pending = self._pending, []
        if not group:
            return
        if self._is_aside or self._queued or self._usual_s > QUICK_S:
            self._queued += 1
            self._queue.put(group)
        else:
            for batch, error in self._written(group):
                _settle(batch, error)

    def _thread_told(self, groups: int, answers: list[_Answer]) -> None:
        self._queued -= groups
        for batch, error in answers:
            _settle(batch, error)

    def has_room(self) -> bool:
        """By what the file system says is free."""
        return _free_bytes(self.file) >= ROOM_BYTES

    def write_aside(self) -> None:
        """Only the thread writes from now on."""
        self._is_aside = True

    async def load_all(self) -> Remembered:
        """What an agent needs at its start."""
        return await self._read(rows.load_all)

    def held(self, job_id: str) -> bytes | None:
        """A record that is kept for another node, at once; None: there is none."""
        try:
            return rows.held(self._at_once, job_id)
        except sqlite3.Error as error:
            raise _meaning(self.file, error) from error

    async def job(self, job_id: str) -> JobRow | None:
        """One job."""
        return await self._read(lambda connection: rows.job(connection, job_id))

    async def jobs(
        self,
        matching: JobFilter = EVERY_JOB,
        *,
        limit: int = JOBS_READ_MAX,
        before: tuple[int, str] | None = None,
    ) -> list[JobRow]:
        """Jobs, the newest first."""
        return await self._read(lambda connection: rows.jobs(connection, matching, limit, before))

    async def events(self, *, since_excluded: int = 0, limit: int = EVENTS_KEPT) -> list[Event]:
        """Events, the oldest first."""
        return await self._read(lambda connection: rows.events(connection, since_excluded, limit))

    async def close(self) -> None:
        """Write what is queued, and let go of the file."""
        if self._is_closed:
            return
        self._is_closed = True
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._reads.shutdown)
        self._reader.close()
        self._at_once.close()
        self._writer.close()

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._is_closed:
            raise StoreClosed(self.file)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._reads, read, self._reader)
        except sqlite3.Error as error:
            raise _meaning(self.file, error) from error

    # --- Writing: on the thread, or on the loop while the thread has nothing to do ---------------

    def _write_all(self) -> None:
        is_last = False
        while not is_last:
            first = self._queue.get()
            is_last = first is None
            groups = [first] if first else []
            while not is_last and sum(map(len, groups)) < GROUP_BATCHES_MAX:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                is_last = more is None
                groups += [more] if more else []
            if groups:
                batches = [batch for group in groups for batch in group]
                answers = self._written(batches)
                loop = batches[-1].loop
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._thread_told, len(groups), answers)

    def _written(self, group: list[_Batch]) -> list[_Answer]:
        began_s = time.monotonic()
        error = self._transaction(group)
        took_s = time.monotonic() - began_s
        if took_s >= STUCK_S:
            self._usual_s = SLOW_S_MAX
        else:
            self._usual_s += (min(took_s, SLOW_S_MAX) - self._usual_s) / 8
        if error is not None and len(group) > 1:
            # One of them spoils it: each alone tells which.
            return [(batch, self._transaction([batch])) for batch in group]
        return [(batch, error) for batch in group]

    def _transaction(self, group: list[_Batch]) -> Exception | None:
        """Write a group whole, or nothing of it and say why."""
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            for batch in group:
                rows.apply(self._writer, batch.writes)
            self._writer.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  (whatever it is, the waiting caller gets it)
            with contextlib.suppress(sqlite3.Error):  # SQLite itself may have rolled back.
                self._writer.execute("ROLLBACK")
            return _meaning(self.file, error) if isinstance(error, sqlite3.Error) else error
        return None


def _settle(batch: _Batch, error: Exception | None) -> None:
    if batch.done.done():
        return  # Whoever waited was cancelled.
    if error is None:
        batch.done.set_result(None)
    else:
        batch.done.set_exception(error)


def _opened(file: str) -> sqlite3.Connection:
    """The writer's connection to a file of the present schema, which is made if it is not there."""
    try:
        # Made by us, so that only its owner reads it; SQLite's files beside it get its rights.
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        size_bytes = os.fstat(descriptor).st_size
        os.close(descriptor)
    except OSError as error:
        raise StoreUnusable(file, f"cannot be opened: {error.strerror}") from error
    connection = _connected(file)
    try:
        # Looked at before anything is changed: it may be a later Grid's, or not ours at all.
        if size_bytes <= CHECK_BYTES_MAX:
            _check(connection, file)
        check_version(connection, file)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
        migrate(connection, file)
        rows.name_store(connection)
    except sqlite3.Error as error:
        connection.close()
        raise _meaning(file, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, file: str) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreBroken(file, verdict.splitlines()[-1])


def _connected(file: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file, timeout=BUSY_S_MAX, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = lambda text: text.decode(errors="replace")  # A damaged one, too.
    return connection


def _meaning(file: str, error: sqlite3.Error) -> StoreError:
    """What an error of SQLite means to a person."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # Without the extended part.
    if _is_read_only(file):
        return StoreReadOnly(file)  # Whatever SQLite makes of it.
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(file)):
        return StoreFull(file)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreBroken(file, str(error))
    if code == sqlite3.SQLITE_BUSY:
        return StoreUnusable(file, "is in use by another program")
    return StoreUnusable(file, f"cannot be read or written: {error}")


def _is_read_only(file: str) -> bool:
    """By trying: a file system that became so after an error does not always say it."""
    try:
        os.utime(file)
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def _is_full(file: str) -> bool:
    return _free_bytes(file) < NO_SPACE_BYTES


def _free_bytes(file: str) -> int:
    found = os.statvfs(file)  # Asked for every few messages of others.
    return 0 if found.f_flag & os.ST_RDONLY else found.f_bavail * found.f_frsize
