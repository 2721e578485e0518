"""The end of what jobs wrote elsewhere, at their home: what is asked, kept and given up."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from distributed_grid.agent import tails
from distributed_grid.agent.kept_output import INDICES_KEPT, KeptOutput
from distributed_grid.agent.logs import output_name, read_output, read_tail
from distributed_grid.agent.records import job_row
from distributed_grid.agent.tails import TailAnswers, TailKeeper
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.edges.store import PutJob
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.errors import BadValue, MeshUnreachable
from distributed_grid.kernel.jobs import FAILED, SUCCEEDED, Attempt, Job, Progress
from distributed_grid.kernel.launching import Paths
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import Array
from distributed_grid.web.asked import Asked
from distributed_grid.wire.cut_output import head
from distributed_grid.wire.questions import Question
from distributed_grid.wire.tails import (
    ANSWER_BYTES,
    TAIL_BYTES,
    TAILS,
    TOGETHER_MAX,
    AskTails,
    Stream,
    Tail,
    TailOf,
    Tails,
)
from tests.agent_stand_in import CannedAgent
from tests.node_world import SENSES, World, a_job
from tests.questions_lab import Asker, Town
from tests.unit.agent.test_loop import made, running

LEASE = "{:032x}".format


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(tails, "LINGER_S", 0.01)
    monkeypatch.setattr(tails, "AGAIN_S", 0.02)


class Side:
    """A node of a town, with a kernel, a store and a disk."""

    def __init__(self, town: Town, name: str, root: Path) -> None:
        self.member = town.members[name]
        self.me = self.member.me
        self.node, self.store, self.root = World().node, MemoryStore(), root / name
        self.root.mkdir()
        paths = Paths(output_root=str(self.root), scratch_root="/scratch")
        self.kept = KeptOutput(paths, lambda: self.me)
        self.answers = TailAnswers(self.node, self.store, paths)
        self.member.questions._answering = Asked(CannedAgent(), tails=self.answers)
        self.keeper = TailKeeper(self.node, self.store, self.kept, self.member.remote)

    def has(self, job: Job) -> Job:
        self.node.coordinator.jobs[job.spec.id] = job
        return job

    def wrote(self, lease: str, **streams: bytes) -> None:
        (self.root / lease).mkdir(exist_ok=True)
        for name, data in streams.items():
            (self.root / lease / name.replace("of_", "").replace("_", ".")).write_bytes(data)

    @asynccontextmanager
    async def at_work(self):
        task = asyncio.create_task(self.keeper.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Two:
    """A home, and an owner that ran its jobs."""

    def __init__(self, root: Path, **roles) -> None:
        self.town = Town("desk", "attic", **roles)
        self.home, self.owner = (Side(self.town, name, root) for name in ("desk", "attic"))

    def ended(self, number: int, **streams: bytes) -> Job:
        """A job of the home that ran at the owner's, and what it wrote."""
        lease = LEASE(number)
        job = Job(
            spec=a_job(f"job {number}"),
            submitted_ms=number,
            state="succeeded",
            attempts=[away(self.owner.me, lease)],
        )
        self.owner.has(self.guest(job, lease))
        self.owner.wrote(lease, **streams)
        return self.home.has(job)

    def guest(self, job: Job, lease: str, indices: tuple[int, ...] = ()) -> Job:
        origin = Origin(
            home=self.home.me,
            job=job.spec.id,
            epoch=Epoch(),
            attempt=lease,
            number=1,
            indices=indices,
        )
        spec = msgspec.structs.replace(job.spec, id=JobId(lease), origin=origin, array=None)
        return Job(spec=spec, submitted_ms=1, state="succeeded")

    async def brought(self, *jobs: Job) -> None:
        async with self.home.at_work():
            self.home.keeper.changed([job.spec.id for job in jobs])
            await self.settled()

    async def settled(self) -> None:
        async with asyncio.timeout(10):
            while len(self.home.keeper):
                await asyncio.sleep(0.005)

    @property
    def questions(self) -> int:
        return self.owner.member.questions.begun


