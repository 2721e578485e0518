"""A machine whose disk is too small for a job's files: the job waits, and says why."""

import contextlib
import os
import subprocess

import pytest

from tests.mesh_jobs import PLAIN, job, over
from tests.mesh_lab import MeshLab, awaited
from tests.unit.artifacts.lab import noise, plant

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system: run it as root"),
]

SMALL_BYTES = 32 << 20  # The cache takes a quarter of it.


@pytest.fixture
def lab():
    with MeshLab.on_loopback() as made:
        desk, attic = (made.member(name, config=PLAIN) for name in ("desk", "attic"))
        attic.home.mkdir()
        size = f"size={SMALL_BYTES},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "grid-test", attic.home], check=True)
        try:
            made.form([desk, attic])
            yield made
        finally:
            made.take_down(made.members)
            subprocess.run(["umount", "--lazy", attic.home], check=True)


def test_a_job_whose_files_a_node_can_never_hold_waits_for_it_and_says_why(lab):
    desk, _ = lab.members
    work = plant(desk.dir / "large", {"data": noise(SMALL_BYTES // 2)})
    word = desk.says("run", "--detach", "--node", "attic", "--cwd", str(work), "true").strip()
    awaited(lambda: "there is room for" in desk.says("explain", word))

    assert job(desk, word)["state"] == "waiting"
    assert "its files have 16 MiB, and there is room for 8 MiB here" in desk.says("explain", word)


def test_a_node_whose_disk_is_full_takes_no_jobs_until_there_is_room(lab):
    desk, attic = lab.members
    filler = attic.home / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * (64 << 10))
    words = [
        desk.says("run", "--detach", "--node", "attic", "--node", "desk", "true").strip()
        for _ in range(6)
    ]
    only = desk.says("run", "--detach", "--node", "attic", "--wait-for-capacity", "true").strip()
    for word in words:
        assert over(desk, word) == {"succeeded"}, job(desk, word)
    awaited(lambda: "the disk is full" in desk.says("explain", only), lambda: job(desk, only))
    assert {job(desk, word)["attempts"][-1]["node"] for word in words} == {"desk"}
    awaited(lambda: "its disk is full" in desk.says("nodes"), lambda: desk.says("nodes"))
    filler.unlink()

    assert over(desk, only) == {"succeeded"}, job(desk, only)
    awaited(lambda: "its disk is full" not in desk.says("nodes"), lambda: desk.says("nodes"))
