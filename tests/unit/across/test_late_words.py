"""What owners tell too late, out of order or of attempts that were given up."""

from itertools import permutations

import pytest

from distributed_grid.kernel import coordinator
from distributed_grid.kernel.across import away, machine
from distributed_grid.kernel.node import Told
from distributed_grid.model.across import Epoch
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import (
    Begun,
    Confirmed,
    Granted,
    Halt,
    NotTaken,
    Poll,
    Report,
    Reserve,
    Start,
    Taken,
)
from distributed_grid.wire.keeper import Ended, Usage
from tests.across_world import Neighbour, Room, rules_of
from tests.node_world import SENSES, World, a_job, fill

ELSEWHERE = Where(nodes=("node-2", "node-3"))


@pytest.fixture
def room() -> Room:
    """A home without room, and two others with."""
    room = Room(3)
    fill(room[0])
    return room


def part(room: Room, host: Neighbour) -> None:
    """The home and one other hear nothing of each other; the home thinks it dead."""
    room.cut |= {(room[0].me, host.me), (host.me, room[0].me)}
    room.dead.add((room[0].me, host.me))
    room.look()


def meet(room: Room, host: Neighbour) -> None:
    room.cut -= {(room[0].me, host.me), (host.me, room[0].me)}
    room.dead.discard((room[0].me, host.me))
    room.look()


def host_of(room: Room, job) -> Neighbour:
    (attempt,) = room[0].job(job).live_attempts
    return room.by_id(attempt.host)


def an_end(lease: str, index: int) -> Ended:
    return Ended(
        number=1,
        attempt=lease,
        index=index,
        how="exited",
        code=0,
        started_ms=1,
        ended_ms=2,
        usage=Usage(),
        is_last=False,
    )


def test_ends_of_a_chunk_count_only_from_the_first_on():
    room = Room(2)
    home, host = room.nodes
    array = a_job("array", array=Array(start=0, stop=64), require=Where(nodes=("node-2",)))
    home.submit(array)
    room.settle()
    attempt = home.job(array).live_attempts[0]

    def reports(first: int) -> None:
        end = an_end(attempt.lease, attempt.indices[first])
        word = Report(job=array.id, lease=attempt.lease, first=first, ends=(end,))
        home.step(Told(now_ms=home.now_ms, peer=host.me, message=word))

    reports(1)
    assert (attempt.ended_indices, home.said(Confirmed)) == (0, [])
    reports(0)
    reports(1)
    assert attempt.ended_indices == 2
    room.pass_time(1_000)
    assert home.said(Confirmed)[-1].ends == 2


def test_a_job_that_goes_to_another_home_leaves_the_starts_of_others_alone(room):
    goes, stays = (a_job(name, require=ELSEWHERE) for name in ("goes", "stays"))
    room[0].submit(goes, stays)
    room.cut |= {(host.me, room[0].me) for host in room.nodes[1:]}  # No Start is answered.
    room.settle()
    for host in room.nodes[1:]:
        for word in host.said(Granted):
            room[0].step(Told(now_ms=room[0].now_ms, peer=host.me, message=word))
    asking = room[0].node.across.asking
    assert {one.job.spec.id for one in asking.starting.values()} == {goes.id, stays.id}
    room[0].node.across.away.let_go(goes.id)

    assert [starting.job.spec.id for starting in asking.starting.values()] == [stays.id]


def test_of_many_lost_attempts_the_last_are_remembered(room, monkeypatch):
    monkeypatch.setattr(away, "LOST_MAX", 1)
    jobs = [a_job(name, require=Where(nodes=("node-2",))) for name in ("one", "two")]
    room[0].submit(*jobs)
    room.settle()
    leases = [room[0].job(job).attempts[0].lease for job in jobs]
    part(room, room[1])

    assert list(room[0].node.across.away._lost) == leases[1:]


def test_a_job_that_left_the_memory_is_not_asked_for_when_its_node_comes_back(room, monkeypatch):
    job = a_job("job", losses_max=0, require=Where(nodes=("node-2",)))
    room[0].submit(job)
    room.settle()
    part(room, room[1])
    assert room[0].state(job) == "lost"
    assert room[0].node.across.away._lost
    monkeypatch.setattr(coordinator, "FINISHED_KEPT", 0)
    room[0].end(a_job("filler-0"))
    asked = len(room[0].said(Poll))
    meet(room, room[1])

    assert job.id not in room[0].node.coordinator.jobs
    assert len(room[0].said(Poll)) == asked
    assert not room[0].node.across.away._lost


def test_of_two_that_come_back_the_older_stays(room):
    job = a_job("job", require=ELSEWHERE)
    room[0].submit(job)
    room.settle()
    first = host_of(room, job)
    part(room, first)
    room.until(lambda: room[0].job(job).live_attempts)
    second = host_of(room, job)
    assert second is not first
    part(room, second)
    meet(room, first)
    room.pass_time(1_000)
    assert host_of(room, job) is first
    meet(room, second)
    room.pass_time(1_000)

    assert host_of(room, job) is first
    told = [word for peer, word in room[0].sent if peer == second.me]
    assert {word.why for word in told if isinstance(word, Halt)} == {"twice"}
    assert second.keeper.stopped == set(second.keeper.runs)


