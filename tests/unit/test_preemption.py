import pytest

from distributed_grid.kernel import victims as victims_module
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.preemption import Candidate, plan
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request
from tests.unit.test_ledger import an_inventory, gpus


class Machine:
    """A ledger and those of its leases that may be ended."""

    def __init__(self, inventory: Inventory) -> None:
        self.ledger = Ledger(inventory)
        self.candidates: list[Candidate] = []

    def runs(self, name: str, *, may_end: bool = True, **what) -> Lease:
        about = {"rank": 2, "is_shared": False, "started_ms": 0}
        about |= {key: what.pop(key) for key in about if key in what}
        lease = self.ledger.reserve(name, JobId(name), "1", Request(**what), now_ms=0)
        assert isinstance(lease, Lease), lease
        self.ledger.commit(name, now_ms=0)
        if may_end:
            self.candidates.append(Candidate(lease=name, job=JobId(name), **about))
        return lease

    def victims(self, **wanted) -> tuple[str, ...] | None:
        found = plan(self.ledger, self.candidates, Request(**wanted), now_ms=1_000)
        self.ledger.check()
        return found.victims if found else None


def a_full_machine(cores: int, **inventory) -> Machine:
    machine = Machine(an_inventory(cores, **inventory))
    for number in range(cores):
        machine.runs(f"job{number}", cpu_milli=1_000, started_ms=number)
    return machine


def test_nobody_is_stopped_where_it_fits():
    machine = a_full_machine(2)
    machine.ledger.release("job0")

    found = plan(machine.ledger, machine.candidates, Request(cpu_milli=1_000), now_ms=0)
    assert (found.victims, found.cores) == ((), ((0, 1_000),))
    assert machine.victims() == ()


def test_a_plan_says_what_the_request_would_get():
    machine = a_full_machine(2, gpus=gpus("a"))
    found = plan(machine.ledger, machine.candidates, Request(cpu_milli=500), now_ms=0)

    assert found.victims == ("job1",)
    assert found.cores == ((1, 500),)
    assert found.resources.cpu_milli == 500
    assert list(machine.ledger.leases) == ["job0", "job1"]


def test_one_large_victim_is_better_than_two_small_ones():
    machine = Machine(an_inventory(4))
    machine.runs("small1", cpu_milli=1_000, rank=3)
    machine.runs("small2", cpu_milli=1_000, rank=3)
    machine.runs("large", cpu_milli=2_000, rank=1)

    assert machine.victims(cpu_milli=2_000) == ("large",)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"is_shared": True, "rank": 1}, {"is_shared": False, "rank": 3}),
        ({"rank": 3}, {"rank": 2, "started_ms": 9}),
        ({"started_ms": 9}, {"started_ms": 8}),
        ({}, {}),
    ],
)
def test_borrowed_before_own_then_the_less_important_then_the_younger(first, second):
    machine = Machine(an_inventory(2))
    machine.runs("second", cpu_milli=1_000, **second)
    machine.runs("first", cpu_milli=1_000, **first)

    assert machine.victims(cpu_milli=1_000) == ("first",)


def test_the_most_important_of_two_victims_counts_before_the_age_of_any():
    machine = Machine(an_inventory(8))
    machine.runs("a1", cpu_milli=2_000, rank=2, started_ms=9)
    machine.runs("a2", cpu_milli=2_000, rank=2, started_ms=8)
    machine.runs("b", cpu_milli=3_000, rank=2, started_ms=1)
    machine.runs("low", cpu_milli=1_000, rank=3)

    assert machine.victims(cpu_milli=4_000) == ("low", "b")


def test_nobody_is_stopped_in_vain():
    machine = Machine(an_inventory(2))
    machine.runs("protected", cpu_milli=1_000, may_end=False)
    machine.runs("other", cpu_milli=1_000)

    assert machine.victims(cpu_milli=2_000) is None
    assert machine.victims(cpu_milli=3_000) is None
    assert machine.victims(cpu_milli=1_000, memory_bytes=1 << 60) is None
    assert machine.victims(cpu_milli=1_000, custom=(("tpu", 1_000),)) is None


def test_whoever_has_ended_is_no_victim():
    machine = a_full_machine(2)
    machine.ledger.release("job1")
    machine.runs("new", cpu_milli=1_000, may_end=False)

    assert machine.victims(cpu_milli=1_000) == ("job0",)