@pytest.fixture
def two(tmp_path):
    return Two(tmp_path)


def away(host: NodeId, lease: str, **more) -> Attempt:
    usual = {"number": 1, "node": "attic", "granted_ms": 1, "state": "ended", "started_ms": 2}
    return Attempt(**{**usual, **more}, host=host, lease=lease)


async def text_of(side: Side, job: Job, name: str = "stdout", *, index=-1, offset=0) -> bytes:
    """As anybody reads it at a node."""

    async def find(word: str) -> Job:
        return side.node.coordinator.jobs[JobId(word.removeprefix("id:"))]

    folder = await side.kept.folder_of(job, index, find)
    parts = read_output(
        f"{folder}/{name}",
        offset=offset,
        follow=False,
        has_ended=lambda: True,
        changed=asyncio.sleep,
    )
    return b"".join([part async for part in parts])


# --- What is brought ------------------------------------------------------------------------------


async def test_what_a_job_wrote_elsewhere_is_at_its_home_a_moment_after_it_ended(two):
    job = two.ended(1, stdout=b"out\n", stderr=b"err\n")
    with pytest.raises(MeshUnreachable, match=r"attic.*only there"):
        await text_of(two.home, job)
    assert two.home.kept.only_on(job) == "attic"
    await two.brought(job)

    assert await text_of(two.home, job) == b"out\n"
    assert await text_of(two.home, job, "stderr") == b"err\n"
    assert two.home.kept.only_on(job) == ""


async def test_a_job_that_wrote_nothing_costs_one_question_and_is_known_to_have_written_none(two):
    job = two.ended(1)
    await two.brought(job)
    await two.brought(job)

    assert (await text_of(two.home, job), two.questions) == (b"", 1)
    assert two.home.kept.only_on(job) == ""


async def test_a_burst_of_short_jobs_is_few_questions(two):
    jobs = [two.ended(number, stdout=b"%d\n" % number) for number in range(3 * TOGETHER_MAX)]
    await two.brought(*jobs)

    assert [await text_of(two.home, job) for job in jobs[::50]] == [
        b"0\n",
        b"50\n",
        b"100\n",
        b"150\n",
    ]
    assert two.questions == 3


async def test_of_a_long_output_the_end_is_kept_and_the_rest_said_to_be_missing(two):
    lines = b"".join(b"line %09d\n" % number for number in range(150_000))
    job = two.ended(1, stdout=lines)
    await two.brought(job)
    kept = await text_of(two.home, job)

    note, _, rest = kept.partition(b"\n")
    assert note == b"[grid: the 1.1 MiB before this were not copied from attic]"
    assert lines.endswith(rest)
    assert len(rest) == TAIL_BYTES
    assert await text_of(two.home, job, offset=len(lines) - 15) == b"line 000149999\n"


async def test_a_note_takes_the_place_of_some_bytes_if_few_are_missing(two):
    written = b"x" * TAIL_BYTES + b"end"
    job = two.ended(1, stdout=written)
    await two.brought(job)
    kept = await text_of(two.home, job)

    assert kept.startswith(b"[grid: the 3 B before this were not copied from attic]\nxxx")
    assert (len(kept), kept[-4:]) == (len(written), b"xend")


async def test_of_output_that_was_cut_where_it_ran_positions_stay_what_they_were(two):
    older = head(5_000) + b"older\n"
    job = two.ended(1, stdout=b"newer\n", stdout_1=older)
    await two.brought(job)

    assert (await text_of(two.home, job)).endswith(b" were not copied from attic]\nolder\nnewer\n")
    assert await text_of(two.home, job, offset=5_006) == b"newer\n"


async def test_long_outputs_share_no_answer(two):
    """So neither side has more than two MiB of it in memory."""
    jobs = [two.ended(number, stdout=b"o" * TAIL_BYTES, stderr=b"e") for number in range(3)]
    await two.brought(*jobs)

    assert [len(await text_of(two.home, job)) for job in jobs] == [TAIL_BYTES] * 3
    assert two.questions == 3


