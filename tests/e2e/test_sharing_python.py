"""The programmes of seed 003 as they are printed, against a real agent, and without one."""

import os

import pytest

from tests.keeper_lab import is_alive
from tests.sharing_lab import LENDS, MACHINE, SharingLab, lending

PROGRAMME = """
from distributed_grid.core import GridOrchestrator
from distributed_grid.config import ClusterConfig
from distributed_grid.orchestration.resource_sharing import ResourceType

# Load configuration
config = ClusterConfig.from_yaml("config/cluster_config.yaml")
orchestrator = GridOrchestrator(config)

# Initialize
await orchestrator.initialize()

# Request resources and run job
result = await orchestrator.run_with_shared_resources(
    command="python train.py",
    resource_type=ResourceType.GPU,
    amount=1,
    priority="high",
    job_id="training_001"
)

# Check status
status = await orchestrator.get_shared_resource_status()
print(f"Available offers: {status['offers']}")
print(f"Active allocations: {status['allocations']}")

# Cleanup
await orchestrator.shutdown()
"""
BEGIN = """
from distributed_grid.core import GridOrchestrator
from distributed_grid.config import ClusterConfig
from distributed_grid.orchestration.resource_sharing import ResourceType
orchestrator = GridOrchestrator(ClusterConfig.from_yaml("config/cluster_config.yaml"))
await orchestrator.initialize()
local_gpu_utilization = 90
"""
END = "\nawait orchestrator.shutdown()\n"
OFFLOADING = """
# When main node is overloaded, offload to workers
if local_gpu_utilization > 80:
    result = await orchestrator.run_with_shared_resources(
        command="python train_model.py",
        resource_type=ResourceType.GPU,
        amount=1,
        priority="high"
    )
"""
BATCH = """
# Process large datasets when memory is available
result = await orchestrator.run_with_shared_resources(
    command="python process_large_dataset.py",
    resource_type=ResourceType.MEMORY,
    amount=8,  # Need 8GB
    priority="low"
)
"""
PARALLEL = """
# Run parallel tasks on multiple nodes
tasks = []
for i in range(4):
    task = orchestrator.run_with_shared_resources(
        command=f"python compute_task.py --task-id {i}",
        resource_type=ResourceType.CPU,
        amount=2,
        priority="medium"
    )
    tasks.append(task)

results = await asyncio.gather(*tasks)
"""


def prepared(lab: SharingLab) -> SharingLab:
    """The files that the programmes name, beside them."""
    (lab.dir / "config").mkdir()
    (lab.dir / "config" / "cluster_config.yaml").write_text(MACHINE + LENDS)
    for name in ("train", "train_model", "process_large_dataset", "compute_task"):
        (lab.dir / f"{name}.py").write_text(
            "import os, sys\nprint(os.path.basename(sys.argv[0]), *sys.argv[1:],"
            " os.environ['GRID_GPUS'], os.environ['GRID_CPUS'])\n"
        )
    return lab


@pytest.fixture(scope="module")
def lab():
    with lending() as made:
        yield prepared(made)


@pytest.mark.rows("S3-01", "S3-48", "S3-49", "S3-50", "S3-54", "S3-57")
def test_the_programme_runs_unchanged(lab):
    done = lab.python(PROGRAMME)
    lines = done.stdout.decode().splitlines()

    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    assert lines[0].startswith("Available offers: [{'node_id': 'lab', 'resource_type': 'cpu'")
    assert lines[1] == "Active allocations: []"
    assert lab("logs", "training_001").stdout == b"train.py H100#0000 0\n"


@pytest.mark.rows("S3-93", "S3-94", "S3-95")
@pytest.mark.parametrize(
    ("programme", "output"),
    [
        (OFFLOADING + "print(result['output'], end='')", "train_model.py H100#0000 0\n"),
        (BATCH + "print(result['output'], end='')", "process_large_dataset.py  0\n"),
        (
            PARALLEL + "print(*(result['output'] for result in results), sep='', end='')",
            "".join(f"compute_task.py --task-id {n}  2\n" for n in range(4)),
        ),
    ],
    ids=["offloading", "batch", "parallel"],
)
def test_the_use_cases_run_unchanged(lab, programme, output):
    done = lab.python(BEGIN + programme + END)

    assert (done.returncode, done.stdout.decode()) == (0, output), done.stderr.decode()


