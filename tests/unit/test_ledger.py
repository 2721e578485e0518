import timeit

import msgspec
import pytest

from distributed_grid.kernel import ledger as ledger_module
from distributed_grid.kernel.devices import SETS_MAX, Devices
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.ledger import LeaseRefused, Ledger, Shortfall
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request, Resources

JOB = job_id_of("train")


def an_inventory(*nodes: int, **what_matters) -> Inventory:
    """NUMA nodes of so many cores, numbered through; 64 GiB and 1 TiB."""
    numa = [node for node, count in enumerate(nodes) for _ in range(count)]
    fields = {
        "cores": tuple(enumerate(numa)),
        "cpu_milli": len(numa) * 1_000,
        "memory_bytes": 64 * GIB,
        "storage_bytes": 1 << 40,
    }
    return Inventory(**{**fields, **what_matters})


def gpus(*names: str, model: str = "H100") -> tuple[Gpu, ...]:
    return tuple(Gpu(device=name, model=model, memory_bytes=80 * GIB) for name in names)


def take(ledger: Ledger, lease_id: str, **request) -> Lease:
    lease = ledger.reserve(lease_id, JOB, "1", Request(**request), now_ms=0)
    ledger.check()
    assert isinstance(lease, Lease), lease
    return lease


def refused(ledger: Ledger, **request) -> tuple[tuple[str, int, int], ...]:
    answer = ledger.reserve("refused", JOB, "1", Request(**request), now_ms=0)
    ledger.check()
    assert isinstance(answer, Shortfall), answer
    return answer.missing


def cores(lease: Lease) -> list[int]:
    return [core for core, _ in lease.cores]


# --- The life of a lease -------------------------------------------------------------------------


@pytest.mark.rows("S0-48", "S0-49")
def test_a_lease_says_who_holds_what_since_when():
    ledger = Ledger(an_inventory(4))
    reserved = ledger.reserve("a", JOB, "1", Request(cpu_milli=2_000), now_ms=7, ttl_ms=100)
    committed = ledger.commit("a", now_ms=106)

    assert (reserved.state, reserved.granted_ms, reserved.expires_ms) == ("reserved", 7, 107)
    assert (committed.state, committed.expires_ms) == ("committed", None)
    assert ledger.leases == {"a": committed}
    assert (committed.job, committed.attempt, committed.cores) == (
        JOB,
        "1",
        ((0, 1_000), (1, 1_000)),
    )


def test_release_gives_everything_back():
    ledger = Ledger(an_inventory(4, gpus=gpus("a", "b"), custom=(("tpu", 4_000),)))
    take(ledger, "a", cpu_milli=1_500, memory_bytes=5, gpus=GpuRequest(), custom=(("tpu", 500),))
    assert ledger.free() != ledger.total

    assert ledger.release("a").id == "a"
    assert ledger.release("a") is None
    assert ledger.free() == ledger.total


def test_the_same_reservation_again_is_the_same_lease():
    ledger = Ledger(an_inventory(4, gpus=gpus("a", "b")))
    wanted = {"cpu_milli": 1_500, "gpus": GpuRequest(milli=500)}
    first = take(ledger, "a", **wanted)
    ledger.commit("a", now_ms=1)

    assert ledger.commit("a", now_ms=99_999) == take(ledger, "a", **wanted)
    assert take(ledger, "a", **wanted).cores == first.cores
    for other in ({"cpu_milli": 1_500}, {**wanted, "cpu_milli": 1_000}):
        with pytest.raises(LeaseRefused, match="taken by another request"):
            take(ledger, "a", **other)


