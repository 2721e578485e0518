"""Jobs that ended and have left the memory of their home: it finds them again when asked."""

import msgspec
import pytest

from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.across.record_bytes import decode, encode
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.wire.across import Begun, Copy, Holding, Inquiry, Waiting
from tests.across_world import Room
from tests.node_world import a_job

FIRST = a_job("first")


def forgetful(*, epoch: Epoch | None = None) -> tuple[Room, Job, bytes]:
    """A home that starts anew, and knows an ended job only by its disk; and an old record of it."""
    room = Room(2)
    room[0].submit(FIRST)
    room.settle()
    old = encode(room[1].node.across.guarding.find(FIRST.id))
    room[0].drain()
    room.pass_time(2_000)
    job = msgspec.msgpack.decode(room[0].saved_jobs.pop(FIRST.id), type=Job)
    assert job.state == "succeeded"
    job.epoch = epoch or job.epoch
    room[0].start_agent()
    room[0].sent.clear()
    return room, job, old


def told(room: Room, message, *recalled: Job) -> list:
    """What the home answers to the other."""
    home = room[0]
    word = Told(now_ms=home.now_ms, peer=room[1].me, message=message, recalled=recalled)
    room[0].look()
    home.sent.clear()
    home.step(word)
    return home.said(Holding)


@pytest.mark.parametrize("epoch", [None, Epoch()], ids=["in the mesh", "before it joined one"])
def test_a_home_tells_how_a_job_ended_that_only_its_disk_knows(epoch):
    room, job, _ = forgetful(epoch=epoch)
    question = Inquiry(jobs=(FIRST.id,))
    assert room[0].node.across.forgotten(room[1].me, question) == (FIRST.id,)
    (answer,) = told(room, question, job)

    assert state_of(decode(answer.record)) == "succeeded"
    assert room[0].node.across.forgotten(room[1].me, question) == ()


def test_a_home_that_is_told_of_its_own_job_as_news_does_not_run_it_again():
    room, job, old = forgetful()
    assert room[0].node.across.forgotten(room[1].me, Copy(record=old)) == (FIRST.id,)
    (answer,) = told(room, Copy(record=old), job)
    room.pass_time(5_000)

    assert state_of(decode(answer.record)) == "succeeded"
    assert not room[0].keeper.runs


def test_it_is_looked_up_only_for_words_about_jobs_of_this_node():
    room, _, old = forgetful()
    across, record = room[0].node.across, decode(old)
    others = msgspec.structs.replace(record, version=Fence(Epoch(1, room[1].me), 1))

    assert across.forgotten(room[1].me, Begun(job=FIRST.id, lease="x", pid=1, at_ms=1)) == (
        FIRST.id,
    )
    assert across.forgotten(room[1].me, Copy(record=encode(others))) == ()
    junk = room[0].me.encode() + room[1].me.encode()
    assert across.forgotten(room[1].me, Copy(record=junk)) == ()
    assert (
        across.forgotten(room[1].me, Waiting(job=FIRST.id, epoch=Epoch(), number=1, position=1))
        == ()
    )


def test_a_job_of_another_home_is_not_recalled_as_one_of_this_node():
    room, job, _ = forgetful(epoch=Epoch(2, "f" * 64))
    (answer,) = told(room, Inquiry(jobs=(FIRST.id,)), job)

    assert answer.record == b""


def test_alone_an_end_is_kept_for_those_who_may_come():
    """Else whoever comes back could not be told of it, and it would be on one disk only."""
    room = Room(2)
    away = {(room[0].me, room[1].me), (room[1].me, room[0].me)}
    room.dead |= away
    room.cut |= away
    room.look()
    room.pass_time(10_000)
    room[0].submit(FIRST)
    room[0].drain()
    room.pass_time(10_000)
    assert not room[1].knows(FIRST)
    room.dead.clear()
    room.cut.clear()
    room.look()
    room.pass_time(12_000)

    assert room[1].knows(FIRST) == "succeeded"
