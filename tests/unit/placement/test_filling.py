"""What is a node like after a job was placed on it?"""

import pytest

from distributed_grid.errors import NotEnough
from distributed_grid.kernel.placement import Rules, place, snapshot
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.kernel.placement.registry import policy_named
from tests.builders import a_job, a_node


def test_a_placed_job_takes_its_resources_and_runs():
    node = a_node(cpus=4, gpus=2, jobs=1, running=("web",))

    after = after_placing(a_job("train", cpus=1.5, gpus=1), node)

    assert after.free.cpu_milli == 2_500
    assert [gpu.device for gpu in after.free.gpus] == ["RTX4090#001"]
    assert (after.jobs, after.running) == (2, ("train", "web"))
    assert after.total == node.total


def test_a_job_that_does_not_fit_cannot_be_placed():
    with pytest.raises(NotEnough):
        after_placing(a_job(cpus=99), a_node())


@pytest.mark.rows("S1-118", "S2-12")
def test_a_batch_fills_the_fleet_and_never_oversells_it():
    held = snapshot([a_node(number, cpus=4, gpus=1) for number in range(3)])
    rules = Rules(policy=policy_named("BestFit"))
    placed = []
    for number in range(20):
        job = a_job(f"job-{number}", cpus=1, gpus=0.5)
        if (best := place(job, held, rules).best) is not None:
            placed.append(best.id)
            held.update(after_placing(job, best))

    assert len(placed) == 6  # Two halves of a GPU on each of three nodes.
    assert all(placed.count(node) == 2 for node in placed)
    decision = place(a_job(gpus=0.5), held, rules)
    assert {reason.kind for r in decision.refused for reason in r.reasons} == {"capacity"}