@pytest.mark.rows("S4-24")
def test_an_id_that_is_unknown_used_or_expired_is_refused():
    ledger = Ledger(an_inventory(4))
    for lease_id in ("released", "expired", "late"):
        take(ledger, lease_id, cpu_milli=1_000)
    ledger.release("released")
    with pytest.raises(LeaseRefused) as late:
        ledger.commit("late", now_ms=5_000)
    assert [lease.id for lease in ledger.expire(now_ms=5_000)] == ["expired"]

    assert (late.value.lease, late.value.why) == ("late", "expired")
    for lease_id, why in (("released", "released"), ("expired", "expired"), ("never", "unknown")):
        with pytest.raises(LeaseRefused) as error:
            ledger.commit(lease_id, now_ms=0)
        assert error.value.why == why
    with pytest.raises(LeaseRefused, match="released"):
        take(ledger, "released", cpu_milli=1_000)
    with pytest.raises(LeaseRefused, match="unknown"):
        ledger.release("never")
    assert ledger.free() == ledger.total


def test_only_reservations_expire_and_only_when_their_time_has_come():
    ledger = Ledger(an_inventory(8))
    for lease_id, ttl_ms in (("a", 10), ("c", 10), ("b", 20)):
        ledger.reserve(lease_id, JOB, "1", Request(cpu_milli=1_000), now_ms=0, ttl_ms=ttl_ms)
    ledger.commit("c", now_ms=0)

    assert ledger.expire(now_ms=9) == []
    assert [lease.id for lease in ledger.expire(now_ms=10)] == ["a"]
    assert ledger.expire(now_ms=19) == []
    assert [lease.id for lease in ledger.expire(now_ms=20)] == ["b"]
    assert ledger.expire(now_ms=10**9) == []
    assert list(ledger.leases) == ["c"]


def test_ended_ids_are_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(ledger_module, "ENDED_KEPT", 2)
    ledger = Ledger(an_inventory(1))
    for lease_id in "abc":
        take(ledger, lease_id, cpu_milli=1_000)
        ledger.release(lease_id)
        ledger.check()

    assert ledger.release("b") is None
    with pytest.raises(LeaseRefused, match="unknown"):
        ledger.release("a")


# --- Shortfalls ----------------------------------------------------------------------------------


@pytest.mark.rows("S4-23", "S4-24", "S3-101", "S3-102", "S3-103")
def test_a_refusal_names_everything_that_is_missing_and_takes_nothing():
    ledger = Ledger(an_inventory(4, gpus=gpus("a", "b"), custom=(("fpga", 1_000), ("tpu", 4_000))))
    take(ledger, "a", cpu_milli=3_000, gpus=GpuRequest(), custom=(("tpu", 3_500),))
    before = ledger.free()

    missing = refused(
        ledger,
        cpu_milli=2_000,
        memory_bytes=65 * GIB,
        storage_bytes=2 << 40,
        gpus=GpuRequest(milli=2_000),
        custom=(("fpga", 1_000), ("licence:matlab", 1_000), ("tpu", 1_000)),
    )

    assert missing == (
        ("cpu_milli", 2_000, 1_000),
        ("memory_bytes", 65 * GIB, 64 * GIB),
        ("storage_bytes", 2 << 40, 1 << 40),
        ("gpu_milli", 2_000, 1_000),
        ("custom.licence:matlab", 1_000, 0),
        ("custom.tpu", 1_000, 500),
    )
    assert ledger.free() == before


def test_what_can_never_fit_is_told_apart_from_what_does_not_fit_now():
    ledger = Ledger(an_inventory(2))
    take(ledger, "a", cpu_milli=2_000)

    assert refused(ledger, cpu_milli=2_000) == (("cpu_milli", 2_000, 0),)
    assert ledger.could_ever(Request(cpu_milli=2_000)) is None
    assert ledger.could_ever(Request(cpu_milli=2_001)).missing == (("cpu_milli", 2_001, 2_000),)


def test_whole_cores_are_not_put_together_from_pieces():
    ledger = Ledger(an_inventory(2))
    take(ledger, "a", cpu_milli=600)
    take(ledger, "b", cpu_milli=600)

    assert ledger.free().cpu_milli == 800
    assert refused(ledger, cpu_milli=800) == (("cpu_milli", 800, 400),)
    assert take(ledger, "c", cpu_milli=400).cores == ((0, 400),)


