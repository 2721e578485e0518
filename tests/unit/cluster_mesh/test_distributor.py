"""`WorkDistributor` and `Job`, name for name as in seed 002, over the client and a canned agent."""

import asyncio

import msgspec
import pytest

from distributed_grid.client.borrowing import NoResources
from distributed_grid.cluster_mesh import (
    ClusterMesh,
    Job,
    MeshConfig,
    NodeClass,
    PowerAwarePolicy,
    SchedulingPolicy,
    WorkDistributor,
)
from distributed_grid.errors import BadValue, NeverFits, NotFound, UnknownName
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.ids import NodeId
from distributed_grid.model.node import NodeRecord, Power
from distributed_grid.model.resources import Resources
from tests.agent_stand_in import CannedAgent, serving
from tests.mesh_stand_in import hashed

GIB = 1 << 30


def a_node(name: str, *, cores: int = 8, gib: int = 32, gpus: int = 0, **fields) -> NodeRecord:
    """A node of which everything is free."""
    devices = tuple(Gpu(device=f"{name}-{number}", model="H100") for number in range(gpus))
    total = Resources(cpu_milli=cores * 1_000, memory_bytes=gib * GIB, gpus=devices)
    usual = {"id": NodeId(hashed(name)), "name": name, "total": total, "free": total}
    return NodeRecord(**{**usual, **fields})


SERVER = a_node("server", cores=64, gib=512, gpus=2, node_class=NodeClass.DataCenter())
DESK = a_node("desk", gpus=1)
LAPTOP = a_node("laptop", cores=4, gib=16, node_class=NodeClass.Laptop())


@pytest.fixture
def agent():
    made = CannedAgent()
    made.across.records = (SERVER, DESK, LAPTOP)
    return made


@pytest.fixture
def schedule(agent, tmp_path):
    with serving(agent, tmp_path / "s") as path:

        def run(distributor, *jobs, config=None):
            async def all_of_them():
                async with await ClusterMesh.new(config, socket=path) as mesh:
                    return [await distributor.schedule(job, mesh) for job in jobs]

            return asyncio.run(all_of_them())

        yield run


def a_job(name: str = "job", **wishes) -> Job:
    return Job.builder().name(name).wish(**wishes).build()


@pytest.mark.rows(
    "S2-12", "S2-34", "S2-35", "S2-36", "S2-37", "S2-38", "S2-39", "S2-40", "S2-41", "S2-42",
    "S2-43", "S2-44", "S2-85", "S2-89", "S2-90",
)  # fmt: skip
def test_the_example_of_the_seed_runs(agent, tmp_path, capsys):
    async def example(mesh):
        # Create work distributor
        distributor = WorkDistributor(SchedulingPolicy.BestFit)

        # Define job requirements
        job = (
            Job.builder()
            .name("training-job")
            .cpu_cores(4.0)
            .memory_gb(16)
            .gpu_count(1)
            .prefer_node_class(NodeClass.DataCenter)
            .build()
        )

        # Schedule job
        assignment = await distributor.schedule(job, mesh)
        print(f"Job assigned to node: {assignment.node_id}")

        # Configure battery-safe scheduling
        policy = (
            PowerAwarePolicy.builder()
            .min_battery_level(20)
            .prefer_ac_power(True)
            .thermal_limit(80)
            .build()
        )

        distributor.set_power_policy(policy)
        return job

    async def main(path):
        async with await ClusterMesh.new(socket=path) as mesh:
            return await example(mesh)

    with serving(agent, tmp_path / "s") as path:
        job = asyncio.run(main(path))

    # The desk would waste less; the server is of the class that is preferred.
    assert capsys.readouterr().out == f"Job assigned to node: {SERVER.id}\n"
    request = job.spec.request
    assert (job.name, request.cpu_milli, request.memory_bytes) == ("training-job", 4_000, 16 * GIB)
    assert (request.gpus.milli, job.spec.prefer.classes) == (1_000, ("datacenter",))
    assert agent.submitted == []  # There was nothing to run.


