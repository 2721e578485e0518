"""Work moves off a node that is weak or in the way, never in vain and never twice at once."""

import pytest

from distributed_grid.errors import NeverFits
from distributed_grid.kernel.across import balancing
from distributed_grid.kernel.across.asking import Asked, worst
from distributed_grid.kernel.node import Lend, Node, Rules, Sampled
from distributed_grid.kernel.placement import PowerPolicy
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Preempt, Where
from distributed_grid.model.lending import Sample, Terms
from distributed_grid.model.node import Power
from distributed_grid.wire.across import Reserve, Withdrawn
from distributed_grid.wire.keeper import Preempt as TellToGiveWay
from distributed_grid.wire.keeper import Suspend
from tests.across_world import Room
from tests.node_world import PATHS, SENSES, World, a_job, told
from tests.unit.across.filling import give_way, occupy

SAVES = Preempt(command=("save",))
ONLY_HERE = Where(nodes=("node-1",))


def a_sample(who, **what):
    total = who.node.ledger.total
    return Sample(
        at_ms=who.now_ms,
        local_minute=12 * 60,
        cpu_total_milli=total.cpu_milli,
        cpu_used_milli=0,
        memory_total_bytes=total.memory_bytes,
        memory_used_bytes=0,
        storage_free_bytes=total.storage_bytes,
        **what,
    )


def measured(who, **what):
    who.step(Sampled(now_ms=who.now_ms, sample=a_sample(who, **what)))
    who.room.settle()


def later(room, by_ms):
    for node in room.nodes:
        node.now_ms += by_ms
    room.look()


@pytest.fixture
def room() -> Room:
    return Room()


# Power


@pytest.mark.rows("S2-17", "S2-86")
def test_own_work_that_can_save_its_state_leaves_a_low_battery(room):
    home, host = room.nodes
    saves, plain = a_job("saves", preempt=SAVES), a_job("plain")
    home.submit(saves, plain)
    room.settle()
    measured(home, is_on_battery=True, battery_percent=30)
    assert told(home, TellToGiveWay) == []

    measured(home, is_on_battery=True, battery_percent=19)
    give_way(room, home)
    assert home.job(saves).live_attempts[0].node == host.name
    assert home.job(plain).live_attempts[0].node == home.name
    assert home.node.across.balancing.why() == "battery"


@pytest.mark.rows("S2-88")
def test_own_work_leaves_an_overheated_node_until_it_has_cooled_down(room):
    home, host = room.nodes
    measured(home, temperature_centi=8_600)
    first = a_job("first")
    home.submit(first)
    room.settle()
    assert home.job(first).live_attempts[0].node == host.name

    measured(home, temperature_centi=8_300)
    assert home.node.across.balancing.why() == "heat"
    measured(home, temperature_centi=7_900)
    assert home.node.across.balancing.why() == ""
    second = a_job("second")
    home.submit(second)
    room.settle()
    assert home.job(second).live_attempts[0].node == home.name


@pytest.mark.rows("S2-137", "S2-138")
def test_the_owner_says_what_is_low_and_what_is_hot():
    world = World()
    power = PowerPolicy(battery_percent_min=50, temperature_centi_max=7_000)
    node = Node(
        name="desk",
        ledger=world.node.ledger,
        paths=PATHS,
        new_lease_id=lambda: "",
        rules=Rules(power=power),
    )
    balancing = node.join(NodeId("a"), senses=SENSES).balancing
    for what, why in (
        ({"is_on_battery": True, "battery_percent": 49}, "battery"),
        ({"is_on_battery": True, "battery_percent": 50}, ""),
        ({"temperature_centi": 7_100}, "heat"),
    ):
        node.step(Sampled(now_ms=1, sample=a_sample(world, **what)))
        assert balancing.why() == why


@pytest.mark.parametrize("weak", [
    {"is_on_battery": True, "battery_percent": 5},
    {"temperature_centi": 9_900},
])  # fmt: skip
def test_what_can_run_only_here_runs_on_a_weak_node_too(room, weak):
    home = room[0]
    home.facts = {"power": Power(
        on_battery="battery_percent" in weak,
        battery_percent=weak.get("battery_percent"),
        temperature_centi=weak.get("temperature_centi"),
    )}  # fmt: skip
    room.look()
    measured(home, **weak)
    bound = a_job("bound", require=ONLY_HERE)
    home.submit(bound)
    room.settle()
    assert home.state(bound) == "running"

    if weak.get("is_on_battery"):
        with pytest.raises(NeverFits):
            home.submit(a_job("careful", require=ONLY_HERE, battery_safe=False))


