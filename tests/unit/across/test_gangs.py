"""A gang runs as a whole or not at all: held, committed, told to go, and ended together."""

import msgspec
import pytest

from distributed_grid.errors import NeverFits
from distributed_grid.kernel.across import gathering
from distributed_grid.kernel.across.hands import let_go, replace
from distributed_grid.kernel.elsewhere import Alone
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.node import Drain, Lend, Node
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch
from distributed_grid.model.job import Where
from distributed_grid.model.lending import Terms
from distributed_grid.model.resources import Resources
from distributed_grid.wire.across import Start
from distributed_grid.wire.gangs import (
    CommitHold,
    Committed,
    Held,
    Hold,
    NotHeld,
    ReleaseHold,
    Revoked,
)
from distributed_grid.wire.keeper import Ended, Stop, Usage
from tests.across_world import Room
from tests.builders import a_node
from tests.node_world import World, a_job, told
from tests.unit.across.filling import occupy
from tests.unit.across.gang_rooms import (
    LENDS,
    beats,
    lending,
    runs,
    stop_what_was_told,
    tell,
    uncommitted,
)


@pytest.fixture
def room() -> Room:
    return lending(Room(3))


def test_all_ranks_run_at_once_and_know_each_other(room):
    home = room[0]
    gang = a_job("gang", gang=5, cpus=2_000)
    home.submit(gang)
    beats(room)

    found = runs(room, gang)
    assert [run.env["GRID_RANK"] for run in found] == ["0", "1", "2", "3", "4"]
    assert {run.env["GRID_WORLD_SIZE"] for run in found} == {"5"}
    assert {run.env["GRID_ATTEMPT"] for run in found} == {"1"}
    (peers,) = {run.env["GRID_PEERS"] for run in found}
    (meeting,) = {run.env["GRID_RENDEZVOUS"] for run in found}
    first = home.job(gang).attempts[0].node
    assert peers.split(",")[0] == f"{first}.lan"
    assert meeting == f"{first}.lan:4711"
    assert len({run.attempt for run in found}) == 5
    assert home.state(gang) == "running"

    for node in room.nodes:
        node.drain()
    room.settle()
    assert home.state(gang) == "succeeded"
    assert all(node.node.ledger.leases == {} for node in room.nodes)


@pytest.mark.parametrize(
    ("place", "expected"),
    [(("fe80::1", 80), "[fe80::1]:80"), (("10.0.0.1", 80), "10.0.0.1:80"), (("", 0), None)],
)
def test_where_ranks_meet_is_told_as_programs_read_it(room, place, expected):
    for node in room.nodes:
        node.node.across.holds.meeting = lambda: place
    gang = a_job("gang", gang=2)
    room[0].submit(gang)
    beats(room)
    assert {run.env.get("GRID_RENDEZVOUS") for run in runs(room, gang)} == {expected}


def test_several_ranks_share_a_node(room):
    gang = a_job("gang", gang=4)
    room[0].submit(gang)
    beats(room)
    nodes = [attempt.node for attempt in room[0].job(gang).attempts]
    assert len(nodes) == 4
    assert len(set(nodes)) < 4


def test_of_a_node_no_more_ranks_are_asked_than_it_lends_now(room):
    busy = room[1]  # Its owner is at work: three of its four cores are free, and one is lent.
    busy.peer = {"lent": Resources(cpu_milli=1_000, memory_bytes=1 << 30)}
    room.look()
    gang = a_job("gang", gang=9)
    room[0].submit(gang)

    asked = {to: word.ranks for to, word in room[0].sent if isinstance(word, Hold)}
    assert asked == {busy.me: 1, room[2].me: 4}  # And four of itself.
    beats(room)
    assert len(runs(room, gang)) == 9


def test_a_gang_that_no_nodes_could_run_together_is_refused(room):
    with pytest.raises(NeverFits):
        room[0].submit(a_job("gang", gang=13))
    with pytest.raises(NeverFits):
        room[0].submit(a_job("picky", gang=2, require=Where(nodes=("nowhere",))))