def test_a_limit_below_the_cores_counts():
    ledger = Ledger(an_inventory(4, cpu_milli=2_500))
    take(ledger, "a", cpu_milli=2_000)

    assert refused(ledger, cpu_milli=1_000) == (("cpu_milli", 1_000, 500),)
    assert cores(take(ledger, "b", cpu_milli=500)) == [2]
    assert ledger.could_ever(Request(cpu_milli=3_000)).missing == (("cpu_milli", 3_000, 2_500),)


# --- Cores ---------------------------------------------------------------------------------------


@pytest.mark.rows("S4-79")
def test_cores_come_from_the_smallest_numa_node_that_has_them_all():
    ledger = Ledger(an_inventory(8, 4, 6))

    assert cores(take(ledger, "a", cpu_milli=4_000)) == [8, 9, 10, 11]
    assert cores(take(ledger, "b", cpu_milli=5_000)) == [12, 13, 14, 15, 16]
    assert cores(take(ledger, "c", cpu_milli=1_000)) == [17]
    assert cores(take(ledger, "d", cpu_milli=2_000)) == [0, 1]


@pytest.mark.rows("S4-79")
def test_what_no_numa_node_holds_spans_as_few_as_possible():
    ledger = Ledger(an_inventory(2, 4, 3, 4))

    assert cores(take(ledger, "a", cpu_milli=6_000)) == [0, 1, 9, 10, 11, 12]
    assert cores(take(ledger, "b", cpu_milli=7_000)) == [2, 3, 4, 5, 6, 7, 8]
    assert refused(ledger, cpu_milli=1_000) == (("cpu_milli", 1_000, 0),)


@pytest.mark.rows("S4-25")
def test_a_share_goes_to_the_fullest_core_with_room():
    ledger = Ledger(an_inventory(4))
    assert take(ledger, "a", cpu_milli=500).cores == ((0, 500),)
    assert take(ledger, "b", cpu_milli=700).cores == ((1, 700),)

    assert take(ledger, "c", cpu_milli=300).cores == ((1, 300),)
    assert take(ledger, "d", cpu_milli=300).cores == ((0, 300),)
    assert take(ledger, "e", cpu_milli=300).cores == ((2, 300),)


def test_two_and_a_half_cores_are_two_whole_ones_and_a_share_nearby():
    ledger = Ledger(an_inventory(4, 3))

    assert take(ledger, "a", cpu_milli=2_500).cores == ((4, 1_000), (5, 1_000), (6, 500))
    assert take(ledger, "b", cpu_milli=2_500).cores == ((0, 1_000), (1, 1_000), (2, 500))
    assert take(ledger, "c", cpu_milli=1_500).cores == ((2, 500), (3, 1_000))
    assert refused(ledger, cpu_milli=1_500) == (("cpu_milli", 1_500, 500),)


def test_a_share_far_away_is_better_than_none():
    ledger = Ledger(an_inventory(2, 2))
    take(ledger, "a", cpu_milli=400)
    take(ledger, "b", cpu_milli=1_000)

    assert take(ledger, "c", cpu_milli=2_500).cores == ((0, 500), (2, 1_000), (3, 1_000))


def test_whole_cores_without_their_share_are_refused():
    ledger = Ledger(an_inventory(3))
    take(ledger, "a", cpu_milli=600)
    take(ledger, "b", cpu_milli=600)

    assert ledger.free().cpu_milli == 1_800
    assert refused(ledger, cpu_milli=1_500) == (("cpu_milli", 1_500, 1_400),)
    assert take(ledger, "c", cpu_milli=1_400).cores == ((0, 400), (2, 1_000))


def test_a_job_without_cpu_has_no_cores():
    ledger = Ledger(an_inventory(2))

    assert take(ledger, "a", memory_bytes=1).cores == ()


