"""Full disks, read-only homes, leftovers of the dead, clocks that go back: nothing is lost."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed_grid.client.cluster import connect
from distributed_grid.edges.store.migrations import MIGRATIONS, VERSION, migrate
from distributed_grid.errors import GridError
from tests.agent_lab import AgentLab
from tests.keeper_lab import is_alive, wait_until

pytestmark = pytest.mark.slow

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system: run it as root")


@pytest.fixture
def lab() -> Iterator[AgentLab]:
    """Not started yet."""
    made = AgentLab()
    yield made
    made.close()


@pytest.fixture
def small_lab() -> Iterator[AgentLab]:
    """Its data directory is a file system of four megabytes."""
    made = AgentLab()
    made.home.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "grid-test", made.home], check=True
    )
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            (made.home / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,rw", made.home], check=False)
        made("down", "--stop-jobs")
        wait_until(lambda: not subprocess.run(["umount", made.home], check=False).returncode)
        shutil.rmtree(made.root)


def fill(directory: Path) -> None:
    """Until not one byte more fits."""
    with (directory / "filler").open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


@needs_root
def test_a_full_disk_refuses_new_jobs_and_loses_no_old_ones(small_lab):
    lab = small_lab.up()
    gates = [lab.dir / "gate-0", lab.dir / "gate-1"]
    for path in gates:
        os.mkfifo(path)
    running = [
        lab.detached("--cpus", "0.1", "sh", "-c", f"cat {path}; exit {number + 3}")
        for number, path in enumerate(gates)
    ]
    wait_until(lambda: lab.json("status")["jobs_running"] == 2)
    fill(lab.home)
    pid = lab.pid()

    # The log of the database may have room left for a few; those that are accepted are kept.
    accepted = []
    with connect(str(lab.home / "agent.sock")) as cluster:

        def is_refused() -> str:
            try:
                accepted.append(cluster.submit(["true"], cwd=str(lab.dir)).id)
            except GridError as error:
                return type(error).__name__ + str(error)
            return ""

        refusal = wait_until(is_refused)
        started = time.monotonic()
        done = lab("run", "true")
        took_s = time.monotonic() - started

    assert "disk is full" in refusal
    assert (done.returncode, b"disk is full" in done.stderr) == (125, True)
    assert took_s < 5
    for path in gates:
        path.write_bytes(b"go\n")
    wait_until(lambda: not any(is_alive(pid) for pid in job_pids(lab)))
    assert lab.http("GET", "/health")[0] == 200

    (lab.home / "filler").unlink()
    assert [lab("wait", job).returncode for job in running] == [3, 4]
    assert lab.pid() == pid
    wait_until(lambda: lab("run", "true").returncode == 0)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: lab.http_or_none("/health") and lab.pid() != pid)
    assert [lab.json("job", job)["exit_code"] for job in running] == [3, 4]
    assert {lab("wait", job).returncode for job in accepted} <= {0, 125}


def job_pids(lab: AgentLab) -> list[int]:
    """Children of the keeper, the agent excepted."""
    keeper = lab.pid("keeper")
    words = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    return [int(word) for word in words if int(word) != lab.pid()]


@needs_root
def test_a_job_that_fills_the_disk_can_be_cancelled(small_lab):
    lab = small_lab.up()
    job = lab.detached("sh", "-c", "echo up; exec sleep 600")
    wait_until(lambda: lab("logs", job).stdout == b"up\n")
    pids = job_pids(lab)
    fill(lab.home)
    lab("cancel", job)

    wait_until(lambda: not any(map(is_alive, pids)))
    (lab.home / "filler").unlink()
    assert lab("wait", job).returncode == 125
    assert lab.json("job", job)["state"] == "cancelled"


@needs_root
def test_a_read_only_home_is_told_in_one_line(small_lab):
    subprocess.run(["mount", "-o", "remount,ro", small_lab.home], check=True)
    done = small_lab("up", "--detach")

    assert done.returncode == 1
    assert b"read-only" in done.stderr.lower()
    assert done.stderr.count(b"\n") == 1


@needs_root
def test_a_home_without_space_is_told_in_one_line(small_lab):
    fill(small_lab.home)
    done = small_lab("up", "--detach")

    assert done.returncode == 1
    assert b"space" in done.stderr.lower()
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("left", ["socket", "file", "pids"])
def test_what_a_dead_agent_left_does_not_hinder_the_next(lab, left):
    lab.home.mkdir(mode=0o700)
    if left == "socket":
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(lab.home / "agent.sock"))
    elif left == "file":
        (lab.home / "agent.sock").write_text("")
    else:
        for name in ("agent.pid", "keeper.pid"):
            (lab.home / name).write_text(f"{os.getpid()}\n")  # Alive, and not ours.
    lab.up()

    assert lab("run", "echo", "here").stdout == b"here\n"


def test_of_agent_and_keeper_killed_at_once_nothing_hinders_the_next(lab):
    lab.up()
    pids = [lab.pid("keeper"), lab.pid()]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)))
    lab.up()

    assert lab("run", "echo", "here").stdout == b"here\n"


def test_of_two_agents_started_at_once_one_serves_and_the_other_says_why(lab):
    words = [sys.executable, "-m", "distributed_grid", "up", "--detach"]
    both = [
        subprocess.Popen(words, env=lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=60)[1] for process in both]
    codes = sorted(process.returncode for process in both)

    assert codes == [0, 1], told
    assert any(b"already" in line for line in told)
    assert lab("run", "echo", "here").stdout == b"here\n"
    assert b"already serves" in lab("up", "--detach").stderr


def test_only_the_owner_gets_at_socket_directories_and_output(lab):
    lab.up()
    job = lab.detached("sh", "-c", "echo out; echo err >&2; touch $GRID_WORKDIR/x; sleep 60")
    wait_until(lambda: lab("logs", job).stdout == b"out\n")
    modes = {
        str(path.relative_to(lab.home)): stat.S_IMODE(path.lstat().st_mode)
        for path in lab.home.rglob("*")
        if "scratch/" not in str(path.relative_to(lab.home))
    }
    scratch = [path for path in (lab.home / "scratch").iterdir() if path.is_dir()]

    assert stat.S_IMODE(lab.home.stat().st_mode) == 0o700
    assert modes["agent.sock"] == 0o600
    assert modes[f"jobs/{job}"] == 0o700
    assert modes[f"jobs/{job}/stdout"] == modes[f"jobs/{job}/stderr"] == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in scratch} == {0o700}
    databases = {mode for name, mode in modes.items() if ".db" in name or "sqlite" in name}
    assert databases == {0o600}


def test_a_directory_of_the_first_schema_is_upgraded_and_one_of_the_next_refused(lab):
    lab.up()
    (database,) = [path for path in lab.home.iterdir() if is_database(path)]
    lab("down")
    wait_until(lambda: lab("status").returncode == 4)
    for path in lab.home.glob(f"{database.name}*"):
        path.unlink()
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as old:
        migrate(old, str(database), upto=1)
    lab.up()

    assert lab("run", "echo", "here").stdout == b"here\n"
    lab("down")
    wait_until(lambda: lab("status").returncode == 4)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as newer:
        assert newer.execute("PRAGMA user_version").fetchone() == (VERSION,) == (len(MIGRATIONS),)
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    done = lab("up", "--detach")
    assert done.returncode == 1
    assert b"later Grid" in done.stderr


def is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


@pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime: apt-get install faketime")
def test_a_clock_that_is_set_back_turns_no_story_around(lab):
    hands = lab.root / "clock"
    hands.write_text("+0")
    # Only keeper and agent get it: it breaks the sleep of a Python that looks at no other clock.
    fake = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(hands),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
    app = (sys.executable, "-m", "distributed_grid.app", "--data-dir", str(lab.home))
    keeper = (sys.executable, "-m", "distributed_grid.edges.runner.keeper")
    process = subprocess.Popen(
        [*keeper, "--data-dir", str(lab.home), "--", *app], env=lab.env | fake
    )
    wait_until(lambda: lab.http_or_none("/health"))
    gate = lab.dir / "gate"
    os.mkfifo(gate)
    first = lab.detached("--name", "first", "sh", "-c", f"cat {gate}")
    wait_until(lambda: lab.json("job", first)["state"] == "running")
    hands.write_text("-2h")
    second = lab.detached("--name", "second", "true")
    lab("wait", second)
    gate.write_bytes(b"go\n")
    assert lab("wait", first).returncode == 0
    pid = lab.pid()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: lab.http_or_none("/health") and lab.pid() != pid)
    third = lab.detached("--name", "third", "true")
    lab("wait", third)

    assert [job["name"] for job in lab.json("jobs")] == ["third", "second", "first"]
    for job in (first, second, third):
        view = lab.json("job", job)
        times = [line["at_ms"] for line in view["story"]]
        assert times == sorted(times)
        assert view["submitted_ms"] <= view["started_ms"] <= view["ended_ms"]
        assert all(one["started_ms"] <= one["ended_ms"] for one in view["attempts"])
    lab("down", "--stop-jobs")
    assert process.wait(20) == 0


@pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime: apt-get install faketime")
@pytest.mark.parametrize("monotonic", ["faked", "left alone"])
def test_an_agent_comes_up_and_runs_jobs_under_a_faked_clock(lab, monotonic):
    fake = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "-3d"}
    if monotonic == "left alone":
        fake["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
    up = lab("up", "--detach", env=fake)

    assert (up.returncode, up.stderr) == (0, b"")
    assert lab("run", "echo", "here", env=fake).stdout == b"here\n"
    assert lab("down", env=fake).returncode == 0
