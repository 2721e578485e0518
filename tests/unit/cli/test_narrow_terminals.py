"""Tables on a terminal of 80 columns: a row is a line, and what matters most stays."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import click
import msgspec
import pytest
from rich.cells import cell_len

from distributed_grid.model.ids import job_id_of
from distributed_grid.model.lending import Offer
from distributed_grid.wire.api import ArrayView
from distributed_grid.wire.sharing import AllocationView, Queue, QueueEntry
from tests.agent_stand_in import STARTED_MS, CannedAgent, a_view, an_array, serving
from tests.conftest import VENV_BIN
from tests.mesh_stand_in import a_node

GIB = 1 << 30
NARROW, WIDE = 80, 320
LATER_MS = STARTED_MS + 300_000


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one, with much to tell."""
    canned = CannedAgent()
    counts = ArrayView(total=1_000, succeeded=800, failed=120, failed_indices=((1, 9),))
    long = "a job with quite a long name, as people give them"
    views = [
        a_view("build", node="workstation-17.lab.example", home="a" * 64),
        a_view(long, argv=("python", "train.py", "--epochs", "1000" * 40), node="attic"),
        an_array(array=counts, home="b" * 64),
        a_view("late", state="waiting", exit_code=None, started_ms=None, ended_ms=None, node=None),
        a_view("now", state="running", exit_code=None, ended_ms=None),
    ]
    canned.views = {view.id: view for view in views}
    canned.mesh.mesh = "c" * 64
    canned.mesh.members += [
        a_node("workstation-17.lab.example", person="Grace Hopper", gpus_total=4, gpus_free_milli=1,
               gpu_models=("NVIDIA RTX 4090",) * 4, jobs_waiting=12, roles=("member", "admin")),
        a_node("attic", health="dead", why="silent for 2.6 s", note="its clock is 3 h off"),
        a_node("東京の計算機", person="高橋", address="[2001:db8:85a3:8d3:1319:8a2e:370:7348]:443"),
    ]  # fmt: skip
    gpu = Offer(kind="gpu", amount=1_000, total=2_000, made_ms=STARTED_MS, expires_ms=LATER_MS,
                device="GPU-5f0d8b1e-3f4a-4b6e-9d0c-1a2b3c4d5e6f", memory_free_bytes=20 * GIB,
                memory_total_bytes=24 * GIB)  # fmt: skip
    loan = AllocationView(request_id=job_id_of("x"), name=long, kind="gpu", amount=1_000,
                          allocated_ms=STARTED_MS, devices=("GPU-7a",), is_suspended=True,
                          user="ada")  # fmt: skip
    canned.lends = msgspec.structs.replace(canned.lends, offers=(gpu,), allocations=(loan,))
    entry = QueueEntry(id=job_id_of("late"), name=long, user="grace", project="compilers",
                       priority="medium", lifted="urgent", share_milli=125, waited_ms=60_000,
                       position=1, is_shared=True,
                       waits="waits for 3 cores, of which 2 are free")  # fmt: skip
    canned.waiting = Queue(entries=(entry,), total=1)
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def shown(env: dict[str, str], columns: int, *words: str) -> list[str]:
    """The lines of a command on a terminal that is so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {name: value for name, value in env.items() if name != "COLUMNS"}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        grid = [str(VENV_BIN / "grid"), *words]
        done = subprocess.run(grid, env=env, stdin=theirs, stdout=theirs, stderr=theirs, timeout=60,
                              check=True)  # fmt: skip
        assert done.returncode == 0
        os.close(theirs)
        text = b""
        try:
            while part := terminal.read(1 << 16):
                text += part
        except OSError:  # Nobody holds the other end any more.
            pass
    return click.unstyle(text.decode()).replace("\r\n", "\n").split("\n")


def cells(line: str) -> int:
    return cell_len(line.rstrip())


TABLES = {
    "nodes": (4, ("name", "health", "cores", "jobs")),
    "jobs": (5, ("id", "name", "state", "node", "command")),
    "jobs --queue": (1, ("#", "id", "name", "waits for")),
    "top --once": (6, ("node", "health", "cores", "running", "id", "name", "state", "asks for")),
    "offer": (2, ("Node", "Type", "Available/Total", "Request ID", "Amount")),
    "shared-status": (2, ("Node", "Type", "Available/Total", "Request ID", "Amount")),
    "status": (4, ("node", "health", "running", "waiting")),
}


@pytest.mark.parametrize("command", TABLES)
def test_a_row_is_a_line_on_80_columns_and_what_matters_most_is_in_it(agent, clean_env, command):
    rows, columns = TABLES[command]
    narrow, wide = (shown(clean_env, width, *command.split()) for width in (NARROW, WIDE))
    head = " ".join(narrow)

    assert len(narrow) == len(wide), "\n".join(narrow)
    # A sentence is wrapped by the terminal, and none the worse for it.
    tables = [line for line in narrow if not line.startswith("Your machines")]
    assert max(map(cells, tables)) <= NARROW, "\n".join(narrow)
    assert len(narrow) >= rows + 2
    assert all(name in head for name in columns), "\n".join(narrow)


def test_a_wide_terminal_and_a_pipe_have_every_column(agent, clean_env, grid):
    for command, more in (("nodes", ("version", "checked")), ("jobs", ("cores", "submitted"))):
        head, piped, narrow = (
            next(line for line in lines if line.strip())
            for lines in (
                shown(clean_env, WIDE, command),
                grid(command).stdout.split("\n"),
                shown(clean_env, NARROW, command),
            )
        )

        assert head.split() == piped.split()
        assert all(name in head and name not in narrow for name in more)
    assert "…" not in grid("nodes").stdout
