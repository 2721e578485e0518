"""A node that is drained takes nothing new, and what can move moves away first."""

import pytest

from distributed_grid.errors import NeverFits
from distributed_grid.kernel.across.balancing import YOUNG_MS
from distributed_grid.kernel.across.orphans import UNKNOWN_MS
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.node import Drain, Lend, Node
from distributed_grid.model.job import Preempt, Where
from distributed_grid.model.lending import Terms
from distributed_grid.wire.across import Granted, NotGranted, NotTaken, Reserve
from distributed_grid.wire.keeper import Preempt as TellToGiveWay
from tests.across_world import Room
from tests.node_world import World, a_job, told
from tests.unit.across.filling import give_way, occupy
from tests.unit.across.once_room import OnceRoom

SAVES = Preempt(command=("save",))


def drain(room, who, *, is_on=True, is_now=False):
    who.step(Drain(now_ms=who.now_ms, is_on=is_on, is_now=is_now))
    who.peer["is_draining"] = is_on
    room.settle()


@pytest.fixture
def room() -> Room:
    return Room()


def test_what_only_a_drained_node_could_run_waits_for_it_and_says_so(room):
    """That a drain is over is known elsewhere a moment later: nobody is refused meanwhile."""
    home, other = room.nodes
    drain(room, other)
    room.look()
    job = a_job("job", require=Where(nodes=("node-2",)))
    home.submit(job)
    room.pass_time(2_000)
    assert home.state(job) == "waiting"
    why = explain(home.node.coordinator, home.job(job), home.now_ms)
    assert why.summary.endswith(": node-2 could run it, and is being drained")
    assert why.remedies == ("grid undrain node-2",)

    drain(room, other, is_on=False)
    room.look()
    room.pass_time(2_000)
    assert home.state(job) == "running"


def test_one_that_asks_a_drained_node_before_it_heard_of_that_is_told_what_helps(room):
    home, other = room.nodes
    other.step(Drain(now_ms=other.now_ms, is_on=True, is_now=False))
    job = a_job("job", require=Where(nodes=("node-2",)))
    home.submit(job)
    room.settle()

    why = explain(home.node.coordinator, home.job(job), home.now_ms)
    assert why.remedies == ("node-2: this node is being drained; grid undrain node-2",)


def test_what_no_node_could_run_is_refused_also_if_one_is_drained(room):
    home, other = room.nodes
    drain(room, other)
    room.look()
    for job in (a_job("large", cpus=9_000), a_job("gang", gang=8)):
        with pytest.raises(NeverFits):
            home.submit(job)


def test_nothing_new_starts_on_a_drained_node_alone_until_it_is_over():
    world = World()
    world.step(Drain(now_ms=world.now_ms))
    job = a_job("job")
    world.submit(job)
    assert world.keeper.runs == {}
    assert world.node.is_drained

    world.step(Drain(now_ms=world.now_ms, is_on=False))
    assert len(world.keeper.runs) == 1
    assert not world.node.is_drained


def test_nobody_gives_way_to_those_who_do_not_start_either():
    world = World()
    (low, *_) = occupy(world, priority="low")
    world.step(Drain(now_ms=world.now_ms))
    world.submit(a_job("urgent", priority="urgent", cpus=4_000))

    assert told(world, TellToGiveWay) == []
    assert world.state(low) == "running"


@pytest.mark.rows("S4-28")
def test_own_work_that_waits_goes_elsewhere(room):
    home, host = room.nodes
    drain(room, home)
    job = a_job("job")
    home.submit(job)
    room.settle()

    assert job.id not in home.node.host.line
    assert home.job(job).live_attempts[0].node == host.name


def test_what_waits_already_goes_elsewhere_too(room):
    home, host = room.nodes
    occupy(home)
    occupy(host)
    job = a_job("job")
    home.submit(job)
    room.settle()
    drain(room, home)
    assert job.id not in home.node.host.line

    host.drain()
    room.settle()
    assert home.job(job).live_attempts[0].node == host.name


def test_what_can_run_nowhere_else_waits_for_the_end_of_the_drain(room):
    home, _ = room.nodes
    drain(room, home)
    job = a_job("job", require=Where(nodes=(home.name,)))
    home.submit(job)
    room.settle()
    assert job.id in home.node.host.line
    assert home.keeper.runs == {}

    drain(room, home, is_on=False)
    assert len(home.keeper.runs) == 1


def test_own_work_that_can_save_its_state_moves_and_the_rest_runs_to_its_end(room):
    home, host = room.nodes
    saves, signalled = a_job("saves", preempt=SAVES), a_job("signalled", preempt=Preempt(signal=10))
    plain = a_job("plain")
    home.submit(saves, signalled, plain)
    room.settle()
    drain(room, home)
    give_way(room, home)

    assert home.job(saves).live_attempts[0].node == host.name
    assert home.job(signalled).live_attempts[0].node == host.name
    assert home.job(plain).live_attempts[0].node == home.name
    assert home.job(saves).preemptions == 1
    assert not home.node.is_drained

    home.drain()
    room.settle()
    assert home.node.is_drained


def guests(room, **what_matters):
    """A job of the first node that runs on the second."""
    home, host = room.nodes
    job = a_job("job", require=Where(nodes=(host.name,)), **what_matters)
    home.submit(job)
    room.settle()
    return job


def later(room, by_ms):
    for node in room.nodes:
        node.now_ms += by_ms
    room.look()


