"""What is on disk and of no use is named and left out, at a start and later; the rest goes on."""

import msgspec
import pytest

from distributed_grid.agent.blast_door import BlastDoor, Faulty
from distributed_grid.agent.keeper_book import KeeperBook
from distributed_grid.agent.records import held_by, job_row
from distributed_grid.agent.recovery import ASIDE, Recovery
from distributed_grid.edges.store import JobRow, PutHeld, PutJob, PutLease, SetMeta
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.kernel.across.meeting import Meeting
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.register import PREFIX
from distributed_grid.kernel.across.shelf import GRACE_MS
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.memory import BOOKINGS
from distributed_grid.kernel.node import Beat, Met, Node, Tick, Told, View
from distributed_grid.kernel.unusable import Unusable
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across import Inquiry
from distributed_grid.wire.keeper import (
    Acknowledge,
    Deadline,
    Ended,
    Hello,
    Resume,
    Run,
    Started,
    Stop,
    Suspend,
    untold_end,
)
from tests.node_world import FOUR_CORES, PATHS, SENSES, World, a_job

ME, HOME = NodeId("a" * 64), NodeId("b" * 64)
HELLO = Hello(keeper_id="k", boot_id="b", pid=1, limits={}, running=())


class Desk:
    """A node in a mesh of two, the other of which is gone, and its way back."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.told, self.now_ms = store, [], 1_000
        self.node = Node(name="n", ledger=Ledger(FOUR_CORES), paths=PATHS, new_lease_id=lambda: "x")
        self.book = KeeperBook()
        self.recovery = Recovery(
            self.node, store, self.book, clock_ms=lambda: self.now_ms, publish=self.told.append
        )
        self.recovery.join = self.join
        self.recovery.look = lambda: View(now_ms=self.now_ms, peers={})
        self.door = BlastDoor(self.node)
        self.door.rebuild = self.rebuild

    def join(self) -> int:
        across = self.node.join(ME, senses=SENSES)
        across.guarding.shelf.read = lambda job: held_by(self.store, job)
        return 0

    async def rebuild(self, error):
        await self.recovery.rebuild(error)

    async def begin(self) -> "Desk":
        await self.recovery.restore(await self.store.load_all())
        await self.door.step(Met(now_ms=self.now_ms, hello=HELLO))
        await self.door.step(View(now_ms=self.now_ms, peers={}))
        return self

    @property
    def aside(self) -> list[tuple[str, str]]:
        named = [one.fields for one in self.told if one.name == "store.set_aside"]
        return [(fields["kind"], fields["id"]) for fields in named]


def a_record(name: str) -> PutHeld:
    job = Job(spec=a_job(name), submitted_ms=1, epoch=Epoch(1, HOME), guardians=(ME,))
    record = record_of(job, Fence(Epoch(1, HOME), 1))
    return PutHeld(job.spec.id, encode(record), HOME)


async def test_rows_that_are_damaged_are_named_and_the_rest_is_there():
    store, world = MemoryStore(), World()
    world.submit(a_job("runs"), a_job("leaseless"))
    jobs = {one.spec.name: one for one in world.node.coordinator.jobs.values()}
    lost = jobs["leaseless"].live_attempts[0].lease
    await store.commit([PutJob(job_row(job)) for job in jobs.values()])
    await store.commit([PutLease(name, body) for name, body in world.saved_leases.items()])
    await store.commit(
        [
            PutJob(JobRow(id="bad", record=b"\xc1", state="waiting")),
            PutLease(lost, b"\xc1"),
            PutHeld("newer", b"\xc1", HOME),
            a_record("held"),
            SetMeta(BOOKINGS, b"\xc1"),
            SetMeta(f"{PREFIX}store", b"\xc1"),
        ]
    )
    desk = await Desk(store).begin()

    assert sorted(desk.aside) == [
        ("job", "bad"),
        ("job", a_job("leaseless").id),
        ("lease", lost),
        ("meta", BOOKINGS),
        ("meta", PREFIX),
        ("record", "newer"),
    ]
    assert set(desk.node.coordinator.jobs) == {a_job("runs").id}
    assert desk.node.across.guarding.find(a_job("held").id) is not None
    kept = await store.load_all()
    assert kept.meta[f"{ASIDE}{BOOKINGS}"] == kept.meta[f"{ASIDE}{PREFIX}store"] == b"\xc1"
    assert kept.held["newer"] == HOME
    assert "bad" in {row.id for row in kept.jobs}

    again = await Desk(store).begin()
    assert BOOKINGS not in [name for _, name in again.aside]


async def test_records_that_cannot_be_taken_over_are_left_out_one_after_the_other(monkeypatch):
    names = [f"bad-{number}" for number in range(4)]
    honest = Meeting.take_over

    def taken(meeting, kept, *rest):
        if kept.name.startswith("bad"):
            raise OverflowError("too much")
        honest(meeting, kept, *rest)

    monkeypatch.setattr(Meeting, "take_over", taken)
    store = MemoryStore()
    await store.commit([a_record(name) for name in (*names, "good")])
    for _ in range(2):
        desk = await Desk(store).begin()
        for _ in range(30):
            desk.now_ms += 1_000
            await desk.door.step(Beat(now_ms=desk.now_ms))
        assert sorted(desk.aside) == sorted(("record", a_job(name).id) for name in names)
        assert a_job("good").id in desk.node.coordinator.jobs
        assert set((await store.load_all()).held) >= {a_job(name).id for name in names}


async def test_what_is_of_no_use_though_it_was_left_out_is_told():
    desk = await Desk(MemoryStore()).begin()
    bad = Unusable("record", "x", "why")
    await desk.recovery.rebuild(bad)
    with pytest.raises(Unusable):
        await desk.recovery.rebuild(bad)


async def test_after_a_step_that_broke_off_the_keeper_is_greeted_in_its_own_words(monkeypatch):
    store, world = MemoryStore(), World()
    world.submit(a_job("one"))
    (attempt,) = world.keeper.runs
    await store.commit([PutJob(job_row(world.job(a_job("one"))))])
    await store.commit([PutLease(name, body) for name, body in world.saved_leases.items()])
    desk = Desk(store)
    hello = msgspec.structs.replace(HELLO, running=(attempt,))
    desk.book.greeted(hello)
    await desk.recovery.restore(await store.load_all())
    await desk.door.step(Met(now_ms=1, hello=hello))
    ended = msgspec.structs.replace(untold_end(attempt, "exited", 5), number=3, code=0)
    desk.book.heard((ended,))
    told = Told(now_ms=1, peer=HOME, message=Inquiry(jobs=()))

    def breaks(event):
        monkeypatch.undo()
        desk.node.coordinator.jobs.clear()
        raise ZeroDivisionError

    monkeypatch.setattr(desk.node, "step", breaks)
    with pytest.raises(Faulty):
        await desk.door.step(told)

    assert desk.node.coordinator.jobs[a_job("one").id].state == "succeeded"
    assert desk.node.life == 1
    assert [one.name for one in desk.told] == ["agent.mended"]


async def test_who_was_away_for_long_still_is_after_a_step_that_broke_off():
    store = MemoryStore()
    await store.commit([a_record("held")])
    desk = Desk(store)
    assert desk.join() == 0
    assert not desk.node.across.guarding.is_in_doubt
    remembered = await store.load_all()
    held = {a_job("held").id: HOME} if remembered.held else {}
    desk.node.restore([], {}, held=held, now_ms=1, away_ms=GRACE_MS + 1)
    assert desk.node.across.guarding.is_in_doubt


def test_the_book_says_what_the_keeper_would():
    book = KeeperBook()
    run = Run(
        attempt="a", job=a_job("one").id, argv=(), env={}, cwd="/", output_dir="", scratch_dir=""
    )
    book.told(msgspec.structs.replace(run, until_boot_us=7))
    book.told(msgspec.structs.replace(run, attempt="b"))
    book.told(Stop(attempt="b"))
    book.told(Suspend(attempt="a"))
    book.told(Deadline(attempt="a", until_boot_us=5))
    book.heard((Started(number=1, attempt="a", pid=1, at_ms=9),))
    told = book.hello(HELLO)
    assert (told.running, told.queued, told.suspended) == (("a", "b"), ("b",), ("a",))
    assert (told.began, told.deadlines, told.unacknowledged) == ({"a": 9}, {"a": 7}, 1)

    book.told(Resume(attempt="a"))
    book.told(Acknowledge(upto=1))
    first = msgspec.structs.replace(untold_end("a", "exited", 1), number=2, is_last=False)
    book.heard((first, msgspec.structs.replace(first, number=3, is_last=True)))
    told = book.hello(HELLO)
    assert (told.running, told.suspended, told.began, told.deadlines) == (("b",), (), {}, {})
    assert [type(one) for one in book.reports] == [Ended, Ended]


async def test_time_alone_that_breaks_off_and_then_does_not_costs_nobody_anything(monkeypatch):
    desk, honest, left = await Desk(MemoryStore()).begin(), Node.step, [1]

    def stumbles(node, event):
        if isinstance(event, Tick) and left.pop():
            left.append(0)
            raise ZeroDivisionError
        return honest(node, event)

    monkeypatch.setattr(Node, "step", stumbles)
    assert (await desk.door.step(Tick(now_ms=1))).life == 1
