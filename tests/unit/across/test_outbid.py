"""One of those who vote on a job obeys a higher epoch than its home has: that is made up for."""

import msgspec
import pytest

from distributed_grid.kernel.across.asking import REFUSED_MS
from distributed_grid.kernel.across.once_home import Step
from distributed_grid.kernel.across.register_candidate import PAUSE_US, PAUSE_US_SPREAD
from distributed_grid.kernel.across.register_effects import Deposed, Effects, Outbid, Ruling
from distributed_grid.kernel.across.register_lease import PATIENCE_US
from distributed_grid.kernel.across.wish import GIVEN_BACK_MAX, GivenBack
from distributed_grid.kernel.node import Cancel, Force, Told
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Where
from distributed_grid.wire.across import Granted, Inquiry, Report, Reserve, Start
from distributed_grid.wire.job_lane import encode
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    NotAccepted,
    Prepare,
    Promised,
    Recollect,
    Recollected,
    Written,
)
from tests.node_world import fill
from tests.unit.across.once_room import OnceRoom, once
from tests.unit.across.register_lab import JOB, A, B, C, D, E, RegisterLab, a_written, members

BIDS_US = PAUSE_US + PAUSE_US_SPREAD


# The register


def test_nobody_wins_under_an_epoch_below_one_that_a_voter_is_known_to_obey():
    lab = RegisterLab("abcde")
    lab.open(C, "cde")
    lab.name("l1", D, by=C)
    lab.away |= {D, E}
    old = a_written(Fence(), "cde")
    lab.do(A, lab.nodes[A].writer.force(JOB, members("abc"), old, lab.now_us))
    lab.deliver()

    assert [one.by for one in lab.take(A, Outbid)] == [Epoch(1, C)]
    assert lab.take(A, Ruling) == [], "two of three have promised, and the third holds more"
    lab.pass_time(BIDS_US)
    (ruling,) = lab.take(A, Ruling)
    assert ruling.epoch == Epoch(2, A)
    assert ruling.written.standing.lease == "l1"
    written = {lab.nodes[name].voter.written(JOB) for name in (A, B, C)}
    assert written == {ruling.written}


def test_a_chair_knows_the_highest_that_one_of_its_voters_obeys():
    lab = RegisterLab("abcde")
    lab.open(names="abcde")
    assert lab.chair(A).outbid_by is None
    for voter, counter in ((D, 7), (E, 5)):
        asked = Prepare(job=JOB, epoch=Epoch(counter, B), ask=1, sets=(members("abcde"),))
        lab.do(voter, lab.nodes[voter].voter.hear(B, asked, lab.now_us))
    lab.deliver()
    effects = Effects()
    lab.chair(A).store(b"two", lab.now_us, effects)
    lab.do(A, effects)
    lab.deliver()

    assert lab.chair(A).outbid_by == Epoch(7, B)
    assert lab.take(A, Deposed) == []


def test_a_person_s_word_does_not_put_an_older_record_over_one_that_a_voter_holds():
    lab = RegisterLab("abcde")
    lab.open()
    old = lab.nodes[A].voter.written(JOB)
    lab.away.add(A)
    lab.take_over(B)
    lab.name("l1", C, by=B)
    lab.away = {B}
    lab.do(A, lab.nodes[A].writer.force(JOB, members("acd"), old, lab.now_us, seen=Epoch(9, A)))
    lab.deliver()

    (ruling,) = lab.take(A, Ruling)[-1:]
    assert ruling.written.standing.voters == members("acd")
    assert (ruling.written.standing.lease, ruling.written.value) == ("l1", b"l1")
    assert lab.values((A, C, D)) == [b"l1"] * 3


# Its home


def emptied(node) -> None:
    """What filled it ends."""
    for attempt in list(node.keeper.started):
        node.keeper.end_one(attempt, 0)


def hear(room: OnceRoom, who, by, message) -> None:
    """One node is told something on another's behalf."""
    there, ready = who.node.across.once, Ready()
    there._do(there.register.hear(by.me, message, who.now_ms * 1_000), who.now_ms, ready)
    room.post += [(who.me, peer, encode(message)) for peer, message in ready.send]
    room.settle()


def obey(room: OnceRoom, who, by, job) -> None:
    """One of its voters has given another its promise."""
    sets = who.node.across.once.register.voter.written(job.id).standing.sets
    hear(room, who, by, Prepare(job=job.id, epoch=Epoch(5, by.me), ask=1, sets=sets))


def promised(room: OnceRoom, job) -> set[Epoch]:
    return {node.node.across.once.register.voter.promised(job.id) for node in room.nodes}


