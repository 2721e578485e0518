"""What an owner answers to those who want room: late words, long lines, and homes that die."""

import msgspec
import pytest

from distributed_grid.kernel.accounts import TOO_MUCH, Allowance
from distributed_grid.kernel.across import hosting as hosting_module
from distributed_grid.kernel.across.entries import Asked
from distributed_grid.kernel.across.guests import ENTRY_BYTES
from distributed_grid.kernel.across.hosting import ENTRY_MS
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.node import Beat, Told
from distributed_grid.model.across import Epoch
from distributed_grid.model.job import Shipment, Where
from distributed_grid.wire.across import (
    Confirmed,
    Granted,
    Halt,
    NotGranted,
    NotTaken,
    Report,
    Reserve,
    Start,
    Waiting,
    Withdrawn,
)
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill


@pytest.fixture
def room() -> Room:
    return Room(3)


def hear(host: Neighbour, home: Neighbour, message) -> list:
    """What a node answers to one word; nobody else says anything."""
    ready = host.step(Told(now_ms=host.now_ms, peer=home.me, message=message))
    return [word for peer, word in [*ready.ask, *ready.send] if peer == home.me]


def question(home: Neighbour, name: str, number: int = 1) -> Reserve:
    return Reserve(
        job=a_job(name).id,
        epoch=Epoch(1, home.me),
        number=number,
        spec=msgspec.structs.replace(a_job(name), work=None),
    )


def granted(host: Neighbour, home: Neighbour, name: str) -> Granted:
    """A lease that waits for its Start."""
    (word,) = hear(host, home, question(home, name))
    assert isinstance(word, Granted)
    return word


def offers(host: Neighbour) -> set[str]:
    return set(host.node.across.hosting.offered)


def waiting(host: Neighbour) -> set[str]:
    return {job for _, job, _, _ in host.node.across.hosting.waiting()}


# Questions


def test_a_question_that_was_overtaken_by_a_later_one_is_not_answered(room):
    home, host, _ = room.nodes
    fill(host)
    hear(host, home, question(home, "job", number=5))

    assert hear(host, home, question(home, "job", number=4)) == []
    assert waiting(host) == {a_job("job").id}


def test_who_waits_is_told_its_place_and_what_keeps_the_first_of_the_line(room):
    home, host, _ = room.nodes
    fill(host)
    older = msgspec.structs.replace(question(home, "first"), waited_ms=1_000)
    (first,) = hear(host, home, older)
    (second,) = hear(host, home, question(home, "second"))

    assert (first.position, first.why) == (1, "1 core, 0 cores free")
    assert (second.position, second.why) == (2, "others ahead of it")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(1, 0), "asked"),
        (Asked(1, 0, 2), "position 2, waits for its turn"),
        (Asked(1, 0, 1, "an offer"), "position 1, waits for an offer"),
    ],
)
def test_an_entry_elsewhere_is_told_in_words(asked, words):
    assert str(asked) == words


def test_who_comes_when_too_many_wait_is_refused_and_who_waits_already_is_not(room):
    home, host, other = room.nodes
    accounts = host.node.across.hosting._accounts
    most = ENTRY_BYTES * 2
    accounts.limits = Allowance(most, most, most, 2 * most, most)
    fill(host)
    hear(host, home, question(home, "first"))

    (no,) = hear(host, home, question(home, "second"))
    (again,) = hear(host, home, question(home, "first", number=2))
    (others,) = hear(host, other, question(other, "third"))

    assert isinstance(no, NotGranted)
    assert no.reasons[0].startswith(TOO_MUCH)
    assert isinstance(again, Waiting)
    assert isinstance(others, Waiting)
    assert waiting(host) == {a_job("first").id, a_job("third").id}
    assert accounts[home.me] == accounts[other.me] > ENTRY_BYTES
    hear(host, home, Withdrawn(job=a_job("first").id, epoch=Epoch(1, home.me), number=3))
    assert accounts[home.me] == 0


def test_in_a_long_line_whoever_asks_is_told_its_length(room, monkeypatch):
    monkeypatch.setattr(hosting_module, "POSITIONS_MAX", 2)
    home, host, _ = room.nodes
    fill(host)
    names = ["one", "two", "three", "four"]
    for name in names[:2]:
        hear(host, home, question(home, name))
    places = [hear(host, home, question(home, name, 2))[0].position for name in names[:2]]
    assert sorted(places) == [1, 2]
    for name in names[2:]:
        hear(host, home, question(home, name))

    places = [hear(host, home, question(home, name, 3))[0].position for name in names]

    assert places == [4] * 4


