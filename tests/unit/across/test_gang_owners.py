"""What an owner keeps for gangs, commits, starts on a word, and gives back."""

import msgspec
import pytest

from distributed_grid.kernel.accounts import Allowance
from distributed_grid.kernel.across import holds
from distributed_grid.kernel.node import Beat, Drain, Lend
from distributed_grid.model.across import Epoch
from distributed_grid.model.lending import Terms
from distributed_grid.wire.across import Halt, NotTaken, Poll, Report, Start, Taken
from distributed_grid.wire.gangs import (
    CommitHold,
    Committed,
    Go,
    Held,
    Hold,
    NotHeld,
    ReleaseHold,
)
from tests.across_world import Room
from tests.node_world import a_job
from tests.unit.across.gang_rooms import (
    lending,
    tell,
)


@pytest.fixture
def room() -> Room:
    return lending(Room(3))


def an_owner(room):
    """An owner, a home, and a gang of which two ranks are kept at the owner."""
    owner, home = room[1], room[0]
    room.cut.add((owner.me, home.me))  # It would say that it wants nothing.
    spec = msgspec.structs.replace(a_job("asked", gang=3), work=None)
    epoch = Epoch(1, home.me)
    word = Hold(job=spec.id, epoch=epoch, number=10, spec=spec, ranks=2, since_ms=1)
    (held,) = tell(owner, home.me, word)
    assert isinstance(held, Held)
    return owner, home, spec, epoch, held


def commit_word(spec, epoch, held, number=11):
    ranks = tuple((one.lease, rank) for rank, one in enumerate(held.leases))
    return CommitHold(job=spec.id, epoch=epoch, number=number, attempt=1, world=3, ranks=ranks)


def test_what_is_kept_is_given_back_when_nobody_refreshes_it(room):
    owner, *_ = an_owner(room)
    room.pass_time(holds.KEPT_MS - 1_000)
    assert len(owner.node.ledger.leases) == 2
    room.pass_time(1_000)
    assert owner.node.ledger.leases == {}


def test_asked_for_less_it_keeps_less_and_released_nothing(room):
    owner, home, spec, epoch, _ = an_owner(room)
    less = Hold(job=spec.id, epoch=epoch, number=11, spec=spec, ranks=1, since_ms=1)
    (held,) = tell(owner, home.me, less)
    assert len(held.leases) == 1
    lower = ReleaseHold(job=spec.id, epoch=epoch, number=9)
    tell(owner, home.me, lower)
    assert len(owner.node.ledger.leases) == 1
    tell(owner, room[2].me, ReleaseHold(job=spec.id, epoch=epoch, number=12))
    assert len(owner.node.ledger.leases) == 1
    tell(owner, home.me, ReleaseHold(job=spec.id, epoch=epoch, number=13))
    assert owner.node.ledger.leases == {}
    tell(owner, home.me, ReleaseHold(job=spec.id, epoch=epoch, number=14))


def test_a_lower_word_is_ignored(room):
    owner, home, spec, epoch, held = an_owner(room)
    old = Hold(job=spec.id, epoch=epoch, number=3, spec=spec, ranks=1, since_ms=1)
    assert tell(owner, home.me, old) == []
    assert tell(owner, home.me, commit_word(spec, epoch, held, number=3)) == []


@pytest.mark.parametrize("why", ["lending", "many", "drained"])
def test_who_cannot_keep_anything_says_why(room, why):
    owner, home = room[1], room[0]
    if why == "lending":
        owner.step(Lend(now_ms=owner.now_ms, terms=Terms(is_enabled=False)))
    if why == "many":
        owner.node.across.holds._accounts.limits = Allowance(0, 0, 0, 0, 0)
    if why == "drained":
        owner.step(Drain(now_ms=owner.now_ms))
    spec = msgspec.structs.replace(a_job("asked", gang=3), work=None)
    word = Hold(job=spec.id, epoch=Epoch(), number=10, spec=spec, ranks=2, since_ms=1)
    (no,) = tell(owner, home.me, word)
    assert isinstance(no, NotHeld)
    assert no.reasons


def test_whoever_may_not_submit_keeps_nothing_here(room):
    owner, home = room[1], room[0]
    home.peer["may_submit"] = False
    room.look()
    spec = msgspec.structs.replace(a_job("asked", gang=3), work=None)
    word = Hold(job=spec.id, epoch=Epoch(), number=10, spec=spec, ranks=2, since_ms=1)
    assert tell(owner, home.me, word) == []


def test_a_drained_node_tells_those_for_whom_it_kept_something(room):
    owner, home, spec, *_ = an_owner(room)
    ready = owner.step(Drain(now_ms=owner.now_ms))
    told_to = [word.job for to, word in ready.send if to == home.me and isinstance(word, NotHeld)]
    assert told_to == [spec.id]
    assert owner.node.ledger.leases == {}


def test_what_is_kept_for_a_home_that_dies_is_given_back(room):
    owner, home, *_ = an_owner(room)
    room.kill(room[2])
    assert len(owner.node.ledger.leases) == 2
    room.kill(home)
    assert owner.node.ledger.leases == {}


