"""A member that lies about jobs: its words change nothing that is not its own, one by one."""

import msgspec
import pytest

from distributed_grid.kernel.across.guests import SLOT_MILLI
from distributed_grid.kernel.across.holds import LOOKED_MAX, VICTIMS_MAX
from distributed_grid.kernel.across.hosting import SEEN_MAX
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_parts import encode as part
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.speakers import RULES
from distributed_grid.kernel.host import GRANTS_MAX
from distributed_grid.kernel.node import Beat, Submit, Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.job import Array, Where
from distributed_grid.model.resources import Request
from distributed_grid.wire.across import (
    AcrossMessage,
    Begun,
    Copy,
    Granted,
    Halt,
    Holding,
    Inquiry,
    NotTaken,
    Poll,
    Report,
    Reserve,
    Start,
    Taken,
    Withdrawn,
)
from distributed_grid.wire.gangs import CommitHold, GangMessage, Go, Hold
from distributed_grid.wire.keeper import Ended, Usage
from distributed_grid.wire.register import (
    Accept,
    Member,
    Prepare,
    RegisterMessage,
    Standing,
    Written,
)
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill
from tests.unit.across.gang_rooms import lending
from tests.unit.across.once_room import OnceRoom, away, once
from tests.unit.across.test_roles import ROLES

HIGH = 1 << 40


def say(node: Neighbour, liar: Neighbour, *messages) -> list:
    """Tell a node something; what it answers to that one."""
    answers = []
    for message in messages:
        ready = node.step(Told(now_ms=node.now_ms, peer=liar.me, message=message))
        answers += [word for to, word in (*ready.ask, *ready.send) if to == liar.me]
    return answers


def ended(lease: str, code: int = 1, index: int = -1, how: str = "exited") -> Ended:
    return Ended(
        number=1, attempt=lease, how=how, code=code, started_ms=1, ended_ms=2, index=index,
        usage=Usage(),
    )  # fmt: skip


def running(count: int = 5, role: str = "member"):
    """A job of the first node that runs on the second; the last is the liar."""
    room = Room(count)
    room[count - 1].peer |= ROLES[role]
    room.look()
    job = a_job("job", require=Where(nodes=("node-2",)))
    room[0].submit(job)
    room.settle()
    (start,) = room[0].said(Start)
    assert room[0].state(job) == "running"
    return room, job, start


def test_every_message_of_the_lane_stands_in_the_table():
    kinds = (*AcrossMessage.__args__, *GangMessage.__args__, *RegisterMessage.__args__)

    assert set(RULES) == set(kinds)


# What is said about attempts


@pytest.mark.parametrize("role", ROLES)
def test_a_word_about_an_attempt_counts_only_from_who_runs_it(role):
    room, job, start = running(role=role)
    home, liar = room[0], room[4]
    before = encode(home.node.across.guarding.find(job.id))
    said = say(
        home,
        liar,
        NotTaken(job=job.id, lease=start.lease, why="lost"),
        Report(job=job.id, lease=start.lease, first=0, ends=(ended(start.lease),)),
        Report(job=job.id, lease=start.lease, first=1 << 30, ends=()),
        Begun(job=job.id, lease=start.lease, pid=1, at_ms=1, suspended="it lies"),
        Taken(job=job.id, lease=start.lease),
    )

    assert said == []
    assert home.state(job) == "running"
    assert encode(home.node.across.guarding.find(job.id)) == before
    room.settle()
    host = room[1]
    host.keeper.end_one(start.lease, 0)
    room.settle()
    assert home.state(job) == "succeeded"


def test_a_start_is_said_again_though_somebody_else_says_that_it_was_taken():
    room = Room(3)
    job = a_job("job", require=Where(nodes=("node-2",)))
    fill(room[1])
    room[0].submit(job)
    room.settle()
    asked = room[0].said(Reserve)[-1]
    grant = Granted(job=job.id, epoch=asked.epoch, number=asked.number, lease="x")
    room.cut.add((room[0].me, room[1].me))
    (start,) = (word for word in say(room[0], room[1], grant) if isinstance(word, Start))
    say(room[0], room[2], Taken(job=job.id, lease=start.lease))

    assert room[0].node.across.asking.starting.keys() == {"x"}


def test_ends_of_indices_that_a_chunk_does_not_have_are_passed_over():
    room = Room(2)
    fill(room[0])
    job = a_job("job", array=Array(start=0, stop=2), require=Where(nodes=("node-2",)))
    room[0].submit(job)
    room.settle()
    start = room[0].said(Start)[0]
    lie = Report(job=job.id, lease=start.lease, first=0, ends=(ended(start.lease, index=9),))
    say(room[0], room[1], lie)

    assert room[0].state(job) == "running"
    assert room[0].job(job).attempts[0].ended_indices == 0


