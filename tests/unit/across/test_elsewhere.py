"""A job that finds no room at home runs on another node, once, and its end is known at home."""

import msgspec
import pytest

from distributed_grid.errors import NeverFits
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Told
from distributed_grid.model.job import Array, Where, Work
from distributed_grid.wire.across import (
    Confirmed,
    Granted,
    Halt,
    NotGranted,
    NotTaken,
    Poll,
    Report,
    Reserve,
    Start,
    Waiting,
    Withdrawn,
)
from distributed_grid.wire.job_lane import decode, encode
from distributed_grid.wire.keeper import Run, Stop
from tests.across_world import Room
from tests.node_world import a_job, fill, told

BIG = a_job("big", cpus=4_000)
ONE_CORE = Inventory(cores=((0, 0),), cpu_milli=1_000, memory_bytes=1 << 30)


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def busy(room):
    """A home without room, and a neighbour with."""
    fill(room[0])
    return room


def test_a_job_that_fits_at_home_asks_nobody(room):
    room[0].submit(a_job("small"))
    room.settle()

    assert room[0].said(Reserve) == []
    assert len(room[0].keeper.runs) == 1


@pytest.mark.rows("S0-75")
def test_a_job_without_room_at_home_runs_where_there_is(busy):
    home, host = busy.nodes
    job = a_job("job", work=Work(argv=("echo", "hello"), cwd="/home/me"))
    home.submit(job)
    busy.settle()

    (run,) = told(host, Run)
    assert run.argv == ("echo", "hello")
    assert run.env["GRID_JOB_ID"] == job.id
    assert home.state(job) == "running"
    assert home.job(job).attempts[-1].node == "node-2"

    host.keeper.end_one(run.attempt, 3)
    busy.settle()
    assert (home.state(job), home.job(job).exit_code) == ("failed", 3)
    assert host.node.ledger.leases == {}
    assert len(home.said(Confirmed)) == 1


def test_the_own_line_counts_as_one_of_two_that_are_asked():
    room = Room(5)
    fill(room[0])
    for node in room.nodes[1:]:
        fill(node)
    room.look()
    job = a_job("job")
    room[0].submit(job)
    room.settle()

    assert len(room[0].said(Reserve)) == 1
    assert sum(len(node.said(Waiting)) for node in room.nodes) == 1


def test_who_gets_room_at_home_gives_up_its_place_elsewhere(busy):
    home, host = busy.nodes
    fill(host)
    busy.look()
    job = a_job("job")
    home.submit(job)
    busy.settle()
    assert len(host.node.host.line) == 1

    home.keeper.end_one(home.keeper.started[0], 0)
    busy.settle()
    assert len(home.said(Withdrawn)) == 1
    assert len(host.node.host.line) == 0
    assert home.job(job).live_attempts[0].host == ""


def test_a_job_larger_than_home_runs_elsewhere_and_one_too_large_for_all_is_refused():
    room = Room(2, ONE_CORE)
    room[0].submit(BIG)
    room.settle()
    assert room[0].job(BIG).attempts[-1].node == "node-2"

    with pytest.raises(NeverFits):
        room[0].submit(a_job("huge", cpus=5_000))


def test_a_required_node_is_the_only_one_and_an_avoided_one_is_none(room):
    there = a_job("there", require=Where(nodes=("node-2",)))
    here = a_job("here", avoid=Where(nodes=("node-2",)))
    room[0].submit(there, here)
    room.settle()

    assert room[0].job(there).attempts[-1].node == "node-2"
    assert room[0].job(here).attempts[-1].node == "node-1"
    with pytest.raises(NeverFits, match="wants it: node attic"):
        room[0].submit(a_job("nowhere", require=Where(nodes=("attic",))))


def test_a_node_that_does_not_lend_says_why_and_another_is_asked():
    room = Room(3)
    fill(room[0])
    first = a_job("first")
    room[0].submit(first)
    room.settle()
    asked = room.by_id(room[0].sent[0][0])
    terms = asked.node.host.lending.terms
    asked.node.host.lending.set_terms(msgspec.structs.replace(terms, is_enabled=False))
    second = a_job("second", require=Where(nodes=(asked.name,)))
    room[0].submit(second)
    room.settle()

    (refusal,) = asked.said(NotGranted)
    assert refusal.reasons == ("this node does not lend",)
    assert room[0].state(second) == "waiting"


