"""How far a map is, and what a notebook shows: on a terminal, in a pipe, in a real IPython."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers.environment import learning_path
from distributed_grid.client.cluster import connect
from tests.agent_lab import AgentLab

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0

PROGRAM = """\
import sys, time
import distributed_grid

def slowly(number):
    time.sleep(0.01)
    if number == 5:
        print("five")
    return number

with distributed_grid.connect() as cluster:
    assert list(cluster.map(slowly, range(60), progress=True)) == list(range(60))
"""

IN_NOTEBOOK = """\
import json
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.displaypub import CapturingDisplayPublisher

shell = InteractiveShell.instance()
shell.display_pub = CapturingDisplayPublisher()
with open("program.py") as file:
    shell.run_cell(file.read()).raise_error()
print(json.dumps([one["data"]["text/html"] for one in shell.display_pub.outputs]))
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[AgentLab]:
    made = AgentLab()
    try:
        (made.dir / "program.py").write_text(PROGRAM)
        yield made.up()
    finally:
        made.close()


def run(lab: AgentLab, *words: str, **how):
    path = os.pathsep.join((str(ROOT), str(learning_path())))
    return subprocess.run(
        [sys.executable, *words],
        cwd=lab.dir,
        env={**lab.env, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
        **how,
    )


def test_a_terminal_shows_one_line_that_moves_and_what_calls_print_beside_it(lab):
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as shown:
        done = run(lab, "program.py", stderr=theirs)
        os.close(theirs)
        text = b""
        try:
            while part := shown.read(1 << 16):
                text += part
        except OSError:  # Nobody holds the other end any more.
            pass

    assert (done.returncode, done.stdout) == (0, b"five\n"), text
    lines = text.decode().replace("\r\n", "\n").split("\r\x1b[K")
    assert len(lines) > 2
    assert any(".]" in line for line in lines), lines
    assert lines[-1].startswith(f"map:slowly [{'#' * 30}] 60/60, ")
    assert "\n" not in "".join(lines[:-1])
    assert lines[-1].count("\n") == 1


def test_into_a_pipe_only_the_end_is_told(lab):
    done = run(lab, "program.py", stderr=subprocess.PIPE)

    [line] = done.stderr.decode().splitlines()
    assert "60/60" in line
    assert "\x1b" not in line


def test_a_notebook_shows_one_output_that_moves(lab):
    done = run(lab, "-c", IN_NOTEBOOK, stderr=subprocess.PIPE)

    assert (done.returncode, done.stderr) == (0, b"")
    shown = json.loads(done.stdout.decode().splitlines()[-1])
    assert len(shown) > 1
    assert all(one.startswith("<pre>map:slowly [") for one in shown)
    assert "60/60" in shown[-1]


def test_a_notebook_shows_clusters_jobs_and_nodes_as_tables(lab):
    with connect(lab.home / "agent.sock") as cluster:
        job = cluster.submit(["true"], name="<b>bold</b>")
        job.wait(PATIENCE_S)
        jobs, nodes = cluster.jobs(), cluster.nodes()
        shown = [one._repr_html_() for one in (cluster, job, jobs, nodes)]

    assert isinstance(jobs, tuple)
    assert all(one.startswith("<table>") for one in shown)
    assert "<td>lab *</td>" in shown[0]
    assert shown[3] == shown[0]
    for one in shown[1:3]:
        assert "<td>&lt;b&gt;bold&lt;/b&gt;</td><td>succeeded</td>" in one
        assert "<b>" not in one
