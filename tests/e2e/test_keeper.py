import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed_grid.edges.runner import JOURNAL_FILE, PID_FILE, SOCKET_FILE
from distributed_grid.edges.runner.agent_link import RunnerGone, ask_for_agent
from distributed_grid.edges.runner.deadlines import boot_us
from distributed_grid.wire.keeper import Adopt, Ended, Limits, Quit, Stop
from tests.keeper_lab import KeeperLab, groups_of, is_alive, wait_until


@pytest.fixture
def new_lab(tmp_path: Path) -> Iterator[KeeperLab]:
    lab = KeeperLab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture(params=["groups", "no-groups"])
def any_lab(request: pytest.FixtureRequest, new_lab: KeeperLab, tmp_path: Path) -> KeeperLab:
    return new_lab.start(
        *(["--cgroup-root", str(tmp_path)] if request.param == "no-groups" else [])
    )


def test_an_agent_killed_while_100_jobs_run_is_back_and_every_exit_code_arrives(
    new_lab: KeeperLab, tmp_path: Path
) -> None:
    lab = new_lab.start()
    script = "while ! [ -e go ]; do sleep 0.05; done; exit $CODE"
    for number in range(100):
        env = {"PATH": "/usr/bin:/bin", "CODE": str(number)}
        lab.send(lab.a_shell(script, attempt=f"a{number}", env=env))
    for number in range(100):
        lab.started(f"a{number}")

    os.kill(lab.agent_pid, signal.SIGKILL)
    killed = time.monotonic()
    hello = lab.connect()
    took_s = time.monotonic() - killed
    (tmp_path / "go").touch()

    assert took_s < 1.0
    assert len(hello.running) == 100
    assert hello.agent_restarts == 1
    assert hello.unacknowledged == 100  # The starts.
    codes = [lab.ended(f"a{number}")[-1].code for number in range(100)]
    assert codes == list(range(100))


