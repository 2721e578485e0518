"""The operations on lending: what is asked becomes an event, and the owner is looked after."""

import asyncio
import contextlib

import pytest

from distributed_grid.agent import sharing
from distributed_grid.agent.sharing import Sharing, Surroundings
from distributed_grid.config.terms import with_terms
from distributed_grid.edges.store import StoreError
from distributed_grid.errors import BadInput, BadValue, BookingConflict, NotFound
from distributed_grid.kernel.node import Sampled
from distributed_grid.kernel.views import job_view
from distributed_grid.model.booking import Booking
from distributed_grid.model.lending import Sample, Terms
from distributed_grid.model.resources import Request
from distributed_grid.wire.sharing import ChangeOffers
from tests.node_world import World, a_job


class Desk:
    """A kernel, and what answers for it."""

    def __init__(self, **around) -> None:
        self.world = World()
        self.events: list = []
        self.sharing = Sharing(
            self.world.node,
            name="lab",
            clock_ms=lambda: self.world.now_ms,
            step=self.step,
            around=Surroundings(**around),
        )

    async def step(self, event) -> None:
        self.events.append(event)
        self.world.step(event)


def a_sample(at_ms: int, held) -> Sample:
    return Sample(at_ms=at_ms, local_minute=0, cpu_total_milli=4_000, cpu_used_milli=0,
                  memory_total_bytes=1 << 30, memory_used_bytes=0, storage_free_bytes=0)  # fmt: skip


async def test_the_owners_word_is_carried_out_before_it_is_answered():
    desk = Desk(with_terms=with_terms, not_joined=("gpu1",))
    paused = await desk.sharing.change(ChangeOffers(action="pause", for_ms=60_000))
    forever = await desk.sharing.change(ChangeOffers(action="pause"))
    resumed = await desk.sharing.change(ChangeOffers(action="resume"))
    changed = await desk.sharing.change(
        ChangeOffers(action="set", key="policy", value="aggressive")
    )

    assert (paused.state, paused.paused_until_ms) == ("paused", desk.world.now_ms + 60_000)
    assert (forever.state, forever.paused_until_ms) == ("paused", None)
    assert resumed.state != "paused"
    assert (changed.policy, changed.not_joined) == ("aggressive", ("gpu1",))
    assert len(desk.events) == 4


def a_word(key: str, value: str) -> ChangeOffers:
    return ChangeOffers(action="set", key=key, value=value)


async def test_what_the_owner_sets_is_kept_over_a_restart_until_it_is_reset():
    desk = Desk(with_terms=with_terms)
    for word in (a_word("policy", "predictive"), a_word("preset", "all"), a_word("quiet", "5s"),
                 a_word("quiet", "9s")):  # fmt: skip
        await desk.sharing.change(word)
    desk.world.start_agent()
    again = Desk(with_terms=with_terms)
    again.world = desk.world
    again.sharing = Sharing(
        desk.world.node, name="lab", clock_ms=lambda: 0, step=again.step,
        around=Surroundings(with_terms=with_terms),
    )  # fmt: skip
    again.sharing.restored()
    lending = desk.world.node.host.lending

    assert again.sharing.status().words == (("preset", "all"), ("quiet", "9s"))
    assert (lending.terms.policy, lending.terms.quiet_ms) == ("aggressive", 9_000)
    reset = await again.sharing.change(ChangeOffers(action="reset"))
    assert (reset.words, reset.policy, lending.terms) == ((), "balanced", Terms())


async def test_a_word_that_contradicts_the_file_after_a_restart_is_forgotten():
    desk = Desk(with_terms=with_terms)
    desk.world.node.host.lending.words = (("quiet", "9s"), ("thresholds.cpu_pressure_low", "0.9"))
    desk.sharing.restored()

    assert desk.sharing.status().words == (("quiet", "9s"),)
    assert desk.world.node.host.lending.terms.quiet_ms == 9_000


async def test_a_preset_ends_a_pause():
    desk = Desk(with_terms=with_terms)
    await desk.sharing.change(ChangeOffers(action="pause"))
    still = await desk.sharing.change(a_word("quiet", "5s"))

    assert still.state == "paused"
    assert (await desk.sharing.change(a_word("preset", "idle"))).state != "paused"