@pytest.mark.rows("S0-63")
def test_an_array_is_handed_out_in_chunks_to_every_node():
    room = Room(3)
    array = a_job("array", array=Array(start=0, stop=300))
    room[0].submit(array)
    room.settle()

    assert {attempt.node for attempt in room[0].job(array).live_attempts} == {
        "node-1",
        "node-2",
        "node-3",
    }
    indices = [one for attempt in room[0].job(array).live_attempts for one in attempt.indices]
    assert len(indices) == len(set(indices))
    for _ in range(5_000):
        if room[0].job(array).has_ended:
            break
        for node in room.nodes:
            for attempt in list(node.keeper.started):
                node.keeper.end_one(attempt, 0)
        room.settle()
    assert room[0].state(array) == "succeeded"
    assert all(not node.node.ledger.leases for node in room.nodes)


def test_a_chunk_of_a_list_of_indices_runs_where_lists_are_not_known(busy):
    home, _ = busy.nodes
    array = a_job("array", array=Array(parts=((27, 28, 1), (47, 48, 1), (60, 70, 1)), width=2))
    home.submit(array)
    busy.settle()

    told = [*home.said(Reserve), *home.said(Start)]
    assert {word.spec.array for word in told} == {Array(stop=12, width=2)}
    assert home.said(Start)[0].indices[:2] == (27, 47)


def test_who_has_run_its_chunks_of_an_array_gets_the_next_at_once():
    room = Room(2)
    array = a_job("array", array=Array(start=0, stop=1_000))
    room[0].submit(array)
    room.settle()
    first = set(room[1].keeper.started)
    assert len(first) == 4, "all cores of an idle machine are lent"
    while first & set(room[1].keeper.started):
        for attempt in list(room[1].keeper.started):
            room[1].keeper.end_one(attempt, 0)
        room.settle()

    away = [one for one in room[0].job(array).live_attempts if one.node == "node-2"]
    assert len(away) == len(room[1].keeper.started) == 4


def test_cancelling_reaches_the_other_node(busy):
    home, host = busy.nodes
    job = a_job("job")
    home.submit(job)
    busy.settle()
    home.cancel(job)
    busy.settle()

    assert len(home.said(Halt)) == 1
    (stop,) = told(host, Stop)
    host.keeper.end_one(stop.attempt, 0)
    busy.settle()
    assert home.state(job) == "cancelled"


def test_a_dead_node_loses_its_attempt_and_the_job_runs_again(busy):
    room = Room(3)
    home = room[0]
    fill(home)
    job = a_job("job")
    home.submit(job)
    room.settle()
    first = room.by_id(home.job(job).live_attempts[0].host)
    room.kill(first)

    again = home.job(job).live_attempts[0]
    assert again.host not in ("", first.me)
    assert home.job(job).losses == 1


def test_a_grant_that_is_not_used_ends_after_five_seconds(busy):
    home, host = busy.nodes
    busy.cut.add((host.me, home.me))
    home.submit(a_job("job"))
    busy.settle()
    assert len(host.node.ledger.leases) == 1
    assert len(host.said(Granted)) == 1

    busy.pass_time(6_000)
    assert len(host.said(Granted)) >= 1
    busy.cut.clear()
    busy.pass_time(6_000)
    assert len(host.node.ledger.leases) <= 1


def test_who_asks_after_a_grant_that_it_never_used_gives_it_back(busy):
    home, host = busy.nodes
    busy.cut.add((host.me, home.me))
    home.submit(a_job("job"))
    busy.settle()
    (grant,) = host.said(Granted)
    poll = Poll(job=grant.job, epoch=grant.epoch, lease=grant.lease)
    ready = host.step(Told(now_ms=host.now_ms, peer=home.me, message=poll))

    assert [type(one) for _, one in ready.send] == [NotTaken]
    assert grant.lease not in host.node.ledger.leases


