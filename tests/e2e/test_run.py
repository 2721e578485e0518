"""`grid run` and its friends, against a real agent with a real keeper."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import VENV_BIN
from tests.keeper_lab import wait_until

FULL_ID = re.compile(r"[0-9a-f]{64}\n")


class Lab:
    """One agent of its own, and the `grid` that talks to it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "g"
        self.dir = root / "work"
        self.dir.mkdir()
        kept = {name: os.environ[name] for name in os.environ if name.startswith("COVERAGE_")}
        self.env = kept | {
            "PATH": f"{VENV_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(root),
            "GRID_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }

    def __call__(self, *words: str, env: dict[str, str] | None = None, cwd: Path | None = None):
        return subprocess.run(
            [str(VENV_BIN / "grid"), *words],
            env={**self.env, **(env or {})},
            cwd=cwd or self.dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def start(self, *words: str, **options) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(VENV_BIN / "grid"), *words], env=self.env, cwd=self.dir, **options
        )

    def json(self, *words: str):
        done = self(*words, "--json")
        return json.loads(done.stdout)

    def detached(self, *words: str) -> str:
        done = self("run", "--detach", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("run"))
    up = made("up", "--detach", "--name", "desk")
    assert up.returncode == 0, up.stderr
    yield made
    down = made("down", "--stop-jobs")
    assert down.returncode == 0, down.stderr
    assert not (made.home / "agent.pid").exists()


@pytest.fixture
def name(request) -> str:
    """A name that no other test uses."""
    return f"job-{abs(hash(request.node.nodeid)) % 10**9}"


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)  # fmt: skip
def test_the_exit_code_is_the_jobs_own(lab, script, code):
    assert lab("run", "sh", "-c", script).returncode == code


def test_only_the_jobs_bytes_reach_stdout_and_only_its_errors_stderr(lab):
    done = lab("run", "sh", "-c", "printf 'a\\000\\377b'; printf oops >&2; exit 3")

    assert (done.returncode, done.stdout, done.stderr) == (3, b"a\x00\xffb", b"oops")


def test_a_megabyte_arrives_whole(lab):
    done = lab("run", "sh", "-c", "seq 1 200000")

    assert done.stdout == b"".join(b"%d\n" % number for number in range(1, 200_001))


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_run_126(lab):
    (lab.dir / "plain").write_text("no program")
    missing, plain = lab("run", "no-such-program"), lab("run", "./plain")

    assert (missing.returncode, missing.stdout) == (127, b"")
    assert b"not found" in missing.stderr
    assert (plain.returncode, plain.stdout) == (126, b"")
    assert plain.stderr


def test_a_timeout_is_124_with_the_reason(lab):
    done = lab("run", "--timeout", "200ms", "sleep", "60")

    assert (done.returncode, done.stdout) == (124, b"")
    assert b"timeout" in done.stderr


def test_more_than_the_machine_has_is_refused_at_once_with_the_shortfall(lab):
    done = lab("run", "--memory", "1PiB", "true")

    assert done.returncode == 125
    assert b"larger than this machine (wants 1 PiB of memory, has " in done.stderr


def test_a_detached_job_is_its_id_and_can_be_waited_for(lab, name):
    done = lab("run", "--detach", "--name", name, "sh", "-c", "echo late; exit 9")

    assert FULL_ID.fullmatch(done.stdout.decode())
    assert lab("wait", name).returncode == 9
    assert lab("logs", name).stdout == b"late\n"


def test_following_ends_with_the_job(lab, name):
    lab.detached("--name", name, "sh", "-c", "echo one; sleep 0.3; echo two; echo err >&2")

    assert lab("logs", "-f", name).stdout == b"one\ntwo\n"
    assert lab("logs", "--stderr", name).stdout == b"err\n"


