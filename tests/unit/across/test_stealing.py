"""An idle node asks the loaded who waits there; what it offers is used once, or given back."""

import msgspec
import pytest

from distributed_grid.kernel.across import stealing
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.node import Drain, Told, View
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Where
from distributed_grid.model.resources import Request
from distributed_grid.wire.across import (
    STOLEN_MAX,
    Granted,
    Idle,
    Line,
    NotTaken,
    Start,
    Withdrawn,
)
from tests.across_world import Room
from tests.node_world import a_job
from tests.unit.across.filling import occupy


def loaded(who, waiting=1):
    """The others know that jobs wait there."""
    who.peer["jobs_waiting"] = waiting


@pytest.fixture
def uneven() -> Room:
    """A home and another node that are full, and one that is idle."""
    room = Room(3)
    home, full, _ = room.nodes
    occupy(home)
    occupy(full)
    return room


def stuck(room, *jobs):
    """Jobs that wait at home, and whose questions to the idle one are all lost."""
    home, _, idle = room.nodes
    room.cut.add((home.me, idle.me))
    home.submit(*jobs)
    room.settle()
    room.cut.clear()
    stay(home, *jobs)
    loaded(home, len(jobs))


def stay(home, *jobs):
    """They do not look for a better line by themselves."""
    for job in jobs:
        wish = home.node.across.asking.wish(job.id)
        wish.settled_ms = 10**9


@pytest.mark.rows("S0-76")
def test_an_idle_node_takes_what_waits_elsewhere(uneven):
    home, _, idle = uneven.nodes
    job = a_job("job")
    stuck(uneven, job)
    assert home.state(job) == "waiting"

    uneven.look()

    (offer,) = idle.said(Granted)
    assert (offer.number, offer.job) == (0, job.id)
    assert home.job(job).live_attempts[0].node == idle.name
    assert len(idle.keeper.runs) == 1
    idle.drain()
    uneven.settle()
    assert home.state(job) == "succeeded"


def test_what_another_waits_for_in_a_full_line_is_stolen_too(uneven):
    home, full, idle = uneven.nodes
    job = a_job("job")
    room = uneven
    room.cut.add((home.me, idle.me))
    home.submit(job)
    room.settle()
    room.cut.clear()
    stay(home, job)
    loaded(full)

    room.look()

    assert home.job(job).live_attempts[0].node == idle.name
    assert [to for to, word in idle.sent if isinstance(word, Idle)] == [full.me]


def test_who_has_room_for_nothing_or_whose_own_wait_asks_nobody(uneven):
    _home, _full, idle = uneven.nodes
    stuck(uneven, a_job("job"))
    occupy(idle, cpus=1_000)
    uneven.look()
    assert idle.said(Idle) == []

    idle.submit(a_job("own", cpus=4_000))
    uneven.look()
    assert idle.said(Idle) == []


def test_nobody_is_asked_when_nobody_waits_or_while_drained(uneven):
    _home, _, idle = uneven.nodes
    uneven.look()
    uneven.pass_time(3_000)
    assert idle.said(Idle) == []

    stuck(uneven, a_job("job"))
    idle.step(Drain(now_ms=idle.now_ms))
    uneven.look()
    assert idle.said(Idle) == []


def test_two_are_asked_at_a_time_those_with_the_longest_lines_each_two_seconds():
    room = Room(5)
    *others, idle = room.nodes
    for waiting, other in enumerate(others, start=1):
        loaded(other, waiting)
    room.look()

    asked = [to for to, word in idle.sent if isinstance(word, Idle)]
    assert asked == [others[3].me, others[2].me]

    room.pass_time(1_500)
    assert len(idle.said(Idle)) == 2


def test_who_had_nothing_is_left_alone_for_a_while():
    room = Room(2)
    other, idle = room.nodes
    loaded(other)
    room.look()
    room.pass_time(8_000)
    assert len(idle.said(Idle)) == 1

    room.pass_time(4_000)
    assert len(idle.said(Idle)) == 2


def test_the_answer_is_short_fits_and_names_the_most_important_first(uneven):
    home, _, idle = uneven.nodes
    jobs = [a_job(f"job-{n}") for n in range(STOLEN_MAX + 4)]
    first = a_job("first", priority="high")
    stuck(uneven, a_job("large", cpus=4_000, require=Where(nodes=("node-1",))), *jobs, first)
    word = Idle(cpu_milli=1_000, memory_bytes=1)
    ready = home.step(Told(now_ms=home.now_ms, peer=idle.me, message=word))

    (line,) = [word for _, word in ready.send if isinstance(word, Line)]
    assert len(line.waiting) == STOLEN_MAX
    assert line.waiting[0][1] == first.id
    assert all(spec.request.cpu_milli == 1_000 for *_, spec in line.waiting)
    assert all(spec.work is None for *_, spec in line.waiting)


def test_a_job_that_avoids_the_idle_node_is_not_offered_there(uneven):
    _home, _, idle = uneven.nodes
    stuck(uneven, a_job("job", avoid=Where(nodes=(idle.name,))))
    uneven.look()

    assert idle.said(Idle)
    assert idle.said(Granted) == []
    assert idle.node.ledger.leases == {}