def test_alone_there_are_no_gangs():
    with pytest.raises(NeverFits):
        World().submit(a_job("gang", gang=2))


@pytest.mark.rows("S0-64")
def test_no_process_starts_before_every_rank_is_taken(room):
    home = room[0]
    gang = a_job("gang", gang=12)
    home.submit(gang)
    last = room[2]
    room.cut.add((last.me, home.me))  # What it says is lost: Held, Committed, Taken.
    beats(room, 6)
    assert runs(room, gang) == []

    room.cut.clear()
    beats(room, 8)
    assert len(runs(room, gang)) == 12


def test_go_is_on_a_second_disk_before_anything_is_started(room, monkeypatch):
    home = room[0]
    guarding = home.node.across.guarding
    monkeypatch.setattr(guarding, "is_confirmed", lambda *_: False)
    gang = a_job("gang", gang=3)
    home.submit(gang)
    beats(room)
    assert home.job(gang).gang_go is not None
    assert home.said(Start) == []

    monkeypatch.undo()
    beats(room)
    assert len(runs(room, gang)) == 3


def test_a_rank_that_fails_ends_the_attempt_and_stops_the_others(room):
    home = room[0]
    gang = a_job("gang", gang=6, cpus=2_000)
    home.submit(gang)
    beats(room)
    first = next(node for node in room.nodes if node.keeper.runs)
    first.keeper.end_one(first.keeper.started[0], 7)
    room.settle()
    assert home.state(gang) == "running"
    assert sum(len(told(node, Stop)) for node in room.nodes) == 5

    stop_what_was_told(room)
    assert home.state(gang) == "failed"
    assert home.job(gang).exit_code == 7
    assert home.job(gang).reason.startswith("rank ")


def test_all_ranks_are_tried_again_together(room):
    home = room[0]
    gang = a_job("gang", gang=6, cpus=2_000, retries=1)
    home.submit(gang)
    beats(room)
    first = next(node for node in room.nodes if node.keeper.runs)
    first.keeper.end_one(first.keeper.started[0], 7)
    room.settle()
    beats(room)
    assert {run.env["GRID_ATTEMPT"] for run in runs(room, gang)} == {"1"}

    stop_what_was_told(room)
    beats(room, 8)
    found = runs(room, gang)
    assert len(found) == 6
    assert {run.env["GRID_ATTEMPT"] for run in found} == {"2"}


def test_a_rank_whose_node_dies_ends_the_attempt(room):
    home = room[0]
    gang = a_job("gang", gang=4, cpus=2_000)
    home.submit(gang)
    beats(room)
    victim = next(node for node in room.nodes[1:] if node.keeper.runs)
    room.kill(victim)
    stop_what_was_told(room)
    beats(room, 10)

    job = home.job(gang)
    assert job.losses == 1
    assert {attempt.number for attempt in job.live_attempts} == {2}
    assert victim.name not in {attempt.node for attempt in job.live_attempts}

    room.revive(victim)
    beats(room)
    assert {attempt.number for attempt in job.live_attempts} == {2}


@pytest.mark.rows("S0-65")
def test_a_cancelled_gang_is_stopped_everywhere(room):
    home = room[0]
    gang = a_job("gang", gang=6, cpus=2_000)
    home.submit(gang)
    beats(room)
    home.cancel(gang)
    room.settle()
    stop_what_was_told(room)
    assert home.state(gang) == "cancelled"
    assert all(node.node.ledger.leases == {} for node in room.nodes)


def test_a_gang_cancelled_while_it_gathers_gives_back_what_is_kept(room):
    home = room[0]
    occupy(room[2])
    room.look()
    gang = a_job("gang", gang=12)
    home.submit(gang)
    beats(room, 2)
    assert any(node.node.across.holds.leases for node in room.nodes)
    assert any("of 4 ranks" in word for word in home.node.across.obstacles(gang.id))
    home.cancel(gang)
    beats(room, 2)
    assert all(node.node.across.holds.leases == {} for node in room.nodes)
    assert home.node.across.obstacles(gang.id) == ()