def test_who_was_not_asked_gets_no_job_by_saying_that_it_was():
    room = Room(3)
    room[2].peer |= ROLES["guest"]
    room.look()
    fill(room[0])
    fill(room[1])
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    word = Granted(job=job.id, epoch=room[0].job(job).epoch, number=1, lease="x")
    say(room[0], room[2], word)

    assert not [one for one in room[0].said(Start) if one.lease == "x"]


# What is said to who runs it


@pytest.mark.parametrize("is_named", [False, True])
def test_nobody_else_steers_a_guest_while_its_home_looks_after_it(is_named):
    room, job, start = running()
    holders = room[0].node.across.guarding.find(job.id).holders
    liar = next(one for one in room.nodes[2:] if (one.me in holders) == is_named)
    host, epoch = room[1], Epoch(HIGH, liar.me)
    answers = say(
        host,
        liar,
        Halt(job=job.id, epoch=epoch, lease=start.lease),
        Poll(job=job.id, epoch=epoch, lease=start.lease),
        msgspec.structs.replace(start, epoch=epoch),
        Go(job=job.id, epoch=epoch, lease=start.lease),
        CommitHold(
            job=job.id, epoch=epoch, number=1, attempt=1, world=1, ranks=((start.lease, 0),)
        ),
    )

    assert answers == []
    guest = host.node.coordinator.jobs[start.lease]
    assert not guest.is_cancelled
    assert host.node.across.hosting.reporting.home_of(guest) == room[0].me
    assert guest.epoch == start.epoch
    host.keeper.end_one(start.lease, 0)
    room.settle()
    assert room[0].state(job) == "succeeded"


def test_nobody_is_followed_on_its_own_word_while_one_lives_who_knows_better():
    room, job, start = running()
    record = room[0].node.across.guarding.find(job.id)
    host = room[1]
    liar = next(one for one in room.nodes[2:] if one.me not in record.holders)
    if (held := host.node.across.guarding.find(job.id)) is not None:
        host.node.across.guarding._meeting.take_off(job.id)
        assert held.home == room[0].me
    forged = msgspec.structs.replace(
        record, version=Fence(Epoch(HIGH, liar.me), 1), holders=(*record.holders, liar.me)
    )
    say(host, liar, Holding(job=job.id, record=encode(forged)))
    guest = host.node.coordinator.jobs[start.lease]
    assert host.node.across.hosting.reporting.home_of(guest) == room[0].me

    for one in room.nodes[:1]:  # Without its home those are asked whom it told of.
        room.dead.add((host.me, one.me))
    host.look()
    ready = host.step(
        Told(
            now_ms=host.now_ms,
            peer=liar.me,
            message=Poll(job=job.id, epoch=Epoch(HIGH, liar.me), lease=start.lease),
        )
    )
    asked = {to for to, word in ready.send if isinstance(word, Inquiry)}
    assert asked
    assert liar.me not in asked
    assert say(host, liar, Poll(job=job.id, epoch=Epoch(HIGH, liar.me), lease=start.lease)) == []
    say(host, liar, Holding(job=job.id, record=encode(forged)))
    assert host.node.across.hosting.reporting.home_of(guest) == room[0].me


def test_where_nobody_is_left_who_knows_it_whoever_has_the_record_is_followed():
    room, job, start = running()
    record = room[0].node.across.guarding.find(job.id)
    host = room[1]
    heir = next(one for one in room.nodes[2:] if one.me not in record.holders)
    if host.node.across.guarding.find(job.id) is not None:
        host.node.across.guarding._meeting.take_off(job.id)
    room.dead |= {(host.me, one) for one in record.holders}
    host.look()
    poll = Poll(job=job.id, epoch=Epoch(2, heir.me), lease=start.lease)
    assert say(host, heir, poll) == [Inquiry(jobs=(job.id,))]
    assert say(host, heir, poll) == [], "once a second"
    new = msgspec.structs.replace(
        record, version=Fence(Epoch(2, heir.me), 1), holders=(*record.holders, heir.me)
    )
    say(host, heir, Holding(job=job.id, record=encode(new)))

    guest = host.node.coordinator.jobs[start.lease]
    assert host.node.across.hosting.reporting.home_of(guest) == heir.me
    assert heir.me in guest.spec.origin.holders