def test_four_tasks_at_once_do_not_share_a_core(lab):
    show = PARALLEL + "print(*(one['job_id'] for one in results))"
    jobs = lab.python(BEGIN + show + END).stdout.decode().split()
    views = [lab.json("job", job) for job in jobs]
    spans = [(view["attempts"][0]["cores"], view["started_ms"], view["ended_ms"]) for view in views]

    for number, (cores, started, ended) in enumerate(spans):
        assert len(cores) == 2
        for other_cores, other_started, other_ended in spans[:number]:
            if started < other_ended and other_started < ended:
                assert not set(cores) & set(other_cores)


@pytest.mark.rows("S3-83", "S3-88")
def test_failures_are_runtime_errors_that_say_what_happened(lab):
    done = lab.python(
        BEGIN
        + """
for command, kind, amount, wait in (
    ("echo broken >&2; exit 3", ResourceType.CPU, 1, 60), ("true", ResourceType.GPU, 99, 60),
):
    try:
        await orchestrator.run_with_shared_resources(command, kind, amount, max_wait_time=wait)
    except RuntimeError as error:
        print(type(error).__name__, error)
    except Exception as error:
        print(type(error).__name__)
await orchestrator.shutdown()
try:
    await orchestrator.get_status()
except RuntimeError as error:
    print(error)
"""
    )
    failed, too_large, late = done.stdout.decode().splitlines()

    assert failed.startswith("JobFailed job 'echo' failed on lab with exit code 3: broken")
    assert too_large == "NeverFits"
    assert "is not initialized" in late


def test_no_offer_in_time_has_the_reasons_of_each_node(lab):
    lab("offer", "pause")
    done = lab.python(
        BEGIN
        + """
try:
    await orchestrator.run_with_shared_resources("true", "gpu", 1, max_wait_time=0.2)
except RuntimeError as error:
    print(error.reasons, error)
await orchestrator.shutdown()
"""
    )
    lab("offer", "resume")

    assert (
        "(('lab', 'lending is paused'),) No resources available for 1 gpu" in done.stdout.decode()
    )


MANAGER = """
from distributed_grid.orchestration.resource_sharing import (
    ResourceRequest, ResourceSharingManager, ResourceSharingProtocol, ResourceType,
)
manager = ResourceSharingManager()
await manager.start()
request = ResourceRequest(resource_type=ResourceType.GPU, amount=2)
allocation = await manager.request_resources(request)
print(allocation.devices, len(await manager.get_resource_offers("gpu")))
print(await manager.execute_on_shared_resources(request, "echo $CUDA_VISIBLE_DEVICES"))
print(len(await manager.get_resource_offers("gpu")), await manager.get_active_allocations())
held = ResourceRequest(resource_type="memory", amount=4)
await manager.request_resources(held)
await manager.release_resources(held.request_id)
print(await manager.get_active_allocations())
await manager.stop()
protocol = ResourceSharingProtocol()
print(await protocol.install_worker_agent("lab"))
report = await protocol.check_node_resources("lab", {"cpu_percent_max": 30.0})
print(report["status"]["cpu"])
print(await protocol.execute_remote_job("lab", "pwd | grep -c grid_jobs", {"cpu": 1}))
await protocol.close()
"""


@pytest.mark.rows("S3-06", "S3-07", "S3-09", "S3-10", "S3-14")
def test_the_manager_and_the_protocol_hold_run_and_give_back(lab):
    done = lab.python(MANAGER)

    assert done.stdout.decode().splitlines() == [
        "('H100#0000', 'H100#0001') 1",
        "(True, 'H100#0000,H100#0001\\n')",
        "3 []",
        "[]",
        "True",
        "{'percent': 0.0, 'total_cores': 8, 'available_cores': 8}",
        "(True, '1\\n')",
    ], done.stderr.decode()


def test_without_an_agent_one_is_started_beside_and_ended():
    lab = prepared(SharingLab())
    del lab.env["GRID_CONFIG"]
    try:
        done = lab.python(
            BEGIN
            + OFFLOADING
            + "import pathlib, os\n"
            + "home = pathlib.Path(os.environ['GRID_HOME'])\n"
            + "print((home / 'agent.pid').read_text().strip(), result['output'], end='')"
            + END
        )
        pid, output = done.stdout.decode().split(maxsplit=1)
    finally:
        lab.close()

    assert done.returncode == 0, done.stderr.decode()
    assert output == "train_model.py H100#0000 0\n"
    assert not is_alive(int(pid))


def test_an_agent_that_was_there_stays(lab):
    before = lab.pid()
    done = lab.python(BEGIN + END)

    assert done.returncode == 0, done.stderr.decode()
    assert (lab.pid(), is_alive(before)) == (before, True)
    assert os.getpid() != before
