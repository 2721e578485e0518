"""At-most-once jobs when several things go wrong together."""

import msgspec
import pytest

from distributed_grid.kernel.across.once import ASK_US, LEFT
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.attempts import LiveAttempts
from distributed_grid.kernel.node import Beat, Tick, Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across import Begun, Confirmed, Copy, NotTaken, Start, Taken
from distributed_grid.wire.job_lane import decode
from distributed_grid.wire.keeper import untold_end
from distributed_grid.wire.register import Accept
from tests.across_world import Neighbour
from tests.node_world import fill
from tests.unit.across.once_room import OnceRoom, away, once
from tests.unit.across.test_once_ends import WatchedRoom, careful
from tests.unit.across.test_once_troubles import emptied


def submitted(job: JobSpec, count: int, kind: type[OnceRoom] = WatchedRoom) -> OnceRoom:
    """Nodes that know each other, one of which has this job."""
    room = kind(count)
    room.pass_time(6_000)
    room[0].submit(job)
    room.settle()
    return room


def only_votes(room: OnceRoom, home, job):
    """One that has a vote on a job and no copy of it."""
    holders = (home.me, *home.job(job).guardians)
    voters = [member.node for member in home.job(job).votes.voters]
    return room.by_id(next(node for node in voters if node not in holders))


def part(room: OnceRoom, some, *, is_seen: bool = True) -> None:
    """These hear nobody else, and nobody hears them."""
    for one in some:
        for other in room.nodes:
            if other not in some:
                pairs = {(one.me, other.me), (other.me, one.me)}
                room.cut |= pairs
                room.dead |= set() if is_seen else pairs


def test_an_end_that_a_minority_has_is_told_by_nobody():
    """It reached its home and one voter of five; the home dies, and another attempt runs."""
    job = once(voters=5)
    room = submitted(job, 7)
    home = room[0]
    room.pass_time(3_000)
    voter = only_votes(room, home, job)
    part(room, [home, voter])
    room.finish(job)
    assert home.job(job).ending is not None
    assert careful(voter).register.voter.has(job.id)
    part(room, [home, voter], is_seen=False)
    room.kill(home)
    room.until(lambda: len(room.starts) == 2, 40_000)
    room.cut = {pair for pair in room.cut if home.me in pair}
    room.dead = {pair for pair in room.dead if home.me in pair}
    room.look()
    room.pass_time(3_000)

    assert room.ends(job) == []
    assert len(room.running(job.id)) == 1


def test_who_votes_and_holds_no_copy_hears_of_the_end_and_forgets_its_vote():
    job = once(voters=5)
    room = submitted(job, 7)
    voter = only_votes(room, room[0], job)
    room.finish(job)

    assert voter.knows(job) == "succeeded"
    room.pass_time(2_000)
    assert room.votes(job) == []