def test_a_lease_that_was_offered_is_taken_back_by_nobody_else():
    room = Room(3)
    host, liar = room[1], room[2]
    spec = msgspec.structs.replace(a_job("job"), work=None)
    word = Reserve(job=spec.id, epoch=Epoch(1, room[0].me), number=1, spec=spec)
    (grant,) = say(host, room[0], word)
    for kind in (Halt, Poll):
        assert (
            say(host, liar, kind(job=spec.id, epoch=Epoch(HIGH, liar.me), lease=grant.lease)) == []
        )
    assert grant.lease in host.node.across.hosting.offered


# What is asked for


@pytest.mark.parametrize("role", ["guest", "member"])
def test_nobody_shuts_a_job_out_by_its_id(role):
    room = Room(3)
    room[2].peer |= ROLES[role]
    room.look()
    job = a_job("job", require=Where(nodes=("node-2",)))
    epoch = Epoch((1 << 53) - 1, room[2].me)
    spec = msgspec.structs.replace(job, work=None)
    for number in (1, 1 << 50):
        say(room[1], room[2], Reserve(job=job.id, epoch=epoch, number=number, spec=spec))
        hold = Hold(job=job.id, epoch=epoch, number=number, spec=spec, ranks=1, since_ms=0)
        say(room[1], room[2], hold)
    room[0].submit(job)
    room.settle()

    assert room[0].state(job) == "running"


def test_room_for_a_job_that_is_known_is_asked_for_by_who_is_named_in_its_record():
    room, job, _ = running()
    record = room[0].node.across.guarding.find(job.id)
    liar = next(one for one in room.nodes[2:] if one.me not in record.holders)
    spec = msgspec.structs.replace(job, work=None, require=Where())
    word = Reserve(job=job.id, epoch=Epoch(HIGH, liar.me), number=1, spec=spec)

    assert say(room[0], liar, word) == []


def test_of_each_node_so_many_words_are_remembered():
    room = Room(2)
    fill(room[1])
    for number in range(3):
        job = a_job(f"job-{number}")
        spec = msgspec.structs.replace(job, work=None)
        word = Reserve(job=job.id, epoch=Epoch(1, room[0].me), number=1, spec=spec)
        say(room[1], room[0], word)
    hosting = room[1].node.across.hosting
    jobs = hosting._seen[room[0].me]
    assert len(jobs) == 3
    while len(jobs) < SEEN_MAX:
        hosting._heard(room[0].me, f"{len(jobs):064x}", Epoch(1, room[0].me), 1, room[1].now_ms)
    first = next(iter(jobs))
    hosting._heard(room[0].me, "last", Epoch(1, room[0].me), 1, room[1].now_ms)

    assert len(jobs) == SEEN_MAX
    assert first not in jobs


# Votes


def test_nobody_asks_for_votes_in_the_name_of_another():
    room, job = OnceRoom(4), away()
    room[0].submit(job)
    room.settle()
    votes = room[0].job(job).votes
    for name in (room[0], room[1]):
        prepare = Prepare(job=job.id, epoch=Epoch(HIGH, name.me), ask=1, sets=votes.sets)
        standing = msgspec.structs.replace(votes, version=Fence(Epoch(HIGH, name.me), 1))
        accept = Accept(job=job.id, ask=1, sets=votes.sets, written=Written(standing=standing))
        liar = room[3]
        for voter in room.nodes[:3]:
            assert say(voter, liar, prepare, accept) == []

    assert room.running(job.id) != []
    room.pass_time(15_000)
    assert len(room.starts) == 1


@pytest.mark.parametrize("lie", ["not taken", "report", "begun"])
def test_a_job_that_must_not_run_twice_is_not_replaced_on_the_word_of_a_bystander(lie):
    """`OnceRoom` sees to it that no process of such a job starts beside another."""
    room, job = OnceRoom(5), away()
    room[0].submit(job)
    room.settle()
    host, lease = room.host(job), room[0].job(job).attempts[-1].lease
    liar = next(one for one in room.nodes[1:] if one is not host)
    words = {
        "not taken": NotTaken(job=job.id, lease=lease, why="lost"),
        "report": Report(job=job.id, lease=lease, first=0, ends=(ended(lease, how="lost"),)),
        "begun": Begun(job=job.id, lease="other", pid=1, at_ms=1),
    }
    room.isolate(host)
    for _ in range(40):
        say(room[0], liar, words[lie])
        room.pass_time(500)
    room.heal()

    assert len(room.starts) == 2, "when its lease was over"