@pytest.mark.parametrize("is_now", [False, True])
def test_a_node_is_drained_only_when_the_homes_of_its_guests_have_all_that_they_left(room, is_now):
    """Their outputs are on their way until the end is confirmed: else they went with the node."""
    home, host = room.nodes
    job = guests(room)
    room.cut.add((host.me, home.me))
    host.drain()
    room.settle()
    drain(room, host, is_now=is_now)
    assert host.node.ledger.leases == {}
    assert (host.node.guests_leaving, host.node.is_drained) == (1, False)

    room.cut.clear()
    room.pass_time(2_000)
    assert home.state(job) == "succeeded"
    assert (host.node.guests_leaving, host.node.is_drained) == (0, True)


def test_a_guest_that_runs_is_not_leaving(room):
    guests(room)
    drain(room, room[1])
    assert (room[1].node.guests_leaving, room[1].node.is_drained) == (0, False)


def test_what_nobody_wants_to_hear_does_not_keep_a_node_from_being_drained(room):
    home, host = room.nodes
    guests(room)
    room.kill(home)
    host.drain()
    drain(room, host)
    assert not host.node.is_drained

    room.pass_time(UNKNOWN_MS + 2_000)
    assert host.node.is_drained


@pytest.mark.rows("S4-28")
@pytest.mark.parametrize(
    ("age_ms", "is_now", "what_matters", "leaves"),
    [
        (YOUNG_MS - 1, False, {}, True),
        (YOUNG_MS, False, {}, False),
        (YOUNG_MS, False, {"preempt": SAVES}, True),
        (YOUNG_MS, True, {}, True),
        (YOUNG_MS, True, {"preempt": Preempt(is_forbidden=True)}, False),
    ],
)
def test_a_guest_leaves_if_it_loses_little_by_that_or_the_owner_cannot_wait(
    room, age_ms, is_now, what_matters, leaves
):
    host = room[1]
    if what_matters.get("preempt") and what_matters["preempt"].is_forbidden:
        host.step(Lend(now_ms=host.now_ms, terms=Terms(allow_no_preempt=True)))
    guests(room, **what_matters)
    later(room, age_ms)
    drain(room, host, is_now=is_now)

    assert bool(told(host, TellToGiveWay)) == leaves


def test_what_runs_at_most_once_ends_where_it_runs():
    room = OnceRoom(4)
    home = room[0]
    job = a_job("job", at_most_once=True, require=Where(nodes=("node-2",)))
    home.submit(job)
    room.until(lambda: home.state(job) == "running")
    drain(room, room[1], is_now=True)

    assert told(room[1], TellToGiveWay) == []


def test_own_work_is_started_again_elsewhere_only_if_the_owner_cannot_wait(room):
    home, host = room.nodes
    plain, bound = a_job("plain"), a_job("bound", require=Where(nodes=(home.name,)))
    home.submit(plain, bound)
    room.settle()
    drain(room, home)
    assert told(home, TellToGiveWay) == []

    drain(room, home, is_now=True)
    give_way(room, home)
    assert home.job(plain).live_attempts[0].node == host.name
    assert home.job(bound).live_attempts[0].node == home.name


def test_who_may_refuse_to_give_way_runs_to_its_end(room):
    home, _ = room.nodes
    firm = a_job("firm", preempt=Preempt(command=("save",), is_forbidden=True))
    home.submit(firm)
    room.settle()
    drain(room, home)

    assert told(home, TellToGiveWay) == []


def test_what_could_run_nowhere_else_is_not_stopped(room):
    home, _ = room.nodes
    job = a_job("job", preempt=SAVES, require=Where(nodes=(home.name,)))
    home.submit(job)
    room.settle()
    drain(room, home)

    assert told(home, TellToGiveWay) == []


@pytest.mark.rows("S0-79")
def test_guests_leave_a_drained_node_and_run_elsewhere():
    room = Room(3)
    home, host, other = room.nodes
    occupy(home)
    occupy(other)
    job = a_job("job")
    home.submit(job)
    room.settle()
    assert home.job(job).live_attempts[0].node == host.name

    other.drain()
    room.settle()
    drain(room, host)
    give_way(room, host)
    room.look()

    assert host.node.is_drained
    assert home.job(job).live_attempts[0].node == other.name


def test_who_waits_at_a_drained_node_is_told_no_and_offers_end():
    room = Room(2)
    home, host = room.nodes
    occupy(home)
    occupy(host)
    home.submit(a_job("job"))
    room.settle()
    drain(room, host)
    (no,) = host.said(NotGranted)
    assert no.reasons == ("this node is being drained",)
    assert list(host.node.host.line) == []


def test_what_was_offered_and_not_started_is_taken_back():
    room = Room(2)
    home, host = room.nodes
    occupy(home)
    job = a_job("job")
    home.submit(job)
    room.cut.add((host.me, home.me))
    room.settle()
    assert host.said(Granted)
    drain(room, host)
    assert host.node.ledger.leases == {}
    room.cut.clear()
    room.settle()
    assert home.state(job) == "waiting"


def test_a_drained_node_is_no_lender(room):
    home, host = room.nodes
    drain(room, host)
    room.look()
    occupy(home)
    home.submit(a_job("job"))
    room.settle()
    assert home.said(Reserve) == []

    drain(room, host, is_on=False)
    room.look()
    assert len(home.said(Reserve)) == 1
    assert host.said(NotTaken) == []


def test_it_stays_drained_across_a_restart(room):
    home, _ = room.nodes
    drain(room, home)
    home.start_agent()
    assert (home.node.host.is_draining, home.node.host.is_left_now) == (True, False)

    drain(room, home, is_now=True)
    home.start_agent()
    assert (home.node.host.is_draining, home.node.host.is_left_now) == (True, True)

    drain(room, home, is_on=False)
    home.start_agent()
    assert isinstance(home.node, Node)
    assert not home.node.host.is_draining
