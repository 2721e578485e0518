"""Work that gives way, and work that is suspended: a real agent, with real processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.keeper_lab import is_alive, wait_until
from tests.sharing_lab import SharingLab, lending

# Ends by itself only in an attempt that finds what an earlier one saved.
TRAINING = """
if [ -s "$GRID_CHECKPOINT_DIR/state" ]; then cat "$GRID_CHECKPOINT_DIR/state"; exit 0; fi
trap 'echo warned >>warned; exit 9' USR1
echo "$GRID_CHECKPOINT_DIR" >where; echo $$ >ready
while :; do sleep 0.01; done
"""


@pytest.fixture(scope="module")
def lab():
    with lending() as made:
        yield made


def state_of(pid: int) -> str:
    """As the kernel has it: T is stopped, S sleeps."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def number_in(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text().strip().isdigit())
    return int(file.read_text())


def pid_of(lab: SharingLab, name: str) -> int:
    return wait_until(lambda: lab.json("job", name)["attempts"][-1]["pid"])


def test_a_job_that_gives_way_saves_its_state_and_goes_on_from_there(lab):
    lab.detached(
        "--name", "training", "--priority", "low", "--cpus", "8", "--preempt-signal", "USR1",
        "--on-preempt", "sh -c 'pwd >beside; cp where $GRID_CHECKPOINT_DIR/state'",
        "sh", "-c", TRAINING,
    )  # fmt: skip
    first_pid = number_in(lab.dir / "ready")
    urgent = lab("run", "--priority", "urgent", "--cpus", "8", "true")
    waited = lab("wait", "training")
    shown = lab.json("job", "training")
    first, second = shown["attempts"]
    where = (lab.dir / "where").read_text()

    assert (urgent.returncode, waited.returncode) == (0, 0), waited.stderr
    assert (lab.dir / "warned").read_text() == "warned\n"
    assert (lab.dir / "beside").read_text() == f"{lab.dir}\n"
    assert lab("logs", "training").stdout.decode().endswith(where)
    assert (first["how"], first["exit_code"], first["note"]) == ("preempted", 9, "gave way")
    assert (second["how"], second["exit_code"]) == ("exited", 0)
    # It has no retries: what gave way with 9 did not count as a failure.
    assert (shown["state"], shown["exit_code"]) == ("succeeded", 0)
    assert [line["what"] for line in shown["story"]] == [
        "submitted", "granted", "running", "told to give way", "waiting", "granted", "running",
        "succeeded",
    ]  # fmt: skip
    assert not is_alive(first_pid)
    wait_until(lambda: not Path(where.strip()).exists())  # Nobody needs it any more.


def test_who_does_not_go_is_killed_and_the_urgent_one_runs(lab):
    lab.detached(
        "--name", "deaf", "--priority", "low", "--cpus", "8", "--preempt-grace", "200ms",
        "sh", "-c", "trap '' TERM; echo $$ >deaf; while :; do sleep 0.01; done",
    )  # fmt: skip
    pid = number_in(lab.dir / "deaf")
    urgent = lab("run", "--priority", "urgent", "--cpus", "8", "true")
    told = lab.json("job", "deaf")["attempts"][0]
    lab("cancel", "deaf")

    assert urgent.returncode == 0
    assert (told["how"], told["exit_code"]) == ("preempted", 137)
    assert told["note"].startswith("did not end within its grace, was killed")
    assert not is_alive(pid)


def test_a_job_that_is_cancelled_while_it_is_suspended_ends(lab):
    borrower = lab.borrow("cpu", "1", "-j", "cancelled", "sleep", "600")
    pid = pid_of(lab, "cancelled")
    lab("offer", "pause", "--for", "1h")
    wait_until(lambda: state_of(pid) == "T")
    lab("cancel", "cancelled")
    borrower.communicate(timeout=30)
    lab("offer", "resume")

    assert lab.state("cancelled") == "cancelled"
    assert not is_alive(pid)


def test_who_is_suspended_stays_so_when_the_agent_is_killed(lab):
    borrower = lab.borrow("cpu", "1", "-j", "stays", "sleep", "600")
    pid = pid_of(lab, "stays")
    lab("offer", "pause", "--for", "1h")
    wait_until(lambda: state_of(pid) == "T")
    before = lab.pid()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: lab.http_or_none("/health"))
    again = (state_of(pid), lab.json("shared-status")["allocations"][0]["suspended"])
    lab("offer", "resume")
    wait_until(lambda: state_of(pid) == "S")
    story = lab.story("stays")
    lab("cancel", "stays")
    borrower.communicate(timeout=30)

    assert lab.pid() != before
    assert again == ("T", True)
    assert (story.count("suspended"), story[-1]) == (1, "resumed")
