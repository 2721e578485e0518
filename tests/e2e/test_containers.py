"""Jobs in containers, by a real podman with an image of one busybox, in a store of its own."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Preempt, Resume, Stop, Suspend
from tests.agent_lab import AgentLab
from tests.keeper_lab import KeeperLab, wait_until
from tests.podman_lab import IMAGE, Podman, podman_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def podman(tmp_path_factory) -> Iterator[Podman]:
    with podman_in(tmp_path_factory.mktemp("podman")) as made:
        yield made


@pytest.fixture(scope="module")
def lab(podman) -> Iterator[AgentLab]:
    made = AgentLab(podman.env).up()
    yield made
    made.close()


def test_it_runs_inside_with_its_output_and_exit_code(lab):
    done = lab("run", "--image", IMAGE, "sh", "-c", "echo in; echo err >&2; cat /etc/hosts; exit 7")

    assert (done.returncode, done.stdout[:3]) == (7, b"in\n"), done
    assert b"err" in done.stderr


def test_it_starts_in_the_callers_directory_and_writes_there(lab):
    done = lab("run", "--image", IMAGE, "sh", "-c", "pwd; touch made; touch $GRID_WORKDIR/scratch")

    assert (done.returncode, done.stdout.decode()) == (0, f"{lab.dir}\n"), done.stderr
    assert (lab.dir / "made").exists()


def test_it_gets_what_is_given_and_nothing_of_the_host(lab):
    done = lab("run", "--image", IMAGE, "--env", "MINE=a b\nc", "--env", "PATH=/bin", "env",
               env={"OTHER": "host"})  # fmt: skip

    assert b"MINE=a b\nc\n" in done.stdout
    assert b"PATH=/bin\n" in done.stdout
    assert b"GRID_JOB_ID=" in done.stdout
    assert b"OTHER" not in done.stdout


def test_values_of_variables_are_not_in_the_process_list(lab):
    job = lab.detached("--image", IMAGE, "--env", "MINE=hush-hush", "sh", "-c", "echo up; sleep 60")
    wait_until(lambda: lab("logs", job).stdout == b"up\n")
    lines = b"".join(read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    lab("cancel", job)

    assert f"grid-{attempt_of(lines)}".encode() in lines
    assert b"hush-hush" not in lines


def test_an_array_runs_index_by_index(lab):
    script = "echo $GRID_ARRAY_INDEX > at-$GRID_ARRAY_INDEX"
    done = lab("run", "--image", IMAGE, "--array", "0-2", "sh", "-c", script)

    assert done.returncode == 0, done.stderr
    assert [(lab.dir / f"at-{index}").read_text() for index in range(3)] == ["0\n", "1\n", "2\n"]


def test_more_memory_than_allowed_ends_it(lab):
    done = lab("run", "--image", IMAGE, "--memory", "32MiB", "sh", "-c", "tail /dev/zero")

    assert done.returncode == 137
    assert b"32 MiB" in done.stderr


def test_its_cores_are_those_it_was_granted(lab):
    done = lab("run", "--image", IMAGE, "--cpus", "1", "--json", "--name", "pinned",
               "sh", "-c", "cat /proc/self/status")  # fmt: skip
    cores = lab.json("job", "pinned")["attempts"][0]["cores"]
    text = lab("logs", "pinned").stdout.decode()

    assert done.returncode == 0, done.stderr
    assert f"Cpus_allowed_list:\t{cores[0]}\n" in text


def test_a_timeout_ends_even_one_that_does_not_listen(lab, podman):
    script = "trap '' TERM; while true; do sleep 1; done"
    spec = ("run", "--image", IMAGE, "--timeout", "2s", "sh", "-c", script)
    done = lab(*spec)

    assert done.returncode == 124, done.stderr
    assert podman.containers() == []


def test_cancelling_leaves_no_container(lab, podman):
    job = lab.detached("--image", IMAGE, "sh", "-c", "echo up; sleep 600")
    wait_until(lambda: lab("logs", job).stdout == b"up\n")
    assert len(podman.containers()) == 1
    lab("cancel", job)
    done = lab("wait", job)

    assert done.returncode == 125
    assert podman.containers() == []


def test_a_client_that_is_killed_takes_its_container_along(lab, podman):
    job = lab.detached("--image", IMAGE, "sh", "-c", "echo up; sleep 600")
    wait_until(lambda: lab("logs", job).stdout == b"up\n")
    os.kill(lab.json("job", job)["attempts"][0]["pid"], signal.SIGKILL)

    assert lab("wait", job).returncode == 137
    assert podman.containers() == []


def test_an_image_that_is_not_there_is_125_and_says_so(lab):
    done = lab("run", "--image", "localhost/no-such:latest", "true")

    assert done.returncode == 125
    assert b"no container was made" in done.stderr
    assert b"no-such" in done.stderr


def test_a_command_that_is_not_in_the_image_is_127(lab):
    assert lab("run", "--image", IMAGE, "not-there").returncode == 127


def test_what_a_dead_keeper_left_is_removed_by_the_next(podman):
    lab = AgentLab(podman.env).up()
    try:
        job = lab.detached("--image", IMAGE, "sh", "-c", "echo up; sleep 600")
        wait_until(lambda: lab("logs", job).stdout == b"up\n")
        (left,) = podman.containers()
        os.kill(lab.pid("keeper"), signal.SIGKILL)
        wait_until(lambda: lab("status").returncode == 4)
        lab.up()

        wait_until(lambda: left not in podman.containers())
        assert lab("cancel", job).returncode == 0
        wait_until(lambda: podman.containers() == [])
    finally:
        lab.close()


def test_without_a_runtime_the_answer_is_125_and_the_doctor_knows_more():
    lab = AgentLab({"GRID_CONTAINER_RUNTIME": "/no/such/podman"}).up()
    try:
        done = lab("run", "--image", IMAGE, "true")
        found = {finding["what"]: finding for finding in lab.json("doctor")}["containers"]
    finally:
        lab.close()

    assert done.returncode == 125
    assert b"/no/such/podman was not found" in done.stderr
    assert (found["state"], bool(found["remedy"])) == ("missing", True)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def attempt_of(lines: bytes) -> str:
    return lines.partition(b"grid.attempt=")[2].partition(b"\0")[0].decode()


@pytest.fixture
def keeper(podman, tmp_path) -> Iterator[KeeperLab]:
    made = KeeperLab(tmp_path)
    made.start(env=podman.env)
    yield made
    made.close()


def in_container(keeper: KeeperLab, tmp_path: Path, script: str, **fields: object) -> int:
    """Start it; the process inside, as the host knows it, once it is ready."""
    (tmp_path / "work").mkdir()
    run = keeper.a_shell(
        script, image=IMAGE, cwd=str(tmp_path / "work"), env={"PATH": "/bin"}, grace_ms=20_000,
        **fields,
    )  # fmt: skip
    keeper.send(run)
    wait_until((tmp_path / "work" / "ready").exists)
    return wait_until(lambda: process_with(b"ready; while"))


def process_with(words: bytes) -> int:
    """The shell that runs a script, not the client that was told it."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if read(path).startswith(b"/bin/sh\0-c\0") and words in read(path):
            return int(path.parent.name)
    return 0


