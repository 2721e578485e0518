"""Machines of one person: their jobs are the owner's own on each of them; and nobody gives way for
a job that runs elsewhere."""

import msgspec
import pytest

from distributed_grid.kernel.across.entries import Asked
from distributed_grid.kernel.across.guests import guest_spec
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.wish import ANSWER_MS
from distributed_grid.kernel.node import Lend, Sampled, Told
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array, Where
from distributed_grid.model.lending import Sample, Terms, Thresholds
from distributed_grid.wire.across import Granted, Idle, Reserve, Start, Waiting
from distributed_grid.wire.keeper import Preempt
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told

NOTHING = Terms(is_enabled=False)
ALL = Terms(reserved_memory_bytes=0, policy="aggressive", thresholds=Thresholds(cpu_min_milli=0))


def lends(who: Neighbour, terms: Terms) -> None:
    who.step(Lend(now_ms=who.now_ms, terms=terms))


def one_persons(*who: Neighbour) -> None:
    for one in who:
        one.peer["is_own"] = True
    who[0].room.look()


def busy(who: Neighbour) -> None:
    """The owner's own programs use all of it."""
    sample = Sample(
        at_ms=who.now_ms, local_minute=0, cpu_total_milli=4_000, cpu_used_milli=4_000,
        memory_total_bytes=1 << 40, memory_used_bytes=1 << 40, storage_free_bytes=1 << 40,
    )  # fmt: skip
    who.step(Sampled(now_ms=who.now_ms, sample=sample))


def gave_way(who: Neighbour) -> list[str]:
    return [word.attempt for word in told(who, Preempt)]


@pytest.mark.parametrize(
    "wish", [{}, {"is_shared": True}, {"priority": "urgent"}, {"array": Array(start=0, stop=3)}]
)
def test_a_job_of_mine_takes_what_is_free_on_my_machine_that_lends_nothing(wish):
    room = Room(2)
    home, mine = room.nodes
    one_persons(home, mine)
    fill(home)
    lends(mine, NOTHING)
    busy(mine)
    job = a_job("job", **wish)
    home.submit(job)
    room.settle()
    guests = [one for one in mine.node.coordinator.jobs.values() if one.is_guest]

    assert home.state(job) == "running"
    assert guests
    assert not any(one.spec.is_shared for one in guests)
    assert mine.node.host.borrowers == ()
    lends(mine, msgspec.structs.replace(NOTHING, is_enabled=True))
    busy(mine)
    room.pass_time(60_000)
    assert gave_way(mine) == []  # It is no borrowed work, however busy the owner is.


def test_a_job_of_another_person_waits_there_as_it_did_before():
    room = Room(2)
    home, other = room.nodes
    fill(home)
    lends(other, NOTHING)
    job = a_job("job")
    home.submit(job)
    room.settle()

    assert home.state(job) == "waiting"
    assert "this node does not lend" in str(home.node.across.obstacles(job.id))


def test_my_idle_machine_offers_mine_what_it_lends_nobody():
    room = Room(2)
    home, mine = room.nodes
    one_persons(home, mine)
    lends(mine, NOTHING)
    fill(home)
    room.cut.add((home.me, mine.me))  # What it asks is lost; what it is asked, it hears.
    job = a_job("job")
    home.submit(job)
    room.settle()
    room.cut.clear()
    home.peer["jobs_waiting"] = 1
    mine.look()
    room.until(lambda: home.state(job) == "running", within_ms=5_000)

    assert mine.said(Idle)[0].cpu_milli == 4_000
    assert mine.said(Granted)[0].number == 0  # Nobody had asked for it.


def test_my_machine_offers_others_no_more_than_it_lends():
    room = Room(2)
    home, other = room.nodes
    lends(other, NOTHING)
    fill(home)
    home.submit(a_job("job"))
    home.peer["jobs_waiting"] = 1
    room.look()
    room.pass_time(5_000)

    assert other.said(Idle) == []


def test_what_my_machine_took_over_from_others_only_borrows_on_mine():
    mine = Peer(id=NodeId("a" * 64), name="mine", is_own=True)
    taken_over = a_job("job", user="bob@box", is_shared=True)

    assert guest_spec(taken_over, mine).is_shared
    assert not guest_spec(a_job("job", user="ada", is_shared=True), mine).is_shared
    assert not guest_spec(a_job("job", user="ada@laptop"), mine).is_shared


# Nobody gives way in vain


@pytest.fixture
def room() -> Room:
    """A node full of another's work, its own user, and a third node."""
    room = Room(3)
    for one in room.nodes:
        lends(one, ALL)
    room.look()
    owner, guest, _ = room.nodes
    for number in range(4):
        guest.submit(a_job(f"guest-{number}", require=Where(nodes=(owner.name,))))
    room.settle()
    assert len(owner.node.host.borrowers) == 4
    room.look()
    return room


def test_no_guest_gives_way_for_a_job_that_runs_elsewhere(room):
    owner, _, third = room.nodes
    job = a_job("job", cpus=4_000)
    owner.submit(job)
    room.settle()
    room.pass_time(5_000)

    assert owner.job(job).live_attempts[0].node != owner.name
    assert gave_way(owner) == []
    assert third.said(Waiting) == []


def test_guests_give_way_once_the_others_have_said_no(room):
    owner, guest, third = room.nodes
    for one in (guest, third):
        fill(one)  # Which its owner does not know yet.
    job = a_job("job", cpus=4_000)
    owner.submit(job)
    assert gave_way(owner) == []
    room.settle()
    room.pass_time(ANSWER_MS)

    assert len(gave_way(owner)) == 4


