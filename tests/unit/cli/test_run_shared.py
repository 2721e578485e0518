"""`grid run-shared`, as a process, against a canned agent behind real routes."""

import json
import signal
import subprocess

import msgspec
import pytest

from distributed_grid.model.lending import Offer, Withheld
from tests.agent_stand_in import CannedAgent, a_view, serving
from tests.conftest import VENV_BIN

GIB = 1 << 30


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


@pytest.mark.rows("S3-30", "S3-31", "S3-32", "S3-33", "S3-34", "S3-35", "S3-36", "S3-37", "S3-38")
@pytest.mark.rows("S3-39", "S3-40", "S3-41")
@pytest.mark.parametrize(
    ("line", "priority", "nodes"),
    [
        ("--resource-type gpu --amount 1 --priority high python train.py", "high", ()),
        ("--resource-type memory --amount 4 --priority medium python process_data.py", "medium", ()),
        ("--resource-type cpu --amount 2 --priority low python parallel_task.py", "low", ()),
        ("-r gpu -a 1 -n gpu1 -n gpu2 python train.py", "medium", ("gpu1", "gpu2")),
    ],
)  # fmt: skip
def test_the_four_lines_of_the_seed_mean_what_they_say(agent, grid, line, priority, nodes):
    done = grid("run-shared", *line.split())
    (spec,) = agent.submitted

    assert done.returncode == 0, done.stderr
    assert (spec.is_shared, spec.priority) == (True, priority)
    assert spec.work.argv == tuple(line.split()[-2:])
    assert (spec.prefer.nodes, spec.require.nodes) == (nodes, ())


