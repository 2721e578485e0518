"""What keeps a node quick and quiet among a thousand: it does nothing again that is as it was."""

import msgspec
import pytest

from distributed_grid.kernel.across import shares as shares_module
from distributed_grid.kernel.across import stealing, stock
from distributed_grid.kernel.across.away import POLL_MS
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.stock import Stock
from distributed_grid.kernel.node import Beat, Told
from distributed_grid.kernel.placement import Rules
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across import Begun, Confirmed, Copied, Idle, Line, Poll, Taken
from tests.across_world import Room
from tests.node_world import a_job
from tests.unit.across.filling import occupy
from tests.unit.across.test_stealing import loaded, stuck
from tests.unit.across.test_stock import ONE_CORE, a_peer, a_record, node


@pytest.fixture
def uneven() -> Room:
    """A home and another node that are full, and one that is idle."""
    room = Room(3)
    occupy(room[0])
    occupy(room[1])
    return room


def said(ready, kind):
    return [word for _, word in ready.send if isinstance(word, kind)]


# Stealing


def test_two_idle_nodes_are_told_of_different_jobs(uneven):
    home, other, one = uneven.nodes
    stuck(uneven, *(a_job(f"job-{n}") for n in range(12)))
    word = Idle(cpu_milli=1_000, memory_bytes=1 << 30)

    def told_to(who):
        ready = home.step(Told(now_ms=home.now_ms, peer=who.me, message=word))
        (line,) = said(ready, Line)
        return [job for _, job, *_ in line.waiting]

    first, second = told_to(one), told_to(other)
    assert len(first) == 8
    assert set(second[:4]).isdisjoint(first)
    assert set(second[4:]) <= set(first)  # Too few for everybody: better two than none.

    home.now_ms += stealing.TOLD_MS
    assert told_to(other) == first


def test_a_question_that_brought_something_is_followed_by_another_soon(uneven):
    home, _, idle = uneven.nodes
    stuck(uneven, a_job("job"))
    uneven.look()
    asked = len(idle.said(Idle))
    assert asked == 1

    loaded(home, 1)
    idle.look()
    assert len(idle.said(Idle)) == asked
    idle.now_ms += stealing.AGAIN_MS
    idle.look()
    assert len(idle.said(Idle)) == asked + 1


def test_of_lines_that_are_about_as_long_every_idle_node_asks_others_first():
    room = Room(12)
    for other in room.nodes[:10]:
        loaded(other, 4 + room.nodes.index(other) % 3)
    room.look()

    asked = [{to for to, word in idle.sent if isinstance(word, Idle)} for idle in room.nodes[10:]]
    assert [len(one) for one in asked] == [2, 2]
    assert asked[0] != asked[1]


def test_who_waits_here_and_does_not_fit_does_not_keep_small_work_away_for_long():
    room = Room(2)
    home, idle = room.nodes
    occupy(idle, 1)
    idle.submit(a_job("large", cpus=4_000))
    loaded(home)
    idle.look()
    assert len(idle.said(Idle)) == 1

    idle.now_ms += stealing.OVERTAKEN_MS
    idle.look()
    assert len(idle.said(Idle)) == 1


def test_for_whom_others_give_way_nothing_is_taken_in_between(uneven):
    _home, _, idle = uneven.nodes
    loaded(uneven[0])
    idle.node.host.awaited.add(a_job("awaited").id)
    idle.node.coordinator.giving_way._for_whom["a lease"] = a_job("awaited").id
    uneven.look()

    assert idle.said(Idle) == []


# Views


def test_that_nobody_has_room_is_remembered_for_all_who_want_the_same(monkeypatch):
    held, asked = Stock(), []
    full = {node(1): a_peer(a_record(1, 0))}
    held.see(full, 0)
    best = type(held.free).best
    monkeypatch.setattr(
        type(held.free), "best", lambda *words: asked.append(words[1].name) or best(*words)
    )
    again = msgspec.structs.replace(ONE_CORE, name="again", id=a_job("again").id)

    assert held.with_room(ONE_CORE, Rules(), 1) == []
    assert held.with_room(again, Rules(), 1) == []
    assert asked == ["job"]
    filtered = Rules(filters={"no": lambda _job, _node: "no"})
    held.see({node(1): a_peer(a_record(1, 3))}, 1)
    assert held.with_room(ONE_CORE, filtered, 1) == []
    assert [one.id for one in held.with_room(again, Rules(), 1)] == [node(1)]


