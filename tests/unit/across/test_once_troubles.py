"""Jobs that never run twice at once, when votes, homes, stores and leases go astray."""

import msgspec
import pytest

from distributed_grid.kernel.across import once as once_module
from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.across.once_home import Step
from distributed_grid.kernel.across.register_effects import Effects, MayRun, Ruling
from distributed_grid.kernel.node import Beat, Cancel, Told, View
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Where
from distributed_grid.model.node_class import Laptop
from distributed_grid.wire.across import Granted, Inquiry, NotTaken, Report, Start
from distributed_grid.wire.job_lane import encode
from distributed_grid.wire.keeper import Deadline, Run
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    Promised,
    Recollect,
    Recollected,
    Standing,
    Written,
)
from tests.node_world import SENSES, World, a_job, fill, told
from tests.unit.across.once_room import OnceRoom, away, once

HERE_ONLY = Where(nodes=("node-1",))


def careful(node):
    return node.node.across.once


def emptied(node) -> None:
    """What filled it ends."""
    for attempt in list(node.keeper.started):
        node.keeper.end_one(attempt, 0)


# Votes that do not come


def test_other_jobs_need_no_votes():
    room, here, there = OnceRoom(), a_job("here"), a_job("there", avoid=HERE_ONLY)
    room[0].submit(here, there)
    room.settle()

    assert [len(told(node, Run)) for node in room.nodes].count(1) == 2
    assert room[0].node.across.obstacles(JobId("unknown")) == ()
    assert not any(node.node.across.once.is_busy for node in room.nodes)


@pytest.mark.parametrize("make", [once, away])
def test_room_is_given_back_when_the_votes_on_an_attempt_do_not_come(make):
    room, job = OnceRoom(), make()
    fill(room[0])
    fill(room[1])
    fill(room[2])
    room.look()
    room[0].submit(job)
    room.settle()
    room.losing = (Accepted,)
    for node in room.nodes:
        emptied(node)
    room.look()
    room.pass_time(2_000)
    room.look()
    assert room.starts == []
    assert room[0].job(job).live_attempts

    room.pass_time(7_000)
    assert not room[0].job(job).live_attempts
    assert room[0].node.ledger.leases == {}
    room.losing = ()
    room.until(lambda: room.starts != [])
    room.finish(job)
    assert room[0].state(job) == "succeeded"


def test_a_grant_of_one_that_dies_before_it_is_told_to_start_costs_no_wait():
    room, job = OnceRoom(5), away()
    room[0].submit(job)
    room.deliver_until(Granted)
    room.losing = (Accepted,)
    room.settle()
    (attempt,) = room[0].job(job).live_attempts
    assert attempt.lease in careful(room[0]).home.naming
    room.kill(room.by_id(attempt.host))
    room.losing = ()
    before_ms = room[0].now_ms
    room.until(lambda: room.starts != [])

    assert room[0].now_ms - before_ms < 5_000
    assert attempt.lease not in careful(room[0]).home.naming


def test_an_owner_whose_lease_is_not_renewed_gives_up_and_another_is_asked():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.losing = (LeasesRenewed,)
    room.settle()
    assert room[0].said(Start)
    room.pass_time(32_000)
    assert room.starts == []
    assert next(one.ends[0].note for node in room.nodes for one in node.said(Report)) == (
        "its votes did not come"
    )

    room.losing = ()
    room.until(lambda: room.starts != [])
    assert len(room.starts) == 1


@pytest.mark.parametrize("make", [once, away])
def test_one_that_waits_for_its_lease_is_cancelled_without_having_run(make):
    room, job = OnceRoom(), make()
    room[0].submit(job)
    room.losing = (LeasesRenewed,)
    room.settle()
    room.pass_time(500)
    assert any(careful(node).owner.is_busy for node in room.nodes)
    room[0].step(Cancel(now_ms=room[0].now_ms, job=job.id))
    room.settle()
    room.pass_time(2_000)

    assert (room[0].state(job), room.starts) == ("cancelled", [])
    assert {node.knows(job) for node in room.nodes} == {"cancelled"}
    assert not any(careful(node).owner.is_busy for node in room.nodes)
    assert all(node.node.ledger.leases == {} for node in room.nodes)


