"""Priorities, preemption and bookings with a real agent: who runs, who waits, who gives way."""

import json

import pytest

from tests.keeper_lab import wait_until
from tests.sharing_lab import LENDS, lending


@pytest.fixture(scope="module")
def lab():
    with lending(LENDS) as made:
        yield made


@pytest.fixture
def full(lab):
    """Every core is held by the owner, in one job that must not be stopped."""
    lab.detached("--name", "holder", "--cpus", "8", "--no-preempt", "sleep", "600")
    wait_until(lambda: lab.state("holder") == "running")
    yield lab
    names = [job["name"] for job in lab.json("jobs", "--state", "waiting")]
    lab("cancel", "holder", *names)
    wait_until(lambda: lab.state("holder") == "cancelled")


@pytest.mark.rows("S3-05", "S3-74", "S3-75", "S3-76", "S3-78", "S3-80")
def test_the_queue_is_in_the_order_of_importance(full):
    for priority in ("low", "medium", "urgent", "high"):
        full.detached("--name", priority, "--priority", priority, "--cpus", "8", "true")
    queue = full.json("jobs", "--queue")
    text = full("jobs", "--queue").stdout.decode()
    told = full("explain", "high").stdout.decode()

    assert [entry["name"] for entry in queue["entries"]] == ["urgent", "high", "medium", "low"]
    assert [entry["position"] for entry in queue["entries"]] == [1, 2, 3, 4]
    assert queue["total"] == 4
    assert "8 cores, 0 cores free" in text
    assert "place in the queue: 2" in told
    assert "priority: high; " in told
    assert "waits for: holder" in told


@pytest.mark.rows("S3-105")
def test_a_job_waits_for_its_time_and_one_whose_time_is_over_is_skipped(full):
    full.detached("--name", "evening", "--start-at", "+8h", "--cpus", "1", "true")
    full.detached("--name", "late", "--deadline", "+1s", "--cpus", "1", "true")
    told = full("explain", "evening").stdout.decode()
    entries = {entry["name"]: entry for entry in full.json("jobs", "--queue")["entries"]}
    wait_until(lambda: full.state("late") == "skipped")

    assert "its time has not come yet\n  not before: " in told
    assert entries["evening"]["waits"] == "its start time"


@pytest.mark.rows("S3-74")
def test_an_urgent_job_makes_others_give_way_who_run_again_with_what_they_saved(lab):
    script = (
        'if [ -e "$GRID_CHECKPOINT_DIR/state" ]; then cat "$GRID_CHECKPOINT_DIR/state"; exit 0; fi;'
        "echo began; sleep 600"
    )
    victim = lab.start(
        "run", "--name", "victim", "--cpus", "8", "--priority", "low", "--on-preempt",
        'echo saved > "$GRID_CHECKPOINT_DIR/state"', "sh", "-c", script,
    )  # fmt: skip
    wait_until(lambda: lab.state("victim") == "running")
    urgent = lab("run", "--priority", "urgent", "--cpus", "4", "echo", "now")
    out, err = victim.communicate(timeout=60)
    view = lab.json("job", "victim")
    story = lab.story("victim")

    assert (urgent.returncode, urgent.stdout) == (0, b"now\n"), urgent.stderr
    assert (victim.returncode, out.splitlines()[-1]) == (0, b"saved"), err
    assert [attempt["how"] for attempt in view["attempts"]] == ["preempted", "exited"]
    assert "told to give way" in story
    assert list((lab.home / "checkpoints").iterdir()) == []


def test_the_owner_comes_before_borrowers_and_the_borrower_comes_back(lab):
    borrower = lab.borrow("cpu", "8", "-j", "borrower", "sh", "-c", "echo $GRID_ATTEMPT; sleep 3")
    owner = lab("run", "--cpus", "8", "echo", "mine")
    out, err = borrower.communicate(timeout=60)

    assert (owner.returncode, owner.stdout) == (0, b"mine\n"), owner.stderr
    assert (borrower.returncode, out) == (0, b"1\n2\n"), err


def test_an_urgent_job_never_evicts_another_and_nobody_is_evicted_in_vain(lab):
    first = lab.detached("--name", "first", "--priority", "urgent", "--cpus", "8", "sleep", "600")
    wait_until(lambda: lab.state("first") == "running")
    lab.detached("--name", "second", "--priority", "urgent", "--cpus", "1", "true")
    # Two ticks of the agent: whatever it would do by itself it has done.
    before = json.loads(lab.http("GET", "/v1/status")[1])
    lab("run", "--gpus", "1", "--cpus", "0", "--priority", "urgent", "true")
    story = lab.story("first")
    lab("cancel", "first", "second")

    assert (before["jobs_waiting"], lab.json("job", first)["attempts"].__len__()) == (1, 1)
    assert "told to give way" not in story


@pytest.mark.rows("S3-104")
def test_what_is_booked_is_kept_and_a_conflict_is_refused(lab):
    kept = lab("offer", "reserve", "lecture", "--from", "+0s", "--until", "+1h", "--cpus", "6")
    clash = lab("offer", "reserve", "other", "--from", "+30m", "--until", "+2h", "--cpus", "3")
    outside = lab("run", "--detach", "--name", "outside", "--cpus", "4", "true")
    inside = lab("run", "--booking", "lecture", "--cpus", "6", "echo", "in")
    told = lab("explain", "outside").stdout.decode()
    shown = lab("offer").stdout.decode()
    released = lab("offer", "release", "lecture")
    after = lab("wait", "outside", "--timeout", "30s")

    assert kept.returncode == 0, kept.stderr
    assert (clash.returncode, b"does not fit beside lecture" in clash.stderr) == (3, True)
    assert outside.returncode == 0
    assert (inside.returncode, inside.stdout) == (0, b"in\n"), inside.stderr
    assert "what is free now is booked by others" in told
    assert "lecture: 6 cores for --booking lecture" in shown
    assert (released.returncode, after.returncode) == (0, 0)
    assert lab("offer", "release", "lecture").returncode == 3
