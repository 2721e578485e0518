import msgspec

from distributed_grid.agent.mesh_values import DRIFT_MS, LOAD_STEP_MILLI, Values, shortened
from distributed_grid.model.lending import Sample
from distributed_grid.wire.mesh import VALUE_BYTES_MAX
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, fitted
from tests.node_world import World, a_job


class Desk:
    """A node, what is measured of it, and a clock."""

    def __init__(self):
        self.now_ms = 1_000_000
        self.world = World()
        profile = NodeProfile(node_class="workstation", version="0.3.0", cores=4)
        self.values = Values(self.world.node, profile, clock_ms=lambda: self.now_ms)

    def measure(self, cpu_used_milli, *, after_ms=0):
        self.now_ms += after_ms
        sample = Sample(
            at_ms=self.now_ms,
            local_minute=0,
            cpu_total_milli=4_000,
            cpu_used_milli=cpu_used_milli,
            memory_total_bytes=1 << 30,
            memory_used_bytes=0,
            storage_free_bytes=1 << 30,
        )
        self.world.node.host.lending.sampled(sample, self.now_ms)

    def told(self):
        return msgspec.msgpack.decode(self.values()["load"], type=NodeLoad)


def test_a_load_that_drifts_is_told_when_a_while_has_passed():
    desk = Desk()
    desk.measure(0)
    first = desk.values()
    desk.measure(3_000, after_ms=DRIFT_MS - 1)
    at_once = desk.values()
    desk.measure(3_000, after_ms=1)

    assert at_once == first
    assert desk.told().load_milli == 3_000


def test_a_load_that_hardly_differs_is_not_told_at_all():
    desk = Desk()
    desk.measure(0)
    first = desk.told()
    desk.measure(LOAD_STEP_MILLI - 1, after_ms=10 * DRIFT_MS)

    assert desk.told() == first


def test_a_job_that_starts_is_told_at_once():
    desk = Desk()
    desk.measure(0)
    before = desk.told()
    desk.world.submit(a_job("now"))
    desk.world.pump()
    desk.now_ms += 1

    assert (before.jobs_running, desk.told().jobs_running) == (0, 1)


def test_a_clock_that_was_set_back_silences_nobody():
    desk = Desk()
    desk.measure(0)
    desk.told()
    desk.measure(3_000)
    desk.now_ms -= 500_000

    assert desk.told().load_milli == 3_000


def test_a_value_never_outgrows_its_entry():
    many = {f"{number:0100d}": "x" * 100 for number in range(60)}
    profile = NodeProfile(node_class="edge", version="1", labels=many)

    body = fitted(lambda most: shortened(profile, most), 64)
    told = msgspec.msgpack.decode(body, type=NodeProfile)

    assert len(body) <= VALUE_BYTES_MAX
    assert 30 < len(told.labels) < 60
    assert len(msgspec.msgpack.encode(shortened(profile, len(told.labels) + 1))) > VALUE_BYTES_MAX


def test_an_offer_that_swings_about_a_step_is_told_once():
    desk = Desk()
    desk.measure(0)
    first = desk.values()["offers"]
    swings = []
    for used_milli in (60, 0, 60, 0, 60):
        desk.measure(used_milli, after_ms=2 * DRIFT_MS)
        swings.append(desk.values()["offers"])
    desk.measure(4_000, after_ms=100 * DRIFT_MS)

    assert swings == [first] * 5
    assert desk.values()["offers"] != first