def test_an_owner_that_does_not_know_the_lease_any_more_costs_no_wait():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.deliver_until(Granted)
    host = next(node for node in room.nodes if node.said(Granted))
    host.start_agent()
    room.look()
    room.pass_time(1_500)

    assert host.said(NotTaken)
    assert len(room.starts) == 1


# Two homes


def test_who_is_not_the_home_any_more_lets_go_of_everything():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.deliver_until(Granted)
    room.losing = (Accepted,)
    room.settle()
    home = careful(room[0]).home
    assert home.naming
    room[0].job(job).epoch = Epoch(9, room[1].me)
    room[0].step(Beat(now_ms=room[0].now_ms))

    assert (home.naming, home.jobs) == ({}, {})


def test_who_is_deposed_asks_its_rival_waits_and_rules_again_if_it_is_still_the_home():
    room, job = OnceRoom(), once(require=HERE_ONLY)
    fill(room[0])
    room[0].submit(job)
    room.settle()
    assert len(room[0].node.host.line) == 1
    rival = careful(room[1]).register
    written = rival.voter.written(job.id)
    ready = Ready()
    effects = rival.writer.take_over(job.id, written, room[1].now_ms * 1_000)
    careful(room[1])._do(effects, room[1].now_ms, ready)
    room.post += [(room[1].me, peer, encode(message)) for peer, message in ready.send]
    room.settle()
    careful(room[0]).home._written.clear()  # Something is to be written down.
    room.pass_time(500)

    assert any(isinstance(one, Inquiry) and one.jobs == (job.id,) for one in room[0].said(Inquiry))
    assert len(room[0].node.host.line) == 0
    rival.writer.drop(job.id)
    room.pass_time(5_000)
    emptied(room[0])
    room.until(lambda: room.starts != [])
    assert room.running(job.id) == ["node-1"]


def test_a_ruler_that_is_in_doubt_after_a_start_places_nothing():
    room, job = OnceRoom(), once(require=HERE_ONLY)
    fill(room[0])
    room[0].submit(job)
    room.settle()
    across = room[0].node.across
    across.guarding._meeting.untracked.add(job.id)
    room[0].node.coordinator.leave(job.id)
    across.guarding.clear(job.id, room[0].now_ms, Ready())
    assert len(room[0].node.host.line) == 0


def test_without_a_record_of_its_own_nothing_is_written():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    room.settle()
    own = room[0].node.across.guarding.holders.own
    kept = own.pop(job.id)
    before = len(room[0].said(Accept))
    careful(room[0])._look([job.id], room[0].now_ms, Ready())
    own[job.id] = kept
    assert len(room[0].said(Accept)) == before


# Who votes


def test_a_laptop_lets_others_vote_if_there_are_enough():
    room, job = OnceRoom(4), once()
    asking = room[0].node.across.asking
    asking._own = msgspec.structs.replace(asking.own, node_class=Laptop())
    room[0].submit(job)
    room.settle()

    assert room.votes(job) == ["node-2", "node-3", "node-4"]
    assert room.running(job.id) == ["node-1"]


def test_more_vote_as_soon_as_there_are_more():
    room, job = OnceRoom(3), once()
    room[2].is_up = False
    room.dead = {(node.me, room[2].me) for node in room.nodes[:2]}
    room.look()
    room[0].submit(job)
    room.settle()
    assert len(room[0].job(job).votes.voters) == 1

    room.revive(room[2])
    room.pass_time(8_000)
    votes = room[0].job(job).votes
    assert [one.node for one in votes.voters] == [node.me for node in room.nodes]
    assert votes.next == ()
    assert room.votes(job) == ["node-1", "node-2", "node-3"]


@pytest.mark.parametrize("who", [0, 1])
def test_a_voter_that_has_lost_its_votes_is_replaced_by_its_new_self(who):
    room, job = OnceRoom(3), once(require=HERE_ONLY)
    fill(room[0])
    room[0].submit(job)
    room.settle()
    before = room[0].job(job).votes.voters
    node = room[who]
    node.saved_meta = {key: body for key, body in node.saved_meta.items() if "vote/" not in key}
    node.start_agent()
    room.look()
    room.until(lambda: set(room[0].job(job).votes.voters) != set(before))

    after = room[0].job(job).votes.voters
    assert {one.node for one in after} == {one.node for one in before}
    assert len(set(after) & set(before)) == 2


