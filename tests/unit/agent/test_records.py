"""What a start finds on the disk: everything that somebody still waits for."""

from distributed_grid.agent.records import job_row
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