def state_of(pid: int) -> str:
    return read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()[0].decode()


def test_one_that_gives_way_runs_its_command_inside_and_keeps_what_it_saved(
    podman, keeper, tmp_path
):
    saved = tmp_path / "saved"
    script = (
        "trap 'while ! [ -s state ]; do :; done; exit 3' TERM; touch ready; while :; do :; done"
    )
    in_container(keeper, tmp_path, script, checkpoint_dir=str(saved))
    wait_until(lambda: podman("ps", "--quiet"))  # Podman too knows that it runs.
    command = ("sh", "-c", f"cat /proc/1/cmdline >{saved}/init; pwd >state; exit 5")
    keeper.send(Preempt(attempt="one", grace_ms=20_000, command=command))
    ended = keeper.ended()[-1]

    assert (ended.how, ended.code) == ("preempted", 3), ended
    assert ended.note.startswith("gave way")
    assert (tmp_path / "work" / "state").read_text() == f"{tmp_path / 'work'}\n"
    assert (saved / "init").read_bytes() != read(Path("/proc/1/cmdline"))  # Not on the host.


def test_one_that_is_suspended_stands_still_and_goes_on(keeper, tmp_path):
    script = "trap 'exit 4' TERM; touch ready; while :; do sleep 0.01; done"
    pid = in_container(keeper, tmp_path, script)
    keeper.send(Suspend(attempt="one"))
    wait_until(lambda: state_of(pid) == "T")
    keeper.send(Resume(attempt="one"))
    wait_until(lambda: state_of(pid) != "T")
    keeper.send(Suspend(attempt="one"), Stop(attempt="one", grace_ms=20_000))
    ended = keeper.ended()[-1]

    assert (ended.how, ended.note) == ("stopped", "")