def test_in_a_large_mesh_only_those_who_may_have_to_vote_are_met(monkeypatch):
    monkeypatch.setattr(once_module, "MET_MAX", 2)
    room, job = OnceRoom(8), once()
    assert [node.said(Recollect) for node in room.nodes] == [[]] * 8

    room[0].submit(job)
    room.settle()
    room.pass_time(8_000)
    assert len(room.votes(job)) == 3
    assert len({peer for peer, one in room[0].sent if isinstance(one, Recollect)}) <= 3


def test_whoever_does_not_tell_its_store_is_asked_again_after_a_while():
    room = OnceRoom(2)
    careful(room[0]).register.voter.stores.clear()
    careful(room[0])._met_us.clear()
    room[0].now_ms += 1_000
    room.losing = (Recollected,)
    before = len(room[0].said(Recollect))
    room.look()
    room.look()
    assert len(room[0].said(Recollect)) == before + 1
    room.pass_time(6_000)
    assert len(room[0].said(Recollect)) == before + 2


# Alone, and together


def test_what_runs_since_before_there_were_others_gets_a_lease_before_they_hear_of_it():
    room, job = OnceRoom(3), once()
    home = room[0]
    home.node.part(home.now_ms)
    home.submit(job)
    assert len(told(home, Run)) == 1
    home.node.join(home.me, senses=SENSES)
    room.losing = (LeasesRenewed, Accepted)
    home.look()
    room.settle()
    assert room[1].knows(job) == ""

    room.losing = ()
    room.pass_time(8_000)
    assert told(home, Deadline)
    assert room[1].knows(job) == "running"
    assert len(told(home, Run)) == 1
    room[0].start_agent()
    room.look()
    room.pass_time(25_000)
    assert room.running(job.id) == ["node-1"]


def test_who_parts_from_others_goes_on_alone_with_what_nobody_else_votes_on():
    room, held = OnceRoom(2), once("held", require=HERE_ONLY)
    home = room[0]
    fill(home)
    home.submit(held)
    room.settle()
    assert room.starts == []
    for message in home.node.part(home.now_ms).tell:
        home.keeper.hear(message)
    emptied(home)
    home.pump()

    assert "held" in {run.env["GRID_JOB_NAME"] for run in told(home, Run)}


def test_nothing_is_said_before_a_keeper_has_greeted():
    room = OnceRoom(2)
    fresh = World()
    fresh.node.hello = None
    across = fresh.node.join(room[0].me, senses=SENSES)
    peers = {room[1].me: room.seen(room[0], room[1])}
    ready = fresh.node.step(View(now_ms=1, peers=peers))
    word = Recollect(life=1, store="x", count=1)
    heard = fresh.node.step(Told(now_ms=1, peer=room[1].me, message=word))

    assert [one for _, one in ready.send if isinstance(one, Recollect)] == []
    assert heard.send == []
    assert not across.once.is_busy


def test_the_clock_of_leases_is_given_from_outside():
    world = World()
    across = world.node.join(OnceRoom(2)[0].me, senses=Senses(lambda: 77_000_000, lambda most: 1))
    world.submit(once())
    world.step(Beat(now_ms=world.now_ms))
    (run,) = told(world, Run)
    assert run.until_boot_us == 77_000_000 + 9_500_000
    assert across.once.is_busy


# Messages out of turn