@pytest.mark.rows("S3-61", "S3-70", "S3-72", "S3-101", "S3-102")
@pytest.mark.parametrize(
    ("kind", "amount", "asked"),
    [
        ("gpu", "2", {"gpus": 2_000}),
        ("GPU", "0.5", {"gpus": 500}),
        ("memory", "4", {"memory_bytes": 4 * GIB}),
        ("Memory", "0.5", {"memory_bytes": GIB // 2}),
        ("memory", "4GB", {"memory_bytes": 4 * 10**9}),
        ("memory", "512MiB", {"memory_bytes": 512 << 20}),
        ("cpu", "2", {"cpu_milli": 2_000}),
        ("disk", "3", {"storage_bytes": 3 * GIB}),
        ("storage", "1TiB", {"storage_bytes": 1 << 40}),
        ("TPU", "4", {"custom": (("tpu", 4_000),)}),
        ("fpga", "0.5", {"custom": (("fpga", 500),)}),
    ],
)
def test_a_type_and_an_amount_are_all_that_is_asked_for(agent, grid, kind, amount, asked):
    done = grid("run-shared", "-r", kind, "-a", amount, "tool")
    request = agent.submitted[0].request
    got = {
        "cpu_milli": request.cpu_milli,
        "memory_bytes": request.memory_bytes,
        "storage_bytes": request.storage_bytes,
        "gpus": request.gpus.milli if request.gpus else 0,
        "custom": request.custom,
    }

    assert done.returncode == 0, done.stderr
    assert {key: value for key, value in got.items() if value} == asked


BAD = [
    (["-r", "g p u", "-a", "1"], "gpu, memory, cpu, storage"),
    (["-r", "gpu", "-a", "0"], "above zero"),
    (["-r", "memory", "-a", "0"], "above zero"),
    (["-r", "cpu", "-a", "-1"], "0 or more"),
    (["-r", "memory", "-a", "-1"], "an amount of bytes"),
    (["-r", "cpu", "-a", "1.5"], "whole cores"),
    (["-r", "gpu", "-a", "1.5"], "whole GPUs"),
    (["-r", "gpu", "-a", "many"], "a number of GPUs"),
    (["-r", "gpu", "-a", "1", "-p", "asap"], "urgent, high, medium or low"),
    (["-r", "gpu", "-a", "1", "-w", "soon"], "a span of time"),
    (["-r", "gpu", "-a", "1", "-w", "20000d"], "ten years"),
    (["-r", "gpu", "-a", "1", "--preempt-signal", "SIGNOT"], "a signal"),
    (["-r", "gpu", "-a", "1", "--preempt-grace", "2d"], "at most a day"),
    (["-r", "gpu", "-a", "1", "-c", "nowhere.yaml"], "nowhere.yaml"),
    (["-r", "gpu"], "--amount"),
    (["-a", "1"], "--resource-type"),
]


@pytest.mark.parametrize(("words", "told"), BAD, ids=str)
def test_a_wrong_word_is_2_and_says_what_is_expected(agent, grid, words, told):
    done = grid("run-shared", *words, "tool")

    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert agent.submitted == []


@pytest.mark.rows("S3-42", "S3-43")
def test_the_command_keeps_its_own_options(agent, grid):
    grid("run-shared", "-r", "cpu", "-a", "2", "-p", "urgent", "python", "c.py", "-p", "--amount=3")
    (spec,) = agent.submitted

    assert spec.work.argv == ("python", "c.py", "-p", "--amount=3")
    assert spec.priority == "urgent"


def test_the_bytes_and_the_code_are_those_of_the_job(agent, grid):
    agent.write("tool", b"out\n")
    agent.write("tool", b"err\n", stream="stderr")
    agent.ends_as = lambda spec: a_view(spec.name, state="failed", exit_code=7, reason="exited 7")
    done = grid("run-shared", "-r", "cpu", "-a", "1", "tool")

    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_every_other_option_reaches_the_agent(agent, grid):
    done = grid(
        "run-shared", "-r", "cpu", "-a", "1", "-j", "training_001", "--project", "vision",
        "--preempt-signal", "usr1", "--preempt-grace", "30s", "--on-preempt", "save now",
        "--no-preempt", "--booking", "lecture", "--timeout", "5m", "--json", "tool",
    )  # fmt: skip
    (spec,) = agent.submitted
    how = spec.preempt

    assert json.loads(done.stdout)["name"] == spec.name == "training_001"
    assert (spec.project, spec.booking) == ("vision", "lecture")
    assert spec.work.timeout_ms == 300_000
    assert (how.signal, how.grace_ms, how.is_forbidden) == (signal.SIGUSR1, 30_000, True)
    assert how.command == ("/bin/sh", "-c", "save now")


def test_a_job_id_of_64_digits_is_the_id(agent, grid):
    grid("run-shared", "-r", "cpu", "-a", "1", "-j", "AB" * 32, "tool")

    assert (agent.submitted[0].id, agent.submitted[0].name) == ("ab" * 32, "tool")


@pytest.mark.rows("S3-56")
def test_a_job_id_that_runs_already_is_refused_and_one_that_has_ended_runs_again(agent, grid):
    words = ["run-shared", "-r", "cpu", "-a", "1", "-j", "training_001", "tool"]
    for _ in range(2):
        assert grid(*words).returncode == 0
    first, second = agent.submitted
    agent.views[second.id] = a_view("training_001", id=second.id, state="running")
    third = grid(*words)

    assert first.id != second.id
    assert third.returncode == 2
    assert "'training_001' is taken" in third.stderr


def nothing_lent(agent: CannedAgent, **changes) -> None:
    withheld = (
        Withheld(kind="gpu", threshold="gpu_utilization_max", limit="20 %", measured="35 %",
                 device="GPU-1"),
        Withheld(kind="cpu", threshold="cpu_percent_max", limit="30 %", measured="90 %"),
    )  # fmt: skip
    agent.lends = msgspec.structs.replace(
        agent.lends, withheld=withheld, not_joined=("attic",), **changes
    )
    agent.ends_as = lambda spec: a_view(spec.name, state="waiting", exit_code=None)


@pytest.mark.rows("S3-83", "S3-85")
def test_without_an_offer_it_gives_up_in_time_with_the_reasons_of_each_node(agent, grid):
    nothing_lent(agent)
    done = grid("run-shared", "-r", "gpu", "-a", "1", "-n", "gpu1", "-w", "0.05", "tool")

    assert (done.returncode, done.stdout) == (125, "")
    assert "No resources available for 1 gpu within 50ms" in done.stderr
    assert "desk: offers 0 gpu, gpu_utilization_max is 20 %, measured 35 % (GPU-1)" in done.stderr
    assert "cpu_percent_max" not in done.stderr
    assert "attic: not joined" in done.stderr
    assert "gpu1: not joined; here: grid ticket, on gpu1: grid join TICKET" in done.stderr
    assert agent.cancelled == ["tool"]


def test_what_is_closed_is_told_and_a_little_is_told_too(agent, grid):
    nothing_lent(agent, state="paused")
    closed = grid("run-shared", "-r", "memory", "-a", "4", "-w", "0", "tool")
    offer = Offer(kind="memory", amount=GIB, total=8 * GIB, made_ms=0, expires_ms=1)
    agent.lends = msgspec.structs.replace(agent.lends, state="open", offers=(offer,))
    little = grid("run-shared", "-r", "memory", "-a", "4", "-w", "0", "tool")

    assert "desk: lending is paused; attic" in closed.stderr
    assert "4 GiB memory" in little.stderr
    assert "desk: offers 1 GiB memory" in little.stderr


@pytest.mark.rows("S3-40")
def test_strict_nodes_insist_and_without_them_another_node_will_do(agent, grid):
    insists = grid("run-shared", "-r", "cpu", "-a", "1", "-n", "gpu1", "--strict-nodes", "tool")
    here = grid("run-shared", "-r", "cpu", "-a", "1", "-n", "desk", "--strict-nodes", "tool")
    prefers = grid("run-shared", "-r", "cpu", "-a", "1", "-n", "gpu1", "tool")

    assert (insists.returncode, here.returncode, prefers.returncode) == (125, 0, 0)
    assert "desk: not one of the nodes insisted on" in insists.stderr
    assert "gpu1: not joined" in insists.stderr
    assert agent.submitted[0].require.nodes == ("desk",)


@pytest.mark.rows("S3-19")
def test_an_owner_who_does_not_lend_is_not_waited_for(agent, grid):
    agent.lends = msgspec.structs.replace(agent.lends, is_enabled=False)
    done = grid("run-shared", "-r", "cpu", "-a", "1", "tool")

    assert done.returncode == 125
    assert "desk does not lend" in done.stderr
    assert agent.submitted == []


def test_a_type_nobody_has_is_another_mistake_than_too_much(agent, grid):
    offer = Offer(kind="tpu", amount=1_000, total=1_000, made_ms=0, expires_ms=1)
    agent.lends = msgspec.structs.replace(agent.lends, offers=(offer,))
    agent.never_has = "quantum"
    unknown = grid("run-shared", "-r", "quantum", "-a", "1", "tool")
    too_much = grid("run-shared", "-r", "cpu", "-a", "99", "tool")

    assert unknown.returncode == 2
    assert "no resource type named 'quantum'" in unknown.stderr
    assert "gpu, memory, cpu, storage, tpu" in unknown.stderr
    assert too_much.returncode == 125
    assert "larger than this machine" in too_much.stderr


def test_the_execution_section_counts_for_its_jobs(agent, grid, tmp_path):
    file = tmp_path / "cluster_config.yaml"
    file.write_text(
        "name: home\nnodes: [gpu1]\nexecution:\n  timeout_seconds: 60\n  retry_attempts: 1\n"
        f"  working_directory: {tmp_path}/jobs\n  environment: {{MODE: fast}}\n"
    )
    done = grid("run-shared", "-r", "cpu", "-a", "1", "-c", str(file), "tool")
    (spec,) = agent.submitted

    assert done.returncode == 0, done.stderr
    assert (spec.work.timeout_ms, spec.retries, spec.work.cwd) == (60_000, 1, f"{tmp_path}/jobs")
    assert spec.work.env["MODE"] == "fast"


def test_a_signal_while_it_waits_for_an_offer_cancels_it(agent, clean_env):
    nothing_lent(agent)
    process = subprocess.Popen(
        [VENV_BIN / "grid", "run-shared", "-r", "cpu", "-a", "1", "tool"], env=clean_env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not any(asked[0] == "wait" for asked in agent.asked):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)

    assert (process.returncode, agent.cancelled) == (143, ["tool"])
    assert b"cancelled" in said