def test_who_was_told_to_end_does_not_come_back_by_a_late_word(room):
    """Else the one that runs would be stopped for one that is stopping."""
    job = a_job("job", require=ELSEWHERE)
    room[0].submit(job)
    room.settle()
    first = host_of(room, job)
    part(room, first)
    room.until(lambda: room[0].job(job).live_attempts)
    second = host_of(room, job)
    part(room, second)
    meet(room, first)
    room.pass_time(1_000)
    meet(room, second)
    room.pass_time(1_000)
    (lease,) = second.keeper.stopped  # It takes its time to end.
    part(room, first)
    room.until(lambda: room[0].job(job).live_attempts)
    third = host_of(room, job)
    (now,) = [attempt.lease for attempt in room[0].job(job).live_attempts]
    assert now != lease
    late = Begun(job=job.id, lease=lease, pid=7, at_ms=1)
    room[0].step(Told(now_ms=room[0].now_ms, peer=second.me, message=late))
    room.pass_time(1_000)

    assert [attempt.lease for attempt in room[0].job(job).live_attempts] == [now]
    assert now in third.keeper.runs.keys() - third.keeper.stopped


@pytest.mark.parametrize("order", sorted(set(permutations(("start", "start", "halt", "poll")))))
def test_no_lease_of_which_an_owner_said_that_it_does_not_run_ever_does(order):
    """Why Halt and Poll need no number: a lease is used once, and what was said of it is final."""
    room = Room(2)
    home, host = room.nodes
    room.cut |= {(home.me, host.me), (host.me, home.me)}
    job = a_job("job", require=Where(nodes=("node-2",)))
    epoch = Epoch(1, home.me)
    ask = Reserve(job=job.id, epoch=epoch, number=1, spec=job)
    (grant,) = [word for word in heard(host, home, ask) if isinstance(word, Granted)]
    words = {
        "start": Start(job=job.id, epoch=epoch, number=1, lease=grant.lease, spec=job, attempt=1),
        "halt": Halt(job=job.id, epoch=epoch, lease=grant.lease),
        "poll": Poll(job=job.id, epoch=epoch, lease=grant.lease),
    }
    is_denied = False
    for name in order:
        answers = heard(host, home, words[name])
        is_denied = is_denied or any(isinstance(word, NotTaken) for word in answers)
        assert not (is_denied and grant.lease in host.keeper.runs)
    assert grant.lease not in host.keeper.runs.keys() - host.keeper.stopped, "it was told to end"


def heard(host: Neighbour, home: Neighbour, message) -> list:
    """What a node answers to one word."""
    ready = host.step(Told(now_ms=host.now_ms, peer=home.me, message=message))
    return [word for peer, word in [*ready.ask, *ready.send] if peer == home.me]


def test_a_late_answer_about_one_attempt_does_nothing_to_the_next(room):
    job = a_job("job", require=ELSEWHERE)
    room[0].submit(job)
    room.settle()
    first = host_of(room, job)
    (gone,) = [attempt.lease for attempt in room[0].job(job).live_attempts]
    part(room, first)
    room.until(lambda: room[0].job(job).live_attempts)
    before = [attempt.id for attempt in room[0].job(job).live_attempts]
    room[0].job(job).losses = 0
    for late in (
        NotTaken(job=job.id, lease=gone, why="unknown here"),
        Taken(job=job.id, lease=gone),
        NotTaken(job=job.id, lease=before[0], why="of another node"),
    ):
        room[0].step(Told(now_ms=room[0].now_ms, peer=first.me, message=late))

    assert [attempt.id for attempt in room[0].job(job).live_attempts] == before
    assert room[0].job(job).losses == 0


def test_jobs_that_wait_when_a_node_joins_look_around_among_the_others():
    room = Room(2)
    alone = World()
    fill(alone)
    job = a_job("job")
    alone.submit(job)
    across = alone.node.join(room[0].me, senses=SENSES, rules_of=rules_of)

    assert across.is_waiting(job.id)
    assert [one.spec.id for one in across.asking.everyone()] == [job.id]


def test_what_a_node_has_to_tell_itself_beyond_a_step_goes_by_post(monkeypatch):
    monkeypatch.setattr(machine, "ROUNDS_MAX", 0)
    room = Room(2)
    home, host = room.nodes
    fill(home)
    job = a_job("job")
    home.submit(job)
    room.settle()
    room.kill(home)
    room.until(lambda: job.id in host.node.coordinator.jobs)
    host.drain()
    room.until(lambda: host.knows(job) == "succeeded")

    assert host.me in {peer for peer, _ in host.sent}
