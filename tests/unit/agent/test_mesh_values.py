import msgspec

from distributed_grid.agent.mesh_values import (
    DRIFT_MS,
    LOAD_STEP_MILLI,
    LOOKED_AT_MAX,
    Values,
    differs,
    profile_of,
    shortened,
)
from distributed_grid.agent.peers import lent_of
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.node import Beat, Drain
from distributed_grid.model.costs import Costs
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_parts import ContainerRuntime, Cpu
from distributed_grid.model.ids import NodeId
from distributed_grid.model.lending import Sample
from distributed_grid.model.resources import Resources
from distributed_grid.wire.mesh import VALUE_BYTES_MAX
from distributed_grid.wire.mesh_records import (
    FEATURES_CHARACTERS_MAX,
    RUNNING_CHARACTERS_MAX,
    RUNNING_MAX,
    USER_CHARACTERS_MAX,
    NodeLoad,
    NodeProfile,
    Offered,
    fitted,
)
from tests.node_world import FOUR_CORES, SENSES, World, a_job


class Desk:
    """A node, what is measured of it, and a clock."""

    def __init__(self):
        self.now_ms = 1_000_000
        self.world = World()
        profile = NodeProfile(node_class="workstation", version="0.3.0", cores=4)
        self.values = Values(self.world.node, profile, clock_ms=lambda: self.now_ms)

    def measure(self, cpu_used_milli, *, after_ms=0, heat_centi=None):
        self.now_ms += after_ms
        sample = Sample(
            at_ms=self.now_ms,
            local_minute=0,
            cpu_total_milli=4_000,
            cpu_used_milli=cpu_used_milli,
            memory_total_bytes=1 << 30,
            memory_used_bytes=0,
            storage_free_bytes=1 << 30,
            temperature_centi=heat_centi,
        )
        self.world.node.host.lending.sampled(sample, self.now_ms)

    def offered(self):
        return msgspec.msgpack.decode(self.values()["offers"], type=Offered)

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


def test_who_is_told_to_stop_says_so_at_once():
    desk = Desk()
    desk.measure(0)
    before = desk.told()
    last = msgspec.msgpack.decode(desk.values(True)["load"], type=NodeLoad)

    assert (before.is_down, last.is_down) == (False, True)


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


def test_a_drain_is_told_at_once():
    desk = Desk()
    desk.measure(0)
    assert not desk.told().is_draining
    desk.world.step(Drain(now_ms=desk.world.now_ms))
    assert desk.told().is_draining


def test_a_full_disk_is_told_at_once():
    desk = Desk()
    desk.measure(0)
    assert not desk.told().is_disk_full
    across = desk.world.node.join(NodeId("a" * 64), senses=SENSES)
    across.find_disk(is_full=True)
    assert desk.told().is_disk_full


def test_how_much_would_be_lent_is_told_as_numbers():
    desk = Desk()
    desk.measure(0)
    cpu_milli, _, _, gpus_milli = desk.offered().lent
    assert (cpu_milli, gpus_milli) == (4_000, 0)

    desk.measure(3_900, after_ms=DRIFT_MS)
    assert desk.offered().lent[0] < 4_000, "its owner is at work"
    assert desk.told().cpu_milli_free == 4_000, "and Grid has leased nothing"


def test_of_what_is_free_no_more_counts_as_lent_than_was_told():
    free = Resources(cpu_milli=4_000, memory_bytes=1_000, storage_bytes=10)

    assert lent_of(free, Offered()) is None, "an older version does not tell"
    told = lent_of(free, Offered(lent=(1_500, 2_000, 0, 0)))
    assert told == Resources(cpu_milli=1_500, memory_bytes=1_000)


def test_who_borrowed_how_much_is_told_with_the_offers():
    desk = Desk()
    desk.measure(0)
    assert desk.offered().usage == ()

    across = desk.world.node.join(NodeId("a" * 64), senses=SENSES)
    across.shares.name = "here"
    name = "u" * (2 * USER_CHARACTERS_MAX)
    desk.world.submit(a_job("borrowed", is_shared=True, user=name))
    desk.world.step(Beat(now_ms=20_000))
    desk.world.step(Beat(now_ms=22_000))
    desk.now_ms += DRIFT_MS
    told = desk.offered()
    assert told.usage == ((name[:USER_CHARACTERS_MAX], 2_000),)
    assert told.usage_step == 2


