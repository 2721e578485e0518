"""Files that get what jobs wrote, without a process."""

import asyncio
import os
import stat

import pytest

from distributed_grid.agent import log_files
from distributed_grid.agent.log_files import LogFiles, name_of
from distributed_grid.errors import MeshUnreachable
from distributed_grid.kernel.jobs import PENDING, RUNNING, SUCCEEDED, Attempt, Job, Progress
from distributed_grid.kernel.launching import Paths
from distributed_grid.model.job import Array, Work
from tests.node_world import a_job


class Desk:
    """A writer, whose jobs wrote what a test says, and what it noted."""

    def __init__(self, tmp_path) -> None:
        self.dir, self.notes, self.reads = tmp_path, [], 0
        self.gone = False
        self.paths = Paths(output_root=f"{tmp_path}/jobs", scratch_root="", checkpoint_root="")
        self.start()

    def start(self) -> None:
        self.files = LogFiles(self.paths, read=self.read, note=self.note)

    async def read(self, word, *, stream, index, follow, offset):
        self.reads += 1
        if self.gone:
            raise MeshUnreachable("attic", why="what the job wrote is only there")
        yield f"{stream} {index}\n".encode()

    async def note(self, job, detail) -> None:
        self.notes.append(detail)

    def a_job(self, log: str, *, state="running", **what_matters) -> Job:
        work = Work(
            argv=("true",), cwd="/", log=f"{self.dir}/{log}", **what_matters.pop("work", {})
        )
        return Job(spec=a_job("job", work=work, **what_matters), submitted_ms=1, state=state)

    async def write(self, log: str) -> None:
        """What a job wrote that has ended."""
        job = self.a_job(log, state="failed")
        job.attempts, job.output_of = [an_end(1)], str(self.reads) + log.replace("/", "_")
        self.start()
        await self.files.written(job)


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path)


def an_end(number: int, *indices: int, ended: int | None = None) -> Attempt:
    count = len(indices) if ended is None else ended
    return Attempt(number=number, lease=f"l{number}", node="x", granted_ms=1, ended_ms=2,
                   state="ended", indices=indices, ended_indices=count)  # fmt: skip


async def test_a_job_is_written_once_when_it_has_ended_also_after_a_start(desk):
    job = desk.a_job("%j%%x%y")
    job.attempts = [an_end(1)]
    await desk.files.written(job)
    assert desk.reads == 0, "it is tried again"
    job.attempts.append(an_end(2))
    job.state = "failed"
    await desk.files.written(job)
    path = desk.dir / f"{job.spec.id[:12]}%x%y"

    assert path.read_text() == "stdout -1\nstderr -1\n"
    path.unlink()
    desk.start()
    await desk.files.written(job)
    assert not path.exists(), "its owner has removed it"


async def test_of_an_array_each_chunk_is_written_when_it_has_ended(desk):
    job = desk.a_job("out.%a", array=Array(stop=4))
    job.progress = Progress(states=bytearray([SUCCEEDED, SUCCEEDED, RUNNING, PENDING]))
    job.attempts = [an_end(1, 0, 1), an_end(2, 3, 2, ended=1)]
    desk.files.changed([job])
    job.attempts.append(an_end(3, 2))
    await desk.files.written(job)
    assert sorted(path.name for path in desk.dir.glob("out.*")) == [
        "out.0", "out.1", "out.2", "out.3",
    ]  # fmt: skip

    job.state = "cancelled"
    await desk.files.written(job)
    assert not desk.files._writing
    assert not desk.files._taken


async def test_what_cannot_be_written_is_noted_and_nothing_half_is_left(desk):
    there = desk.a_job("none/out", state="failed")
    there.attempts = [an_end(1)]
    await desk.files.written(there)
    assert desk.notes == [f"{desk.dir}/none/out: not brought back: No such file or directory"]

    desk.gone = True
    away = desk.a_job("out", state="failed", retries=1)
    away.attempts = [an_end(1)]
    desk.start()
    (desk.dir / "jobs").rename(desk.dir / "elsewhere")
    (desk.dir / "jobs").touch()  # The mark cannot be made, either.
    await desk.files.written(away)
    assert "'attic' cannot be reached" in desk.notes[1]
    assert not list(desk.dir.glob("out*"))


async def test_links_are_followed_and_permissions_stay(desk):
    real, ahead = desk.dir / "real.log", desk.dir / "ahead.log"
    real.write_text("of yesterday")
    real.chmod(0o640)
    (desk.dir / "latest").symlink_to("real.log")
    (desk.dir / "next").symlink_to("ahead.log")  # Which is not there yet.
    before = os.umask(0o027)
    try:
        await desk.write("latest")
        await desk.write("next")
        real.chmod(0o604)
        await desk.write("real.log")
    finally:
        os.umask(before)

    assert (desk.dir / "latest").readlink().name == "real.log"
    assert (desk.dir / "next").readlink().name == "ahead.log"
    assert real.read_text() == ahead.read_text() == "stdout -1\nstderr -1\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o604
    assert stat.S_IMODE(ahead.stat().st_mode) == 0o640
    assert desk.notes == []


async def test_what_is_no_file_is_never_replaced(desk):
    folder = desk.dir
    (desk.dir / "none").symlink_to(os.devnull)
    os.mkfifo(desk.dir / "fifo")
    (desk.dir / "folder").mkdir()
    for name in ("none", "fifo", "folder"):
        await desk.write(name)
    desk.dir = "/proc"
    await desk.write("self/comm")  # As /dev/stdout: it would be the agent's.
    desk.dir = folder

    assert (desk.dir / "none").is_char_device()
    assert (desk.dir / "fifo").is_fifo()
    assert (desk.dir / "folder").is_dir()
    assert desk.reads == 0
    assert [note.partition(": not brought back: ")[2] for note in desk.notes] == [
        "it is no regular file"
    ] * 3


async def test_who_waits_does_not_wait_for_ever(desk, monkeypatch):
    monkeypatch.setattr(log_files, "WAIT_S", 0.01)
    job = desk.a_job("out", state="succeeded")
    job.attempts = [an_end(1)]
    go_on = asyncio.Event()

    async def slow(word, **_):
        await go_on.wait()
        yield b"late"

    desk.files.read = slow
    await desk.files.written(job)
    assert not (desk.dir / "out").exists()
    go_on.set()
    await desk.files._writing[job.spec.id]
    assert (desk.dir / "out").read_bytes() == b"latelate"


async def test_only_what_was_submitted_here_with_a_name_is_written(desk):
    for spec in (a_job("plain"), a_job("placed", work=None)):
        await desk.files.written(Job(spec=spec, submitted_ms=1, state="failed"))
    taken_over = desk.a_job("out", state="failed", work={"is_abroad": True})
    never_ran = desk.a_job("never", state="cancelled")
    for job in (taken_over, never_ran):
        await desk.files.written(job)

    assert desk.reads == 0
    assert name_of(never_ran, -1) == f"{desk.dir}/never"