def test_a_start_is_repeated_until_it_is_answered_and_starts_one_process(busy):
    home, host = busy.nodes
    home.submit(a_job("job"))
    while not host.said(Granted):
        source, target, body = busy.post.popleft()
        busy.by_id(target).step(Told(now_ms=1_000, peer=source, message=decode(body)))
    busy.cut.add((home.me, host.me))
    busy.settle()
    assert len(home.said(Start)) == 1
    busy.cut.clear()
    busy.pass_time(1_000)

    assert len(home.said(Start)) >= 2
    assert len(told(host, Run)) == 1


def test_an_end_is_told_until_it_is_confirmed_and_counts_once(busy):
    home, host = busy.nodes
    job = a_job("job", retries=1)
    home.submit(job)
    busy.settle()
    busy.cut.add((home.me, host.me))
    host.keeper.end_one(host.keeper.started[0], 1)
    busy.settle()
    busy.pass_time(3_000)

    assert len(host.said(Report)) >= 3
    assert home.job(job).failures == 1


def test_an_older_attempt_that_comes_back_is_kept_and_the_newer_one_is_stopped():
    room = Room(3)
    home = room[0]
    fill(home)
    job = a_job("job")
    home.submit(job)
    room.settle()
    first = room.by_id(home.job(job).live_attempts[0].host)
    room.dead.add((home.me, first.me))
    room.look()
    second = room.by_id(home.job(job).live_attempts[0].host)
    assert second is not first

    room.dead.clear()
    room.look()
    assert home.job(job).live_attempts[0].host == first.me
    assert len(told(second, Stop)) == 1
    first.keeper.end_one(first.keeper.started[0], 0)
    room.settle()
    assert home.state(job) == "succeeded"


def test_a_restarted_home_asks_after_what_runs_elsewhere(busy):
    home, host = busy.nodes
    job = a_job("job")
    home.submit(job)
    busy.settle()
    home.is_up = False
    host.keeper.end_one(host.keeper.started[0], 0)
    busy.settle()
    home.is_up = True
    home.start_agent()
    busy.look()
    busy.pass_time(2_000)

    assert home.state(job) == "succeeded"


def test_a_preferred_node_is_asked_first_and_home_serves_when_it_is_full(room):
    home, other = room.nodes
    first = a_job("first", cpus=4_000, prefer=Where(nodes=("node-2",)))
    second = a_job("second", prefer=Where(nodes=("node-2",)))
    home.submit(first)
    room.look()
    home.submit(second)
    room.look()

    assert home.job(first).attempts[-1].node == other.name
    assert home.job(second).attempts[-1].node == home.name


def test_of_the_environment_only_what_was_named_leaves_the_machine(busy):
    home, host = busy.nodes
    env = {"SECRET": "of mine", "GIVEN": "to all"}
    job = a_job("job", work=Work(argv=("env",), cwd="/home/me", env=env, told=("GIVEN",)))
    home.submit(job)
    busy.settle()

    assert all(b"of mine" not in encode(message) for _, message in home.sent)
    (run,) = told(host, Run)
    assert (run.env["GIVEN"], "SECRET" in run.env) == ("to all", False)
    assert run.cwd == run.scratch_dir


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (dict(require=Where(classes=("edge",), labels=(("room", "attic"),))), "class edge, label room=attic"),
        (dict(avoid=Where(nodes=("node-1", "node-2"))), "not node node-1, not node node-2"),
        (dict(gang=9), "a gang of 9"),
        (dict(features=("avx9",)), "its other wishes"),
    ],
)  # fmt: skip
def test_who_wants_a_node_that_is_not_there_is_told_which(room, wishes, said):
    with pytest.raises(NeverFits, match=f"wants it: {said}"):
        room[0].submit(a_job("picky", **wishes))


def test_what_came_together_is_one_step(busy):
    """As much as was said one after the other, with one record of each job for all of it."""
    room = busy
    jobs = [a_job(f"one of {number}") for number in range(3)]
    room[0].submit(*jobs)
    while room.post:
        words = [(source, decode(body)) for source, to, body in room.post if to == room[1].me]
        back = [(source, decode(body)) for source, to, body in room.post if to == room[0].me]
        room.post.clear()
        for node, said in ((room[1], words), (room[0], back)):
            if said:
                (peer, message), *more = said
                node.step(Told(now_ms=1, peer=peer, message=message, more=tuple(more)))
            node.pump()

    assert {room[0].state(job) for job in jobs} == {"running"}
