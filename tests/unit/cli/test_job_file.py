"""`grid run --file`: the jobs that `grid place` reads, as jobs that run."""

import json

import pytest

from distributed_grid.config.jobs import read_jobs
from tests.agent_stand_in import CannedAgent, serving

JOB = """\
name: train
cpus: 2
memory: 4GiB
storage: 1GiB
gpus: {model: H100, count: 1, memory: 40GiB}
custom: {tpu: 1}
arch: x86_64
features: [avx2]
require: {class: datacenter, labels: {zone: z1}, nodes: [attic], max_latency_ms: 5}
prefer: {labels: {rack: r7}}
avoid: {nodes: [barn]}
avoid_if_possible: {class: laptop}
battery_safe: false
command: [python, train.py]
"""
PLACED = ("name", "request", "require", "prefer", "avoid", "avoid_if_possible", "arch", "features",
          "battery_safe")  # fmt: skip


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def test_a_job_wants_of_its_node_what_place_reads(agent, grid, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    (tmp_path / "grid.toml").write_text("cpus = 9\nretries = 3\n")
    done = grid("run", "--file", file, "--timeout", "5m")
    assert done.returncode == 0, done.stderr
    (spec,) = agent.submitted
    ((placed,), _) = read_jobs(str(file))

    assert {name: getattr(spec, name) for name in PLACED} == {
        name: getattr(placed, name) for name in PLACED
    }
    assert (spec.work.argv, spec.work.cwd) == (("python", "train.py"), str(tmp_path))
    assert (spec.work.timeout_ms, spec.retries) == (300_000, 3)  # What no file of jobs says.


def test_again_is_another_job_unless_the_file_gives_it_an_id(agent, grid, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"name": "a", "command": "echo a; echo b"}))
    (tmp_path / "mine.json").write_text(
        json.dumps({"name": "a", "id": "ab" * 32, "command": ["true"]})
    )
    for file in ("job.json", "job.json", "mine.json"):
        assert grid("run", "--file", file).returncode == 0
    first, second, third = agent.submitted

    assert first.work.argv == ("/bin/sh", "-c", "echo a; echo b")
    assert first.id != second.id
    assert third.id == "ab" * 32


def test_words_of_the_line_are_the_command_and_several_jobs_are_detached(agent, grid, tmp_path):
    (tmp_path / "jobs.yaml").write_text("[{name: a}, {name: b, cpus: 2}]")
    watched = grid("run", "--file", "jobs.yaml", "tool")
    assert watched.returncode == 2
    assert "holds 2 jobs, and one at a time is watched. Submit them with --detach" in watched.stderr
    assert agent.submitted == []

    done = grid("run", "--detach", "--shell", "--file", "jobs.yaml", "echo $HOME")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [spec.id for spec in agent.submitted]
    assert [spec.name for spec in agent.submitted] == ["a", "b"]
    assert {spec.work.argv for spec in agent.submitted} == {("/bin/sh", "-c", "echo $HOME")}


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("name: a", [], "-: $.command: there is none. Write command: [python, train.py]"),
        ("- name: a", [], "-: $[0].command: there is none"),
        ("name: a\ncomand: x", [], "has the unknown key 'comand'. Did you mean 'command'?"),
        ("name: a\ncommand: []", [], "-: $.command: expected a command"),
        ("name: a\ncpus: 0\ncommand: x", [], "-: $.cpus: expected cpus of 0.001"),
        ("name: a\ncommand: x", ["--cpus", "2"], "--cpus is for the file to say"),
        ("name: a\ncommand: x", ["--name", "b"], "--name is for the file to say"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_the_remedy(agent, grid, text, words, said):
    done = grid("run", "--file", "-", *words, stdin=text)

    assert (done.returncode, agent.submitted) == (2, [])
    assert said in done.stderr