def test_heat_is_told_in_steps_of_five_degrees():
    desk = Desk()
    told = []
    for heat_centi in (None, 6_000, 6_400, 6_499, 6_500, None):
        desk.measure(0, after_ms=DRIFT_MS, heat_centi=heat_centi)
        told.append(desk.told().temperature_centi)

    assert told == [None, 6_000, 6_000, 6_000, 6_500, None]


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


def test_names_of_what_runs_are_told_with_it():
    desk = Desk()
    desk.measure(0)
    assert desk.told().running == ()
    desk.world.submit(a_job("train"), a_job("serve"))
    desk.world.pump()

    assert desk.told().running == ("serve", "train")


def test_who_follows_another_in_its_place_is_told_after_a_while():
    """A row of short jobs changes nobody's decision: no telling for each."""
    desk = Desk()
    desk.measure(0)
    desk.world.submit(a_job("first"))
    desk.world.pump()
    first = desk.told()
    desk.world.drain()
    desk.world.submit(a_job("second"))
    desk.world.pump()
    desk.now_ms += DRIFT_MS - 1
    assert desk.told() == first
    desk.now_ms += 1
    assert desk.told().running == ("second",)


def test_of_many_names_those_of_the_oldest_are_told():
    desk = Desk()
    desk.measure(0)
    coordinator = desk.world.node.coordinator
    for number in range(LOOKED_AT_MAX + 10):
        spec = a_job(f"{number:04d}" if number < 20 else "x" * 200)
        coordinator.jobs[spec.id] = Job(spec=spec, submitted_ms=1)
        attempt = Attempt(number=1, lease=str(number), node="here", granted_ms=1)
        coordinator.attempts.add(spec.id, attempt)

    assert desk.values.load().running == tuple(f"{number:04d}" for number in range(RUNNING_MAX))


def test_names_share_a_number_of_characters():
    desk = Desk()
    coordinator = desk.world.node.coordinator
    for number in range(8):
        spec = a_job(str(number) * 100)
        coordinator.jobs[spec.id] = Job(spec=spec, submitted_ms=1)
        coordinator.attempts.add(
            spec.id, Attempt(number=1, lease=str(number), node="here", granted_ms=1)
        )

    assert len(desk.values.load().running) == RUNNING_CHARACTERS_MAX // 100


def test_a_profile_tells_what_the_processor_can_and_what_the_owner_says():
    cpu = Cpu(model="x", arch="x86_64", features=("sse2", "avx", "sse2"))
    costs = Costs(price_micro_per_hour=7, idle_mw=1, max_mw=2)
    hardware = HardwareProfile(cpu=cpu)
    told = profile_of(hardware, FOUR_CORES, node_class="edge", version="1", costs=costs)
    assert (told.features, told.price_micro_per_hour) == ("avx sse2", 7)
    assert (told.idle_mw, told.max_mw) == (1, 2)
    assert shortened(told, 63).features == ""

    many = tuple(f"feature{number:04d}" for number in range(1_000))
    hardware = HardwareProfile(cpu=msgspec.structs.replace(cpu, features=many))
    told = profile_of(hardware, FOUR_CORES, node_class="edge", version="1")
    assert len(told.features) <= FEATURES_CHARACTERS_MAX
    assert set(told.features.split()) < set(many)


def test_a_profile_tells_what_runs_containers_and_that_last_makes_room():
    runtimes = (ContainerRuntime(name="podman", path="/bin/podman"),)
    hardware = HardwareProfile(
        cpu=Cpu(model="x", arch="x86_64", features=("avx",)), runtimes=runtimes
    )
    words = {"node_class": "edge", "version": "1"}
    told = profile_of(hardware, FOUR_CORES, has_containers=True, **words)
    without = profile_of(hardware, FOUR_CORES, has_containers=False, **words)

    assert (told.features, without.features) == ("containers podman avx", "podman avx")
    assert (shortened(told, 63).features, shortened(without, 63).features) == ("containers", "")


def test_a_load_that_other_jobs_make_differs():
    load = NodeLoad(cpu_milli_free=1, memory_bytes_free=1, running=("a",))
    assert differs(load, msgspec.structs.replace(load, running=("b",)))
    assert not differs(load, load)