def test_a_home_that_starts_again_without_go_gives_everything_back(room, monkeypatch):
    gang = uncommitted(room, monkeypatch)
    monkeypatch.undo()
    room[0].start_agent()
    beats(room, 12)
    found = runs(room, gang)
    assert len(found) == 12
    assert {run.env["GRID_ATTEMPT"] for run in found} == {"2"}


def test_a_home_that_starts_again_with_go_continues(room):
    home = room[0]
    gang = a_job("gang", gang=12)
    home.submit(gang)
    room.cut |= {(home.me, room[1].me)}
    room.pass_time(500)
    room.look()
    room.cut.clear()
    while not home.said(Start):
        room.pass_time(500)
        room.look()
    home.start_agent()
    beats(room, 6)
    assert len(runs(room, gang)) == 12
    assert {run.env["GRID_ATTEMPT"] for run in runs(room, gang)} == {"1"}


def test_a_rank_that_waits_for_its_go_survives_a_restart_of_its_node(room):
    home, owner = room[0], room[1]
    gang = a_job("gang", gang=12)
    home.submit(gang)
    room.cut.add((room[2].me, home.me))
    beats(room, 2)
    room.cut.clear()
    for _ in range(20):
        room.pass_time(500)
        if any(
            attempt.is_held
            for job in owner.node.coordinator.jobs.values()
            for attempt in job.attempts
        ):
            break
    owner.start_agent()
    beats(room, 10)
    assert isinstance(owner.node, Node)
    assert len(runs(room, gang)) == 12


def test_what_nobody_asked_for_is_given_back(room):
    home = room[0]
    offered = Held(job=a_job("gone").id, epoch=Epoch(), leases=())
    (word,) = tell(home, room[1].me, offered)
    assert isinstance(word, ReleaseHold)
    assert tell(home, room[1].me, Revoked(job=a_job("gone").id, epoch=Epoch())) == []
    no = NotHeld(job=a_job("gone").id, epoch=Epoch(), reasons=("x",))
    assert tell(home, room[1].me, no) == []


def test_old_answers_change_nothing(room, monkeypatch):
    home = room[0]
    gang = uncommitted(room, monkeypatch)
    epoch = home.job(gang).epoch
    old = Committed(job=gang.id, epoch=epoch, attempt=0)
    tell(home, room[2].me, old)
    tell(home, room[2].me, msgspec.structs.replace(old, job=a_job("gone").id))
    tell(home, room[2].me, Held(job=gang.id, epoch=epoch, leases=()))
    assert home.job(gang).gang_go is None

    monkeypatch.undo()
    beats(room, 6)
    assert len(runs(room, gang)) == 12


@pytest.mark.parametrize("left", [0, 11])
def test_a_gang_of_which_ranks_have_ended_meanwhile_does_not_go(room, monkeypatch, left):
    home = room[0]
    job = home.job(uncommitted(room, monkeypatch))
    for attempt in job.attempts[left:]:
        attempt.state = "ended"
    for owner in room.nodes:
        yes = Committed(job=job.spec.id, epoch=job.epoch, attempt=job.attempts_made)
        home.node.across.gangs.committed(owner.me, yes, home.now_ms, Ready())

    assert job.gang_go is None


def test_a_node_that_says_no_is_asked_again_later(room):
    home = room[0]
    room[2].step(Lend(now_ms=room[2].now_ms, terms=Terms(is_enabled=False)))
    gang = a_job("gang", gang=12)
    home.submit(gang)
    beats(room, 2)
    assert any("does not lend" in word for word in home.node.across.obstacles(gang.id))
    room[2].step(Lend(now_ms=room[2].now_ms, terms=LENDS))
    beats(room, 24)
    assert len(runs(room, gang)) == 12


