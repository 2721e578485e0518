"""The state of a job comes home with the report of an end, and is kept as long as it is needed."""

import asyncio
from functools import partial

import pytest

from distributed_grid.agent.bringing import STATE_TRIES
from distributed_grid.agent.housing import outputs_of
from distributed_grid.agent.pinning import Pinning
from distributed_grid.agent.setting_out import SettingOut, pin_of
from distributed_grid.edges.artifacts import CacheFull
from distributed_grid.kernel.node import Cancel
from distributed_grid.kernel.resuming import WHAT
from distributed_grid.model.artifact import ASKED
from distributed_grid.model.job import Preempt, Where
from distributed_grid.wire.across import Report
from distributed_grid.wire.keeper import Ended, Usage
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.artifacts.lab import plant

SAVES = Preempt(command=("save",))


@pytest.fixture
def lab(tmp_path):
    return partial(in_a_lab, lambda: Lab(tmp_path))


@pytest.fixture
def state(tmp_path):
    return plant(tmp_path / "state", {"count": "7"})


def saved_there(lab, state):
    """The other node has it, as after the end of an attempt."""
    return lab.files[1].keep(str(state), owner="test", amount=ASKED).id


def given_way(spec, saved):
    end = Ended(
        number=0, attempt="x", how="preempted", code=143, started_ms=1, ended_ms=2,
        usage=Usage(), saved=saved,
    )  # fmt: skip
    return Report(job=spec.id, lease="lease", first=0, ends=(end,))


@pytest.mark.rows("S0-71")
def test_it_is_here_before_the_end_is_heard(lab, state):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec("/", preempt=SAVES))
        saved = saved_there(lab, state)
        report = given_way(spec, saved)
        assert lab.bringing.wants(report)
        assert await lab.bringing.brought(lab.host.me, report)

        assert not lab.stores[0].lacking(lab.stores[0].manifest(saved).chunks)
        assert not lab.bringing.wants(report)
        assert WHAT not in [what for what, _ in lab.story(spec)]

    lab(test)


def test_what_cannot_be_had_is_asked_for_some_times_and_then_told(lab):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec("/", preempt=SAVES))
        report = given_way(spec, "0" * 64)
        heard = [await lab.bringing.brought(lab.host.me, report) for _ in range(STATE_TRIES)]

        assert heard == [False] * (STATE_TRIES - 1) + [True]
        ((_, told),) = [line for line in lab.story(spec) if line[0] == WHAT]
        assert told.startswith("not brought here: ")

    lab(test)


def test_a_home_without_room_for_it_hears_the_end_and_says_so(lab, state):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec("/", preempt=SAVES))
        report = given_way(spec, saved_there(lab, state))

        async def full(*_args, **_words):
            raise CacheFull(wanted=9, bytes_max=1, pinned=1)

        lab.fetching[0].have_from = full
        assert await lab.bringing.brought(lab.host.me, report)
        assert "not brought here: " in lab.story(spec)[-1][1]

    lab(test)


async def moved(lab, saved):
    """A job of the first node, of which an attempt on the second has ended with its state."""
    spec = lab.a_spec("/", preempt=SAVES, require=Where(nodes=(lab.host.name,)))
    lab.home.submit(spec)
    lab.room.settle()
    (attempt,) = lab.host.keeper.runs
    lab.host.keeper.preempt(attempt, saved=saved)
    lab.room.settle()
    assert [one.saved for one in lab.home.job(spec).saved] == [saved]
    return spec


def pins(store, saved):
    return {name for one, pinned in store._pinned.items() if one == saved for name in pinned.owners}


@pytest.mark.rows("S0-71")
def test_it_is_kept_while_the_job_lives_on_two_machines_and_let_go_then(lab, state):
    async def test(lab):
        saved = lab.files[0].keep(str(state), owner="test", amount=ASKED).id
        lab.stores[0].unpin(saved, "test")
        spec = await moved(lab, saved)
        await lab.pinning.look()
        while lab.ships[0].progress():
            await asyncio.sleep(0.01)
        assert pins(lab.stores[0], saved) == {pin_of(spec.id)}
        assert lab.ships[0].is_safe(saved, lab.host.me)
        asked = len(lab.link.said)
        await lab.pinning.look()
        assert len(lab.link.said) == asked  # Once is enough.

        for attempt in list(lab.host.keeper.runs):
            lab.host.keeper.stopped.add(attempt)
            lab.host.keeper.end_one(attempt, 143)
        lab.home.step(Cancel(now_ms=lab.home.now_ms, job=spec.id))
        lab.room.settle()
        assert lab.home.job(spec).has_ended
        await lab.pinning.look()
        assert pins(lab.stores[0], saved) == set()

    lab(test)


def test_what_is_not_here_is_copied_to_nobody(lab, state):
    async def test(lab):
        await moved(lab, saved_there(lab, state))
        await lab.pinning.look()

        assert lab.link.said == []

    lab(test)


def pinning_there(lab):
    setting_out = SettingOut(lab.host.node, lab.files[1], lab.stores[1], clock_ms=lab.now_ms)
    return Pinning(lab.host.node, lab.ships[1], setting_out, reach=lab.reached.append)


@pytest.mark.rows("S0-71")
def test_whoever_holds_the_record_of_the_job_keeps_its_state(lab, state):
    async def test(lab):
        saved = saved_there(lab, state)
        lab.stores[1].unpin(saved, "test")
        spec = await moved(lab, saved)
        there = pinning_there(lab)
        await there.look()
        assert pins(lab.stores[1], saved) == {pin_of(spec.id)}

        lab.host.drain()
        lab.room.settle()
        assert lab.home.state(spec) == "succeeded"
        await there.look()
        assert pins(lab.stores[1], saved) == set()

    lab(test)


def test_whoever_ran_it_keeps_it_until_its_home_has_heard_of_the_end(lab, state):
    async def test(lab):
        saved = saved_there(lab, state)
        lab.stores[1].unpin(saved, "test")
        lab.home.submit(lab.a_spec("/", preempt=SAVES, require=Where(nodes=(lab.host.name,))))
        lab.room.settle()
        (attempt,) = lab.host.keeper.runs
        lab.room.cut.add((lab.host.me, lab.home.me))
        lab.host.keeper.preempt(attempt, saved=saved)
        lab.room.settle()
        await pinning_there(lab).look()

        assert pins(lab.stores[1], saved) == {outputs_of(attempt)}

    lab(test)