async def test_of_an_array_what_failed_is_kept_as_far_as_people_are_told_of_it(two):
    lease, count = LEASE(7), INDICES_KEPT + 5
    spec = a_job("many", array=Array(start=0, stop=2 * count))
    progress = Progress(states=bytearray([FAILED, SUCCEEDED] * count))
    indices = tuple(spec.array.indices)
    attempts = [away(two.owner.me, lease, indices=indices)]
    job = two.home.has(
        Job(spec=spec, submitted_ms=1, state="failed", progress=progress, attempts=attempts)
    )
    two.owner.has(two.guest(job, lease, indices))
    for index in indices:
        two.owner.wrote(lease, **{f"of_{index}_stdout": b"%d\n" % index})
    await two.brought(job)

    assert await text_of(two.home, job, "2.stdout", index=2) == b"2\n"
    for index in (1, 2 * INDICES_KEPT):
        with pytest.raises(MeshUnreachable):
            await text_of(two.home, job, f"{index}.stdout", index=index)
    assert two.home.kept.only_on(job) == "", "of an array nothing is said"


async def test_nothing_is_asked_for_that_ran_here_or_not_at_all_or_for_another_home(two):
    tried = {
        "here": [away(NodeId(""), LEASE(1))],
        "taken over": [away(two.home.me, LEASE(2))],
        "never begun": [away(two.owner.me, LEASE(3), started_ms=None)],
        "no attempt": [],
        "a path": [away(two.owner.me, "../../x")],
        "runs": [away(two.owner.me, LEASE(4), state="running")],
    }
    jobs = []
    for name, attempts in tried.items():
        state = "running" if name == "runs" else "cancelled"
        jobs.append(Job(spec=a_job(name), submitted_ms=1, state=state, attempts=attempts))
    guest = two.guest(Job(spec=a_job("x"), submitted_ms=1), LEASE(5))
    guest.attempts = [away(two.owner.me, LEASE(6))]
    for job in (*jobs, guest):
        two.home.has(job)
    two.home.keeper.changed([*(job.spec.id for job in (*jobs, guest)), JobId("unknown")])

    assert len(two.home.keeper) == 0
    assert not any(two.home.kept.only_on(job) for job in (*jobs, guest))


async def test_a_gang_is_told_by_its_first_rank(two):
    job = two.ended(1, stdout=b"rank 0\n")
    job.spec = msgspec.structs.replace(job.spec, gang=2)
    job.attempts.append(away(two.owner.me, LEASE(2), rank=1))
    await two.brought(job)

    assert await text_of(two.home, job) == b"rank 0\n"


async def test_of_a_gang_every_rank_is_kept_and_read_by_its_number(two):
    job = two.ended(1, stdout=b"rank 0\n")
    job.spec = msgspec.structs.replace(job.spec, gang=3)
    job.attempts.append(away(two.owner.me, LEASE(2), rank=1))
    two.owner.has(two.guest(job, LEASE(2)))
    two.owner.wrote(LEASE(2), stdout=b"rank 1\n")
    job.attempts.append(away(two.home.me, LEASE(3), rank=2))  # As a guest at its home.
    two.home.has(two.guest(job, LEASE(3)))
    two.home.wrote(LEASE(3), stdout=b"rank 2\n")
    await two.brought(job)

    for rank in (0, 1, 2):
        assert await text_of(two.home, job, index=rank) == b"rank %d\n" % rank
    assert await text_of(two.home, job) == b"rank 0\n"
    assert [output_name(job.spec, "stdout", rank) for rank in (-1, 0, 2)] == ["stdout"] * 3
    with pytest.raises(BadValue, match="--rank"):
        output_name(job.spec, "stdout", 3)


async def test_what_ran_here_for_a_former_home_is_read_where_it_was_written(two):
    job = Job(spec=a_job("taken"), submitted_ms=1, state="succeeded")
    job.attempts = [away(two.home.me, LEASE(1))]
    two.home.has(two.guest(job, LEASE(1)))
    two.home.wrote(LEASE(1), stdout=b"here\n")

    assert await text_of(two.home, two.home.has(job)) == b"here\n"


