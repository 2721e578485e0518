"""What every store promises, asked of each."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from distributed_grid.edges import store as seam
from distributed_grid.edges.store import (
    STORE_ID,
    AddEvent,
    DropHeld,
    DropJob,
    DropLease,
    DropMeta,
    Event,
    ForgetFinished,
    JobFilter,
    JobRow,
    PutHeld,
    PutJob,
    PutLease,
    SetMeta,
    Store,
    StoreClosed,
    StoreFull,
)
from distributed_grid.edges.store import sqlite as sqlite_module
from distributed_grid.edges.store.memory import MemoryStore
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


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path) -> Maker:
    """A context with a store in it; `pages` is the size of its disk, in pages of 4 KiB."""

    @contextlib.asynccontextmanager
    async def opened(pages: int | None = None) -> AsyncIterator[Store]:
        if request.param == "memory":
            store: Store = MemoryStore(bytes_max=None if pages is None else pages * 2_048)
        else:
            made = SqliteStore(str(tmp_path / "grid.db"))
            if pages is not None:
                made._writer.execute(f"PRAGMA max_page_count = {pages}")
            store = made
        try:
            yield store
        finally:
            await store.close()

    return opened


def asking(open_store: Maker, ask, **how) -> None:
    async def run() -> None:
        async with open_store(**how) as store:
            await ask(store)

    asyncio.run(run())


def test_what_was_dropped_is_not_read_back(open_store):
    async def ask(store: Store) -> None:
        await store.commit(
            [PutJob(a_job(1)), PutLease("l", b"lease"), SetMeta("m", b"x"), PutHeld("h", b"held")]
        )
        drops = [DropJob(a_job(1).id), DropLease("l"), DropMeta("m"), DropHeld("h")]
        await store.commit([*drops, *drops])

        found = await store.load_all()

        assert (found.jobs, found.leases, found.held) == ((), {}, {})
        assert "m" not in found.meta

    asking(open_store, ask)


@pytest.mark.rows("S4-30")
def test_what_was_committed_is_read_back(open_store):
    async def ask(store: Store) -> None:
        first, second = a_job(1), a_job(2, state="running")
        await store.commit([PutJob(second), PutJob(first), PutLease("l", b"\x00lease")])
        await store.commit([SetMeta("node_id", b"me"), AddEvent(7, 70, b"seven")])

        found = await store.load_all()

        assert found.jobs == (first, second)
        assert found.leases == {"l": b"\x00lease"}
        assert found.meta["node_id"] == b"me"
        assert len(found.meta[STORE_ID]) == 16
        assert found.last_event == 7
        assert await store.job(first.id) == first
        assert await store.job("nothing") is None

    asking(open_store, ask)


def test_an_empty_store_is_empty_and_an_empty_batch_is_fine(open_store):
    async def ask(store: Store) -> None:
        await store.commit([])
        found = await store.load_all()

        assert (found.jobs, found.leases, found.last_event) == ((), {}, 0)
        assert await store.jobs() == []
        assert await store.events() == []

    asking(open_store, ask)


def test_a_job_and_a_lease_can_be_written_again_and_dropped(open_store):
    async def ask(store: Store) -> None:
        await store.commit([PutJob(a_job(1)), PutJob(a_job(2)), PutLease("l", b"old")])
        await store.commit([PutJob(a_job(1, state="running")), PutLease("l", b"new")])
        assert (await store.job(a_job(1).id)).state == "running"
        assert (await store.load_all()).leases == {"l": b"new"}

        await store.commit([DropJob(a_job(1).id), DropLease("l"), DropJob("no"), DropLease("no")])

        assert await store.jobs() == [a_job(2)]
        assert (await store.load_all()).leases == {}

    asking(open_store, ask)


def test_finished_jobs_are_listed_but_not_loaded_and_the_oldest_are_forgotten(open_store):
    async def ask(store: Store) -> None:
        finished = [a_job(n, state="succeeded", is_finished=True) for n in range(5)]
        await store.commit([PutJob(job) for job in finished] + [PutJob(a_job(9))])

        assert (await store.load_all()).jobs == (a_job(9),)
        await store.commit([ForgetFinished(2)])
        assert await store.jobs() == [a_job(9), finished[4], finished[3]]
        await store.commit([ForgetFinished(0)])
        assert await store.jobs() == [a_job(9)]

    asking(open_store, ask)


@pytest.mark.parametrize(
    ("matching", "numbers"),
    [
        (JobFilter(), [4, 3, 2, 1]),
        (JobFilter(states=("running", "failed")), [3, 1]),
        (JobFilter(states=()), []),
        (JobFilter(name="twin"), [4, 2]),
        (JobFilter(user="bob"), [2]),
        (JobFilter(is_finished=True), [1]),
        (JobFilter(is_finished=False, name="twin"), [4, 2]),
        (JobFilter(id_prefix="0" * 63 + "3"), [3]),
        (JobFilter(id_prefix="0" * 60), [4, 3, 2, 1]),
        (JobFilter(id_prefix="f"), []),
        (JobFilter(id_digits=64), [4, 3, 2, 1]),
        (JobFilter(id_digits=32), []),
        (JobFilter(ids=(f"{2:064x}", "f" * 64)), [2]),
        (JobFilter(ids=()), []),
    ],
)
def test_jobs_are_filtered_newest_first(open_store, matching, numbers):
    async def ask(store: Store) -> None:
        jobs = {
            1: a_job(1, state="failed", is_finished=True),
            2: a_job(2, name="twin", user="bob"),
            3: a_job(3, state="running"),
            4: a_job(4, name="twin"),
        }
        await store.commit([PutJob(job) for job in jobs.values()])

        assert await store.jobs(matching) == [jobs[number] for number in numbers]

    asking(open_store, ask)


def test_jobs_come_page_by_page_also_where_times_are_equal(open_store):
    async def ask(store: Store) -> None:
        await store.commit([PutJob(a_job(n, submitted_ms=5)) for n in range(7)])
        seen, before = [], None
        while page := await store.jobs(limit=3, before=before):
            seen += page
            before = (page[-1].submitted_ms, page[-1].id)

        assert seen == [a_job(n, submitted_ms=5) for n in reversed(range(7))]

    asking(open_store, ask)


def test_events_are_kept_within_bounds(open_store, monkeypatch):
    for module in ("memory", "rows"):
        monkeypatch.setattr(f"{seam.__name__}.{module}.EVENTS_KEPT", 3)

    async def ask(store: Store) -> None:
        for number in range(1, 6):
            await store.commit([AddEvent(number, number * 10, b"e")])

        assert await store.events() == [Event(3, 30, b"e"), Event(4, 40, b"e"), Event(5, 50, b"e")]
        assert await store.events(since_excluded=4) == [Event(5, 50, b"e")]
        assert await store.events(limit=1) == [Event(3, 30, b"e")]
        assert (await store.load_all()).last_event == 5

    asking(open_store, ask)


def test_batches_from_many_tasks_are_all_written(open_store):
    async def ask(store: Store) -> None:
        jobs = [a_job(n) for n in range(300)]
        await asyncio.gather(*(store.commit([PutJob(job)]) for job in jobs))

        assert await store.jobs() == jobs[::-1]

    asking(open_store, ask)


def test_later_batches_win(open_store):
    async def ask(store: Store) -> None:
        await asyncio.gather(*(store.commit([SetMeta("n", str(n).encode())]) for n in range(100)))

        assert (await store.load_all()).meta["n"] == b"99"

    asking(open_store, ask)


def test_a_full_disk_writes_nothing_and_works_again_when_there_is_space(open_store):
    async def ask(store: Store) -> None:
        await store.commit([PutJob(a_job(1))])
        big = [PutJob(a_job(2)), PutJob(a_job(3, record=b"x" * 400_000))]
        with pytest.raises(StoreFull) as full:
            await store.commit(big)
        assert "full" in full.value.message
        assert full.value.remedy

        assert await store.jobs() == [a_job(1)]
        await store.commit([PutJob(a_job(4))])
        assert await store.jobs() == [a_job(4), a_job(1)]

    asking(open_store, ask, pages=40)


def test_there_is_room_until_the_disk_is_nearly_full(open_store, monkeypatch):
    async def ask(store: Store) -> None:
        assert store.has_room()
        monkeypatch.setattr(sqlite_module, "ROOM_BYTES", 1 << 62)
        assert store.has_room() is not isinstance(store, sqlite_module.SqliteStore)

    asking(open_store, ask)


def test_one_bad_batch_does_not_spoil_the_others(open_store):
    async def ask(store: Store) -> None:
        bad = PutJob(a_job(2, submitted_ms=1 << 80))
        answers = await asyncio.gather(
            store.commit([PutJob(a_job(1))]),
            store.commit([PutJob(a_job(3)), bad]),
            store.commit([PutJob(a_job(4))]),
            return_exceptions=True,
        )

        assert [answer is None for answer in answers] == [True, False, True]
        assert await store.jobs() == [a_job(4), a_job(1)]

    asking(open_store, ask)


def test_a_cancelled_caller_does_not_stop_the_store(open_store):
    async def ask(store: Store) -> None:
        task = asyncio.create_task(store.commit([PutJob(a_job(1))]))
        await asyncio.sleep(0)
        task.cancel()
        await store.commit([PutJob(a_job(2))])

        assert task.done()
        assert a_job(2) in await store.jobs()

    asking(open_store, ask)


def test_a_closed_store_says_so(open_store):
    async def ask(store: Store) -> None:
        await store.close()
        await store.close()
        with pytest.raises(StoreClosed):
            await store.commit([])
        with pytest.raises(StoreClosed):
            await store.jobs()

    asking(open_store, ask)


def test_the_memory_store_refuses_what_cannot_be_encoded():
    with pytest.raises((TypeError, msgspec.ValidationError)):
        asyncio.run(MemoryStore().commit([PutLease("l", "text, not bytes")]))


def test_what_was_queued_before_close_is_written(open_store):
    async def ask(store: Store) -> None:
        waiting = [asyncio.create_task(store.commit([PutJob(a_job(n))])) for n in range(50)]
        await asyncio.sleep(0)
        await store.close()

        assert await asyncio.gather(*waiting) == [None] * 50

    asking(open_store, ask)


def test_what_nobody_waits_for_is_written_all_the_same(open_store):
    async def ask(store: Store) -> None:
        await store.commit([PutJob(a_job(1))], within_s=0.005)
        assert await store.job(a_job(1).id) == a_job(1)

    asking(open_store, ask)


@pytest.mark.parametrize(("first_s", "second_s"), [(60, 0), (60, 0.005), (0.005, 60), (0, 60)])
def test_what_nobody_waits_for_shares_the_sync_of_what_somebody_waits_for(
    tmp_path, first_s, second_s
):
    groups = []

    class Counting(SqliteStore):
        def _written(self, group):
            groups.append(len(group))
            return super()._written(group)

    async def ask() -> None:
        store = Counting(str(tmp_path / "grid.db"))
        jobs = [(a_job(1), first_s), (a_job(2), second_s)]
        await asyncio.gather(*(store.commit([PutJob(job)], within_s=s) for job, s in jobs))
        await store.close()

    asyncio.run(ask())
    assert groups == [2]


class Watched(SqliteStore):
    """Tells who wrote; writes of the thread wait until they may go on."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self.writers: list[tuple[str, int]] = []

    def _transaction(self, group):
        name = threading.current_thread().name
        if name == "store-writer":
            self.has_begun.set()
            assert self.may_go_on.wait(30)
        self.writers.append((name, len(group)))
        return super()._transaction(group)


