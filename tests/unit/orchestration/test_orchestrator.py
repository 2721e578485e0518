"""`GridOrchestrator` over a canned agent: results, errors, status, and whose agent it is."""

import asyncio
import contextlib

import msgspec
import pytest

from distributed_grid.config import ClusterConfig
from distributed_grid.core import GridOrchestrator
from distributed_grid.errors import Conflict, GridError
from distributed_grid.model.lending import Withheld
from distributed_grid.orchestration.failures import JobFailed, NoResources, NotInitialized
from distributed_grid.orchestration.resource_sharing import ResourceType
from distributed_grid.wire.api import Explanation
from tests.agent_stand_in import CannedAgent, a_view, serving
from tests.mesh_stand_in import a_node


@pytest.fixture
def agent(tmp_path):
    canned = CannedAgent()
    with serving(canned, tmp_path / "agent.sock"):
        yield canned


@pytest.fixture
def orchestrator(tmp_path, agent):
    return GridOrchestrator(ClusterConfig(name="home"), data_dir=tmp_path)


@pytest.mark.rows("S3-48", "S3-52", "S3-53", "S3-54", "S3-55", "S3-60", "S3-62", "S3-63", "S3-82")
async def test_a_job_on_shared_resources_gives_its_output(orchestrator, agent):
    agent.write("training_001", b"loss 0.1\n")
    await orchestrator.initialize()
    result = await orchestrator.run_with_shared_resources(
        command="python train.py",
        resource_type=ResourceType.GPU,
        amount=1,
        priority="high",
        job_id="training_001",
    )
    await orchestrator.shutdown()
    (spec,) = agent.submitted

    assert result["output"] == "loss 0.1\n"
    assert (result["exit_code"], result["node"], result["job_id"]) == (0, "desk", spec.id)
    assert spec.work.argv == ("/bin/sh", "-c", "python train.py")
    assert (spec.is_shared, spec.priority, spec.name) == (True, "high", "training_001")
    assert (spec.request.gpus.milli, spec.request.cpu_milli) == (1_000, 0)


@pytest.mark.rows("S3-57", "S3-64", "S3-65", "S3-96")
async def test_what_is_left_out_has_its_default(orchestrator, agent):
    async with orchestrator:
        await orchestrator.run_with_shared_resources("true", ResourceType.MEMORY, 8)
        await orchestrator.run_with_shared_resources("true", "CPU", 2, preferred_nodes=["gpu1"])
        status = await orchestrator.get_shared_resource_status()
    memory, cpu = agent.submitted

    assert (memory.priority, memory.request.memory_bytes) == ("medium", 8 << 30)
    assert memory.id != cpu.id
    assert (cpu.request.cpu_milli, cpu.prefer.nodes) == (2_000, ("gpu1",))
    assert (status["offers"], status["allocations"]) == ([], [])


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.run_with_shared_resources("true", "cpu", 1),
        lambda one: one.get_shared_resource_status(),
        lambda one: one.get_status(),
        lambda one: one.run_command("true"),
    ],
)
async def test_a_call_before_initialize_or_after_shutdown_says_so(orchestrator, call):
    with pytest.raises(RuntimeError, match="is not initialized"):
        await call(orchestrator)
    async with orchestrator:
        await call(orchestrator)
    with pytest.raises(NotInitialized):
        await call(orchestrator)


@pytest.mark.rows("S3-88")
async def test_a_job_that_fails_raises_with_its_stderr(orchestrator, agent):
    agent.ends_as = lambda spec: a_view(spec.name, state="failed", exit_code=3)
    agent.write("sh", b"half\n")
    agent.write("sh", b"no such file: data.csv\n", stream="stderr")
    async with orchestrator:
        with pytest.raises(RuntimeError, match=r"no such file: data\.csv") as caught:
            await orchestrator.run_with_shared_resources("sh x", ResourceType.CPU, 1)
    error = caught.value

    assert isinstance(error, JobFailed)
    assert (error.job_exit_code, error.stdout) == (3, "half\n")
    assert "exit code 3" in str(error)
    assert "on desk" in str(error)


async def test_a_job_that_was_lost_says_why(orchestrator, agent):
    agent.ends_as = lambda spec: a_view(spec.name, state="lost", exit_code=None, reason="3 losses")
    async with orchestrator:
        with pytest.raises(JobFailed, match="3 losses"):
            await orchestrator.run_with_shared_resources("true", ResourceType.CPU, 1)