def test_two_half_used_cores_are_no_whole_one():
    machine = Machine(an_inventory(2))
    for name in ("a", "b"):  # Two to a core.
        machine.runs(f"{name}1", cpu_milli=500, rank=3)
        machine.runs(f"{name}2", cpu_milli=500, rank=2)

    assert machine.victims(cpu_milli=1_000) in {("a1", "a2"), ("b1", "b2")}
    assert machine.victims(cpu_milli=500) in {("a1",), ("b1",)}
    assert len(machine.victims(cpu_milli=1_500)) == 3


def test_a_core_that_somebody_protected_holds_in_part_does_not_count():
    machine = Machine(an_inventory(2))
    machine.runs("protected", cpu_milli=500, may_end=False)
    machine.runs("beside", cpu_milli=500, rank=3, is_shared=True)
    machine.runs("whole", cpu_milli=1_000, rank=1)

    assert machine.victims(cpu_milli=1_000) == ("whole",)
    assert machine.victims(cpu_milli=500) == ("beside",)


def test_only_devices_of_the_wanted_kind_help():
    several = (*gpus("a", "b"), Gpu(device="c", model="RTX4090"))
    machine = Machine(an_inventory(4, gpus=several, custom=(("tpu", 2_000),)))
    machine.runs("other", gpus=GpuRequest(model="RTX4090"), rank=3)
    machine.runs("half1", gpus=GpuRequest(milli=500, model="H100"))
    machine.runs("half2", gpus=GpuRequest(milli=500, model="H100"))
    machine.runs("one", gpus=GpuRequest(model="H100"), rank=1)
    machine.runs("tpus", custom=(("tpu", 2_000),))

    assert machine.victims(gpus=GpuRequest(model="H100")) == ("one",)
    assert machine.victims(gpus=GpuRequest(milli=250, model="H100")) == ("half1",)
    assert machine.victims(gpus=GpuRequest()) == ("other",)
    assert machine.victims(gpus=GpuRequest(milli=3_000)) == ("other", "half1", "half2", "one")
    assert machine.victims(custom=(("tpu", 1_000),), gpus=GpuRequest()) == ("other", "tpus")


def test_many_equal_ones_are_chosen_at_once_the_youngest_of_them():
    machine = a_full_machine(400)

    assert machine.victims(cpu_milli=8_000) == tuple(f"job{n}" for n in range(399, 391, -1))


def test_more_than_can_be_compared_are_chosen_greedily():
    machine = a_full_machine(400)

    assert len(machine.victims(cpu_milli=9_000)) == 9
    assert len(machine.victims(cpu_milli=300_000)) == 300


def test_greed_gives_the_fewest_and_exchanges_them_for_the_least_deserving(monkeypatch):
    monkeypatch.setattr(victims_module, "TRIES_MAX", 0)
    machine = Machine(an_inventory(12))
    machine.runs("important", cpu_milli=4_000, rank=1)
    machine.runs("medium", cpu_milli=3_000, rank=2)
    machine.runs("low", cpu_milli=3_000, rank=3)
    machine.runs("tiny", cpu_milli=2_000, rank=3, is_shared=True)

    assert machine.victims(cpu_milli=3_000) == ("low",)
    assert machine.victims(cpu_milli=6_000) == ("low", "medium")
    monkeypatch.setattr(victims_module, "EXCHANGES_MAX", 0)
    assert machine.victims(cpu_milli=6_000) == ("tiny", "important")


def test_greed_finds_its_way_when_the_best_are_too_few(monkeypatch):
    monkeypatch.setattr(victims_module, "TRIES_MAX", 0)
    monkeypatch.setattr(victims_module, "POOL_MAX", 1)
    machine = Machine(an_inventory(4, memory_bytes=8))
    for number in range(4):
        machine.runs(f"job{number}", cpu_milli=1_000, memory_bytes=2)

    assert machine.victims(cpu_milli=2_000, memory_bytes=4) == ("job0", "job1")


def test_what_is_found_when_time_runs_out_is_not_thrown_away(monkeypatch):
    machine = Machine(an_inventory(12, memory_bytes=66))
    for number in range(12):
        machine.runs(f"job{number:02}", cpu_milli=1_000, memory_bytes=number, rank=1 + number % 3)
    exact = machine.victims(cpu_milli=2_000, memory_bytes=12)
    for tries in range(40):
        monkeypatch.setattr(victims_module, "TRIES_MAX", tries)

        assert len(machine.victims(cpu_milli=2_000, memory_bytes=12)) == len(exact) == 2