def test_who_does_not_ask_again_waits_no_longer(room):
    home, host, _ = room.nodes
    fill(host)
    hear(host, home, question(home, "silent"))
    host.now_ms += ENTRY_MS - 1
    hear(host, home, question(home, "eager"))
    host.step(Beat(now_ms=host.now_ms))
    assert waiting(host) == {a_job("silent").id, a_job("eager").id}

    host.now_ms += 1
    host.step(Beat(now_ms=host.now_ms))

    assert waiting(host) == {a_job("eager").id}
    assert len(host.node.host.line) == 1


# Leases that wait for their Start


def test_a_withdrawal_takes_back_what_was_granted_to_that_job_alone(room):
    home, host, _ = room.nodes
    one, two = (granted(host, home, name) for name in ("one", "two"))

    hear(host, home, Withdrawn(job=one.job, epoch=one.epoch, number=one.number))

    assert offers(host) == {two.lease}
    assert set(host.node.ledger.leases) == {two.lease}


def test_a_lease_whose_attempt_is_halted_before_it_began_is_free_again(room):
    home, host, _ = room.nodes
    offer = granted(host, home, "job")

    (word,) = hear(host, home, Halt(job=offer.job, epoch=offer.epoch, lease=offer.lease))

    assert isinstance(word, NotTaken)
    assert offers(host) == set()
    assert not host.node.ledger.leases
    start = Start(
        job=offer.job,
        epoch=offer.epoch,
        number=2,
        lease=offer.lease,
        spec=a_job("job"),
        attempt=1,
    )
    (late,) = hear(host, home, start)
    assert isinstance(late, NotTaken)


def test_a_dead_home_leaves_the_line_and_its_leases_and_nobody_else_does(room):
    home, host, other = room.nodes
    kept, lost = granted(host, other, "kept"), granted(host, home, "lost")
    fill(host, count=2)
    for who, name in ((home, "gone"), (other, "stays")):
        hear(host, who, question(who, name))
    assert offers(host) == {kept.lease, lost.lease}
    assert waiting(host) == {a_job("gone").id, a_job("stays").id}

    room.dead.add((host.me, home.me))
    host.look()

    (next_one,) = offers(host) - {kept.lease}
    assert lost.lease not in host.node.ledger.leases
    assert a_job("stays").id in host.node.ledger.leases[next_one].job, "the room is taken at once"
    assert waiting(host) == set()


# Ends


@pytest.mark.parametrize("ends", [0, 2])
def test_only_ends_that_were_told_are_confirmed(room, ends):
    home, host, _ = room.nodes
    fill(home)
    room.look()
    job = a_job("job")
    home.submit(job)
    room.settle()
    host = room.by_id(home.job(job).live_attempts[0].host)
    room.cut.add((home.me, host.me))
    host.drain()
    room.settle()
    report = host.said(Report)[-1]
    said = len(host.said(Report))

    hear(host, home, Confirmed(job=job.id, lease=report.lease, ends=ends))
    room.pass_time(2_000)
    assert len(host.said(Report)) > said, "it is told until it is confirmed"

    hear(host, home, Confirmed(job=job.id, lease=report.lease, ends=1))
    said = len(host.said(Report))
    room.pass_time(2_000)
    assert len(host.said(Report)) == said


# Files


def test_what_has_more_files_than_a_node_can_ever_hold_waits_and_says_so():
    """It would be lost there, again and again."""
    room = Room(2)
    home, host = room.nodes
    host.node.host.files_bytes_max = 1 << 30
    large = Shipment(manifest="0" * 64, size_bytes=3 << 30, files=1)
    job = a_job("job", require=Where(nodes=("node-2",)), ship=large)
    home.submit(job)
    room.pass_time(5_000)

    assert home.state(job) == "waiting"
    assert host.said(Granted) == []
    why = explain(home.node.coordinator, home.job(job), home.now_ms)
    assert why.remedies == (
        "node-2: its files have 3 GiB, and there is room for 1 GiB here (grid cache)",
    )


def test_what_turns_out_to_be_too_large_when_it_is_packed_never_starts():
    room = Room(2)
    home, host = room.nodes
    host.node.host.files_bytes_max = 1 << 30
    room.cut.add((home.me, host.me))
    home.submit(a_job("job", require=Where(nodes=("node-2",))))
    room.settle()
    grant = granted(host, home, "job")
    large = Shipment(manifest="0" * 64, size_bytes=3 << 30, files=1)
    start = Start(
        job=grant.job,
        epoch=grant.epoch,
        number=grant.number,
        lease=grant.lease,
        spec=a_job("job", ship=large),
        attempt=1,
    )
    (word,) = hear(host, home, start)

    assert isinstance(word, NotTaken)
    assert "3 GiB" in word.why
    assert not host.keeper.runs
