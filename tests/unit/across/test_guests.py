"""A guest has one account on its owner, and obeys the highest home that it has heard of."""

import msgspec
import pytest

from distributed_grid.kernel.node import Beat, Tick, Told
from distributed_grid.model.across import Epoch
from distributed_grid.wire.across import Halt, Poll, Reserve, Start, Taken, Withdrawn
from distributed_grid.wire.job_lane import decode
from tests.across_world import Room
from tests.node_world import a_job, fill


def test_a_guest_stays_on_the_account_that_it_was_granted_on_when_its_home_takes_another_name():
    room = Room()
    home, host = room.nodes
    fill(home)
    home.submit(a_job("job", user="ada"))
    while not home.said(Start):
        source, target, body = room.post.popleft()
        node = room.by_id(target)
        node.step(Told(now_ms=node.now_ms, peer=source, message=decode(body)))
    home.name = "renamed"
    host.look()
    room.settle()
    (lease,) = host.node.ledger.leases
    holder = host.node.host.accounts.holder(lease)[0]
    assert holder == "ada@node-1"

    host.now_ms += 60_000
    host.step(Tick(now_ms=host.now_ms))
    host.start_agent()
    assert host.node.host.accounts.holder(lease)[0] == holder
    host.drain()  # Who never paid is not paid back: `check` sees to that in each step.


@pytest.mark.parametrize("kind", [Start, Halt, Poll])
def test_a_guest_never_obeys_a_former_home_again_however_long_it_hears_nothing(kind):
    room = Room(3)
    home, host, other = room.nodes
    fill(home)
    fill(other)
    room.look()
    job = a_job("job")
    home.submit(job)
    room.settle()
    (start,) = home.said(Start)
    higher = Poll(job=job.id, epoch=Epoch(2, other.me), lease=start.lease)
    room.dead.add((host.me, home.me))
    host.look()
    host.step(Told(now_ms=host.now_ms, peer=other.me, message=higher))
    room.dead.clear()
    host.look()
    host.now_ms += 61_000
    host.step(Beat(now_ms=host.now_ms))
    old = Epoch(1, home.me)
    words = {
        Start: msgspec.structs.replace(start, number=start.number + 1),
        Halt: Halt(job=job.id, epoch=old, lease=start.lease, grace_ms=0),
        Poll: Poll(job=job.id, epoch=old, lease=start.lease),
    }
    said = len(host.said(Taken))
    host.step(Told(now_ms=host.now_ms, peer=home.me, message=words[kind]))

    hosting = host.node.across.hosting
    guest = host.node.coordinator.jobs[start.lease]
    assert hosting.reporting.home_of(guest) == other.me
    assert not guest.is_cancelled
    assert len(host.said(Taken)) == said


@pytest.mark.parametrize(("behind", "waits"), [(1, 1), (0, 0)])
def test_a_withdrawal_that_was_overtaken_by_the_next_question_changes_nothing(behind, waits):
    """Questions leave before what is saved, and what was withdrawn before them after it."""
    room = Room()
    home, host = room.nodes
    fill(home)
    fill(host)
    room.look()
    home.submit(a_job("job"))
    room.settle()
    asked = home.said(Reserve)[-1]
    line = len(host.node.host.line)

    late = Withdrawn(job=asked.job, epoch=asked.epoch, number=asked.number - behind)
    host.step(Told(now_ms=host.now_ms, peer=home.me, message=late))

    assert len(host.node.host.line) == line - 1 + waits
