"""An end that was decided on the other side of a partition counts here, whatever happens here."""

import msgspec
import pytest

from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_parts import Result
from distributed_grid.kernel.across.record_parts import encode as written
from distributed_grid.kernel.node import Told
from distributed_grid.wire.across import Holding
from tests.across_world import Room
from tests.node_world import a_job, fill

JOB = a_job("job")


def learn(room: Room, state: str) -> list[dict[str, str]]:
    """A holder knows how it ended; its home hears of it, and tells if that changes an end."""
    home = room[0]
    record = home.node.across.guarding.find(JOB.id)
    ended = msgspec.structs.replace(record, results=(written(Result(state=state)),))
    message = Holding(job=JOB.id, record=encode(ended))
    ready = home.step(Told(now_ms=home.now_ms, peer=room[1].me, message=message))
    return [one.fields for one in ready.happened if one.name == "job.result_changed"]


@pytest.mark.parametrize("state", ["succeeded", "skipped", "cancelled", "failed"])
def test_what_waits_here_ends_as_it_did_there(state):
    room = Room(2)
    for node in room.nodes:
        fill(node)
    room.look()
    room[0].submit(JOB)
    room.settle()
    assert room[0].state(JOB) == "waiting"
    learn(room, state)

    assert room[0].state(JOB) == state


@pytest.mark.parametrize("state", ["succeeded", "skipped", "cancelled", "failed"])
def test_what_runs_here_ends_as_it_did_there_and_is_stopped(state):
    room = Room(2)
    room[0].submit(JOB)
    room.settle()
    assert room[0].state(JOB) == "running"
    learn(room, state)

    assert room[0].state(JOB) == state
    assert room[0].keeper.stopped


@pytest.mark.parametrize(
    ("here", "there", "changed"),
    [
        ("failed", "succeeded", [{"before": "failed", "state": "succeeded"}]),
        ("failed", "cancelled", [{"before": "failed", "state": "cancelled"}]),
        ("cancelled", "succeeded", [{"before": "cancelled", "state": "succeeded"}]),
        ("cancelled", "failed", []),
        ("succeeded", "cancelled", []),
    ],
)
def test_whoever_was_told_of_an_end_hears_of_a_better_one(here, there, changed):
    room = Room(2)
    room[0].submit(JOB)
    room.settle()
    room.cut |= {(room[1].me, room[0].me), (room[0].me, room[1].me)}  # So that it is not retired.
    assert learn(room, here) == []
    assert learn(room, there) == changed

    assert room[0].state(JOB) == (changed[0]["state"] if changed else here)
