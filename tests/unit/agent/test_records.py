"""What a start finds on the disk: everything that somebody still waits for."""

import msgspec
import pytest

from distributed_grid.agent.records import job_of, job_row
from distributed_grid.edges.store import JobRow
from distributed_grid.kernel.jobs import Attempt, Job, Progress
from distributed_grid.model.job import Array
from distributed_grid.wire.mesh import JUNK
from tests.across_world import Room
from tests.node_world import a_job, fill


def test_a_guest_is_not_finished_before_its_home_has_heard_of_its_end():
    room = Room(2)
    home, host = room.nodes
    fill(home)
    home.submit(a_job("job"))
    room.settle()
    (guest,) = [job for job in host.node.coordinator.jobs.values() if job.is_guest]
    room.cut.add((host.me, home.me))
    host.keeper.end_one(guest.attempts[-1].id, 0)
    room.settle()

    assert guest.has_ended
    assert not job_row(guest).is_finished

    room.cut.clear()
    room.pass_time(2_000)
    assert job_row(guest).is_finished


def a_row(change=None) -> JobRow:
    """A row of an array, after somebody has edited it."""
    job = Job(
        spec=a_job("array", array=Array(start=0, stop=3)),
        submitted_ms=1,
        progress=Progress(states=bytearray(3)),
        attempts=[Attempt(number=1, lease="l", node="n", granted_ms=1, indices=(0, 1))],
    )
    row = job_row(job)
    plain = msgspec.msgpack.decode(row.record)
    if change is not None:
        change(plain)
    return msgspec.structs.replace(row, record=msgspec.msgpack.encode(plain))


EDITED = {
    "the id of another": lambda job: job["spec"].update(id="f" * 64),
    "no array": lambda job: job["spec"].update(array=None),
    "no progress": lambda job: job.update(progress=None),
    "an array that falls": lambda job: job["spec"]["array"].update(start=9),
    "a longer array": lambda job: job["spec"]["array"].update(stop=4),
    "a state that is none": lambda job: job["progress"].update(states=b"\0\1\5"),
    "a code beyond the array": lambda job: job["progress"].update(codes={3: 1}),
    "an index beyond the array": lambda job: job["attempts"][0].update(indices=[3]),
    "a moment before all": lambda job: job.update(submitted_ms=-1),
    "a count beyond all": lambda job: job.update(failures=2**63),
}


@pytest.mark.parametrize("change", EDITED.values(), ids=EDITED.keys())
def test_a_row_whose_parts_do_not_agree_is_junk(change):
    assert job_of(a_row()).progress is not None
    with pytest.raises(JUNK):
        job_of(a_row(change))