@pytest.mark.rows("S2-41")
def test_a_class_is_a_preference_and_not_a_demand(schedule):
    job = Job.builder().cpu_cores(1).prefer_node_class(NodeClass.Edge).build()
    [given] = schedule(WorkDistributor(SchedulingPolicy.BestFit), job)

    assert given.node_name == "laptop"  # Nobody is an edge device: the least is wasted there.


@pytest.mark.rows("S2-84")
def test_there_are_the_seven_policies_of_the_seed():
    assert [policy.name for policy in SchedulingPolicy] == [
        "BestFit", "FirstFit", "RoundRobin", "PowerAware", "LocalityAware", "CostOptimized",
        "Balanced",
    ]  # fmt: skip


@pytest.mark.parametrize("policy", list(SchedulingPolicy))
def test_each_policy_decides_as_grid_place_does(schedule, policy):
    [given] = schedule(WorkDistributor(policy), a_job())

    assert given.decision.rules.policy is policy.policy
    assert given.node_id == given.decision.responsible


@pytest.mark.rows("S2-79")
def test_in_turn_means_that_everyone_gets_as_much(schedule):
    jobs = [Job.builder().command(["true"]).wish(name=f"n{n}").build() for n in range(6)]
    given = schedule(WorkDistributor(SchedulingPolicy.RoundRobin), *jobs)

    names = sorted(one.node_name for one in given)
    assert names == ["desk", "desk", "laptop", "laptop", "server", "server"]


def test_what_was_given_away_is_not_given_again_until_it_is_released(schedule):
    distributor = WorkDistributor("best-fit")
    large = [Job.builder().cpu_cores(6).gpu_count(1).build() for _ in range(5)]
    [first, second, third] = schedule(distributor, *large[:3])
    assert [one.node_name for one in (first, second, third)] == ["desk", "server", "server"]

    with pytest.raises(NoResources, match="gpu"):
        schedule(distributor, large[3])
    distributor.release(first)
    distributor.release(first)
    [again] = schedule(distributor, large[4])
    assert again.node_name == "desk"


def test_a_job_with_a_command_is_submitted_to_the_nodes_that_the_decision_allows(schedule, agent):
    job = (
        Job.builder()
        .name("train")
        .gpu_count(1)
        .storage_gb(0)
        .command("python train.py")
        .wish(priority="high", env={"MODE": "fast"})
        .build()
    )
    [given] = schedule(WorkDistributor(SchedulingPolicy.BestFit), job)
    [spec] = agent.submitted

    assert (given.node_name, given.job.id, spec.id) == ("desk", job.spec.id, job.spec.id)
    assert spec.work.argv == ("/bin/sh", "-c", "python train.py")
    assert (spec.priority, spec.work.env["MODE"], spec.policy) == ("high", "fast", "BestFit")
    assert spec.prefer.nodes == (DESK.id,)
    assert set(spec.require.nodes) == {DESK.id, SERVER.id}  # The laptop has no GPU.
    assert given.snapshot


def test_what_was_submitted_long_ago_shows_in_what_nodes_tell(schedule, agent):
    agent.across.records = (DESK,)
    now_s = 0.0
    distributor = WorkDistributor(SchedulingPolicy.BestFit, clock_s=lambda: now_s)
    jobs = [Job.builder().cpu_cores(8).command(["true"]).wish(name=f"n{n}").build()
            for n in range(3)]  # fmt: skip

    schedule(distributor, jobs[0])
    # It may show already: then it must not count twice, and the agent lets it wait.
    schedule(distributor, jobs[1])
    now_s = 10.0
    schedule(distributor, jobs[2])
    assert [spec.name for spec in agent.submitted] == ["n0", "n1", "n2"]


def test_a_refused_submission_gives_back_what_was_taken(schedule, agent):
    agent.across.records = (a_node("huge", cores=100),)
    distributor = WorkDistributor()
    with pytest.raises(NeverFits):
        schedule(distributor, Job.builder().cpu_cores(90).command(["true"]).build())
    [given] = schedule(distributor, Job.builder().cpu_cores(90).build())

    assert given.node_name == "huge"


def on(name: str, **power) -> NodeRecord:
    return a_node(name, power=Power(**power), node_class=NodeClass.Laptop())