def test_a_stolen_offer_of_a_node_that_the_job_does_not_allow_is_given_back(uneven):
    home, _, idle = uneven.nodes
    job = a_job("job", avoid=Where(nodes=(idle.name,)))
    stuck(uneven, job)
    lie = msgspec.structs.replace(job, avoid=Where(), work=None)
    idle.node.across.stealing._asked[home.me] = idle.now_ms
    line = Line(waiting=((home.me, job.id, home.job(job).epoch, lie),))
    idle.step(Told(now_ms=idle.now_ms, peer=home.me, message=line))
    assert len(idle.node.ledger.leases) == 1

    uneven.settle()
    assert home.state(job) == "waiting"
    assert home.said(Withdrawn)
    assert idle.node.ledger.leases == {}


def test_a_stolen_offer_of_a_node_without_a_record_or_that_may_not_lend_is_given_back(uneven):
    home, _full, _idle = uneven.nodes
    job = a_job("job")
    stuck(uneven, job)
    offer = Granted(job=job.id, epoch=home.job(job).epoch, number=0, lease="x")
    new, guest = NodeId("f" * 64), NodeId("e" * 64)
    peers = {new: Peer(id=new, name="new"), guest: Peer(id=guest, name="guest", may_lend=False)}
    home.step(View(now_ms=home.now_ms, peers={**home.node.across.peers, **peers}, own=home.record))
    for peer in peers:
        ready = home.step(Told(now_ms=home.now_ms, peer=peer, message=offer))

        assert [type(word) for to, word in ready.send if to == peer] == [Withdrawn]
    assert home.state(job) == "waiting"


def test_an_offer_that_nobody_wants_is_given_back_at_once(uneven):
    home, _, idle = uneven.nodes
    job = a_job("job")
    stuck(uneven, job)
    home.look()
    idle.look()
    home.cancel(job)
    uneven.settle()

    assert idle.node.ledger.leases == {}
    assert idle.keeper.runs == {}


def test_an_offer_that_is_not_answered_ends_after_five_seconds(uneven):
    home, _, idle = uneven.nodes
    stuck(uneven, a_job("job"))
    uneven.cut.add((home.me, idle.me))
    idle.look()
    spec = msgspec.structs.replace(a_job("job"), work=None)
    line = Line(waiting=((home.me, spec.id, Epoch(), spec),))
    idle.step(Told(now_ms=idle.now_ms, peer=home.me, message=line))
    uneven.settle()
    assert len(idle.node.ledger.leases) == 1

    uneven.pass_time(4_000)
    assert len(idle.node.ledger.leases) == 1
    uneven.pass_time(1_500)
    assert idle.node.ledger.leases == {}


def test_an_answer_that_nobody_asked_for_reserves_nothing():
    room = Room(2)
    other, idle = room.nodes
    job = a_job("job")
    line = Line(waiting=((other.me, job.id, Epoch(), msgspec.structs.replace(job, work=None)),))
    idle.step(Told(now_ms=idle.now_ms, peer=other.me, message=line))

    assert idle.node.ledger.leases == {}


@pytest.mark.parametrize("what", ["unknown", "dead", "may_not_submit", "does_not_fit", "no_lender"])
def test_what_cannot_be_offered_is_not(what):
    room = Room(3)
    other, home, idle = room.nodes
    loaded(other)
    if what == "dead":
        room.dead.add((idle.me, home.me))
    if what == "may_not_submit":
        home.peer["may_submit"] = False
    if what == "no_lender":
        terms = msgspec.structs.replace(idle.node.host.lending.terms, is_enabled=False)
        idle.node.host.lending.set_terms(terms)
    idle.look()
    idle.node.across.stealing._asked[other.me] = idle.now_ms + stealing.ANSWER_MS
    cpus = 9_000 if what == "does_not_fit" else 1_000
    spec = msgspec.structs.replace(
        a_job("job"), work=None, request=Request(cpu_milli=cpus, memory_bytes=0)
    )
    home_id = "e" * 64 if what == "unknown" else home.me
    line = Line(waiting=((home_id, spec.id, Epoch(), spec),))
    idle.step(Told(now_ms=idle.now_ms, peer=other.me, message=line))

    assert idle.node.ledger.leases == {}


def test_room_that_is_gone_meanwhile_is_not_offered():
    room = Room(2)
    other, idle = room.nodes
    loaded(other)
    idle.look()
    occupy(idle)
    spec = msgspec.structs.replace(a_job("job"), work=None)
    line = Line(waiting=((other.me, spec.id, Epoch(), spec),))
    idle.step(Told(now_ms=idle.now_ms, peer=other.me, message=line))

    assert idle.said(Granted) == []


def test_a_start_that_asks_for_more_than_was_offered_is_not_taken(uneven):
    home, _, idle = uneven.nodes
    job = a_job("job", cpus=2_000)
    stuck(uneven, job)
    lie = msgspec.structs.replace(job, request=Request(cpu_milli=1_000), work=None)
    idle.node.across.stealing._asked[home.me] = idle.now_ms
    line = Line(waiting=((home.me, job.id, home.job(job).epoch, lie),))
    idle.step(Told(now_ms=idle.now_ms, peer=home.me, message=line))
    uneven.settle()

    assert home.said(Start)
    assert [word.why for word in idle.said(NotTaken)] == [
        "it asks for something else than was granted"
    ]
    assert home.state(job) == "waiting"
