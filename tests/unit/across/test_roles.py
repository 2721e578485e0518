"""Roles hold between nodes: who holds records, hears of jobs, speaks of them, is heard at all."""

import msgspec
import pytest

from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record import HOLDERS_MAX, JobRecord
from distributed_grid.kernel.across.record_bytes import decode, encode
from distributed_grid.kernel.across.record_jobs import summary
from distributed_grid.kernel.across.record_parts import encode as written
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.rights import may_ask, may_tell
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.node import Submit, Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import After, Where
from distributed_grid.wire.across import (
    Copied,
    Copy,
    Dispensable,
    Granted,
    Holding,
    Idle,
    Inquiry,
    Line,
    NotCopied,
    Report,
    Reserve,
)
from distributed_grid.wire.keeper import Ended, Run, Usage
from distributed_grid.wire.register import Member, Prepare
from distributed_grid.wire.register import Standing as Votes
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told

ROLES = {
    "member": {},
    "worker": {"may_submit": False},
    "guest": {"may_lend": False},
}
STRANGER = NodeId("f" * 64)
IDS = [NodeId(f"{number:064x}") for number in range(1, 9)]


def a_room(count: int = 3, **roles: str) -> Room:
    """With roles by node: `n2="guest"`."""
    room = Room(count)
    for name, role in roles.items():
        room[int(name[1:]) - 1].peer |= ROLES[role]
    room.look()
    return room


def say(node: Neighbour, peer: NodeId, message) -> list:
    """Tell a node something; what it answers."""
    ready = node.step(Told(now_ms=node.now_ms, peer=peer, message=message))
    return [word for to, word in (*ready.ask, *ready.send) if to == peer]


def waiting(room: Room, name: str = "job", user: str = "ada"):
    """A job that waits on the first node, and its record."""
    fill(room[0])
    job = a_job(name, user=user, require=Where(nodes=("node-1",)))
    room[0].submit(job)
    room.settle()
    return job, room[0].node.across.guarding.find(job.id)


def forged(home: NodeId, name: str = "evil", user: str = "root@node-2", counter: int = 7):
    """A record as somebody who may not submit would like others to have it."""
    job = Job(spec=a_job(name, user=user), submitted_ms=1, epoch=Epoch(counter, home))
    job.tell(1, "submitted")
    return record_of(job, Fence(job.epoch, 1))


# Who holds records


def test_guests_and_workers_hold_no_records_and_members_hold_those_of_guests():
    room = a_room(4, n1="guest", n3="guest", n4="worker")
    job, record = waiting(room)

    assert record.guardians == (room[1].me,)
    assert [one.name for one in room.nodes[1:] if one.knows(job)] == ["node-2"]


# Who hears of jobs


@pytest.mark.parametrize(("role", "told_of"), [("member", 1), ("worker", 1), ("guest", 0)])
def test_only_who_lends_is_told_who_waits(role, told_of):
    room = a_room(2, n2=role)
    fill(room[0])
    room[0].submit(a_job("job", user="ada"))
    [line] = [
        word
        for word in say(room[0], room[1].me, Idle(cpu_milli=9_000, memory_bytes=1 << 40))
        if isinstance(word, Line)
    ]

    assert len(line.waiting) == told_of


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("role", ["worker", "guest"])
def test_workers_and_guests_are_told_of_no_job_that_is_not_theirs(role, is_short):
    room = a_room(3, n3=role)
    job, _ = waiting(room)

    for node in room.nodes[:2]:  # Its home, and who holds its record.
        answer = say(node, room[2].me, Inquiry(jobs=(job.id,), is_short=is_short))
        assert answer == [Holding(job=job.id)]


def test_a_guest_is_told_of_its_own_jobs():
    room = a_room(2, n1="guest")
    job, record = waiting(room)

    assert say(room[1], room[0].me, Inquiry(jobs=(job.id,))) == [
        Holding(job=job.id, record=encode(record))
    ]
    assert say(room[1], room[0].me, Inquiry(jobs=(job.id,), is_short=True)) == [
        Copied(job=job.id, version=record.version)
    ]


def test_a_worker_is_told_of_what_it_runs_and_fishes_for_nothing_else():
    room = a_room(3, n3="worker")
    mine = a_job("mine", user="ada", require=Where(nodes=("node-3",)))
    room[0].submit(mine)
    room.settle()
    other, _ = waiting(room, "other")
    holder = room[1]

    [known] = say(holder, room[2].me, Inquiry(jobs=(mine.id,)))
    assert decode(known.record).home == room[0].me
    lease = room[0].job(mine).attempts[-1].lease
    for job, is_known in ((mine, True), (other, False)):
        end = Ended(
            number=1, attempt=lease, how="exited", code=0, started_ms=1, ended_ms=2, usage=Usage()
        )
        [answer] = say(holder, room[2].me, Report(job=job.id, lease=lease, first=0, ends=(end,)))
        assert isinstance(answer, Holding)
        assert bool(answer.record) == is_known