async def test_an_agent_reads_the_copy_and_says_where_the_output_is_without_one(tmp_path):
    store = MemoryStore()
    job = Job(spec=a_job("far"), submitted_ms=1, state="succeeded")
    job.attempts = [away(NodeId("b" * 64), LEASE(1))]
    await store.commit([PutJob(job_row(job))])
    async with running(made(store, MemoryRunner(), tmp_path)) as agent:
        assert (await agent.job("far")).output_only_on == "attic"
        with pytest.raises(MeshUnreachable, match=r"attic.*only there"):
            await anext(agent.logs("far", stream="stdout", index=-1, follow=False, offset=0))
        folder = f"{tmp_path}/{job.spec.id}/copy.{LEASE(1)}"
        KeptOutput.keep(folder, -1, (Stream("stdout", 0, b"out"),), node="attic")

        assert (await agent.job("far")).output_only_on == ""
        for follow in (False, True):
            parts = agent.logs("far", stream="stdout", index=-1, follow=follow, offset=0)
            assert [part async for part in parts] == [b"out"]


# --- Whom nobody answers --------------------------------------------------------------------------


async def test_an_owner_that_is_gone_is_asked_when_it_is_back(two):
    job = two.ended(1, stdout=b"out\n")
    two.home.member.dead.add(two.owner.me)
    async with two.home.at_work():
        two.home.keeper.changed([job.spec.id])
        await asyncio.sleep(0.1)
        assert (two.questions, len(two.home.keeper)) == (0, 1)
        two.home.member.dead.clear()
        await two.settled()

    assert await text_of(two.home, job) == b"out\n"


async def test_a_new_agent_asks_for_what_the_old_one_had_not_brought(two):
    job = two.ended(1, stdout=b"out\n")
    del two.home.node.coordinator.jobs[job.spec.id]
    await two.home.store.commit([PutJob(job_row(job))])
    guest = two.owner.node.coordinator.jobs.pop(JobId(LEASE(1)))
    await two.owner.store.commit([PutJob(job_row(guest))])
    alone = Side(two.town, "desk", two.home.root)
    alone.keeper = TailKeeper(alone.node, two.home.store, two.home.kept, two.home.member.remote)
    async with alone.at_work():
        await asyncio.sleep(0.05)
        assert two.questions == 0, "in no mesh there is nobody to ask"
    alone.node.join(two.home.me, senses=SENSES)
    async with alone.at_work():
        async with asyncio.timeout(10):
            while two.home.kept.only_on(job):
                await asyncio.sleep(0.005)

    assert await text_of(two.home, job) == b"out\n"


@pytest.mark.parametrize(
    "said",
    [
        b"junk",
        msgspec.msgpack.encode(Tails(())),
        msgspec.msgpack.encode(Tails((Tail(TailOf(LEASE(9)), (Stream("stdout", 0, b"x"),)),))),
    ],
)
async def test_an_owner_that_answers_nonsense_is_asked_again_and_then_no_more(
    two, said, monkeypatch
):
    monkeypatch.setattr(tails, "TRIES_MAX", 3)
    monkeypatch.setattr(two.owner.answers, "answer", lambda _asker, _question: _told(said))
    job = two.ended(1, stdout=b"out\n")
    await two.brought(job)

    assert (two.questions, two.home.kept.only_on(job)) == (3, "attic")


async def _told(body: bytes) -> bytes:
    return body


async def test_an_older_version_has_no_such_answer_and_is_given_up(two, monkeypatch):
    monkeypatch.setattr(tails, "TRIES_MAX", 2)
    two.owner.member.questions._answering = Asked(CannedAgent())
    job = two.ended(1)
    await two.brought(job)

    assert (two.questions, two.home.kept.only_on(job)) == (2, "attic")