def test_what_is_remembered_of_kinds_of_jobs_is_bounded(monkeypatch):
    monkeypatch.setattr(stock, "KINDS_MAX", 2)
    held = Stock()
    held.see({node(1): a_peer(a_record(1, 0))}, 0)
    for number in range(5):
        assert held.with_room(a_job(f"job-{number}", cpus=1 + number), Rules(), 1) == []
        assert len(held._full) <= 2


def test_only_some_are_listened_to_in_one_view_and_the_others_in_the_next(monkeypatch):
    monkeypatch.setattr(shares_module, "HEARD_MAX", 2)
    (home,) = Room(1).nodes
    shares = home.node.across.shares
    home.node.host.accounts.joined("ann@attic", "")

    def view(step, used):
        usage = (("ann@attic", used),)
        return {
            node(n): Peer(
                id=node(n), name=f"n{n}", record=a_record(n, 1), usage=usage, usage_step=step
            )
            for n in range(10, 15)
        }

    first, second = view(5, 1_000), view(6, 3_000)
    for peers in (first, first, first):
        shares.see(peers, "node-1")
    assert set(shares._told) == set(first)
    spent = [home.node.host.accounts.user_spent("ann@attic")]
    for peers in (second, second, second, second):
        shares.see(peers, "node-1")
        spent.append(home.node.host.accounts.user_spent("ann@attic"))

    assert spent[0] == 0 < spent[1] < spent[2] < spent[3] == spent[4]
    shares.see(second | {node(16): Peer(id=node(16), name="new", usage=(("x", 1),))}, "node-1")
    assert node(16) not in shares._told
    shares._unheard[NodeId("e" * 64)] = None  # It left before it was its turn.
    shares.see(second, "node-1")
    assert set(shares._told) == set(first)


# Words


def far(room, name="job"):
    """A job of the first node that runs on the second."""
    home, owner = room.nodes
    occupy(home)
    job = a_job(name)
    home.submit(job)
    room.settle()
    (attempt,) = home.job(job).live_attempts
    assert attempt.node == owner.name
    return job, attempt


def test_who_asks_after_what_runs_hears_that_it_runs_and_nothing_is_written():
    room = Room(2)
    home, owner = room.nodes
    job, attempt = far(room)
    poll = Poll(job=job.id, epoch=home.job(job).epoch, lease=attempt.lease)

    ready = owner.step(Told(now_ms=owner.now_ms, peer=home.me, message=poll))

    assert [type(word) for _, word in ready.send] == [Begun]
    assert ready.save_jobs == {}


def test_who_asks_after_what_has_not_begun_hears_that_it_was_taken():
    room = Room(2)
    home, owner = room.nodes
    job, attempt = far(room)
    guest = owner.node.coordinator.jobs[attempt.lease]
    guest.attempts[-1].state = "granted"
    poll = Poll(job=job.id, epoch=home.job(job).epoch, lease=attempt.lease)

    ready = owner.step(Told(now_ms=owner.now_ms, peer=home.me, message=poll))

    assert [type(word) for _, word in ready.send] == [Taken]
    guest.attempts[-1].state = "running"


def test_who_asks_after_what_was_confirmed_is_told_all_of_it_again():
    room = Room(2)
    home, owner = room.nodes
    job, attempt = far(room)
    guest = owner.node.coordinator.jobs[attempt.lease]
    owner.drain()
    room.settle()
    assert guest.confirmed == len(guest.ends) == 1
    poll = Poll(job=job.id, epoch=home.job(job).epoch, lease=attempt.lease)

    ready = owner.step(Told(now_ms=owner.now_ms, peer=home.me, message=poll))

    assert guest.spec.id in ready.save_jobs
    assert guest.confirmed == 0
    room.settle()
    assert said(home.node.step(Beat(now_ms=home.now_ms)), Confirmed) == []
    room.pass_time(POLL_MS)
    assert guest.confirmed == 1


def test_what_others_say_starts_nothing_new_unless_something_is_free(monkeypatch):
    room = Room(2)
    home, other = room.nodes
    looks = []
    fill = home.node.coordinator.fill
    monkeypatch.setattr(
        home.node.coordinator, "fill", lambda *words: looks.append(words) or fill(*words)
    )
    word = Copied(job=a_job("nobody's").id, version=Fence())
    home.step(Told(now_ms=home.now_ms, peer=other.me, message=word))
    looks.clear()

    home.step(Told(now_ms=home.now_ms, peer=other.me, message=word))
    assert looks == []
    home.step(Beat(now_ms=home.now_ms))
    assert len(looks) == 1