def waiting_for(number: int) -> tuple[OnceRoom, object]:
    """A job of the first node that waits for room on one of the others, or its own."""
    room, job = OnceRoom(), once(require=Where(nodes=(f"node-{number}",)))
    fill(room[number - 1])
    room.look()
    room[0].submit(job)
    room.settle()
    room.pass_time(1_000)
    assert room.starts == []
    return room, job


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_home_that_one_voter_refuses_bids_higher_and_its_job_runs_on_that_node_too(number):
    room, job = waiting_for(number)
    obey(room, room[1], room[2], job)
    emptied(room[number - 1])
    room.look()
    room.until(lambda: room.starts != [], 30_000)

    assert room.running(job.id) == [f"node-{number}"]
    assert promised(room, job) == {Epoch(6, room[0].me)}, "they obey one again"
    assert len(room[0].job(job).attempts) == room[0].job(job).attempts_made == 1
    assert any(peer == room[2].me and isinstance(one, Inquiry) for peer, one in room[0].sent)
    room.finish(job)
    assert room[0].state(job) == "succeeded"


def test_what_runs_goes_on_while_its_home_bids_higher():
    room, job = waiting_for(3)
    emptied(room[2])
    room.look()
    room.until(lambda: room.starts != [], 30_000)
    obey(room, room[1], room[2], job)
    room[0].node.across.once.home._written.clear()  # Something is to be written down.
    room.pass_time(30_000)

    assert promised(room, job) == {Epoch(6, room[0].me)}
    assert room.running(job.id) == ["node-3"]
    assert len(room.starts) == 1


def test_a_home_that_bids_higher_remembers_what_has_ended_on_its_owner_s_word():
    room, job = OnceRoom(), once(retries=1, require=Where(nodes=("node-2",)))
    room.look()
    room[0].submit(job)
    room.until(lambda: room.starts != [], 30_000)
    obey(room, room[2], room[1], job)
    room.losing = (Granted,)  # The next one is not placed before its home has bidden.
    room.finish(job, 1)
    room.until(lambda: promised(room, job) == {Epoch(6, room[0].me)})
    found = room[0].job(job)
    assert [(one.state, one.how) for one in found.attempts] == [("ended", "exited")]
    room.losing = ()
    room.until(lambda: found.live_attempts != [], 30_000)
    room.pass_time(500)

    assert len(room.starts) == 2, "nothing can run beside it, so it waits for no lease to end"


@pytest.mark.parametrize(
    ("state", "how", "is_over"),
    [
        ("ended", "exited", True),
        ("ended", "signalled", True),
        ("ended", "timeout", True),
        ("ended", "stopped", False),
        ("lost", "lost", False),
        ("running", "", False),
    ],
)
def test_who_rules_again_takes_nobody_s_word_for_an_end_but_its_owner_s(state, how, is_over):
    room, job = waiting_for(2)
    emptied(room[1])
    room.look()
    room.until(lambda: room.starts != [], 30_000)
    home, found = room[0].node.across.once.home, room[0].job(job)
    (attempt,) = found.attempts
    attempt.state, attempt.how = state, how
    chair = home._writer.chair(job.id)
    word = Ruling(job=job.id, epoch=chair.epoch, written=chair.written)
    home.ruling(word, Step(room[0].now_ms * 1_000, room[0].now_ms, Effects(), Ready()))

    assert chair._is_over is is_over


def test_nobody_bids_while_a_write_is_under_way_nor_again_at_once():
    room, job = waiting_for(2)
    home = room[0].node.across.once.home
    chair = home._writer.chair(job.id)
    obey(room, room[1], room[2], job)
    home._again_us[job.id] = room[0].now_ms * 1_000 + 2_000_000
    home._written.clear()
    room.pass_time(1_000)
    assert chair.outbid_by == Epoch(5, room[2].me)
    assert home._writer.chair(job.id) is chair, "it has bidden just now"

    room.losing = (Accepted,)
    home._written.clear()
    room.pass_time(3_000)
    assert chair.is_writing
    assert home._writer.chair(job.id) is chair
    room.losing = ()
    room.pass_time(5_000)
    assert promised(room, job) == {Epoch(6, room[0].me)}


def refused_at_first() -> tuple[OnceRoom, object, object]:
    """A home with the promises of two, whose first write one refuses; the third is dead."""
    room, job = OnceRoom(), once()
    room.look()
    room.settle()
    room.cut |= {(one.me, room[2].me) for one in room.nodes}
    room.cut |= {(room[2].me, one.me) for one in room.nodes}
    room[0].submit(job)
    room.deliver_until(Accept)
    chair = room[0].node.across.once.home._writer.chair(job.id)
    assert not chair.is_ruling
    bid = Prepare(job=job.id, epoch=Epoch(5, room[2].me), ask=1, sets=chair.written.standing.sets)
    hear(room, room[1], room[2], bid)
    assert chair.outbid_by == Epoch(5, room[2].me)
    return room, job, chair


