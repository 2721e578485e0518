"""Clocks that are set forward and back, as an agent reads them and as stories show them."""

from distributed_grid.edges.clock import FOLLOW_MS_MAX, SteadyClock
from tests.node_world import World, a_job

HOUR_MS = 3_600_000


class Machine:
    """Two clocks: one that people set, one that nobody can."""

    def __init__(self) -> None:
        self.epoch_ms = 1_000_000_000
        self.steady_ms = 5_000
        self.clock = SteadyClock(
            epoch_ns=lambda: self.epoch_ms * 1_000_000, steady_ns=lambda: self.steady_ms * 1_000_000
        )

    def passes(self, span_ms: int) -> None:
        self.epoch_ms += span_ms
        self.steady_ms += span_ms


def test_it_tells_the_time() -> None:
    machine = Machine()
    machine.passes(10)

    assert machine.clock() == machine.epoch_ms


def test_a_clock_set_forward_is_followed() -> None:
    machine = Machine()
    machine.epoch_ms += HOUR_MS

    assert machine.clock() == machine.epoch_ms


def test_after_a_clock_is_set_back_time_still_passes() -> None:
    machine = Machine()
    before = machine.clock()
    machine.epoch_ms -= HOUR_MS
    machine.passes(250)

    assert machine.clock() == before + 250


def test_it_begins_after_the_newest_thing_that_is_known() -> None:
    machine = Machine()
    machine.clock.not_before(machine.epoch_ms + HOUR_MS)

    assert machine.clock() == machine.epoch_ms + HOUR_MS + 1


def test_the_past_and_a_far_future_change_nothing() -> None:
    machine = Machine()
    for at_ms in (machine.epoch_ms - 1, machine.epoch_ms + FOLLOW_MS_MAX):
        machine.clock.not_before(at_ms)

    assert machine.clock() == machine.epoch_ms


def test_a_story_never_goes_back_whatever_the_clocks_say() -> None:
    world = World()
    spec = a_job("a")
    world.submit(spec)  # The keeper of this world believes that it is 1970.
    world.now_ms -= 500
    world.end(spec)

    job = world.job(spec)
    times = [line.at_ms for line in job.story]
    assert times == sorted(times)
    assert job.started_ms is not None
    assert job.ended_ms is not None
    assert job.submitted_ms <= job.started_ms <= job.ended_ms