async def test_words_that_make_no_sense_change_nothing():
    desk = Desk(with_terms=with_terms)
    for change, error in (
        (ChangeOffers(action="set", key="nothing", value="1"), BadInput),
        (ChangeOffers(action="pause", for_ms=-1), BadValue),
    ):
        with pytest.raises(error):
            await desk.sharing.change(change)
    with pytest.raises(BadValue, match="a term of lending"):
        await Desk().sharing.change(ChangeOffers(action="set", key="policy", value="balanced"))

    assert desk.events == []


async def test_bookings_are_kept_and_given_back():
    desk = Desk()
    booking = Booking(
        name="lecture", request=Request(cpu_milli=3_000), from_ms=2_000, until_ms=9_000
    )
    await desk.sharing.book(booking)
    with pytest.raises(BookingConflict):
        await desk.sharing.book(
            Booking(name="other", request=Request(cpu_milli=3_000), from_ms=3_000, until_ms=4_000)
        )
    assert desk.sharing.status().bookings == (booking,)
    await desk.sharing.unbook("lecture")
    with pytest.raises(NotFound):
        await desk.sharing.unbook("lecture")

    assert desk.sharing.status().bookings == ()


async def test_the_queue_is_the_kernels():
    desk = Desk()
    desk.world.submit(a_job("holder", cpus=4_000), a_job("waits", cpus=4_000))

    assert [entry.name for entry in desk.sharing.queue(limit=5).entries] == ["waits"]


@contextlib.asynccontextmanager
async def looking(desk: Desk):
    task = asyncio.create_task(desk.sharing.look_after_owner())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def looks(asked: list, count: int) -> None:
    while len(asked) < count:
        await asyncio.sleep(0)


@pytest.mark.rows("S0-66")
async def test_the_machine_is_looked_at_at_once_and_again_when_it_is_time(monkeypatch):
    monkeypatch.setattr(sharing, "LOOK_S", 0)
    asked: list = []

    def measure(at_ms: int, held) -> Sample:
        asked.append((at_ms, set(held)))
        return a_sample(at_ms, held)

    desk = Desk(measure=measure)
    async with looking(desk):
        status = await desk.sharing.first_status()
        assert status.owner is not None
        began_ms = desk.world.now_ms
        desk.world.now_ms += 59_000
        for _ in range(20):
            await asyncio.sleep(0)
        desk.world.now_ms += 1_000
        await looks(asked, 2)

    assert asked == [(began_ms, set()), (began_ms + 60_000, set())]
    assert all(isinstance(event, Sampled) for event in desk.events)


async def test_what_cannot_be_measured_is_tried_again_and_lends_nothing(monkeypatch):
    monkeypatch.setattr(sharing, "LOOK_S", 0)
    monkeypatch.setattr(sharing, "FIRST_LOOK_S", 0)
    asked: list = []
    desk = Desk(measure=lambda at_ms, held: asked.append(at_ms))
    assert (await desk.sharing.first_status()).offers == ()
    desk.world.now_ms = 100_000
    async with looking(desk):
        await desk.sharing._has_looked.wait()
        desk.world.now_ms += sharing.AGAIN_MS - 1
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert asked == [100_000]
        desk.world.now_ms += 1
        await looks(asked, 2)

    assert desk.events == []
    assert sharing.never_measured(0, ()) is None


async def test_a_full_disk_does_not_end_the_looking(monkeypatch):
    monkeypatch.setattr(sharing, "LOOK_S", 0)
    asked: list = []

    def measure(at_ms: int, held) -> Sample:
        asked.append(at_ms)
        return a_sample(at_ms, held)

    desk = Desk(measure=measure)

    async def full(event) -> None:
        raise StoreError("grid.db", "no space", remedy="Make room")

    desk.sharing._step = full
    desk.world.now_ms = 100_000
    async with looking(desk):
        await looks(asked, 1)
        desk.world.now_ms += 60_000
        await looks(asked, 2)


async def test_what_a_job_uses_is_told_while_it_runs_here():
    desk = Desk(used_by=lambda pid: (pid * 1_000, 42))
    runs, waits = a_job("runs", cpus=4_000), a_job("waits")
    desk.world.submit(runs)
    desk.world.submit(waits)
    desk.world.pump()

    async def told(spec):
        job = desk.world.job(spec)
        view = await desk.sharing.watched(job, job_view(job, limits={}))
        return [(one.user_us, one.memory_bytes_peak) for one in view.attempts]

    assert await told(runs) == [(7_000, 42)]
    assert await told(waits) == []
    desk.world.job(runs).attempts[0].host = "node-2"
    assert await told(runs) == [(0, 0)]
