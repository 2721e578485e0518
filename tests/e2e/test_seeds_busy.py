"""The programmes of seeds 002 and 003 as they are printed, on a machine that is busy."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_sharing_python import (
    BATCH,
    BEGIN,
    END,
    OFFLOADING,
    PARALLEL,
    PROGRAMME,
    prepared,
)
from tests.keeper_lab import wait_until
from tests.sharing_lab import LENDS, MACHINE, PAGE, SharingLab, lending

BUSY = MACHINE.replace("}]}", "}], class: datacenter, load: {cpu_percent: 90}}")
SETUP = """
import asyncio
from datetime import timedelta
from distributed_grid.cluster_mesh import ClusterMesh, MeshConfig, TopologyType

# Create cluster mesh
config = (MeshConfig.default()
    .with_discovery_interval(timedelta(seconds=30))
    .with_topology(TopologyType.Hybrid))

mesh = await ClusterMesh.new(config)

# Start node discovery
await mesh.start_discovery()

# Wait for nodes to join
await asyncio.sleep(5)

# Get cluster status
nodes = await mesh.list_nodes()
print(f"Found {len(nodes)} nodes")
"""
DISTRIBUTION = """
from distributed_grid.cluster_mesh import Job, NodeClass, SchedulingPolicy, WorkDistributor

# Create work distributor
distributor = WorkDistributor(SchedulingPolicy.BestFit)

# Define job requirements
job = (Job.builder()
    .name("training-job")
    .cpu_cores(4.0)
    .memory_gb(16)
    .gpu_count(1)
    .prefer_node_class(NodeClass.DataCenter)
    .build())

# Schedule job
assignment = await distributor.schedule(job, mesh)
print(f"Job assigned to node: {assignment.node_id}")
"""
MONITORING = """
from distributed_grid.cluster_mesh import ClusterMonitor

monitor = ClusterMonitor(mesh)

# Get cluster metrics
metrics = await monitor.get_metrics()
print(f"Total compute: {metrics.total_compute_power} TFLOPS")
print(f"Total memory: {metrics.total_memory_tb} TB")
print(f"Active jobs: {metrics.active_jobs}")
"""
CLOSE = "\nprint(nodes[0].id)\nawait mesh.close()\n"


GRID = "run-shared --resource-type {} --amount {} --priority {} python {}.py"


@pytest.fixture
def lab():
    with lending(LENDS, BUSY) as made:
        yield prepared(made)


def test_what_wants_a_gpu_runs_though_the_cores_are_busy(lab):
    programme = lab.python(PROGRAMME)
    offloaded = lab.python(BEGIN + OFFLOADING + "print(result['output'], end='')" + END)
    lines = [GRID.format("gpu", 1, "high", "train"),
             "run-shared -r gpu -a 1 -n gpu1 -n gpu2 python train.py"]  # fmt: skip
    outputs = [lab(*line.split()).stdout for line in lines]

    assert (programme.returncode, programme.stderr) == (0, b"")
    assert b"Active allocations: []" in programme.stdout
    assert offloaded.stdout == b"train_model.py H100#0000 0\n", offloaded.stderr
    assert outputs == [b"train.py H100#0000 0\n"] * 2


def test_what_wants_cores_or_memory_says_what_it_waits_for_and_runs_when_they_are_lent(lab):
    pages = [BATCH + "print(result['output'], end='')",
             PARALLEL + "print(*(one['output'] for one in results), sep='', end='')"]  # fmt: skip
    lines = [GRID.format("memory", 4, "medium", "process_large_dataset"),
             GRID.format("cpu", 2, "low", "compute_task")]  # fmt: skip
    words = [["-c", PAGE, BEGIN + page + END] for page in pages]
    words += [["-m", "distributed_grid", *line.split()] for line in lines]
    with contextlib.ExitStack() as stack:
        begun = [stack.enter_context(running(lab, which)) for which in words]
        for _, told in begun:
            wait_until(lambda told=told: "measured 90 %" in told.read_text(), within_s=60)
        lab("offer", "all")
        outputs = [run.communicate(timeout=60)[0].decode() for run, _ in begun]

    assert [run.returncode for run, _ in begun] == [0] * len(words)
    assert outputs[0] == outputs[2] == "process_large_dataset.py  0\n"
    assert outputs[1] == "".join(f"compute_task.py --task-id {n}  2\n" for n in range(4))
    assert outputs[3] == "compute_task.py  2\n"
    for _, told in begun:
        assert "cpu_pressure_high is 80 %, measured 90 %" in told.read_text()
        assert "lend it: grid offer all" in told.read_text()


@contextlib.contextmanager
def running(lab: SharingLab, words: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A program, and the file that gets what it tells beside its output."""
    told = Path(tempfile.mkstemp(dir=lab.root)[1])
    with told.open("wb") as file:
        run = subprocess.Popen(
            [sys.executable, *words], env=lab.env, cwd=lab.dir,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
        )  # fmt: skip
    try:
        yield run, told
    finally:
        run.kill()
        run.communicate()


@pytest.mark.rows("S2-18", "S2-19", "S2-20", "S2-21", "S2-22", "S2-23", "S2-24", "S2-25", "S2-26")
@pytest.mark.rows("S2-102")
def test_the_programmes_of_seed_002_run_in_no_mesh_and_name_this_machine(lab):
    done = lab.python(SETUP + DISTRIBUTION + MONITORING + CLOSE)
    found, assigned, compute, memory, active, mine = done.stdout.decode().splitlines()

    assert (found, active) == ("Found 1 nodes", "Active jobs: 0"), done.stderr
    assert assigned == f"Job assigned to node: {mine}"
    assert len(set(mine)) > 1
    assert len(mine) == 64
    assert 3 * 67.0 < float(compute.split()[2]) < 3 * 67.0 + 10
    assert memory == f"Total memory: {64 * 2**30 / 10**12} TB"