def test_who_votes_on_a_job_asks_no_voters_that_only_a_record_names():
    """A holder makes up a record; the home dies, and who is next votes on the job itself."""
    room, job = OnceRoom(6), away()
    room[0].submit(job)
    room.settle()
    home, host = room[0], room.host(job)
    voters = {member.node for member in home.job(job).votes.voters}
    heirs = [room.by_id(node) for node in home.job(job).guardians]
    liar = next(one for one in heirs if one is not host and one.me not in voters)
    votes = Standing(voters=(Member(liar.me, "made-up"),), version=Fence(Epoch(1, home.me), HIGH))
    for heir in heirs:
        record = heir.node.across.guarding.find(job.id)
        standing = msgspec.structs.replace(standing_of(record.standing), votes=votes)
        version = Fence(record.version.epoch, HIGH)
        told = msgspec.structs.replace(record, standing=part(standing), version=version)
        if heir is not liar:
            say(heir, liar, Copy(record=encode(told)))
    room.kill(home)
    room.pass_time(30_000)

    asked = [word.sets for one in heirs for word in one.said(Prepare)]
    assert asked
    assert all({one.node for one in sets[0]} == voters for sets in asked)
    assert len(room.starts) == 1


# Bounded steps


def held(node: Neighbour) -> list:
    return [lease.resources for lease in node.node.ledger.leases.values()]


def test_what_costs_nothing_holds_a_part_of_a_core():
    room = Room(2)
    spec = msgspec.structs.replace(
        a_job("job", array=Array(start=0, stop=1_000)), work=None, request=Request()
    )
    word = Reserve(job=spec.id, epoch=Epoch(1, room[0].me), number=1, spec=spec, leases=1_000)
    say(room[1], room[0], word)
    offered = room[1].node.across.hosting.offered

    assert 0 < len(offered) <= room[1].node.ledger.total.cpu_milli // SLOT_MILLI
    assert {lease.cpu_milli for lease in held(room[1])} == {SLOT_MILLI}


def test_what_was_granted_for_nothing_is_started_by_who_asked():
    room = Room(2)
    fill(room[0])
    job = a_job("job", request=Request(), require=Where(nodes=("node-2",)))
    room[0].submit(job)
    room.settle()

    assert room[0].state(job) == "running"


def test_a_step_hands_out_so_many_leases_and_the_next_ones_the_rest(monkeypatch):
    monkeypatch.setattr("distributed_grid.kernel.host.GRANTS_MAX", 3)
    room = Room(1)
    jobs = tuple(a_job(f"job-{number}") for number in range(4))
    room[0].step(Submit(now_ms=room[0].now_ms, jobs=jobs))
    assert len(held(room[0])) == 3
    room[0].step(Beat(now_ms=room[0].now_ms))

    assert len(held(room[0])) == 4
    assert GRANTS_MAX >= 1_000


def test_a_gang_takes_from_others_within_bounds(monkeypatch):
    """The best of many that want more than there is; it costs so many looks in a step, no more."""
    room = lending(Room(2))
    owner, home = room.nodes
    epoch = Epoch(1, home.me)
    for number in range(6):
        spec = msgspec.structs.replace(a_job(f"gang-{number}", gang=50), request=Request())
        spec = msgspec.structs.replace(spec, work=None)
        word = Hold(
            job=spec.id, epoch=epoch, number=number + 1, spec=spec, ranks=50, since_ms=9 - number
        )
        say(owner, home, word)
    holds = owner.node.across.holds
    assert holds.leases
    monkeypatch.setattr("distributed_grid.kernel.across.holds.LOOKED_MAX", 4)
    monkeypatch.setattr("distributed_grid.kernel.across.holds.VICTIMS_MAX", 5)
    for name in ("large", "as large"):
        large = msgspec.structs.replace(
            a_job(name, gang=2), work=None, request=Request(cpu_milli=2_500)
        )
        word = Hold(job=large.id, epoch=epoch, number=9, spec=large, ranks=1, since_ms=0)
        say(owner, home, word)

    assert holds._looked == 5, "for the first of both, and for nobody else"
    assert VICTIMS_MAX < LOOKED_MAX


def test_a_home_that_may_submit_no_more_steers_nothing():
    room, job, start = running()
    room[0].peer |= ROLES["worker"]
    room.look()
    host, epoch = room[1], start.epoch
    answers = say(
        host,
        room[0],
        Halt(job=job.id, epoch=epoch, lease=start.lease),
        Withdrawn(job=job.id, epoch=epoch, number=1 << 50),
    )

    assert answers == []
    assert not host.node.coordinator.jobs[start.lease].is_cancelled
    assert host.node.across.hosting._seen[room[0].me][job.id].number < 1 << 50


def test_what_runs_at_home_is_over_on_nobody_elses_word():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    room.settle()
    assert room.running(job.id) == ["node-1"]
    lease = room[0].job(job).attempts[-1].lease
    say(room[0], room[2], NotTaken(job=job.id, lease=lease, why="a lie"))

    chair = room[0].node.across.once.register.writer.chair(job.id)
    assert not chair._is_over