def test_output_arrives_while_the_job_runs(lab, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = lab.start("run", "sh", "-c", f"echo first; cat {gate}", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"first\n"
    gate.write_bytes(b"second\n")

    assert process.stdout.read() == b"second\n"
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_cancelled_job_is_125_for_who_waits(lab, name):
    lab.detached("--name", name, "sleep", "60")
    cancelled = lab("cancel", name)
    waited = lab("wait", name)

    assert cancelled.returncode == 0, cancelled.stderr
    assert waited.returncode == 125
    assert b"cancelled" in waited.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupt_without_a_terminal_cancels_at_once(lab, name, number, code):
    process = lab.start("run", "--name", name, "sh", "-c", "echo up; sleep 60",
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)

    assert process.wait(20) == code
    process.stdout.close()
    assert lab.json("wait", name)["state"] == "cancelled"


@pytest.mark.parametrize(
    "case",
    [(b"c\n", 130, "cancelled"), (b"d\n", 130, "succeeded"), (b"g\n", 0, "succeeded"),
     (b"\x03", 130, "cancelled")],
    ids=["cancel", "detach", "go-on", "again"],
)  # fmt: skip
def test_an_interrupt_on_a_terminal_asks(lab, name, tmp_path, case):
    answer, code, state = case
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    ours, theirs = pty.openpty()
    process = lab.start("run", "--name", name, "sh", "-c", f"echo up; cat {gate}",
                        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                        preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))  # fmt: skip
    os.close(theirs)
    read_until(ours, b"up")
    os.write(ours, b"\x03")
    read_until(ours, b"[g]o on")
    os.write(ours, answer)
    if state == "succeeded":
        gate.write_bytes(b"opened\n")

    drain(ours, process)
    assert process.wait(20) == code
    assert lab.json("wait", name)["state"] == state
    os.close(ours)


def test_a_terminal_that_is_closed_cancels_the_job(lab, name):
    ours, theirs = pty.openpty()
    process = lab.start("run", "--name", name, "sh", "-c", "echo up; sleep 60",
                        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                        preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))  # fmt: skip
    os.close(theirs)
    read_until(ours, b"up")
    os.close(ours)

    process.wait(20)
    assert lab.json("wait", name)["state"] == "cancelled"