@pytest.mark.rows("S3-83")
async def test_no_resources_is_a_typed_error_with_the_reasons_of_each_node(orchestrator, agent):
    held = Withheld(kind="gpu", threshold="gpu_utilization_max", limit="20 %", measured="90 %")
    agent.lends = msgspec.structs.replace(agent.lends, withheld=(held,), not_joined=("gpu1",))
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)
    async with orchestrator:
        with pytest.raises(RuntimeError, match="No resources available") as caught:
            await orchestrator.run_with_shared_resources("true", "gpu", 1, max_wait_time=0.02)
    error = caught.value

    assert isinstance(error, NoResources)
    assert dict(error.reasons)["desk"] == "offers 0 gpu, gpu_utilization_max is 20 %, measured 90 %"
    assert dict(error.reasons)["gpu1"].startswith("not joined")
    assert agent.cancelled == ["true"]


async def test_without_a_limit_it_is_logged_why_nothing_is_lent(orchestrator, agent, caplog):
    waits = a_view("true", state="waiting", exit_code=None)
    agent.ends_as = lambda spec: msgspec.structs.replace(waits, id=spec.id)
    lacks, remedy = (
        "the owner does not lend what it asks for",
        "lend it: grid offer all, or: grid offer set KEY VALUE",
    )
    explained = []

    async def explain(word):
        explained.append(word)
        if len(explained) == 2:  # Told once: the second time it is no news, and it begins.
            [job] = agent.views
            agent.views[job] = msgspec.structs.replace(
                waits, id=job, state="succeeded", exit_code=0
            )
        return Explanation(id=waits.id, state="waiting", summary=lacks, remedies=(remedy,))

    agent.explain = explain
    async with orchestrator:
        await orchestrator.run_with_shared_resources("true", "memory", 8, max_wait_time=None)

    assert [(one.name, one.levelname, one.getMessage()) for one in caplog.records] == [
        ("distributed_grid", "WARNING", f"job true waits: {lacks}. What would help: {remedy}")
    ]


async def test_a_timeout_limits_the_wait_as_well(orchestrator, agent):
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)
    async with orchestrator:
        with pytest.raises(NoResources, match="within 20ms"):
            await orchestrator.run_with_shared_resources(
                "true", "cpu", 1, max_wait_time=None, timeout=0.02
            )
    assert [spec.work.timeout_ms for spec in agent.submitted] == [20]


async def test_the_same_job_id_twice_at_once_is_refused(orchestrator, agent):
    agent.views[a_view("t").id] = a_view("t", state="running", exit_code=None)
    async with orchestrator:
        with pytest.raises(Conflict):
            await orchestrator.run_with_shared_resources("true", "cpu", 1, job_id="t")


async def test_a_cancelled_task_takes_its_job_with_it(orchestrator, agent):
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)
    async with orchestrator:
        task = asyncio.create_task(orchestrator.run_with_shared_resources("true", "cpu", 1))
        while not any(asked[0] == "wait" for asked in agent.asked):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    assert (task.cancelled(), agent.cancelled) == (True, ["true"])


async def test_the_execution_section_counts_as_far_as_it_was_set(tmp_path, agent):
    config = ClusterConfig.from_dict(
        {
            "execution": {
                "working_directory": str(tmp_path / "jobs"),
                "environment": {"MODE": "fast"},
                "timeout_seconds": 60,
                "retry_attempts": 2,
                "default_gpus_per_node": 1,
            }
        }
    )
    async with GridOrchestrator(config, data_dir=tmp_path) as orchestrator:
        await orchestrator.run_command("true")
        await orchestrator.run_with_shared_resources("true", "cpu", 1, cwd="/", project="vision")
    own, borrowed = agent.submitted

    assert (own.work.cwd, own.work.timeout_ms, own.retries) == (f"{tmp_path}/jobs", 60_000, 2)
    assert (own.work.env["MODE"], own.is_shared, own.request.gpus.milli) == ("fast", False, 1_000)
    assert (borrowed.work.cwd, borrowed.project) == ("/", "vision")


async def test_a_command_of_the_owner_runs_here(orchestrator, agent):
    agent.write("echo", b"hi\n")
    async with orchestrator:
        result = await orchestrator.run_command("echo hi", 1, 2, ["desk"])
    (spec,) = agent.submitted

    assert (result["output"], result["outputs"]) == ("hi\n", {"desk": "hi\n"})
    assert (spec.is_shared, spec.request.gpus.milli) == (False, 2_000)


@pytest.mark.parametrize(
    ("nodes", "names", "named"),
    [(2, None, "gpu1"), (None, ["gpu9"], "gpu9"), (None, ["desk", "gpu9"], "gpu9")],
)
async def test_machines_that_have_not_joined_cannot_run_a_command(
    tmp_path, agent, nodes, names, named
):
    config = ClusterConfig.from_dict({"name": "home", "nodes": ["desk", "gpu1"]})
    async with GridOrchestrator(config, data_dir=tmp_path) as orchestrator:
        with pytest.raises(NoResources, match=f"{named}: not joined"):
            await orchestrator.run_command("true", nodes=nodes, node_names=names)

    assert agent.submitted == []