def test_words_about_what_is_not_there_change_nothing():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.settle()
    host, run = room.host(job), room.runs(job)
    home = careful(room[0])
    nobody = JobId("nobody")
    ready = Ready()
    step = Step(1, 1, Effects(), ready)
    home.home.ruling(Ruling(job=nobody, epoch=Epoch(), written=Written(standing=Standing())), step)
    ghost = MayRun(job=job.id, lease="ghost", fence=Fence(), until_boot_us=5)
    assert not home.owner.may_run(ghost, ready)
    home.owner.give_up("ghost", "why", 1, ready)
    empty = Report(job=job.id, lease=run.attempt, first=0, ends=())
    home.home.reported(empty, Effects(), has_run=True)
    home.home.reported(msgspec.structs.replace(empty, job=nobody), Effects(), has_run=True)
    home.home.ended(nobody, "x", Effects(), has_run=True)
    home.owner._awaiting["ghost"] = None
    home.owner.sweep((), 1, ready)
    assert not home.home.may_start(job.id, Standing(lease="ghost"), step)
    room[0].node.across.asking.let("ghost", Standing(), 1, ready)
    assert not home.owner.is_busy
    assert ready == Ready()

    start = room[0].said(Start)[-1]
    unknown = msgspec.structs.replace(start, lease="unknown")
    host.step(Told(now_ms=host.now_ms, peer=room[0].me, message=unknown))
    host.step(Told(now_ms=host.now_ms, peer=room[0].me, message=start))
    assert room.running(job.id) == [host.name]


def test_a_lease_for_nobody_is_given_back():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    room.settle()
    home, votes = careful(room[0]), room[0].job(job).votes
    ghost = msgspec.structs.replace(votes, lease="ghost")
    ready = Ready()
    home._do(home.register.leases.begin(job.id, ghost, room[0].now_ms * 1_000), 1, ready)
    (_, asked), *_ = ready.send
    for voter in votes.voters:  # As voters may that have heard of a later write.
        word = LeasesRenewed(
            life=asked.life, sent_us=asked.sent_us, store=voter.store, renewed=("ghost",)
        )
        home.hear(voter.node, word, room[0].now_ms, ready)

    assert "vote/lease/ghost" not in room[0].saved_meta
    assert "ghost" not in home.register.leases._tenures


def test_a_start_that_is_repeated_after_its_lease_has_lapsed_brings_nothing_back():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.settle()
    host, start = room.host(job), room[0].said(Start)[-1]
    room.isolate(host)
    for _ in range(24):
        host.now_ms += 500
        host.step(Beat(now_ms=host.now_ms))
    assert start.lease in host.keeper.runs, "its keeper has not looked yet"
    deadlines = len(told(host, Deadline))
    host.step(Told(now_ms=host.now_ms, peer=room[0].me, message=start))
    for _ in range(4):
        host.now_ms += 500
        host.step(Beat(now_ms=host.now_ms))
    assert len(told(host, Deadline)) == deadlines
    room.keep_deadlines()
    assert host.keeper.runs == {}


def test_of_two_places_that_were_found_only_one_is_named_at_a_time():
    room, job = OnceRoom(5), away()
    room[0].submit(job)
    room.settle()
    room.isolate(room.host(job))
    room.until(lambda: room[0].job(job).live_attempts, 5_000)
    (second,) = room[0].job(job).live_attempts
    chair = room[0].node.across.once.register.writer.chair(job.id)
    room.until(lambda: chair.named == second.lease, 5_000)
    room[0].node.coordinator.queue(room[0].job(job), room[0].now_ms)  # As another home would.
    room.until(lambda: len(room[0].job(job).live_attempts) == 2, 5_000)
    room.pass_time(2_000)

    assert chair.named == second.lease
    room.until(lambda: len(room.starts) == 2, 20_000)
    assert room.host(job).me == second.host
    room.finish(job)
    room.pass_time(15_000)
    assert room[0].state(job) == "succeeded"


def test_who_lacks_votes_says_so_though_two_places_were_found():
    room, job = OnceRoom(5), away()
    room[0].submit(job)
    room.settle()
    room.isolate(room.host(job))
    room.losing = (Accepted, Promised)
    room.until(lambda: room[0].job(job).live_attempts, 5_000)
    room[0].node.coordinator.queue(room[0].job(job), room[0].now_ms)  # As another home would.
    room.until(lambda: len(room[0].job(job).live_attempts) == 2, 5_000)
    room.pass_time(15_000)

    assert room[0].job(job).reason.startswith("stuck: needs ")
    room.losing = ()
    room.until(lambda: len(room.starts) == 2, 30_000)
