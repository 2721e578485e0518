"""How far files are is seen by whoever waits; what a dead home cannot take is fetched by people."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios

import pytest

from tests.keeper_lab import is_alive
from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted, told, tries
from tests.mesh_lab import MeshLab, awaited
from tests.unit.artifacts.lab import noise, plant

pytestmark = pytest.mark.slow

MB = 1_000_000
NAMES = ("desk", "attic", "barn")


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire(NAMES, config=PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def lab(fleet):
    yield fleet
    fleet.bring_up(member for member in fleet.members if not member.pids())
    fleet.settled(fleet.members)


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


class Terminal:
    """A person before a terminal on which `grid` runs; its stdout goes elsewhere."""

    def __init__(self, member, *words, cwd):
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 120))
        argv = [sys.executable, "-m", "distributed_grid", *words]
        self._process = subprocess.Popen(member.net.command(argv), env=member.env, cwd=cwd,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=theirs, text=True)  # fmt: skip
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.seen = ""

    def sees(self, pattern):
        """Whether it was shown so far."""
        try:
            while part := os.read(self._ours, 65_536):
                self.seen += part.decode()
        except (BlockingIOError, OSError):
            pass  # Nothing more for now, or nobody writes there any more.
        return re.search(pattern, self.seen)

    def ended(self):
        """What it wrote to stdout, and its exit code."""
        out, _ = self._process.communicate(timeout=120)
        self.sees("")
        os.close(self._ours)
        return out, self._process.returncode


RUN = ("run", "--node", "attic", "--output", "out")
SHARED = ("run-shared", "-r", "cpu", "-a", "1", "-n", "attic", "--strict-nodes")


@pytest.mark.parametrize("words", [RUN, SHARED], ids=["run", "run-shared"])
def test_while_files_travel_everyone_who_looks_is_told_how_far_they_are(lab, words):
    desk, _, barn = lab.members
    work = plant(desk.dir / words[0], {"l.bin": noise(30 * MB, seed=len(words)), "small": "x"})
    lab.host("desk").throttle(20)  # Twelve seconds: time to look from everywhere.
    try:
        there = Terminal(desk, *words, "--", "sh", "-c", "cp l.bin out; echo done", cwd=work)
        line = r"grid: sh: attic is receiving [\d.]+ MiB of 28\.6 MiB \(2 files\)"
        awaited(lambda: there.sees(line), lambda: there.seen, 30)
        waiting = json.loads(desk.says("jobs", "--state", "waiting", "--json"))
        (word,) = [one["id"] for one in waiting if not one["guest_of"]]
        seen = [job(one, word)["transits"] for one in lab.members]
        table, whole, why = desk.says("jobs"), barn.says("job", word), barn.says("explain", word)
    finally:
        lab.host("desk").throttle(10_000)
    out, code = there.ended()

    assert (out, code) == ("done\n", 0), there.seen
    for first, *_ in seen:
        assert (first["doing"], first["node"], first["files"]) == ("receiving", "attic", 2)
        assert 0 <= first["bytes_done"] < first["bytes_total"] == 30 * MB + 1
    assert re.search(r"receiving \d+ %", table)
    assert re.search(r"waiting: attic is receiving .* of 28\.6 MiB \(2 files\)", whole)
    assert re.search(r"attic is receiving .* of 28\.6 MiB \(2 files\)", why)
    assert there.seen.endswith("\r\x1b[K"), "the line is gone in the end"
    assert words == SHARED or (work / "out").stat().st_size == 30 * MB


def test_while_outputs_come_home_nobody_is_told_that_it_runs_or_is_cancelled(lab, tmp_path):
    desk, _, barn = lab.members
    work = plant(tmp_path / "work", {"small": "x"})
    lab.host("attic").throttle(20)  # Twelve seconds: time to ask.
    try:
        word = submitted(desk, "--cwd", str(work), "--node", "attic", "--output", "out", "--ship",
                         str(work), "--", "sh", "-c", f"head -c {30 * MB} /dev/urandom >out")  # fmt: skip
        coming = ["bringing"]
        awaited(lambda: [one["doing"] for one in job(desk, word)["transits"]] == coming)
        why, asked = barn.says("explain", word), barn("cancel", word)
    finally:
        lab.host("attic").throttle(10_000)

    assert re.search(r"its process has ended: desk is fetching its outputs, .* of 28\.6 MiB", why)
    assert (asked.returncode, "running" in asked.stdout) == (0, True)
    assert "has already ended, and its outputs still come home" in asked.stderr
    assert desk("wait", word).returncode == 0
    assert (work / "out").stat().st_size == 30 * MB


def test_outputs_of_a_job_whose_submitter_died_are_fetched_from_anywhere(lab, gate, tmp_path):
    desk, attic, barn = lab.members
    work = plant(desk.dir / "orphan", {"in.txt": "7\n"})
    script = "mkdir -p out; cp in.txt out/a.csv; echo two > out/b.csv; echo no > rest"
    word = submitted(desk, "--cwd", str(work), "--node", "attic", "--output", "out/**",
                     *gate.words("sh", "-c", script))  # fmt: skip
    once(desk, word, "running")
    assert barn("outputs", word).returncode == 3, "there are none yet"
    desk.kill()
    gate.open()
    for member in (attic, barn):
        assert over(member, word) == {"succeeded"}
    ((_, kept),) = told(barn, word, "outputs") or [(0, "")]

    for member in (attic, barn):
        target = tmp_path / member.name
        assert member.says("outputs", word, "--to", str(target)) == "out/a.csv\nout/b.csv\n", kept
        assert (target / "out/a.csv").read_text() == "7\n"
        assert not (target / "rest").exists()
    (target / "out/b.csv").write_text("mine\n")
    again = barn("outputs", word, "--to", str(target))
    assert (again.returncode, again.stdout) == (1, "")
    assert "out/b.csv stays as it is" in again.stderr
    assert barn.says("outputs", word, "--to", str(target), "--overwrite") == "out/b.csv\n"

    desk.up()
    lab.settled(lab.members)
    assert desk.says("outputs", word, "--to", str(work)) == "out/a.csv\nout/b.csv\n"
    assert (work / "out/b.csv").read_text() == "two\n"


def test_outputs_of_a_job_that_ran_where_it_was_submitted_and_ran_again_elsewhere(
    lab, gate, tmp_path
):
    desk, attic, barn = lab.members
    work = plant(desk.dir / "again", {"in.txt": "7\n"})
    word = submitted(desk, "--cwd", str(work), "--cpus", "2", "--ship", str(work), "--output", "*.csv",
                     "--wait-safe", *gate.words("cp", "in.txt", "a.csv"))  # fmt: skip
    once(desk, word, "running")
    assert job(desk, word)["node"] == "desk"
    desk.kill()
    gate.open()

    for member in (attic, barn):
        assert over(member, word) == {"succeeded"}
        target = tmp_path / member.name
        assert member.says("outputs", word, "--to", str(target)) == "a.csv\n"
        assert (target / "a.csv").read_text() == "7\n"


@pytest.mark.parametrize("words", [(), ("--at-most-once",)], ids=["plain", "at-most-once"])
def test_an_agent_that_starts_again_while_outputs_travel_knows_the_job_that_ended(
    lab, tmp_path, words
):
    desk, attic, _ = lab.members
    work = plant(desk.dir / tmp_path.name, {"in": "x"})
    script = f"head -c {30 * MB} /dev/urandom > out; echo ran >> {tmp_path}/ran"
    lab.host("attic").throttle(20)  # Twelve seconds: time to restart it, and to ask it.
    try:
        word = submitted(desk, "--cwd", str(work), "--node", "attic", "--ship", str(work),
                         "--output", "out", *words, "--", "sh", "-c", script)  # fmt: skip
        awaited(
            lambda: any(one["doing"] == "bringing" for one in job(desk, word)["transits"]),
            lambda: job(desk, word),
        )
        (pid,) = attic.pids("agent")
        os.kill(pid, signal.SIGTERM)  # Its keeper starts another, before anybody gives it up.
        awaited(lambda: not is_alive(pid))
        assert over(desk, word) == {"succeeded"}
    finally:
        lab.host("attic").throttle(10_000)

    assert (work / "out").stat().st_size == 30 * MB
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert tries(desk, word) == ["attic"], job(desk, word)["story"]