def test_a_battery_of_which_the_level_is_not_known_is_not_low(room):
    home, _ = room.nodes
    measured(home, is_on_battery=True)
    assert home.node.across.balancing.why() == ""


def test_before_anything_was_measured_nothing_is_weak():
    room = Room(1)
    home = room[0]
    home.start_agent()
    assert home.node.across.balancing.why() == ""


def test_what_was_never_to_run_on_battery_leaves_any(room):
    home, host = room.nodes
    careful = a_job("careful", preempt=SAVES, battery_safe=False)
    home.submit(careful)
    room.settle()
    assert home.job(careful).live_attempts[0].node == home.name

    measured(home, is_on_battery=True, battery_percent=90)
    give_way(room, home)
    assert home.job(careful).live_attempts[0].node == host.name


def test_guests_that_can_save_their_state_leave_a_battery_and_others_are_suspended():
    room = Room(3)
    home, laptop, other = room.nodes
    occupy(home)
    occupy(other)
    room.look()
    saves, plain = a_job("saves", preempt=SAVES), a_job("plain")
    home.submit(saves, plain)
    room.settle()
    assert {home.job(job).live_attempts[0].node for job in (saves, plain)} == {laptop.name}

    measured(laptop, is_on_battery=True, battery_percent=90)
    assert len(told(laptop, TellToGiveWay)) == 1
    assert len(told(laptop, Suspend)) == 1
    other.drain()
    give_way(room, laptop)
    for node in (home, other):
        node.now_ms += 1_500
        node.look()
    room.settle()
    assert home.job(saves).live_attempts[0].node == other.name


# Uneven load


def busy(room, **what):
    """A home full of work that can move, for long, and another node with room."""
    home = room[0]
    home.step(Lend(now_ms=home.now_ms, terms=Terms(policy="aggressive", **what)))
    home.submit(*[a_job(f"old-{n}", preempt=SAVES) for n in range(4)])
    room.settle()
    later(room, balancing.MOVE_MS)
    return home


@pytest.mark.rows("S0-67", "S0-68")
def test_running_work_makes_room_for_what_can_run_only_here(room):
    home, host = busy(room), room[1]
    stuck = a_job("stuck", require=ONLY_HERE, cpus=2_000)
    home.submit(stuck)
    room.settle()
    later(room, 500)
    assert told(home, TellToGiveWay) == []

    later(room, balancing.STUCK_MS)
    assert len(told(home, TellToGiveWay)) == 2
    give_way(room, home)
    assert home.state(stuck) == "running"
    assert home.job(stuck).live_attempts[0].node == home.name
    moved = [home.job(a_job(f"old-{n}")).live_attempts[0].node for n in range(4)]
    assert moved.count(host.name) == 2


def test_two_moves_are_a_cooldown_apart(room):
    home = busy(room)
    home.submit(*[a_job(f"stuck-{n}", require=ONLY_HERE) for n in range(2)])
    room.settle()
    later(room, balancing.STUCK_MS)
    give_way(room, home)
    later(room, 5_000)
    assert len(told(home, TellToGiveWay)) == 1

    later(room, balancing.MOVE_MS)
    assert len(told(home, TellToGiveWay)) == 2


def test_what_was_moved_does_not_wait_again_where_it_left(room):
    home, host = busy(room), room[1]
    occupy(host)
    home.submit(a_job("stuck", require=ONLY_HERE))
    room.settle()
    host.drain()
    room.look()
    occupy(host, count=3)
    room.look()
    later(room, balancing.STUCK_MS)
    (word,) = told(home, TellToGiveWay)
    occupy(host, count=4, priority="high")
    (moved,) = [
        job
        for job in home.node.coordinator.jobs.values()
        if job.live_attempts and job.live_attempts[0].id == word.attempt
    ]
    give_way(room, home)
    assert moved.spec.id not in home.node.host.line

    later(room, balancing.MOVED_MS)
    assert (moved.spec.id in home.node.host.line) or moved.live_attempts