@pytest.mark.parametrize(("role", "answers"), [("member", 1), ("guest", 0), ("worker", 0)])
def test_who_asks_for_a_vote_on_a_job_of_others_is_told_how_it_ended_if_that_is_a_member(
    role, answers
):
    room = a_room(3, n3=role)
    job, _ = waiting(room)
    room[0].cancel(job)
    room.settle()
    assert room[1].knows(job) == "cancelled"
    word = Prepare(job=job.id, epoch=Epoch(9, room[2].me), ask=1, sets=())

    assert len(say(room[1], room[2].me, word)) == answers


@pytest.mark.parametrize(("role", "answers"), [("guest", 1), ("worker", 0)])
def test_a_guest_may_ask_for_votes_on_what_nobody_knows_and_a_worker_may_not(role, answers):
    room = a_room(2, n2=role)
    word = Prepare(job=a_job("new").id, epoch=Epoch(1, room[1].me), ask=1, sets=())

    assert len(say(room[0], room[1].me, word)) == answers


# Who is heard


@pytest.mark.parametrize("role", ["worker", "guest"])
def test_nobody_submits_by_handing_out_a_record(role):
    room = a_room(3, n3=role)
    liar = room[2]
    record = forged(liar.me)
    for node in room.nodes[:2]:
        [answer] = say(node, liar.me, Copy(record=encode(record)))
        assert isinstance(answer, NotCopied)
        assert say(node, liar.me, Holding(job=record.job, record=encode(record))) == []
    room.kill(liar)
    room.pass_time(20_000)

    assert [told(node, Run) for node in room.nodes[:2]] == [[], []]


def test_a_member_hands_out_only_records_in_which_it_is_named():
    room = a_room(3)
    record = forged(STRANGER)
    [answer] = say(room[0], room[1].me, Copy(record=encode(record)))

    assert isinstance(answer, NotCopied)
    assert not room[0].knows(a_job("evil"))


def test_who_votes_on_a_job_is_heard_whichever_record_says_so():
    voter, other = (Peer(id=node, name=node[:4]) for node in IDS[:2])
    record = forged(STRANGER)
    standing = standing_of(record.standing)
    votes = Votes(voters=(Member(STRANGER, "a"),), next=(Member(voter.id, "b"),))
    voted = msgspec.structs.replace(
        record, standing=written(msgspec.structs.replace(standing, votes=votes))
    )
    assert may_tell(voter, voted, None)
    assert may_tell(voter, record, voted)
    assert not may_tell(voter, record, None)
    assert not may_tell(voter, record, record)
    assert not may_tell(other, voted, voted)


def test_whoever_claims_to_be_a_user_of_this_node_in_a_record_is_none_here():
    room = a_room(2)
    record = forged(room[0].me)  # A member may: what it says of its users is believed.
    room[0].is_up = False
    say(room[1], room[0].me, Copy(record=encode(record)))
    room.kill(room[0])
    room.until(lambda: record.job in room[1].node.coordinator.jobs)

    spec = room[1].node.coordinator.jobs[record.job].spec
    assert (spec.user, spec.is_shared) == ("root@node-2", True)


def test_a_guest_cannot_take_a_job_of_others_away():
    room = a_room(3, n3="guest")
    job, record = waiting(room)
    stolen = msgspec.structs.replace(
        forged(room[2].me, name="job", user="eve@node-3"), holders=(room[0].me, room[2].me)
    )
    assert stolen.version.epoch > record.version.epoch
    for node in room.nodes[:2]:
        say(node, room[2].me, Copy(record=encode(stolen)))
        say(node, room[2].me, Holding(job=job.id, record=encode(stolen)))

    assert room.home_of(job) is room[0]
    assert room[1].node.across.guarding.find(job.id).home == room[0].me


@pytest.mark.parametrize(("role", "state"), [("member", "running"), ("guest", "waiting")])
def test_a_chain_goes_on_only_on_the_word_of_who_may_know(role, state):
    room = a_room(2, n2=role)
    first = a_job("first")
    after = a_job("second", after=(After(job=first.id),))
    room[0].step(Submit(now_ms=room[0].now_ms, jobs=(after,), abroad=frozenset({first.id})))
    done = Job(spec=first, submitted_ms=1, epoch=Epoch(1, STRANGER), state="running", exit_code=0)
    done.move("succeeded", 2)
    record = record_of(done, Fence(done.epoch, 1))
    told_by = msgspec.structs.replace(record, holders=(STRANGER, room[1].me))
    say(room[0], room[1].me, Holding(job=first.id, record=encode(told_by)))
    room.settle()

    assert room[0].state(after) == state


def test_only_its_home_says_that_a_record_may_go():
    room = a_room(3, n3="worker")
    job, _ = waiting(room)
    say(room[1], room[2].me, Dispensable(job=job.id, version=Fence(Epoch(9, room[2].me), 1)))

    assert room[1].knows(job)


