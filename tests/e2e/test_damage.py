"""A store that was shortened, emptied, edited or lost, a disk that became read-only: it is told."""

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent_lab import AgentLab
from tests.keeper_lab import wait_until

pytestmark = pytest.mark.slow

JOBS = 20
NEEDS_LOOPS = pytest.mark.skipif(
    os.getuid() != 0 or not Path("/dev/loop-control").exists(), reason="mounts an image: be root"
)


@pytest.fixture(scope="module")
def home_of_before(tmp_path_factory) -> Path:
    """What an agent left that has run some jobs."""
    lab = AgentLab().up()
    for number in range(JOBS):
        assert lab("run", "--name", f"job-{number}", "echo", f"{number}").returncode == 0
    assert lab("down").returncode == 0
    kept = tmp_path_factory.mktemp("kept") / "home"
    shutil.copytree(lab.home, kept)
    lab.close()
    return kept


@pytest.fixture
def lab(home_of_before) -> Iterator[AgentLab]:
    """With that home, not started yet."""
    made = AgentLab()
    shutil.copytree(home_of_before, made.home)
    yield made
    made.close()


def store(lab: AgentLab) -> Path:
    return lab.home / "grid.db"


@contextlib.contextmanager
def edited(lab: AgentLab) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(store(lab))) as base, base:
        yield base


def listed(lab: AgentLab, *words: str) -> set[str]:
    return {job["name"] for job in lab.json("jobs", *words)}


def flip(content: bytearray) -> None:
    dice = random.Random(1)
    for _ in range(2_000):
        content[dice.randrange(100, len(content))] ^= 1 << dice.randrange(8)


def test_rows_that_cannot_be_read_are_left_out_and_named(lab):
    with edited(lab) as base:
        base.execute("UPDATE jobs SET record = x'00ff' WHERE name = 'job-3'")
        base.execute("UPDATE jobs SET record = 'a text', submitted_ms = 'abc' WHERE name = 'job-4'")
        base.execute("UPDATE jobs SET record = 17, is_finished = 0 WHERE name = 'job-5'")
        base.execute("UPDATE jobs SET name = CAST(x'ff00' AS TEXT) WHERE name = 'job-6'")
        base.execute("INSERT INTO jobs VALUES (NULL, 1, 2, 3, 'no', 0, x'11')")
        base.execute("INSERT INTO leases VALUES ('nobody', 'a text')")
        (bad,) = base.execute("SELECT id FROM jobs WHERE name = 'job-3'").fetchone()
    up = lab("up", "--detach")
    page = lab("jobs")

    assert up.returncode == 0
    assert b"damaged rows" in up.stderr
    assert b"Put back a copy of grid.db" in up.stderr
    assert bad.encode() in page.stderr
    assert listed(lab) == {f"job-{n}" for n in range(JOBS)} - {"job-3", "job-4", "job-5"}
    assert b"is damaged and cannot be read" in lab("job", bad).stderr
    assert lab("run", "--after", bad, "true").returncode != 0
    assert b"damaged rows" in lab("doctor").stdout
    assert b"damaged rows" in lab("status").stdout
    assert lab("run", "echo", "on").stdout == b"on\n"


def test_a_shortened_store_loses_what_stood_there_and_no_more(lab):
    content = store(lab).read_bytes()
    store(lab).write_bytes(content[:-500])
    up = lab("up", "--detach")

    assert up.returncode == 0
    assert b"damaged rows" in up.stderr
    assert len(listed(lab)) == JOBS - 1
    assert lab("run", "echo", "on").stdout == b"on\n"


@pytest.mark.parametrize("harm", ["emptied", "gone"])
def test_an_empty_store_beside_output_of_jobs_is_said_and_nothing_is_removed(lab, harm):
    before = sorted(path.name for path in (lab.home / "jobs").iterdir())
    if harm == "gone":
        store(lab).unlink()
    else:
        store(lab).write_bytes(b"")
    up = lab("up", "--detach")
    (aside,) = lab.home.glob("jobs-before-*")

    assert up.returncode == 0
    assert f"output of {JOBS} jobs: it is in {aside}".encode() in up.stderr
    assert sorted(path.name for path in aside.iterdir()) == before
    assert str(aside).encode() in lab("doctor").stdout
    assert str(aside).encode() in lab("status").stdout
    lab("down")
    again = lab("up", "--detach")
    assert str(aside).encode() in again.stderr
    assert list(lab.home.glob("jobs-before-*")) == [aside]
    lab("down")
    shutil.rmtree(aside)
    assert lab("up", "--detach").stderr == b""


@pytest.mark.parametrize("harm", ["flipped", "random"])
def test_a_store_that_is_no_database_any_more_is_refused_with_a_remedy(lab, harm):
    content = bytearray(store(lab).read_bytes())
    if harm == "flipped":
        flip(content)
    else:
        content = bytearray(random.Random(2).randbytes(len(content)))
    store(lab).write_bytes(content)
    up = lab("up", "--detach")

    assert up.returncode == 1
    assert b"move it away" in up.stderr


@pytest.mark.parametrize("harm", ["shortened", "emptied", "gone", "flipped", "random"])
def test_a_damaged_journal_of_the_keeper_hinders_nothing(lab, harm):
    journal = lab.home / "keeper.journal"
    content = bytearray(journal.read_bytes())
    harmed = {
        "shortened": content[:-5],
        "emptied": b"",
        "flipped": bytes(byte ^ 0x10 for byte in content),
        "random": random.Random(3).randbytes(5_000),
    }
    journal.unlink() if harm == "gone" else journal.write_bytes(harmed[harm])
    lab.up()

    assert len(listed(lab)) == JOBS
    assert lab("run", "echo", "on").stdout == b"on\n"


@NEEDS_LOOPS
def test_a_file_system_that_becomes_read_only_is_told_as_what_it_is(lab, tmp_path):
    """As ext4 does after an error. Nothing that was acknowledged before is lost."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    shutil.rmtree(lab.home)
    lab.home.mkdir()
    mount = ["mount", "-o", "loop,errors=remount-ro", image, lab.home]
    subprocess.run(mount, check=True)
    try:
        lab.home.chmod(0o700)
        lab.up()
        assert lab("run", "--name", "before", "true").returncode == 0
        device = subprocess.run(
            ["findmnt", "-no", "SOURCE", lab.home], check=True, capture_output=True, text=True
        ).stdout.strip()
        Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("test")
        refused = lab("run", "true")

        assert refused.returncode == 125
        assert b"its file system is read-only" in refused.stderr
        assert b"remount,rw" in refused.stderr
        assert listed(lab, "--state", "succeeded") == {"before"}
        assert b"its file system is read-only" in lab("status").stdout
        examined = lab("doctor")
        assert examined.returncode == 1
        assert b"on a file system that is read-only" in examined.stdout
    finally:
        lab("down", "--stop-jobs")
        wait_until(lambda: not subprocess.run(["umount", lab.home], check=False).returncode)
    subprocess.run(["e2fsck", "-fy", image], check=False, capture_output=True)
    subprocess.run(mount, check=True)
    try:
        lab.up()
        assert listed(lab) == {"before"}
        assert lab("run", "true").returncode == 0
    finally:
        lab("down", "--stop-jobs")
        wait_until(lambda: not subprocess.run(["umount", lab.home], check=False).returncode)