def test_a_home_whose_first_write_is_refused_by_one_of_two_bids_higher():
    room, job, chair = refused_at_first()
    room.pass_time(500)
    home = room[0].node.across.once.home
    assert home._writer.chair(job.id) is chair, "the others may be enough"
    room.until(lambda: room.starts != [], 30_000)

    assert home._writer.chair(job.id).epoch == Epoch(6, room[0].me)
    assert len(room.starts) == 1
    room.finish(job)
    assert room[0].state(job) == "succeeded"


def test_a_home_that_asks_others_whether_it_still_is_one_does_not_bid_meanwhile():
    room, job, chair = refused_at_first()
    home = room[0].node.across.once.home
    home._guarding._meeting.untracked.add(job.id)
    room.pass_time(3_000)
    assert home._writer.chair(job.id) is chair
    home._guarding._meeting.untracked.discard(job.id)
    room.until(lambda: room.starts != [], 30_000)


def test_a_job_that_is_cancelled_before_its_first_write_is_taken_ends():
    room, job, _ = refused_at_first()
    room[0].step(Cancel(now_ms=room[0].now_ms, job=job.id))
    room.pass_time(5_000)

    assert room[0].state(job) == "cancelled"
    assert room.starts == []


def test_a_home_that_is_refused_again_and_again_tells_whose_votes_it_lacks():
    room, job, _ = refused_at_first()
    writer, bids = room[0].node.across.once.home._writer, set()
    store = room[1].node.across.once.register.voter.me.store
    room.losing = (Accept,)
    for _ in range(7):
        room.pass_time(1_000)
        chair = writer.chair(job.id)
        bids.add(chair.epoch)
        refusal = NotAccepted(
            job=job.id, ask=chair._ask, version=Fence(chair.epoch, 1), store=store,
            promised=Epoch(chair.epoch.counter + 3, room[2].me),
        )  # fmt: skip
        room[0].step(Told(now_ms=room[0].now_ms, peer=room[1].me, message=refusal))
        room.settle()

    assert len(bids) == 7
    assert room[0].job(job).reason == "stuck: needs node-2, node-3"
    room.losing = ()
    room.until(lambda: room.starts != [], 30_000)


def test_a_forced_home_whose_first_write_is_refused_stays_with_those_who_were_chosen():
    lab = RegisterLab("abcde")
    lab.open()
    lab.name("l1", B)
    written = lab.nodes[A].voter.written(JOB)
    lab.away |= {B, C, E}
    writer = lab.nodes[A].writer
    lab.do(A, writer.force(JOB, members("ade"), written, lab.now_us))
    lab.deliver((Prepare, Promised, Recollect, Recollected))
    asked = Prepare(job=JOB, epoch=Epoch(7, E), ask=1, sets=(members("ade"),))
    lab.do(D, lab.nodes[D].voter.hear(E, asked, lab.now_us))
    lab.deliver()
    chair = lab.chair(A)
    assert (chair.is_ruling, chair.outbid_by) == (False, Epoch(7, E))
    lab.take(A, Ruling)
    lab.do(A, writer.bid_above(chair.outbid_by, chair, lab.now_us))
    lab.deliver()

    (ruling,) = lab.take(A, Ruling)
    assert ruling.epoch == Epoch(8, A)
    assert ruling.written.standing.voters == members("ade")
    assert (ruling.written.standing.lease, ruling.written.value) == ("l1", b"l1")
    assert lab.chair(A).is_forced
    lab.do(A, writer.bid_above(Epoch(9, E), lab.chair(A), lab.now_us))
    lab.deliver()
    assert not lab.chair(A).is_forced, "from then on they vote like others"
    assert lab.chair(A).is_ruling


def test_a_forced_job_runs_on_a_node_that_holds_what_the_lost_voters_decided():
    room, job = OnceRoom(5), once()
    for node in room.nodes:
        fill(node)
    room.look()
    room[0].submit(job)
    room.settle()
    first = room[0].job(job).votes
    lost = [room.by_id(one.node) for one in first.voters if one.node != room[0].me]
    host, other = (one for one in room.nodes[1:] if one not in lost)
    # A later set, which this home has not heard of: two of it are lost.
    voters = tuple(one.node.across.once.register.voter.me for one in (*lost, host))
    version = Fence(Epoch(5, lost[0].me), 4)
    later = msgspec.structs.replace(
        first, version=version, voters=voters, attempt=version, lease="old"
    )
    word = Accept(job=job.id, ask=1, sets=later.sets, written=Written(standing=later))
    hear(room, host, lost[0], word)
    for one in lost:
        room.kill(one)
    room[0].start_agent()
    room.look()
    room.pass_time(10_000)
    assert room[0].job(job).reason.startswith("stuck: needs")
    away = {(host.me, room[0].me), (room[0].me, host.me)}
    room.cut |= away  # It cannot tell what it holds.
    room[0].step(Force(now_ms=room[0].now_ms, job=job.id))
    room.pass_time(500)
    assert room[0].node.across.once.home.is_cleared(job.id)
    room.cut -= away
    emptied(host)
    room.look()
    room.until(lambda: room.starts != [], 30_000)

    assert room.running(job.id) == [host.name]
    assert host.said(NotAccepted) == [], "a person's word is above what was decided before"
    assert room[0].job(job).attempts_made == 1
    room.pass_time(3_000)
    held = [one.node.across.once.register.voter.written(job.id) for one in (room[0], host, other)]
    assert len({one.standing.version for one in held}) == 1