def test_what_is_not_kept_cannot_be_committed(room):
    owner, home, spec, epoch, held = an_owner(room)
    other = commit_word(spec, epoch, msgspec.structs.replace(held, leases=held.leases[:1]))
    (no,) = tell(owner, home.me, other)
    assert no == NotHeld(job=spec.id, epoch=epoch, reasons=("it is not kept here",))
    (no,) = tell(owner, room[2].me, commit_word(spec, epoch, held, number=12))
    assert isinstance(no, NotHeld)


def committed(room):
    owner, home, spec, epoch, held = an_owner(room)
    (yes,) = tell(owner, home.me, commit_word(spec, epoch, held))
    assert isinstance(yes, Committed)
    lease = held.leases[0].lease
    return owner, home, spec, epoch, held, lease


def start_word(asked, epoch, lease, **what):
    whole = a_job("asked", gang=3)
    word = Start(
        job=asked.id, epoch=epoch, number=20, lease=lease, spec=whole, attempt=1, rank=0, ranks=3
    )
    return msgspec.structs.replace(word, **what)


def test_a_commit_said_again_is_answered_again_and_survives_on_disk(room):
    owner, home, spec, epoch, held, _ = committed(room)
    (again,) = tell(owner, home.me, commit_word(spec, epoch, held, number=12))
    assert isinstance(again, Committed)
    assert len(owner.saved_leases) == 2
    assert owner.keeper.runs == {}


def test_a_rank_is_asked_after_started_and_let_go_in_that_order(room):
    owner, home, spec, epoch, held, lease = committed(room)
    poll = Poll(job=spec.id, epoch=epoch, lease=lease)
    assert tell(owner, home.me, poll) == []
    go = Go(job=spec.id, epoch=epoch, lease=lease)
    tell(owner, home.me, go)  # Nobody has said yet what it runs.
    assert owner.keeper.runs == {}
    assert tell(owner, home.me, start_word(spec, epoch, lease)) == [Taken(job=spec.id, lease=lease)]
    assert tell(owner, home.me, poll) == [Taken(job=spec.id, lease=lease)]
    assert owner.keeper.runs == {}
    tell(owner, home.me, go)
    assert list(owner.keeper.runs) == [lease]
    tell(owner, home.me, go)
    assert tell(owner, home.me, start_word(spec, epoch, lease, number=21))[0] == Taken(
        job=spec.id, lease=lease
    )
    assert held.leases[1].lease in owner.node.ledger.leases


def test_a_rank_that_ran_and_whose_machine_has_forgotten_that_is_over(room):
    """Its disk is from before it began: nobody says Start to what runs."""
    owner, home, spec, epoch, _, lease = committed(room)
    tell(owner, home.me, Poll(job=spec.id, epoch=epoch, lease=lease, has_begun=True))

    assert lease not in owner.node.ledger.leases
    owner.now_ms += 1_000
    owner.step(Beat(now_ms=owner.now_ms))
    (report,) = [word for word in owner.said(Report) if word.lease == lease][-1:]
    assert report.ends[-1].how == "stopped"


def test_an_uncommitted_lease_is_not_unknown_to_whoever_asks(room):
    owner, home, spec, epoch, held = an_owner(room)
    assert tell(owner, home.me, Poll(job=spec.id, epoch=epoch, lease=held.leases[0].lease)) == []


def test_a_start_for_more_than_was_kept_is_not_taken(room):
    owner, home, spec, epoch, _, lease = committed(room)
    larger = a_job("asked", gang=3, cpus=2_000)
    (no,) = tell(owner, home.me, start_word(spec, epoch, lease, spec=larger))
    assert isinstance(no, NotTaken)


def test_an_older_word_on_a_rank_is_not_obeyed(room):
    owner, home, spec, epoch, _, lease = committed(room)
    tell(owner, home.me, Poll(job=spec.id, epoch=Epoch(2, home.me), lease=lease))
    for word in (
        start_word(spec, epoch, lease),
        Go(job=spec.id, epoch=epoch, lease=lease),
        Halt(job=spec.id, epoch=epoch, lease=lease),
        Poll(job=spec.id, epoch=epoch, lease=lease),
    ):
        tell(owner, home.me, word)
    assert owner.keeper.runs == {}
    assert lease in owner.node.ledger.leases


def test_a_rank_of_which_nobody_speaks_any_more_never_starts(room):
    owner, *_, lease = committed(room)
    room.pass_time(holds.ORPHAN_MS - 1_000)
    assert lease in owner.node.ledger.leases
    room.pass_time(1_500)
    assert lease not in owner.node.ledger.leases


def test_a_rank_that_is_not_to_run_is_given_back(room):
    owner, home, spec, epoch, _, lease = committed(room)
    tell(owner, home.me, Halt(job=spec.id, epoch=epoch, lease=lease))
    assert lease not in owner.node.ledger.leases