async def test_a_full_disk_leaves_no_half_copy_and_is_tried_again(two):
    job, *others = (two.ended(number, stdout=b"out\n", stderr=b"err\n") for number in (1, 2, 3))
    (home := two.home.root / job.spec.id).write_bytes(b"no folder")
    async with two.home.at_work():
        two.home.keeper.changed([one.spec.id for one in (others[0], job, others[1])])
        async with asyncio.timeout(10):
            while two.questions < 3:
                await asyncio.sleep(0.005)
        assert len(two.home.keeper) == 1
        assert [await text_of(two.home, one) for one in others] == [b"out\n"] * 2
        home.unlink()
        await two.settled()

    assert await text_of(two.home, job) == b"out\n"
    assert [path.name for path in home.iterdir()] == [f"copy.{LEASE(1)}"]


async def test_a_copy_that_cannot_be_finished_leaves_nothing(tmp_path):
    folder = tmp_path / "copy"
    twice = (Stream("stdout", 0, b"a"), Stream("stdout", 0, b"b"))
    with pytest.raises(OSError, match="exists"):
        KeptOutput.keep(str(folder), -1, twice, node="attic")

    assert list(tmp_path.iterdir()) == []


async def test_what_waits_is_bounded_and_the_oldest_makes_room(two, monkeypatch):
    monkeypatch.setattr(tails, "WANTED_MAX", 2)
    jobs = [two.ended(number, stdout=b"x") for number in range(3)]
    await two.brought(*jobs)

    assert [two.home.kept.only_on(job) for job in jobs] == ["attic", "", ""]


# --- The owner's side -----------------------------------------------------------------------------


async def asked(two: Two, *of: TailOf, roles=("member",), node: NodeId | None = None) -> Tails:
    asker = Asker(node or two.home.me, "desk", roles)
    body = msgspec.msgpack.encode(AskTails(of))
    said = await two.owner.answers.answer(asker, Question(number=1, operation=TAILS, body=body))
    return msgspec.msgpack.decode(said, type=Tails)


async def test_a_guest_of_the_mesh_gets_what_its_own_jobs_wrote(two):
    two.ended(1, stdout=b"out\n")
    mine = await asked(two, TailOf(LEASE(1)), roles=("guest",))
    other = await asked(two, TailOf(LEASE(1)), roles=("guest",), node=NodeId("f" * 64))

    assert mine.tails[0].streams == (Stream("stdout", 0, b"out\n"),)
    assert other.tails == (Tail(TailOf(LEASE(1)), is_known=False),)


async def test_who_is_asked_for_what_it_does_not_know_says_so(two):
    two.owner.has(Job(spec=a_job("own"), submitted_ms=1, state="succeeded"))
    two.ended(1, stdout=b"out\n")
    two.owner.node.coordinator.jobs[JobId(LEASE(1))].state = "running"
    two.ended(2, stdout=b"out\n")
    wanted = (TailOf("f" * 32), TailOf(a_job("own").id), TailOf(LEASE(1)), TailOf(LEASE(2), 3))

    assert [one.is_known for one in (await asked(two, *wanted)).tails] == [False] * 4


async def test_a_question_that_cannot_be_read_is_refused(two):
    with pytest.raises(BadValue, match="AskTails"):
        await two.owner.answers.answer(
            Asker(two.home.me, "desk", ("member",)), Question(number=1, operation=TAILS, body=b"x")
        )


def test_an_answer_has_room_for_one_job_of_both_streams():
    assert ANSWER_BYTES == 2 * TAIL_BYTES


def test_the_end_of_a_stream_that_was_cut_spans_both_files(tmp_path):
    path = tmp_path / "stdout"
    assert read_tail(str(path), 4) == (0, b"")
    path.write_bytes(b"newer")
    assert read_tail(str(path), 100) == (0, b"newer")
    (tmp_path / "stdout.1").write_bytes(head(10) + b"older")
    assert read_tail(str(path), 7) == (13, b"ernewer"[-7:])
    assert read_tail(str(path), 100) == (10, b"oldernewer")