def test_reports_come_again_until_they_are_acknowledged(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    lab.shell_outcome("exit 3")
    os.kill(lab.agent_pid, signal.SIGKILL)
    lab.connect()
    assert lab.ended()[-1].code == 3

    lab.acknowledge()
    lab.outcome("true", attempt="two")
    os.kill(lab.agent_pid, signal.SIGKILL)
    assert lab.connect().unacknowledged == 2
    assert lab.ended("two")
    assert all(report.attempt == "two" for report in lab.reports)


def test_a_killed_keeper_takes_its_jobs_along_within_a_second(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    lab = any_lab
    child, daemon = tmp_path / "child", tmp_path / "daemon"
    lab.send(
        lab.a_shell(
            f"(env -i setsid sh -c 'echo $$ >{daemon}; exec sleep 600' &)\n"
            f"sh -c 'trap \"\" TERM HUP; echo $$ >{child}; while :; do sleep 1; done'"
        )
    )
    pids = [lab.started().pid, lab.pid_from(child), lab.pid_from(daemon), lab.agent_pid]
    lab.kill()

    wait_until(lambda: not any(map(is_alive, pids)), within_s=1.0)
    assert lab.wait() == 137


@pytest.mark.parametrize("other", ["parent", "grandparent", "process groups"])
def test_a_keeper_killed_with_one_of_its_sentinels_leaves_no_process(
    any_lab: KeeperLab, tmp_path: Path, other: str
) -> None:
    """Whoever kills two at once meets a third; also what left its session and its parents."""
    lab = any_lab
    child, daemon = tmp_path / "child", tmp_path / "daemon"
    lab.send(
        lab.a_shell(
            f"(env -i setsid sh -c '(echo $$ >{daemon}; exec sleep 600) &' &)\n"
            f"sh -c 'trap \"\" TERM HUP; echo $$ >{child}; while :; do sleep 1; done'"
        )
    )
    pids = [lab.started().pid, lab.pid_from(child), lab.pid_from(daemon), lab.agent_pid]
    parent, grandparent = lab.sentinels()
    assert len({os.getpgid(pid) for pid in (lab.pid, parent, grandparent)}) == 3
    assert lab.process
    assert lab.process.pid == grandparent
    if other == "process groups":
        os.killpg(os.getpgid(lab.pid), signal.SIGKILL)
        os.killpg(os.getpgid(parent), signal.SIGKILL)
    else:
        os.kill(parent if other == "parent" else grandparent, signal.SIGKILL)
        lab.kill()

    wait_until(lambda: not any(map(is_alive, [*pids, lab.pid, parent])), within_s=1.0)
    lab.wait()
    wait_until(lambda: not lab.groups())


def test_the_next_keeper_tells_what_the_killed_one_ran(new_lab: KeeperLab, tmp_path: Path) -> None:
    lab = new_lab.start()
    lab.shell_outcome("exit 3")
    lab.send(lab.a_shell("touch $GRID_WORKDIR/file; exec sleep 600", attempt="two"))
    lab.started("two")
    lab.kill()
    lab.wait()
    lab.start()

    assert lab.ended()[-1].code == 3
    lost = lab.ended("two")[-1]
    assert (lost.how, lost.note) == ("lost", "the keeper died")
    wait_until(lambda: not (tmp_path / "scratch/two").exists())


def test_a_restart_of_the_machine_is_told(new_lab: KeeperLab, tmp_path: Path) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("monday\n")
    lab = new_lab.start("--boot-id-file", str(boot_id))
    lab.send(lab.a_run("sleep", "600"))
    lab.started()
    lab.kill()
    lab.wait()
    boot_id.write_text("tuesday\n")
    lab.start("--boot-id-file", str(boot_id))

    assert lab.hello
    assert lab.hello.boot_id == "tuesday"
    assert lab.ended()[-1].note == "the machine restarted"


def test_a_torn_journal_is_read_as_far_as_it_goes(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    lab.shell_outcome("exit 3")
    lab.shell_outcome("exit 4", attempt="two")
    lab.kill()
    lab.wait()
    journal = lab.data_dir / JOURNAL_FILE
    journal.write_bytes(journal.read_bytes()[:-3])
    lab.start()

    assert lab.ended()[-1].code == 3


@pytest.mark.parametrize("junk", [b"\xff" * 64, b"\x00\x00\x00\x04junk", b"GET / HTTP/1.1\r\n\r\n"])
def test_junk_on_the_line_restarts_the_agent_and_harms_no_job(
    new_lab: KeeperLab, junk: bytes
) -> None:
    lab = new_lab.start()
    lab.send(lab.a_run("sleep", "600"))
    pid = lab.started().pid
    lab.send_raw(junk)
    hello = lab.connect()

    assert hello.running == ("one",)
    assert is_alive(pid)


def test_an_agent_that_dies_at_once_is_started_again_with_growing_pauses(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    agent = ["/bin/sh", "-c", f"echo x >>{marks}"]
    keeper = subprocess.Popen(
        [sys.executable, "-m", "distributed_grid.edges.runner.keeper",
         "--data-dir", str(tmp_path / "data"), "--", *agent]
    )  # fmt: skip
    started = time.monotonic()
    wait_until(lambda: marks.exists() and len(marks.read_text()) >= 8)
    took_s = time.monotonic() - started
    os.kill(int((tmp_path / "data" / PID_FILE).read_text()), signal.SIGTERM)

    assert took_s >= 0.1 + 0.2 + 0.4
    assert keeper.wait(20) == 0


def test_a_full_disk_is_told_and_survived(new_lab: KeeperLab, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    options = "size=256k,nr_inodes=32"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(small)], check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a tmpfs: run as root")
    new_lab.data_dir = small / "data"
    lab = new_lab.start()
    try:
        fill(small)
        scratchless = lab.outcome("true", scratch_dir=str(small / "scratch/deep"))
        wordless = lab.outcome("true", attempt="two", output_dir=str(small / "output"))
        plain = [lab.outcome("true", attempt=f"b{n}") for n in range(50)][-1]
        for path in small.glob("filler-*"):
            path.unlink()
        mended = wait_until(lambda: not lab.outcome("true", attempt=f"c{time.monotonic_ns()}").note)

        assert "No space left" in scratchless.note
        assert "No space left" in wordless.note
        assert (plain.code, "journal could not be written" in plain.note) == (0, True)
        assert mended
    finally:
        lab.kill()
        lab.wait()
        subprocess.run(["umount", "-l", str(small)], check=True)


def fill(directory: Path) -> None:
    """Take every block and every inode."""
    for number in range(1_000):
        try:
            with (directory / f"filler-{number}").open("wb", buffering=0) as filler:
                while filler.write(b"x" * 4_096) == 4_096:
                    pass
        except OSError:
            if not (directory / f"filler-{number}").exists():
                return


def test_sigterm_stops_the_jobs_tells_their_end_and_leaves_nothing(any_lab: KeeperLab) -> None:
    lab = any_lab
    lab.send(lab.a_run("sleep", "600"))
    pid = lab.started().pid
    keeper = lab.pid
    os.kill(keeper, signal.SIGTERM)
    ended = lab.ended()[-1]
    lab.let_agent_go()

    assert ended.how == "stopped"
    assert lab.wait() == 0
    assert not is_alive(pid)
    assert not is_alive(lab.agent_pid)
    assert list(groups_of(keeper)) == []
    assert sorted(path.name for path in lab.data_dir.iterdir()) == [JOURNAL_FILE, "keeper.lock"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_of_a_terminal_are_ignored(new_lab: KeeperLab, number: int) -> None:
    lab = new_lab.start()
    os.kill(lab.pid, number)
    assert lab.process
    os.kill(lab.process.pid, number)

    assert lab.outcome("true").code == 0


def test_a_keeper_without_agent_stays_for_its_jobs_and_takes_a_new_agent(
    new_lab: KeeperLab, tmp_path: Path
) -> None:
    lab = new_lab.start()
    lab.send(lab.a_shell("while ! [ -e go ]; do sleep 0.02; done; exit 3"))
    lab.started()
    lab.send(Quit())
    lab.let_agent_go()
    wait_until(lambda: not is_alive(lab.agent_pid))
    wish = Adopt(argv=tuple(lab.agent_argv), env=dict(os.environ))
    answer = ask_for_agent(str(lab.data_dir), wish)

    assert answer.refusal == ""
    assert lab.connect().running == ("one",)
    assert ask_for_agent(str(lab.data_dir), wish).refusal == "an agent runs already"
    (tmp_path / "go").touch()
    assert lab.ended()[-1].code == 3


def test_a_keeper_without_agent_goes_when_its_last_job_ends(
    new_lab: KeeperLab, tmp_path: Path
) -> None:
    lab = new_lab.start()
    lab.send(lab.a_shell("while ! [ -e go ]; do sleep 0.02; done; exit 3"))
    lab.started()
    lab.send(Quit())
    lab.let_agent_go()
    wait_until(lambda: not is_alive(lab.agent_pid))
    (tmp_path / "go").touch()
    assert lab.wait() == 0

    lab.start()
    assert lab.ended()[-1].code == 3


def test_there_is_one_keeper_per_directory(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    second = subprocess.run(
        [sys.executable, "-m", "distributed_grid.edges.runner.keeper",
         "--data-dir", str(lab.data_dir), "--", "true"],
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip

    assert second.returncode == 1
    assert f"as process {lab.pid}" in second.stderr
    assert lab.outcome("true").code == 0


def test_the_socket_is_for_its_owner_alone(new_lab: KeeperLab) -> None:
    lab = new_lab.start()

    assert (lab.data_dir / SOCKET_FILE).stat().st_mode & 0o777 == 0o600
    assert int((lab.data_dir / PID_FILE).read_text()) == lab.pid


def test_nobody_answers_where_no_keeper_is(tmp_path: Path) -> None:
    with pytest.raises(RunnerGone):
        ask_for_agent(str(tmp_path), Adopt(argv=("true",), env={}))


def test_bad_arguments_are_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "distributed_grid.edges.runner.keeper", "--data-dir"],
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip

    assert done.returncode == 2
    assert "usage" in done.stderr


def test_an_agent_that_does_not_read_holds_nobody_up(new_lab: KeeperLab, tmp_path: Path) -> None:
    lab = new_lab.start()
    lab.send(lab.a_shell("true", indices=tuple(range(3_000)), attempt="many"))
    lab.send(lab.a_shell("touch done", attempt="two"))
    wait_until((tmp_path / "done").exists)

    assert len(lab.ended("many")) == 3_000


def test_the_keeper_is_small_and_asleep_at_rest(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    lab.outcome("true")
    status = Path(f"/proc/{lab.pid}/status").read_text().splitlines()
    resident_kb = int(next(line for line in status if line.startswith("VmRSS")).split()[1])
    threads = next(line for line in status if line.startswith("Threads")).split()[1]

    assert resident_kb < 30_000
    assert threads == "1"


def test_a_job_stopped_while_the_keeper_is_told_to_end_is_reported_once(
    new_lab: KeeperLab,
) -> None:
    lab = new_lab.start()
    lab.send(lab.a_run("sleep", "600", limits=Limits(memory_bytes=64 << 20)))
    lab.started()
    lab.send(Stop(attempt="one"), Quit(stop_jobs=True))
    lab.ended()
    lab.let_agent_go()

    assert len([report for report in lab.reports if isinstance(report, Ended)]) == 1
    assert lab.wait() == 0


def test_a_job_whose_agent_stands_still_is_killed_at_its_deadline(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    """Nobody moves the deadline any more; after it the keeper needs no agent to end the job."""
    lab = any_lab
    until_us = boot_us() + 2_000_000
    lab.send(lab.a_shell("setsid sleep 600 & echo $! >child; wait", until_boot_us=until_us))
    pids = [lab.started().pid, lab.pid_from(tmp_path / "child")]
    os.kill(lab.agent_pid, signal.SIGSTOP)
    try:
        assert all(map(is_alive, pids))
        wait_until(lambda: not any(map(is_alive, pids)))
        assert 0 <= boot_us() - until_us < 2_000_000  # Looked at each 100 ms, on a busy machine.
    finally:
        os.kill(lab.agent_pid, signal.SIGCONT)
    assert lab.ended()[-1].how == "lost"