def test_a_worker_that_was_not_asked_does_not_count_as_a_disk():
    room = a_room(2, n2="worker")
    job, record = waiting(room)
    across = room[0].node.across
    say(room[0], room[1].me, Copied(job=job.id, version=record.version))

    assert across.copies(job.id) == 1


@pytest.mark.parametrize("is_asked", [False, True])
def test_who_is_not_known_here_gets_nothing_and_is_told_nothing(is_asked):
    room = a_room(2)
    job, record = waiting(room)
    spec = msgspec.structs.replace(a_job("theirs"), work=None)
    words = (
        Reserve(job=spec.id, epoch=Epoch(1, STRANGER), number=1, spec=spec),
        Idle(cpu_milli=9_000, memory_bytes=1 << 40),
        Inquiry(jobs=(job.id,), is_short=is_asked),
        Copy(record=encode(forged(STRANGER))),
        Granted(job=job.id, epoch=record.version.epoch, number=0, lease="x"),
    )

    assert [say(node, STRANGER, word) for node in room.nodes for word in words] == [[]] * 10
    assert room[1].node.ledger.leases == {}


@pytest.mark.parametrize(("role", "answers"), [("guest", 1), ("worker", 0)])
def test_a_worker_gets_no_room_for_jobs_of_its_own(role, answers):
    room = a_room(2, n2=role)
    spec = msgspec.structs.replace(a_job("theirs"), work=None)
    word = Reserve(job=spec.id, epoch=Epoch(1, room[1].me), number=1, spec=spec)

    assert len(say(room[0], room[1].me, word)) == answers


def test_what_a_guest_has_waiting_is_stolen_under_its_own_name():
    room = a_room(2, n1="guest")
    idle = room[1]
    spec = msgspec.structs.replace(a_job("job", user="root@node-2"), work=None)
    idle.node.across.stealing._asked[room[0].me] = idle.now_ms + 2_000
    line = Line(waiting=((room[0].me, spec.id, Epoch(1, room[0].me), spec),))
    say(idle, room[0].me, line)

    [offer] = idle.node.across.hosting.offered.values()
    assert offer.guest.spec.user == "root@node-1"


# The rules themselves


def a_record(user: str = "ada@desk", home: NodeId = IDS[0], **facts) -> JobRecord:
    job = Job(spec=a_job("job", user=user), submitted_ms=1, epoch=Epoch(1, home))
    job.tell(1, "submitted")
    attempt = Attempt(number=1, lease="l", host=IDS[5], node="six", granted_ms=1)
    job.attempts.append(attempt)
    return msgspec.structs.replace(record_of(job, Fence(job.epoch, 1)), **facts)


def a_peer(number: int = 0, role: str = "guest", name: str = "desk") -> Peer:
    return Peer(id=IDS[number], name=name, **ROLES[role])


RECORD = a_record()
SUMMARY = summary(RECORD)
CHANGED = a_record(user="root@attic")
UNREADABLE = msgspec.structs.replace(RECORD, spec=b"\x80")
CROWDED = msgspec.structs.replace(
    RECORD, holders=tuple(NodeId(f"{number:064x}") for number in range(90, 90 + HOLDERS_MAX))
)


@pytest.mark.parametrize(
    ("peer", "record", "known", "may"),
    [
        (None, RECORD, None, False),
        (a_peer(0, "member"), RECORD, None, True),
        (a_peer(1, "member"), RECORD, None, False),
        (a_peer(1, "member"), a_record(holders=(IDS[1],)), RECORD, True),
        (a_peer(1, "member"), CROWDED, None, True),
        (a_peer(0, "worker"), RECORD, RECORD, False),
        (a_peer(), RECORD, None, True),
        (a_peer(name="attic"), RECORD, None, False),  # Whose user is that?
        (a_peer(name="attic"), RECORD, RECORD, True),  # It took another name since.
        (a_peer(name="attic"), SUMMARY, RECORD, True),
        (a_peer(), SUMMARY, None, True),
        (a_peer(name="attic"), SUMMARY, None, False),
        (a_peer(), CHANGED, RECORD, False),
        (a_peer(name="attic"), CHANGED, RECORD, True),
        (a_peer(), UNREADABLE, None, False),
        (a_peer(), a_record(user="ada"), None, True),
        (a_peer(1), a_record(user="ada", holders=(IDS[1],)), None, False),
        (a_peer(1), a_record(holders=(IDS[1],)), RECORD, False),  # Not as far as known here.
    ],
)
def test_whose_word_on_a_job_is_heard(peer, record, known, may):
    assert may_tell(peer, record, known) == may


@pytest.mark.parametrize(
    ("peer", "may"),
    [
        (None, False),
        (a_peer(3, "member"), True),
        (a_peer(3, "worker"), False),
        (a_peer(3, "guest"), False),
        (a_peer(0, "guest"), True),
        (a_peer(5, "worker"), True),  # It runs there.
    ],
)
def test_who_is_told_of_a_job(peer, may):
    assert may_ask(peer, RECORD) == may