def test_guests_give_way_at_once_to_what_can_run_nowhere_else(room):
    owner = room[0]
    owner.submit(a_job("job", cpus=4_000, require=Where(nodes=(owner.name,))))

    assert len(gave_way(owner)) == 4


def test_no_guest_gives_way_before_those_who_seem_full_are_asked(room):
    owner, *others = room.nodes
    full = {one: a_job(one.name, cpus=4_000, require=Where(nodes=(one.name,))) for one in others}
    for one, filling in full.items():
        one.submit(filling)
    room.settle()
    room.look()
    for one, filling in full.items():
        one.end(filling)  # Which the owner does not know yet.
    job = a_job("job", cpus=4_000)
    owner.submit(job)
    room.settle()

    assert owner.job(job).live_attempts[0].node != owner.name
    assert gave_way(owner) == []


@pytest.mark.parametrize("full", [1, 2])
def test_no_guest_gives_way_because_the_first_who_is_asked_is_full(room, full):
    owner = room[0]
    fill(room[full])  # Which the owner does not know yet.
    job = a_job("job", cpus=4_000)
    owner.submit(job)
    room.settle()
    room.pass_time(1_500)

    assert owner.job(job).live_attempts[0].node == room[3 - full].name
    assert gave_way(owner) == []


def test_guests_give_way_when_nobody_answers(room):
    owner, guest, third = room.nodes
    for one in (guest, third):
        room.cut.add((one.me, owner.me))
    owner.submit(a_job("job", cpus=4_000))
    room.settle()
    assert gave_way(owner) == []
    room.pass_time(ANSWER_MS + 1_000)

    assert len(gave_way(owner)) == 4


def test_a_job_for_which_others_give_way_starts_nowhere_else(room):
    owner, guest, third = room.nodes
    for one in (guest, third):
        fill(one)
    room.look()
    job = a_job("job", cpus=4_000)
    owner.submit(job)
    room.settle()
    room.pass_time(500)
    assert job.id in owner.node.host.awaited
    for one in (guest, third):  # There is room elsewhere before the guests have left.
        for attempt in list(one.keeper.started):
            one.keeper.end_one(attempt, 0)
    room.settle()
    granted = [word for one in (guest, third) for word in one.said(Granted)]
    assert any(word.job == job.id for word in granted)
    assert owner.state(job) == "waiting"
    for attempt in gave_way(owner):
        owner.keeper.end_one(attempt, 0)
    room.settle()
    assert [one.node for one in owner.job(job).attempts] == [owner.name]


# What was lent to others gives way to the owner's own from another machine, too


def lent_out(room: Room) -> tuple[Neighbour, Neighbour]:
    """A machine of mine that is full of another's work, and the one where I sit."""
    home, mine, other = room.nodes
    lends(mine, ALL)
    room.look()
    for number in range(4):
        other.submit(a_job(f"lent-{number}", require=Where(nodes=(mine.name,))))
    room.settle()
    assert len(mine.node.host.borrowers) == 4
    for one in (home, mine):
        one.peer["is_own"] = True
    room.look()
    return home, mine


def test_my_job_that_can_run_nowhere_else_is_given_way_to_on_my_machine():
    room = Room(3)
    home, mine = lent_out(room)
    job = a_job("job", cpus=2_000, require=Where(nodes=(mine.name,)))
    home.submit(job)
    room.settle()
    room.until(lambda: gave_way(mine), within_ms=5_000)
    assert len(gave_way(mine)) == 2
    assert "others to give way" in str(home.node.across.obstacles(job.id))
    for attempt in gave_way(mine):
        mine.keeper.end_one(attempt, 0)
    room.settle()

    assert home.job(job).live_attempts[0].node == mine.name


def test_my_job_that_waits_in_other_lines_too_evicts_nobody_on_my_machine():
    room = Room(3)
    home, mine = lent_out(room)
    fill(home)
    job = a_job("job", cpus=4_000)
    home.submit(job)
    room.settle()
    room.pass_time(15_000)

    assert home.state(job) == "waiting" or home.job(job).live_attempts[0].node != mine.name
    assert gave_way(mine) == []


def test_a_job_for_which_my_machine_is_cleared_starts_nowhere_else():
    room = Room(3)
    home, mine = lent_out(room)
    job = a_job("job", cpus=2_000, require=Where(nodes=(mine.name,)))
    home.submit(job)
    room.until(lambda: gave_way(mine), within_ms=5_000)
    room.settle()
    number = home.said(Reserve)[-1].number
    word = Granted(job=job.id, epoch=home.job(job).epoch, number=number, lease="late")
    home.step(Told(now_ms=home.now_ms, peer=room[2].me, message=word))
    room.pass_time(12_000)  # It refreshes its place in the line, and asks nobody else.

    assert home.state(job) == "waiting"
    assert home.said(Start) == []
    for attempt in gave_way(mine):
        mine.keeper.end_one(attempt, 0)
    room.settle()
    assert [one.node for one in home.job(job).attempts] == [mine.name]


def test_who_stands_in_another_line_now_is_not_given_way_to_any_more():
    room = Room(3)
    home, mine, _ = room.nodes
    one_persons(home, mine)
    fill(mine)
    job = a_job("job", cpus=2_000, require=Where(nodes=(mine.name,)))
    home.submit(job)
    room.pass_time(2_000)
    host = mine.node.host

    def entry():
        return next(one for one in host.line.order(mine.now_ms, host.accounts) if job.id in one.job)

    assert entry().may_evict
    asked = home.node.across.asking.wish(job.id).asked
    asked[room[2].me] = Asked(0, home.now_ms, position=1)
    room.pass_time(1_000)
    assert not entry().may_evict
    assert gave_way(mine) == []