@pytest.mark.rows("S2-17", "S2-86", "S2-87", "S2-88")
def test_batteries_and_heat_decide_who_is_left_out_and_who_comes_last(schedule, agent):
    low = on("low", on_battery=True, battery_percent=15)
    full = on("full", on_battery=True, battery_percent=90)
    full = msgspec.structs.replace(full, id=NodeId("0" * 64))  # The first, but for its battery.
    hot, plugged = on("hot", temperature_centi=8_200), on("plugged")
    agent.across.records = (low, full, hot, plugged)
    distributor = WorkDistributor(SchedulingPolicy.FirstFit)
    distributor.set_power_policy(
        PowerAwarePolicy.builder().min_battery_level(20).thermal_limit(80).build()
    )
    [given] = schedule(distributor, a_job())

    assert given.node_name == "plugged"
    assert {one.name for one in given.decision.refused} == {"low", "hot"}
    agent.across.records = (low, full, hot)
    [given] = schedule(distributor, a_job())
    assert given.node_name == "full"
    agent.across.records = (low, hot)
    with pytest.raises(NoResources) as caught:
        schedule(distributor, a_job())
    assert set(dict(caught.value.reasons)) == {"low", "hot"}


@pytest.mark.rows("S2-137")
def test_without_a_policy_of_its_own_the_mesh_has_one(schedule, agent):
    agent.across.records = (on("low", on_battery=True, battery_percent=15),)
    careless = MeshConfig(battery_threshold=10)

    with pytest.raises(NoResources):
        schedule(WorkDistributor(), a_job())
    [given] = schedule(WorkDistributor(), a_job(), config=careless)
    assert given.node_name == "low"


def test_a_machine_in_no_mesh_is_a_mesh_of_one(schedule, agent):
    async def in_none():
        raise NotFound("mesh", "this node is in none")

    agent.across.snapshot = in_none
    job = Job.builder().cpu_cores(2).gpu_count(1).command(["true"]).build()
    [given] = schedule(WorkDistributor(), job)
    [spec] = agent.submitted

    assert (given.node_id, given.node_name, given.snapshot) == ("ab" * 32, "desk", "")
    assert (spec.require.nodes, spec.policy) == ((), "")
    with pytest.raises(NoResources, match="wanted"):
        schedule(WorkDistributor(), Job.builder().gpu_count(2).build())


def test_a_mesh_that_has_told_nothing_yet_is_said_to_be_that(schedule, agent):
    agent.across.records = ()

    with pytest.raises(NoResources, match="no node that tells what it is"):
        schedule(WorkDistributor(), a_job())


@pytest.mark.rows("S2-42")
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda job: job.name(""), BadValue),
        (lambda job: job.cpu_cores(-1), BadValue),
        (lambda job: job.memory_gb("much"), BadValue),
        (lambda job: job.memory_gb(-1), BadValue),
        (lambda job: job.gpu_count(10_000), BadValue),
        (lambda job: job.command([]), BadValue),
        (lambda job: job.prefer_node_class("spaceship"), UnknownName),
        (lambda job: job.wish(colour="red"), UnknownName),
    ],
)
def test_build_refuses_what_no_agent_would_take(wrong, error):
    with pytest.raises(error):
        wrong(Job.builder()).build()


@pytest.mark.rows("S2-38", "S2-39")
def test_parts_of_cores_and_of_gibibytes_are_fine():
    job = Job.builder().cpu_cores(0.5).memory_gb(1.5).storage_gb("2").build()

    assert job.spec.request.cpu_milli == 500
    assert job.spec.request.memory_bytes == 3 * GIB // 2
    assert job.spec.request.storage_bytes == 2 * GIB


@pytest.mark.parametrize("told", [NodeClass.DataCenter, NodeClass.DataCenter(), "data-center"])
def test_a_class_may_be_named_in_three_ways(told):
    assert Job.builder().prefer_node_class(told).build().spec.prefer.classes == ("datacenter",)


def test_a_policy_nobody_knows_is_told_with_those_there_are():
    with pytest.raises(UnknownName, match="no policy named 'Best'") as caught:
        WorkDistributor("Best")

    assert "BestFit" in caught.value.remedy