# --- Devices -------------------------------------------------------------------------------------

PAIRS = (
    ("a", "b", 400),
    ("a", "c", 10),
    ("a", "d", 10),
    ("b", "c", 10),
    ("b", "d", 10),
    ("c", "d", 400),
)


def held(lease: Lease) -> str:
    return "".join(gpu.device for gpu in lease.resources.gpus)


def test_whole_devices_are_the_best_linked_ones():
    ledger = Ledger(an_inventory(4, gpus=gpus("a", "b", "c", "d"), links=PAIRS))
    take(ledger, "one", gpus=GpuRequest(milli=500))

    assert held(take(ledger, "two", gpus=GpuRequest(milli=2_000))) == "cd"
    assert refused(ledger, gpus=GpuRequest(milli=2_000)) == (("gpu_milli", 2_000, 1_000),)
    assert held(take(ledger, "three", gpus=GpuRequest())) == "b"


def test_a_single_device_does_not_break_a_pair():
    ledger = Ledger(an_inventory(4, gpus=gpus("a", "b", "c", "d"), links=PAIRS))
    ledger.restore(committed(gpus=gpus("c")))

    assert held(take(ledger, "x", gpus=GpuRequest())) == "d"
    assert held(take(ledger, "y", gpus=GpuRequest(milli=2_000))) == "ab"


def test_of_many_devices_the_set_grows_from_its_best_pair():
    names = [f"{number:02d}" for number in range(24)]
    island = names[10:18]
    links = [(a, b, 100 if {a, b} <= set(island) else 10) for a in names for b in names if a < b]
    devices = Devices(gpus(*names), links)

    assert [gpu.device for gpu in devices.choose(GpuRequest(milli=8_000))] == island


def test_of_very_many_devices_the_set_grows_from_the_first():
    names = [f"{number:02d}" for number in range(72)]
    assert SETS_MAX < 72 * 71 // 2
    devices = Devices(gpus(*names), [("00", "70", 100), ("70", "71", 100)])

    assert [gpu.device for gpu in devices.choose(GpuRequest(milli=3_000))] == ["00", "70", "71"]


@pytest.mark.rows("S4-25")
def test_shares_of_a_device_never_exceed_it():
    ledger = Ledger(an_inventory(4, gpus=gpus("a", "b")))

    assert held(take(ledger, "1", gpus=GpuRequest(milli=600))) == "a"
    assert held(take(ledger, "2", gpus=GpuRequest(milli=600))) == "b"
    assert held(take(ledger, "3", gpus=GpuRequest(milli=400))) == "a"
    assert refused(ledger, gpus=GpuRequest(milli=500)) == (("gpu_milli", 500, 400),)
    assert refused(ledger, gpus=GpuRequest(milli=1_000)) == (("gpu_milli", 1_000, 0),)


# --- After a start -------------------------------------------------------------------------------


def committed(lease_id: str = "kept", *, cores=(), attempt: str = "1", **resources) -> Lease:
    cpu_milli = sum(share for _, share in cores)
    return Lease(
        id=lease_id,
        job=JOB,
        attempt=attempt,
        cores=tuple(cores),
        resources=Resources(cpu_milli=cpu_milli, **resources),
        state="committed",
        granted_ms=1,
    )


@pytest.mark.rows("S4-112", "S4-113")
def test_a_committed_lease_is_put_back_exactly():
    inventory = an_inventory(4, gpus=gpus("a", "b"), custom=(("tpu", 2_000),))
    before = Ledger(inventory)
    take(before, "x", cpu_milli=1_500, memory_bytes=7, gpus=GpuRequest(milli=300))
    lease = before.commit("x", now_ms=0)

    after = Ledger(inventory)

    assert after.restore(lease) is None
    assert after.restore(lease) is None
    after.check()
    assert after.leases == before.leases
    assert after.free() == before.free()