async def test_two_nodes_of_one_machine_are_refused_plainly(orchestrator):
    async with orchestrator:
        with pytest.raises(NoResources, match="has one machine"):
            await orchestrator.run_command("true", nodes=2)


@pytest.mark.rows("S3-47")
async def test_the_status_is_a_dict_with_attributes(tmp_path, agent):
    config = ClusterConfig.from_dict({"name": "home", "nodes": ["desk", "gpu1"]})
    async with GridOrchestrator(config, data_dir=tmp_path) as orchestrator:
        status = await orchestrator.get_status()

    assert (status.name, status["total_nodes"], status.online_nodes) == ("home", 2, 1)
    assert [(node.name, node.is_online) for node in status.nodes] == [
        ("desk", True),
        ("gpu1", False),
    ]
    assert status.nodes[0].gpu_utilization == [0.0, 0.0]
    with pytest.raises(AttributeError):
        _ = status.nothing


async def test_starting_and_ending_twice_changes_nothing(orchestrator):
    await orchestrator.shutdown()
    await orchestrator.initialize()
    await orchestrator.initialize()
    assert orchestrator.is_initialized
    await orchestrator.shutdown()
    await orchestrator.shutdown()
    assert not orchestrator.is_initialized


async def test_an_agent_that_was_there_is_not_stopped(orchestrator, agent):
    async with orchestrator:
        pass

    assert not any(asked[0] == "down" for asked in agent.asked)


async def test_wrong_words_are_our_errors(orchestrator, agent):
    async with orchestrator:
        for kind, amount in (("g p u", 1), (ResourceType.CPU, 1.5), (ResourceType.GPU, 0)):
            with pytest.raises(GridError):
                await orchestrator.run_with_shared_resources("true", kind, amount)

    assert agent.submitted == []


# --- Over a mesh ----------------------------------------------------------------------------------


async def test_a_command_runs_on_as_many_nodes_as_are_wanted_those_listed_first(tmp_path, agent):
    agent.mesh.members += [a_node("attic"), a_node("barn"), a_node("gone", health="dead")]
    agent.ends_as = lambda spec: a_view(spec.name, node=spec.require.nodes[0])
    agent.write("echo", b"hi\n")
    config = ClusterConfig.from_dict({"name": "home", "nodes": ["barn", "desk"]})
    async with GridOrchestrator(config, data_dir=tmp_path) as orchestrator:
        result = await orchestrator.run_command("echo hi", nodes=2)
        named = await orchestrator.run_command("echo hi", node_names=["attic"])
        with pytest.raises(NoResources, match="the cluster: has 3 machines"):
            await orchestrator.run_command("echo hi", nodes=4)
        with pytest.raises(NoResources, match="gone: not joined"):
            await orchestrator.run_command("echo hi", node_names=["attic", "gone"])

    assert result["outputs"] == {"desk": "hi\n", "barn": "hi\n"}
    assert named["outputs"] == {"attic": "hi\n"}
    assert [spec.require.nodes for spec in agent.submitted] == [("desk",), ("barn",), ("attic",)]


async def test_the_first_failure_of_several_nodes_is_told(tmp_path, agent):
    agent.mesh.members.append(a_node("attic"))
    agent.ends_as = lambda spec: a_view(
        spec.name, state="failed", exit_code=3, node=spec.require.nodes[0]
    )
    async with GridOrchestrator(data_dir=tmp_path) as orchestrator:
        with pytest.raises(JobFailed, match="failed on desk with exit code 3"):
            await orchestrator.run_command("false", nodes=2)


async def test_the_status_has_every_machine_of_the_mesh(tmp_path, agent):
    agent.mesh.members += [a_node("attic", gpus_total=2, gpus_free_milli=1_500), a_node("away")]
    agent.mesh.members[2] = msgspec.structs.replace(agent.mesh.members[2], health="left")
    agent.across.others = (msgspec.structs.replace(agent.lends, node="attic", state="paused"),)
    agent.across.missing = ("cellar",)
    agent.lends = msgspec.structs.replace(agent.lends, not_joined=("attic", "gpu1"))
    async with GridOrchestrator(data_dir=tmp_path) as orchestrator:
        status = await orchestrator.get_status()
        shared = await orchestrator.get_shared_resource_status()

    assert (status.total_nodes, status.online_nodes, status.total_gpus) == (3, 2, 4)
    assert [node.name for node in status.nodes] == ["desk", "attic", "gpu1"]
    assert shared["states"] == {"desk": "open", "attic": "paused"}
    assert (shared["not_joined"], shared["missing"]) == (["gpu1"], ["cellar"])