def test_while_syncs_are_quick_the_loop_writes_and_what_comes_together_shares_one(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sqlite_module, "QUICK_S", 60)

    async def ask() -> None:
        store = Watched(str(tmp_path / "grid.db"))
        await asyncio.gather(*(store.commit([PutJob(a_job(n))]) for n in range(3)))
        await store.commit([PutJob(a_job(4))])

        assert store.writers == [("MainThread", 3), ("MainThread", 1)]
        await store.close()

    asyncio.run(ask())


def test_slow_syncs_do_not_hold_up_the_loop_and_keep_the_order(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "QUICK_S", 0)  # The first one is too slow already.

    async def ask() -> None:
        store = Watched(str(tmp_path / "grid.db"))
        await store.commit([PutJob(a_job(1))])
        slow = asyncio.create_task(store.commit([PutJob(a_job(1, state="running"))]))
        assert await asyncio.to_thread(store.has_begun.wait, 30)  # The loop goes on meanwhile.
        monkeypatch.setattr(sqlite_module, "QUICK_S", 60)
        quick = asyncio.create_task(store.commit([PutJob(a_job(1, state="failed"))]))
        for _ in range(5):  # It must not overtake the slow one.
            await asyncio.sleep(0)
        assert not slow.done()
        assert not quick.done()
        store.may_go_on.set()
        await asyncio.gather(slow, quick)

        assert store.writers == [("MainThread", 1), ("store-writer", 1), ("store-writer", 1)]
        assert await store.job(a_job(1).id) == a_job(1, state="failed")
        await store.commit([])
        assert store.writers[-1] == ("MainThread", 1)
        await store.close()

    asyncio.run(ask())


def test_where_others_watch_the_loop_only_the_thread_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "QUICK_S", 60)

    async def ask() -> None:
        store = Watched(str(tmp_path / "grid.db"))
        store.may_go_on.set()
        await store.commit([PutJob(a_job(1))])
        store.write_aside()
        await store.commit([PutJob(a_job(2))])
        assert [writer for writer, _ in store.writers] == ["MainThread", "store-writer"]
        await store.close()

    asyncio.run(ask())


def test_a_write_that_was_stuck_once_is_left_to_the_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "STUCK_S", 0)

    async def ask() -> None:
        store = Watched(str(tmp_path / "grid.db"))
        store.may_go_on.set()
        await store.commit([PutJob(a_job(1))])
        await store.commit([PutJob(a_job(2))])

        assert [name for name, _ in store.writers] == ["MainThread", "store-writer"]
        await store.close()

    asyncio.run(ask())