def test_under_nohup_it_goes_on(lab, name, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = lab.start("run", "--name", name, "sh", "-c", f"echo up; cat {gate}",
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGHUP)
    gate.write_bytes(b"opened\n")

    assert process.stdout.read() == b"opened\n"
    assert process.wait(20) == 0
    process.stdout.close()


def test_of_an_index_that_was_tried_again_the_last_try_is_shown_by_both(lab, name):
    script = "echo try $GRID_ATTEMPT; test $GRID_ATTEMPT = 2"
    done = lab("run", "--name", name, "--array", "0-2", "--retries", "1", "--stream",
               "sh", "-c", script)  # fmt: skip

    assert done.stdout == b"0: try 2\n1: try 2\n2: try 2\n", done.stderr
    assert [lab("logs", "--index", str(index), name).stdout for index in range(3)] == (
        [b"try 2\n"] * 3
    )


def test_an_index_of_a_job_that_is_no_array_is_refused(lab, name):
    lab("run", "--name", name, "echo", "words")
    done = lab("logs", "--index", "3", name)

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no array" in done.stderr


def read_until(terminal: int, words: bytes) -> None:
    seen, deadline = b"", time.monotonic() + 20
    while words not in seen:
        assert select.select([terminal], [], [], deadline - time.monotonic())[0], seen
        seen += os.read(terminal, 4_096)


def drain(terminal: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                os.read(terminal, 4_096)
            except OSError:
                return


def test_an_array_shows_what_became_of_it(lab):
    well = lab("run", "--array", "0-19%4", "sh", "-c", "test $GRID_ARRAY_INDEX -lt 20")
    badly = lab("run", "--array", "0-3", "sh", "-c", "exit $GRID_ARRAY_INDEX")

    assert (well.returncode, well.stdout) == (0, b"")
    assert b"20 of 20 succeeded" in well.stderr
    assert (badly.returncode, badly.stdout) == (1, b"")
    assert b"1 of 4 succeeded, 3 failed" in badly.stderr


def test_every_index_has_its_own_output(lab, name):
    done = lab(
        "run", "--name", name, "--array", "0-3", "--stream", "sh", "-c", "echo i=$GRID_ARRAY_INDEX"
    )

    assert done.stdout == b"0: i=0\n1: i=1\n2: i=2\n3: i=3\n"
    assert lab("logs", "--index", "2", name).stdout == b"i=2\n"


def test_a_chain_runs_in_its_order(lab, name):
    first = lab.detached("--name", f"{name}-1", "sh", "-c", "sleep 0.2; echo first >> chain")
    second = lab.detached("--after", f"{name}-1", "sh", "-c", "echo second >> chain")
    last = lab("run", "--after", second[:16], "--after", f"id:{first}:any", "sh", "-c", "cat chain")

    assert last.stdout == b"first\nsecond\n", last.stderr


def test_a_condition_that_cannot_hold_any_more_skips_the_job(lab, name):
    lab.detached("--name", name, "false")
    skipped = lab("run", "--after", f"{name}:ok", "true")
    after_all = lab("run", "--after", f"{name}:failed", "echo", "cleaned up")

    assert skipped.returncode == 125
    assert b"skipped" in skipped.stderr
    assert after_all.stdout == b"cleaned up\n"


def test_the_job_starts_where_the_caller_is_with_his_environment_but_without_secrets(lab, tmp_path):
    (tmp_path / "vars").write_text("FROM_FILE=f\n")
    script = 'pwd; echo "$PLAIN|$GITHUB_TOKEN|$GIVEN|$FROM_FILE|${GRID_JOB_ID:+id}"; test -d "$GRID_WORKDIR"'
    done = lab("run", "--env", "GIVEN=g", "--env-file", "vars", "sh", "-c", script,
               env={"PLAIN": "p", "GITHUB_TOKEN": "secret"}, cwd=tmp_path)  # fmt: skip
    elsewhere = lab("run", "--cwd", "/", "pwd")

    assert done.stdout.decode() == f"{tmp_path}\np||g|f|id\n"
    assert done.returncode == 0
    assert elsewhere.stdout == b"/\n"


def test_shell_runs_the_words_under_a_shell(lab):
    assert lab("run", "--shell", "echo $((6*7))", "|", "tr 2 3").stdout == b"43\n"


def test_a_job_is_found_by_id_name_and_prefix(lab, name):
    job = lab.detached("--name", name, "true")
    lab("wait", job)

    for word in (job, name, job[:8], f"id:{job[:8]}", f"name:{name}"):
        assert lab.json("job", word)["id"] == job, word


def test_a_name_means_the_newest_and_a_prefix_of_two_is_refused(lab, name):
    older, newer = (lab.detached("--name", name, "true") for _ in range(2))
    lab("wait", f"id:{older}", f"id:{newer}")

    assert lab.json("job", name)["id"] == newer
    assert lab("job", "").returncode in (2, 3)


def test_json_of_a_run_is_the_job(lab, name):
    done = lab("run", "--name", name, "--json", "sh", "-c", "echo not shown; exit 4")
    job = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (4, b"")
    assert (job["name"], job["state"], job["exit_code"], job["node"]) == (name, "failed", 4, "desk")
    assert [attempt["exit_code"] for attempt in job["attempts"]] == [4]


def test_retries_try_again_and_are_told_in_the_story(lab, name):
    script = "test -e again || { touch again; exit 1; }"
    done = lab("run", "--retries", "2", "--name", name, "sh", "-c", script)

    assert done.returncode == 0, done.stderr
    assert len(lab.json("job", name)["attempts"]) == 2


def test_a_waiting_job_is_explained(lab, name):
    cores = lab.json("status")["cpu_milli_total"] // 1_000
    holder = lab.detached("--cpus", str(cores), "sleep", "60")
    lab.detached("--name", name, "--cpus", str(cores), "true")
    explanation = lab.json("explain", name)
    lab("cancel", holder)

    assert explanation["state"] == "waiting"
    assert explanation["shortfall"][0][0] == "cpu_milli"
    assert lab("wait", name).returncode == 0


def test_jobs_can_be_filtered(lab, name):
    lab("run", "--name", name, "false")

    assert [job["name"] for job in lab.json("jobs", "--name", name)] == [name]
    assert name in lab("jobs", "--state", "failed").stdout.decode()
    assert lab.json("jobs", "--name", name, "--state", "succeeded") == []


def test_a_second_agent_on_the_same_directory_is_refused(lab):
    done = lab("up", "--detach")

    assert done.returncode == 1
    assert b"already serves" in done.stderr


def test_only_the_owner_can_use_the_socket(lab):
    assert stat.S_IMODE((lab.home / "agent.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(lab.home.stat().st_mode) == 0o700


def test_a_run_outlives_a_crash_of_the_agent(lab, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = lab.start("run", "sh", "-c", f"echo up; cat {gate}; exit 5", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    os.kill(lab.json("status")["pid"], signal.SIGKILL)
    gate.write_bytes(b"still here\n")

    assert process.stdout.read() == b"still here\n"
    assert process.wait(20) == 5
    process.stdout.close()


def test_waiting_outlives_a_crash_of_the_agent(lab, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = lab.detached("sh", "-c", f"cat {gate}; exit 3")
    waiting = [lab.start("wait", job, stderr=subprocess.PIPE) for _ in range(4)]
    for process in waiting:
        wait_until(lambda process=process: has_socket(process.pid))
    os.kill(lab.json("status")["pid"], signal.SIGKILL)
    gate.write_bytes(b"")

    assert [(process.communicate(timeout=20), process.returncode) for process in waiting] == (
        [((None, b""), 3)] * 4
    )


def has_socket(pid: int) -> bool:
    """Whether it holds a connection: then it has asked, or is about to."""
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # Closed since it was listed.
            if str(file.readlink()).startswith("socket:"):
                return True
    return False


def test_jobs_go_on_when_the_agent_goes_down_and_are_found_by_the_next(tmp_path):
    made = Lab(tmp_path)
    assert made("up", "--detach").returncode == 0
    job = made.detached("sh", "-c", "sleep 0.5; echo done; exit 6")
    down = made("down")
    assert down.returncode == 0, down.stderr
    assert made("status").returncode == 4
    assert made("up", "--detach").returncode == 0

    assert made("wait", job).returncode == 6
    assert made("logs", job).stdout == b"done\n"
    assert made("down", "--stop-jobs").returncode == 0


def test_up_in_the_foreground_stops_with_the_signal(tmp_path):
    made = Lab(tmp_path)
    process = made.start("up", stderr=subprocess.PIPE)
    assert b"is up" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)

    assert process.returncode == 0
    assert b"stopped" in told
    assert made("status").returncode == 4


def test_without_an_agent_run_is_125_with_one_line(lab, tmp_path):
    done = lab("run", "true", env={"GRID_HOME": str(tmp_path / "none")})

    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 1)


def test_a_configuration_that_is_wrong_is_2_and_nothing_is_started(lab, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("mistake: 1\n")
    done = lab("up", "--detach", "--config", str(config), "--data-dir", str(tmp_path / "d"))

    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"'mistake'" in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_directory_that_cannot_be_used_is_told(lab, tmp_path):
    (tmp_path / "file").write_text("")
    done = lab("up", "--detach", "--data-dir", str(tmp_path / "file" / "below"))

    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1


def test_the_doctor_finds_this_machine_fit(lab):
    done = lab("doctor")
    findings = {finding["what"]: finding for finding in lab.json("doctor")}

    assert done.returncode == 0
    assert {"python", "data directory", "fsync", "limits", "containers", "NVIDIA"} <= set(findings)
    assert findings["agent"]["state"] == "ok"
    assert all(finding["remedy"] for finding in findings.values() if finding["state"] != "ok")