@pytest.mark.rows("S4-112")
def test_what_is_gone_is_told_and_the_rest_stays_held():
    ledger = Ledger(an_inventory(2, cpu_milli=1_500, gpus=gpus("b"), memory_bytes=10))
    lease = committed(
        cores=((0, 1_000), (1, 1_000), (7, 500)),
        memory_bytes=12,
        gpus=gpus("a", "b"),
        custom=(("tpu", 1_000),),
    )

    assert (
        ledger.restore(lease).missing
        == ledger.restore(lease).missing
        == (
            ("core 1", 1_000, 500),
            ("core 7", 500, 0),
            ("memory_bytes", 12, 10),
            ("gpu a", 1_000, 0),
            ("custom.tpu", 1_000, 0),
        )
    )
    ledger.check()
    assert ledger.leases["kept"].cores == ((0, 1_000), (1, 500))
    assert refused(ledger, gpus=GpuRequest(milli=100)) == (("gpu_milli", 100, 0),)
    ledger.release("kept")
    assert ledger.free() == ledger.total


def test_only_a_committed_lease_is_put_back_and_only_under_its_own_id():
    ledger = Ledger(an_inventory(2))
    ledger.restore(committed(cores=((0, 1_000),)))

    with pytest.raises(LeaseRefused, match="taken by another lease"):
        ledger.restore(committed(attempt="2"))
    reserved = msgspec.structs.replace(committed("r"), state="reserved", expires_ms=5)
    with pytest.raises(LeaseRefused, match="not committed"):
        ledger.restore(reserved)


# --- Speed ---------------------------------------------------------------------------------------


def test_a_lease_costs_no_more_than_some_arithmetic_on_resources():
    """A ratio to other work of ours: the machine may be slow, and coverage may be measured."""
    ledger = Ledger(an_inventory(64, 64))
    request = Request(cpu_milli=4_000, memory_bytes=8 * GIB)
    numbers = iter(range(10**9))

    def lease() -> None:
        lease_id = str(next(numbers))
        ledger.reserve(lease_id, JOB, "1", request, now_ms=0)
        ledger.commit(lease_id, now_ms=1)
        ledger.release(lease_id)

    def arithmetic() -> None:
        granted = ledger.total.grant(request)
        assert (ledger.total - granted) + granted == ledger.total

    # In turns and short: on a busy machine both meet the same quiet moments.
    times = [[timeit.timeit(work, number=50) for work in (lease, arithmetic)] for _ in range(30)]
    ours, theirs = (min(column) for column in zip(*times, strict=True))
    print(f"{ours * 20_000:.1f} µs a lease, {theirs * 20_000:.1f} µs the arithmetic")

    assert ours < 5 * theirs


def test_what_is_done_to_a_copy_does_not_show_in_the_ledger():
    ledger = Ledger(an_inventory(2, 2, gpus=gpus("a", "b"), custom=(("tpu", 4_000),)))
    wanted = {"cpu_milli": 1_500, "gpus": GpuRequest(), "custom": (("tpu", 1_000),)}
    take(ledger, "a", **wanted)
    take(ledger, "gone", cpu_milli=500)
    ledger.release("gone")
    before = ledger.free()
    copy = ledger.copy()

    assert (copy.free(), copy.leases) == (before, ledger.leases)
    assert refused(copy, cpu_milli=9_000) == refused(ledger, cpu_milli=9_000)
    take(copy, "b", **wanted)
    copy.release("a")
    copy.check()
    ledger.check()
    assert (ledger.free(), list(ledger.leases)) == (before, ["a"])
    with pytest.raises(LeaseRefused, match="released"):
        take(copy, "gone", cpu_milli=500)
    take(ledger, "b", **wanted)  # The same that the copy gave, whatever became of that.


def test_the_ledger_tells_what_is_used_of_each_core():
    ledger = Ledger(an_inventory(4))
    take(ledger, "a", cpu_milli=1_500)

    assert ledger.used_cores == {0: 1_000, 1: 500}
