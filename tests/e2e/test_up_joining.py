"""`grid up --join`: both or neither, and nowhere a trace of the ticket.

The keeper and the commands are real; the agent is a stand-in that joins when the test says so, so
that there is time to look at every process while it waits.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distributed_grid.model.membership import Contact, MeshId, Ticket
from distributed_grid.wire.ticket import ticket_text
from tests.agent_lab import AgentLab
from tests.keeper_lab import is_alive, wait_until
from tests.mesh_stand_in import hashed

SECRET = b"a secret of 32 bytes, never seen"
TEXT = ticket_text(
    Ticket(
        mesh=MeshId(hashed("m")),
        issuer=Contact(node=hashed("attic"), addresses=("127.0.0.1:4711",)),
        secret=SECRET,
        expires_ms=2_000_000_000_000,
    )
)
# Read by every Python of the lab; only the agent's heeds it.
INSTEAD = """\
import sys
if sys.orig_argv[1:4] == ["-P", "-m", "distributed_grid.app"]:
    sys.orig_argv[3] = "tests.e2e.patient_app"
    import runpy
    sys.argv = sys.orig_argv[3:]
    runpy.run_module("tests.e2e.patient_app", run_name="__main__")
    sys.exit(0)
"""


@pytest.fixture
def lab():
    made = AgentLab()
    folder = made.root / "instead"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(INSTEAD)
    made.env["PYTHONPATH"] = f"{folder}{os.pathsep}{made.env['PYTHONPATH']}"
    yield made
    if made.home.exists():
        answer(made, "no")
    made.close()


def answer(lab: AgentLab, word: str) -> None:
    half = lab.home / "join.answer.half"
    half.write_text(word)
    half.rename(lab.home / "join.answer")


def where_shown(text: str) -> list[tuple[int, str]]:
    """Processes that show it in their arguments or their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        for kind in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                if text.encode() in (entry / kind).read_bytes():
                    found.append((int(entry.name), kind))
    return found


def started(lab: AgentLab, *words: str, env: dict[str, str] | None = None, stdin: bytes = b""):
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed_grid", "up", *words],
        env={**lab.env, **(env or {})},
        cwd=lab.dir,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    return process


WAYS = {
    "argument": (("--join", TEXT), {}, b""),
    "equals sign": ((f"--join={TEXT}",), {}, b""),
    "stdin": (("--join", "-"), {}, TEXT.encode() + b"\n"),
    "file": (("--join", "@ticket"), {}, b""),
    "environment": ((), {"GRID_TICKET": TEXT}, b""),
    "file named in the environment": ((), {"GRID_TICKET": "@ticket"}, b""),
}


@pytest.mark.rows("S2-148")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_process_shows_the_ticket_while_an_agent_joins_in_the_foreground(lab, way):
    words, env, stdin = way
    (lab.dir / "ticket").write_text(f"{TEXT}\n")
    up = started(lab, *words, env=env, stdin=stdin)
    asked = lab.home / "join.asked"
    wait_until(lambda: asked.exists() and asked.read_text())

    assert asked.read_text() == hashed(TEXT)  # The right one arrived,
    assert where_shown(TEXT[5:60]) == []  # and nobody shows it.
    answer(lab, "yes")
    assert b"is up" in up.stderr.readline()
    joined = up.stderr.readline()
    assert joined == f"desk joined mesh {hashed('m')[:12]} as member: 2 nodes\n".encode()
    up.send_signal(signal.SIGINT)
    out, err = up.communicate(timeout=30)
    assert (up.returncode, out) == (0, b""), err
    assert TEXT not in lab.log


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_whoever_lives_on_after_a_detached_start_shows_no_ticket(lab, way):
    words, env, stdin = way
    (lab.dir / "ticket").write_text(f"{TEXT}\n")
    up = started(lab, "--detach", *words, env=env, stdin=stdin)
    wait_until((lab.home / "join.asked").exists)

    assert {pid for pid, _ in where_shown(TEXT[5:60])} <= {up.pid}
    answer(lab, "yes")
    out, err = up.communicate(timeout=30)
    assert up.returncode == 0, err
    assert b"desk joined mesh" in out
    assert where_shown(TEXT[5:60]) == []


@pytest.mark.parametrize("words", [("--detach",), ()], ids=["detached", "foreground"])
def test_an_agent_that_cannot_join_does_not_stay_up(lab, words):
    up = started(lab, *words, "--join", TEXT)
    wait_until((lab.home / "join.asked").exists)
    pids = [lab.pid(), lab.pid("keeper")]
    answer(lab, "no")
    out, err = up.communicate(timeout=30)

    assert (up.returncode, out) == (1, b"")
    assert b"'attic' cannot be reached (no answer)" in err
    wait_until(lambda: not any(map(is_alive, pids)))


def test_an_agent_that_dies_over_joining_is_no_success(lab):
    up = started(lab, "--join", TEXT)
    wait_until((lab.home / "join.asked").exists)
    os.kill(lab.pid("keeper"), signal.SIGKILL)
    os.kill(lab.pid(), signal.SIGKILL)
    out, err = up.communicate(timeout=60)

    assert (up.returncode, out) == (1, b"")
    assert b"the agent did not start: it went while it joined" in err


def test_ctrl_c_while_it_joins_leaves_nothing_behind(lab):
    up = started(lab, "--join", TEXT)
    wait_until((lab.home / "join.asked").exists)
    pids = [lab.pid(), lab.pid("keeper")]
    up.send_signal(signal.SIGINT)
    up.communicate(timeout=30)

    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--join", TEXT[:-1]), "cut"),
        (("--join", TEXT[:40] + ("b" if TEXT[40] == "a" else "a") + TEXT[41:]), "a wrong letter"),
        (("--join", "@nowhere"), "cannot be read"),
        (("--join", ""), "the text of a ticket"),
        (("--new-identity", "--moved-here"), "either --new-identity or --moved-here"),
        (("--listen", "here:there"), "listen"),
    ],
    ids=["cut off", "mistyped", "no file", "empty", "two identities", "no address"],
)
def test_what_is_wrong_is_told_before_anything_starts(lab, words, says):
    done = lab("up", "--detach", *words)

    assert done.returncode == 2, done.stderr
    assert says in done.stderr.decode()
    assert TEXT[5:30] not in done.stderr.decode()
    assert not (lab.home / "keeper.pid").exists()


def test_an_address_of_another_machine_is_told_before_anything_starts(lab):
    (lab.dir / "config.yaml").write_text('mesh: {listen: "192.0.2.7"}\n')
    for words in (("--listen", "192.0.2.7:4711"), ("--config", "config.yaml")):
        done = lab("up", "--detach", *words)

        assert done.returncode == 1, done.stderr
        assert b"cannot listen on 192.0.2.7:" in done.stderr
        assert not (lab.home / "keeper.pid").exists()


def test_what_concerns_the_agent_is_passed_on_to_it(lab):
    done = lab("up", "--detach", "--listen", "127.0.0.1:4711", "--moved-here", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "desk"
    words = (lab.home / "agent.words").read_text().split("\n")
    assert words[-3:] == ["--listen", "127.0.0.1:4711", "--moved-here"]


def test_each_new_identity_has_a_word_of_its_own_so_that_a_restart_is_not_one(lab):
    told = []
    for _ in range(2):
        assert lab("up", "--detach", "--new-identity").returncode == 0
        told.append((lab.home / "agent.words").read_text().split("\n")[-2:])
        lab("down")

    assert [flag for flag, _ in told] == ["--new-identity"] * 2
    assert told[0][1] != told[1][1]