def test_a_commit_that_is_refused_ends_the_attempt_before_anything_ran(room, monkeypatch):
    home, owner = room[0], room[2]
    gang = uncommitted(room, monkeypatch)
    monkeypatch.undo()
    no = NotHeld(job=gang.id, epoch=home.job(gang).epoch, reasons=("it is not kept here",))
    tell(home, owner.me, no)
    beats(room, 30)
    found = runs(room, gang)
    assert len(found) == 12
    assert {run.env["GRID_ATTEMPT"] for run in found} == {"2"}
    assert home.job(gang).losses == 0


def test_a_drained_home_takes_no_rank_of_its_own_gang(room):
    home = room[0]
    home.step(Drain(now_ms=home.now_ms))
    with pytest.raises(NeverFits):
        home.submit(a_job("large", gang=9))
    gang = a_job("gang", gang=8)
    home.submit(gang)
    beats(room)
    assert {attempt.node for attempt in home.job(gang).attempts} == {"node-2", "node-3"}


def test_other_work_elsewhere_is_no_gang(room):
    home = room[0]
    occupy(home)
    single = a_job("single")
    home.submit(single)
    beats(room)
    assert home.job(single).live_attempts[0].node != home.name
    assert home.node.across.gangs._going == {}


def test_a_node_is_full_when_its_ranks_fill_it():
    assert gathering.after_ranks(a_node(cpus=2), a_job("gang"), 5).free.cpu_milli == 0


def test_ranks_that_are_lost_with_the_mesh_end_when_the_last_is(room):
    home = room[0]
    gang = a_job("gang", gang=12, losses_max=0)
    home.submit(gang)
    beats(room)
    home.save(home.node.part(home.now_ms))
    assert home.state(gang) == "lost"


def test_nothing_is_said_again_before_it_could_be_answered(room, monkeypatch):
    home = room[0]
    uncommitted(room, monkeypatch)
    before = len(home.said(CommitHold))
    room.pass_time(100)
    assert len(home.said(CommitHold)) == before
    room.pass_time(500)
    assert len(home.said(CommitHold)) == before + 1


def test_without_other_nodes_the_last_rank_that_is_over_decides():
    attempt = Attempt(number=1, lease="a", node="gone", granted_ms=0)
    job = Job(spec=a_job("gang", gang=2), submitted_ms=0, attempts=[attempt])
    end = Ended(
        number=0, attempt="b", how="lost", code=125, started_ms=0, ended_ms=0, usage=Usage()
    )
    assert Alone().rank_ended(job, attempt, end, Ready()) is None
    attempt.state = "ended"
    assert Alone().rank_ended(job, attempt, end, Ready()) == end


def test_a_start_is_said_again_to_those_only_who_have_not_taken_it(room, monkeypatch):
    home, slow = room[0], room[2]
    monkeypatch.setattr(slow.node.across.holds, "start", lambda *_: True)
    gang = a_job("gang", gang=12)
    home.submit(gang)
    beats(room)
    home.sent.clear()
    beats(room, 2)
    assert {to for to, word in home.sent if isinstance(word, Start)} == {slow.me}
    assert runs(room, gang) == []

    monkeypatch.undo()
    beats(room, 2)
    assert len(runs(room, gang)) == 12


def test_a_gang_that_another_home_decides_is_not_talked_about_any_more(room, monkeypatch):
    home = room[0]
    gang = uncommitted(room, monkeypatch)
    job = home.job(gang)
    let_go(home.node.coordinator, job, Ready())
    home.sent.clear()
    room.pass_time(2_000)
    assert home.said(CommitHold) == []
    assert home.node.across.gangs._going == {}


def test_a_gang_that_has_ended_elsewhere_is_not_talked_about_any_more(room, monkeypatch):
    home = room[0]
    gang = uncommitted(room, monkeypatch)
    job = home.job(gang)
    for attempt in job.live_attempts:
        replace(home.node.coordinator, job, attempt, home.now_ms, Ready())
    home.node.coordinator.end(job, "cancelled", home.now_ms, Ready())
    home.sent.clear()
    room.pass_time(2_000)
    assert home.said(CommitHold) == []
    assert home.node.across.gangs._going == {}
