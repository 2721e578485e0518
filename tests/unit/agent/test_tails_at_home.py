"""The end of what a job wrote at its own home, at the first of its guardians."""

import asyncio
import shutil

import msgspec
import pytest

from distributed_grid.agent import tails
from distributed_grid.agent.tails import TailKeeper
from distributed_grid.agent.tidying import Remembered
from distributed_grid.kernel.accounts import Allowance
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record_bytes import encode as record_bytes
from distributed_grid.kernel.across.record_jobs import job_of as held_job_of
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Told, View
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Copy
from distributed_grid.wire.questions import Question
from distributed_grid.wire.tails import TAILS, AskTails, TailOf, Tails
from tests.node_world import SENSES, World, a_job
from tests.questions_lab import Asker
from tests.unit.agent.test_tails import LEASE, Two, away, text_of


@pytest.fixture
def two(tmp_path, monkeypatch) -> Two:
    monkeypatch.setattr(tails, "LINGER_S", 0.01)
    return Two(tmp_path)


def at_home(two: Two, name: str, guardians: tuple[NodeId, ...], **streams: bytes) -> Job:
    """A job that ran at its home, and whose record its guardian got when it had ended."""
    epoch, lease = Epoch(1, two.home.me), LEASE(8)
    job = Job(
        spec=a_job(name),
        submitted_ms=1,
        state="succeeded",
        attempts=[away(NodeId(""), lease, epoch=epoch)],
        epoch=epoch,
        guardians=guardians,
    )
    two.home.has(job)
    two.home.wrote(job.spec.id, **streams)
    node = two.owner.node
    if node.across is None:
        node.join(two.owner.me, senses=SENSES)
    peers = {two.home.me: Peer(id=two.home.me, name="desk")}
    node.step(View(now_ms=1, peers=peers))
    body = record_bytes(record_of(job, Fence(epoch, 1)))
    node.step(Told(now_ms=1, peer=two.home.me, message=Copy(record=body)))
    return job


async def test_what_a_job_wrote_at_its_home_is_at_its_first_guardian_a_moment_after_it_ended(two):
    job = at_home(two, "job", (two.owner.me,), stdout=b"out\n", stderr=b"err\n")
    async with two.owner.at_work():
        two.owner.keeper.held([job.spec.id, JobId("unknown")])
        async with asyncio.timeout(10):
            while len(two.owner.keeper):
                await asyncio.sleep(0.005)
    record = two.owner.node.across.guarding.find(job.spec.id)
    held = held_job_of(record)

    assert await text_of(two.owner, held) == b"out\n"
    assert await text_of(two.owner, held, "stderr") == b"err\n"
    assert job.spec.id in Remembered(two.owner.node), "it is not tidied away"
    assert "unknown" not in Remembered(two.owner.node)


async def test_only_the_first_guardian_brings_it_and_only_guardians_get_it(two):
    other = NodeId("f" * 64)
    second = at_home(two, "second", (other, two.owner.me), stdout=b"out\n")
    two.owner.keeper.held([second.spec.id])
    assert len(two.owner.keeper) == 0
    alone = World().node
    TailKeeper(alone, two.owner.store, two.owner.kept, two.owner.member.remote).held([JobId("x")])

    none = at_home(two, "none", (other,), stdout=b"out\n")
    for job, is_known in ((second, True), (none, False)):
        asker = Asker(two.owner.me, "attic", ("member",))
        body = msgspec.msgpack.encode(AskTails((TailOf(job.spec.id),)))
        question = Question(number=1, operation=TAILS, body=body)
        said = await two.home.answers.answer(asker, question)
        assert msgspec.msgpack.decode(said, type=Tails).tails[0].is_known == is_known


async def brought(two, *jobs: Job) -> None:
    async with two.owner.at_work():
        two.owner.keeper.held([job.spec.id for job in jobs])
        async with asyncio.timeout(10):
            while len(two.owner.keeper):
                await asyncio.sleep(0.005)


def copies_of(two, job: Job) -> list[tuple[str, int]]:
    return two.owner.kept.sizes(job.spec.id)


async def test_what_is_kept_for_one_home_is_on_its_account_and_what_is_removed_makes_room(two):
    me, keeper = (two.owner.me,), two.owner.keeper
    keeper._accounts.limits = Allowance(0, 10, 10, 10, 0)
    first = at_home(two, "first", me, stdout=b"x" * 10)
    await brought(two, first)
    assert keeper._accounts[two.home.me] == 10
    second = at_home(two, "second", me, stdout=b"y")
    await brought(two, second)
    assert copies_of(two, second) == []

    [(folder, _)] = copies_of(two, first)
    shutil.rmtree(folder)
    await brought(two, second)
    assert len(copies_of(two, second)) == 1
    assert keeper._accounts[two.home.me] == 1


async def test_after_a_start_what_is_kept_is_on_the_same_account(two):
    job = at_home(two, "job", (two.owner.me,), stdout=b"out\n")
    await brought(two, job)
    old = two.owner
    [(_, size)] = copies_of(two, job)
    keeper = TailKeeper(old.node, old.store, old.kept, old.member.remote)
    await keeper._recall()

    assert keeper._accounts[two.home.me] == size > 0