# Attempts that never began


def asked(room: OnceRoom) -> tuple[int, int]:
    return len(room[0].said(Start)), len(room[0].said(Reserve))


def test_who_gives_an_attempt_back_does_not_get_the_next_at_once():
    room, job = waiting_for(2)
    room.losing = (LeasesRenewed,)
    emptied(room[1])
    room.look()
    room.pass_time(REFUSED_MS)
    given_back, found = 0, room[0].job(job)
    for _ in range(200):
        before, said = len(room[1].said(Report)), asked(room)
        room.pass_time(500)
        if len(room[1].said(Report)) > before:
            given_back += 1
            room.look()  # It is seen to be idle.
            room.pass_time(REFUSED_MS // 2)
            assert asked(room) == said
            offer = Granted(job=job.id, epoch=found.epoch, number=0, lease=f"offer-{given_back}")
            room[0].step(Told(now_ms=room[0].now_ms, peer=room[1].me, message=offer))
            assert found.live_attempts == [], "nor does it, if it offers room by itself"
        assert found.attempts_made == len(found.attempts) <= 1, "what never was is not counted"

    assert given_back >= 2
    room.losing = ()
    room.until(lambda: room.starts != [], PATIENCE_US // 1_000 + 2 * REFUSED_MS)
    assert found.attempts_made == 1


def test_what_is_given_back_while_nobody_rules_the_job_is_remembered_when_it_waits_again():
    room, job = waiting_for(2)
    room.losing = (LeasesRenewed,)
    emptied(room[1])
    room.look()
    room.until(lambda: room[0].job(job).live_attempts != [])
    (attempt,) = room[0].job(job).live_attempts
    room.until(lambda: attempt.lease not in room[0].node.across.asking.starting)
    home = room[0].node.across.once.home
    obey(room, room[1], room[2], job)
    home._written.clear()
    room.losing = (LeasesRenewed, Promised)
    room.until(lambda: not home.is_cleared(job.id))
    room.until(lambda: room[1].said(Report) != [], PATIENCE_US // 1_000 + 1_000)
    asking = room[0].node.across.asking
    assert room[0].job(job).live_attempts == []
    assert asking.wish(job.id) is None, "it may not look for room now"
    said = asked(room)
    room.losing = (LeasesRenewed,)
    room.until(lambda: home.is_cleared(job.id))
    room.look()
    room.pass_time(REFUSED_MS // 2)

    assert asking.wish(job.id).unready(room[0].now_ms) == {room[1].me}
    assert asked(room) == said
    room.losing = ()
    room.until(lambda: room.starts != [], PATIENCE_US // 1_000 + 2 * REFUSED_MS)


def test_a_job_that_ceases_to_wait_and_waits_again_knows_who_gave_it_back():
    room, job = waiting_for(2)
    asking, now_ms = room[0].node.across.asking, room[0].now_ms
    asking.gave_back(room[1].me, job.id, now_ms)
    asking.waits_no_more(job.id)
    asking.waits(room[0].job(job))

    assert asking.wish(job.id).unready(now_ms + REFUSED_MS - 1) == {room[1].me}
    assert asking.wish(job.id).unready(now_ms + REFUSED_MS) == set()


def test_what_was_given_back_is_kept_by_job_for_a_time_and_never_too_much_of_it():
    given_back = GivenBack()
    given_back.note(JobId("one"), A, 5_000, 0)
    given_back.note(JobId("two"), B, 6_000, 1_000)
    given_back.note(JobId("one"), C, 7_000, 2_000)
    assert given_back.by(JobId("one"), 4_999) == {A, C}
    assert given_back.by(JobId("one"), 5_000) == {C}
    given_back.note(JobId("one"), A, 9_000, 5_000)
    assert len(given_back._until_ms) == 3, "what is over is forgotten"
    for number in range(GIVEN_BACK_MAX - 1):
        given_back.note(JobId(f"job-{number}"), D, 9_000, 5_500)
    assert len(given_back._until_ms) == GIVEN_BACK_MAX
    assert given_back.by(JobId("one"), 5_500) == {A}, "the oldest went first"
    assert given_back.by(JobId("two"), 5_500) == set()