def test_who_voted_and_was_away_when_it_ended_asks_and_forgets_its_vote():
    job = once(voters=5)
    room = submitted(job, 7)
    voter = only_votes(room, room[0], job)
    room.isolate(voter)
    room.finish(job)
    room.pass_time(1_000)
    assert room[0].state(job) == "succeeded"
    room.heal()
    assert room.votes(job) == [voter.name]
    room.pass_time(ASK_US // 1_000 + 3_000)

    assert room.votes(job) == []
    assert voter.knows(job) == "succeeded"


def test_who_lost_its_disk_under_a_running_attempt_stops_it_before_it_knows_nothing():
    job = away()
    room = submitted(job, 6)
    host = room.host(job)
    for shelf in (host.saved_jobs, host.saved_leases, host.saved_meta, host.saved_held):
        shelf.clear()
    said = len(host.sent)
    host.start_agent()
    room.look()
    room.pass_time(2_000)
    assert host.keeper.stopped & host.keeper.runs.keys()
    assert [one for _, one in host.sent[said:] if isinstance(one, NotTaken)] == []
    room.obey_stops()
    room.until(lambda: len(room.starts) == 2, 30_000)  # The room sees to it that one runs.


def test_a_stray_has_ended_with_the_last_of_its_parts():
    attempts = LiveAttempts()
    attempts.strays = {"stray"}
    end = untold_end("stray", "stopped", 1)
    attempts.stray_ended(msgspec.structs.replace(end, is_last=False))
    assert attempts.strays == {"stray"}
    attempts.stray_ended(end)
    assert attempts.strays == set()


def test_a_home_that_runs_it_itself_does_not_say_that_it_knows_nothing():
    """Another has taken it over and asks; that the asked one is home no more it does not know."""
    job = once()
    room = submitted(job, 4)
    home = room[0]
    for other in room.nodes[1:]:
        fill(other)
    room.pass_time(1_000)
    room.isolate(home)
    room.until(lambda: any(careful(one).home.jobs for one in room.nodes[1:]), 20_000)
    room.until(lambda: any(_rules(one, job) for one in room.nodes[1:]), 20_000)
    assert room.running(job.id) == [home.name]
    room.losing, said = (Copy,), len(home.sent)
    room.heal()
    assert [one for _, one in home.sent[said:] if isinstance(one, NotTaken)] == []
    room.losing = ()
    room.pass_time(18_000)
    assert room.running(job.id) == [home.name]  # As a guest of the other.
    for other in room.nodes[1:]:
        emptied(other)
    room.isolate(home)
    room.until(lambda: len(room.starts) == 2, 30_000)  # The room sees to it that one runs.


def _rules(node, job) -> bool:
    return job.id in node.node.coordinator.jobs and careful(node).home.is_cleared(job.id)


def lost_for_a_moment() -> tuple[WatchedRoom, JobSpec, Neighbour]:
    """Who runs it is back before the attempt in its place began; all know that."""
    job = away()
    room = submitted(job, 5)
    room.pass_time(60_000)
    host = room.host(job)
    lose(room, host)
    room.pass_time(1_000)
    assert len(room[0].job(job).attempts) == 2
    room.heal()
    return room, job, host


def lose(room: WatchedRoom, host: Neighbour) -> None:
    """The others do not hear it, and take it for dead; it does not take them for dead yet."""
    room.isolate(host, is_noticed=False)
    room.dead = {(other.me, host.me) for other in room.nodes if other is not host}
    room.look()


def test_an_attempt_that_comes_back_and_is_lost_again_at_once_is_waited_for():
    room, job, host = lost_for_a_moment()
    lose(room, host)
    room.until(lambda: len(room.starts) == 2, 30_000)  # The room sees to it that one runs.

    assert room.running(job.id) != [host.name]


def test_a_late_word_of_an_attempt_that_is_long_over_ends_nobody():
    job = away()
    room = submitted(job, 6)
    home, first = room[0], room.host(job)
    late = [word for to, word in first.sent if isinstance(word, Begun) and to == home.me][-1]
    lose(room, first)
    room.until(lambda: len(room.starts) == 2, 40_000)
    room.heal()
    room.pass_time(60_000)
    second = room.host(job)
    home.step(Told(now_ms=home.now_ms, peer=first.me, message=late))
    room.settle()
    room.pass_time(8_000)

    assert room.running(job.id) == [second.name]
    assert not second.keeper.stopped & second.keeper.runs.keys()
    assert len(room.starts) == 2


def test_an_attempt_that_comes_back_before_the_next_began_goes_on():
    room, job, host = lost_for_a_moment()
    room.pass_time(30_000)

    assert len(room.starts) == 1
    assert room.running(job.id) == [host.name]
    assert room[0].job(job).losses == 0


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_others_vote_on_does_not_run_where_they_were_left(comes_back):
    job = once()
    room = submitted(job, 4, OnceRoom)
    home = room[0]
    room.pass_time(3_000)
    assert room.running(job.id) == [home.name]
    ready = home.node.part(home.now_ms)
    home.save(ready)
    for word in ready.tell:
        home.keeper.hear(word)
    room.isolate(home)
    look, home.look = home.look, lambda: None
    for _ in range(60):
        room.look()
        room.pass_time(500)  # The room sees to it that one runs at a time.
        home.step(Tick(now_ms=home.now_ms))

    assert (home.state(job), home.job(job).reason) == ("lost", LEFT)
    assert len(room.starts) == 2
    assert room.running(job.id) != [home.name]
    if comes_back:
        for attempt in list(home.keeper.stopped & home.keeper.runs.keys()):
            home.keeper.end_one(attempt, 0)
        home.look = look
        room.cut.clear()
        room.dead.clear()
        home.start_agent()
        room.look()
        room.pass_time(6_000)
        assert room.running(job.id) != [home.name]
        assert "lost" not in {node.knows(job) for node in room.nodes[1:]}
        assert not any(node.keeper.stopped & node.keeper.runs.keys() for node in room.nodes[1:])


def test_what_waited_for_room_and_is_voted_on_by_others_does_not_wait_where_they_were_left():
    room, job = OnceRoom(3), once()
    room.pass_time(6_000)
    for node in room.nodes:
        fill(node)
    home = room[0]
    home.submit(job)
    room.settle()
    home.save(home.node.part(home.now_ms))

    assert home.state(job) == "lost"
    assert job.id not in home.node.host.line


def test_who_votes_and_whose_disk_is_full_does_not_write_the_end_down():
    job = once(voters=5)
    room = submitted(job, 7)
    voter = only_votes(room, room[0], job)
    voter.node.across.find_disk(is_full=True)
    room.finish(job)

    assert room[0].state(job) == "succeeded"
    assert voter.knows(job) == ""


def test_who_alone_votes_on_a_job_goes_on_with_it_alone():
    room, job = OnceRoom(2), once()
    room[0].submit(job)
    room.settle()
    room[0].save(room[0].node.part(room[0].now_ms))

    assert room[0].state(job) == "running"


def test_a_refused_start_is_refused_when_it_is_said_again():
    room, job = WatchedRoom(4), away()
    room.pass_time(6_000)
    home = room[0]
    home.submit(job)
    first = until_said(room, Start)
    host = room.by_id(first[1])
    for node in room.nodes:
        node.now_ms += 600
    home.step(Beat(now_ms=home.now_ms))
    again = until_said(room, Start)
    assert decode(again[2]).lease == decode(first[2]).lease
    for is_full, (sender, _, body) in ((True, first), (False, again)):
        host.node.across.find_disk(is_full=is_full)
        host.step(Told(now_ms=host.now_ms, peer=sender, message=decode(body)))

    answers = [one for to, one in host.sent if to == home.me and isinstance(one, Taken | NotTaken)]
    assert [type(one) for one in answers] == [NotTaken, NotTaken]
    room.pass_time(3_000)
    assert len(room.starts) == 1


def until_said(room: OnceRoom, kind: type):
    """The first of a kind, taken out of the post; what comes before it is delivered."""
    for _ in range(2_000):
        for node in room.nodes:
            node.pump()
        found = next((one for one in room.post if isinstance(decode(one[2]), kind)), None)
        if found is not None:
            room.post.remove(found)
            return found
        sender, to, body = room.post.popleft()
        node = room.by_id(to)
        node.step(Told(now_ms=node.now_ms, peer=sender, message=decode(body)))
    raise AssertionError


def test_who_has_another_home_by_now_confirms_nothing_that_it_had_not_told_its_voters():
    job, kept = away(), away("kept")
    room = submitted(job, 5)
    home = room[0]
    home.submit(kept)
    room.settle()
    room.pass_time(2_000)
    host = room.host(job)
    other = next(room.by_id(one) for one in home.job(job).guardians if room.by_id(one) is not host)
    before = home.node.across.guarding.find(job.id)
    room.losing = (Accept,)
    room.finish(job)
    room.finish(kept)
    room.pass_time(1_000)
    assert home.job(job).ending is not None
    version = Fence(Epoch(before.version.epoch.counter + 1, other.me), 1)
    taken = encode(msgspec.structs.replace(before, version=version))
    home.step(Told(now_ms=home.now_ms, peer=other.me, message=Copy(record=taken)))

    assert job.id not in home.node.coordinator.jobs
    assert home.said(Confirmed) == []
    room.losing = ()
    room.until(lambda: home.said(Confirmed), 30_000)
    assert {word.job for word in home.said(Confirmed)} == {kept.id}