@pytest.mark.parametrize("terms", [{"mode": "share_and_offload"}, {"policy": "balanced"}])
def test_running_work_moves_only_if_the_owner_lets_it(room, terms):
    home = busy(room)
    home.step(Lend(now_ms=home.now_ms, terms=Terms(**{"policy": "aggressive"} | terms)))
    home.submit(a_job("stuck", require=ONLY_HERE))
    room.settle()
    later(room, balancing.STUCK_MS)

    assert told(home, TellToGiveWay) == []


def test_nobody_moves_for_those_who_could_go_elsewhere_or_when_there_is_no_room(room):
    home, host = busy(room), room[1]
    occupy(host)
    room.look()
    home.submit(a_job("stuck", require=ONLY_HERE))
    room.settle()
    later(room, balancing.STUCK_MS)
    assert told(home, TellToGiveWay) == []


def test_nobody_moves_if_it_would_not_help(room):
    home = room[0]
    home.step(Lend(now_ms=home.now_ms, terms=Terms(policy="aggressive")))
    occupy(home, count=3)
    home.submit(a_job("old", preempt=SAVES))
    room.settle()
    later(room, balancing.MOVE_MS)
    home.submit(a_job("stuck", require=ONLY_HERE, cpus=3_000))
    room.settle()
    later(room, balancing.STUCK_MS)

    assert told(home, TellToGiveWay) == []


def test_nobody_moves_for_a_borrower_or_for_another_node(room):
    home, host = busy(room), room[1]
    home.submit(a_job("borrower", is_shared=True, require=ONLY_HERE))
    room.settle()
    later(room, balancing.STUCK_MS)
    assert told(home, TellToGiveWay) == []

    home.cancel(a_job("borrower"))
    occupy(host)
    host.submit(a_job("guest", require=ONLY_HERE))
    room.look()
    later(room, balancing.STUCK_MS)
    assert told(home, TellToGiveWay) == []


def test_only_so_many_moves_are_remembered(room, monkeypatch):
    monkeypatch.setattr(balancing, "MOVED_MAX", 2)
    home = room[0]
    jobs = [a_job(f"job-{n}", preempt=SAVES) for n in range(4)]
    home.submit(*jobs)
    room.settle()
    measured(home, is_on_battery=True, battery_percent=1)

    assert len(home.node.across.balancing._moved) == 2


# Waiting in a better line


def two_full():
    room = Room(3)
    for node in room.nodes:
        occupy(node)
    room.look()
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    ((first, _),) = [(to, word) for to, word in room[0].sent if isinstance(word, Reserve)]
    last = next(node for node in room.nodes[1:] if node.me != first)
    return room, job, room.by_id(first), last


def test_a_job_leaves_a_line_when_another_node_has_room():
    room, job, asked, free = two_full()
    free.drain()
    later(room, 1_500)

    assert room[0].job(job).live_attempts[0].node == free.name
    assert [to for to, word in room[0].sent if isinstance(word, Withdrawn)] == [asked.me]
    assert list(asked.node.host.line) == []


def test_it_changes_lines_at_most_each_ten_seconds_and_does_not_go_back():
    room, job, asked, free = two_full()
    home = room[0]
    room.cut |= {(home.me, free.me)}
    free.drain()
    later(room, 1_500)
    assert len(home.said(Withdrawn)) == 1

    room.cut.clear()
    free.submit(*[a_job(f"more-{n}", priority="high") for n in range(4)])
    room.pass_time(10_500)  # It stands in the other line.
    asked.drain()
    later(room, 500)
    assert len(home.said(Withdrawn)) == 1
    later(room, 21_000)
    assert home.job(job).live_attempts[0].node == asked.name


def test_the_worst_line_is_the_one_in_which_one_stands_last():
    a, b, c = (NodeId(letter) for letter in "abc")
    assert worst({}) is None
    assert worst({a: Asked(1, 0)}) is None
    assert worst({a: Asked(1, 0, 2), b: Asked(2, 0, 7), c: Asked(3, 0)}) == b
