"""Jobs that never run twice at once, over several nodes: voted on, leased, replaced, forced."""

import msgspec
import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.register_voter import JOB, REMEMBERED, STORE
from distributed_grid.kernel.coordinator import shape_of
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import fence_number
from distributed_grid.kernel.node import Cancel, Force, Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import Copy, Granted, Holding, NotTaken, Report, Start
from distributed_grid.wire.keeper import Deadline, Run
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    Prepare,
    Promised,
    Recollect,
    Standing,
    Written,
)
from tests.node_world import World, a_job, told
from tests.unit.across.once_room import OnceRoom, away, once

LEASE_MS = 10_200


def test_alone_nothing_is_voted_on():
    world = World()
    world.submit(once())

    (run,) = told(world, Run)
    assert run.until_boot_us == 0
    assert run.env["GRID_FENCE"] == "1"


def test_a_job_starts_when_a_majority_has_renewed_its_lease_and_runs_as_long_as_it_does():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    assert told(room[0], Run) == [], "before anybody has voted"
    room.settle()

    run = room.runs(job)
    assert run.until_boot_us == room[0].now_ms * 1_000 + 9_500_000
    assert int(run.env["GRID_FENCE"]) > 1
    assert room.votes(job) == ["node-1", "node-2", "node-3"]

    room.pass_time(30_000)
    deadlines = [one.until_boot_us for one in told(room[0], Deadline)]
    assert deadlines == sorted(set(deadlines))
    assert len(deadlines) > 9
    assert room.running(job.id) == ["node-1"]

    room.finish(job)
    room.pass_time(3_000)
    assert {node.knows(job) for node in room.nodes} == {"succeeded"}
    assert room.votes(job) == [], "its end is remembered instead"
    assert not any(node.node.across.once.is_busy for node in room.nodes)


def test_a_job_starts_elsewhere_with_what_its_voters_hold():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.settle()

    (start,) = room[0].said(Start)
    assert start.standing.lease == start.lease
    assert start.standing.node == room.host(job).me
    assert room.runs(job).until_boot_us

    room.finish(job, 3)
    room.pass_time(2_000)
    assert (room[0].state(job), room[0].job(job).exit_code) == ("failed", 3)
    assert len(room.starts) == 1
    assert all(node.node.ledger.leases == {} for node in room.nodes)


def test_one_that_is_cut_off_is_ended_by_its_keeper_before_the_next_starts():
    room, job = OnceRoom(4), away()
    room[0].submit(job)
    room.settle()
    lonely = room.host(job)
    room.isolate(lonely)
    began_ms = room[0].now_ms

    room.until(lambda: len(room.starts) == 2)
    assert room[0].now_ms - began_ms >= LEASE_MS
    assert lonely.keeper.runs == {}
    assert not any(node.said(NotTaken) for node in room.nodes), "its room was kept for it"

    room.heal()
    room.pass_time(5_000)
    assert len(room.starts) == 2
    room.finish(job)
    room.pass_time(5_000)
    assert {node.knows(job) for node in room.nodes if node.knows(job)} == {"succeeded"}


def test_whoever_says_that_it_is_over_is_replaced_at_once():
    room, job = OnceRoom(), away(losses_max=3)
    room[0].submit(job)
    room.settle()
    host = room.host(job)
    run = room.runs(job)
    host.keeper._report(run.attempt, -1, "lost", 125, is_last=True)
    host.keeper._leave(run.attempt)
    room.settle()
    room.pass_time(1_000)

    assert len(room.starts) == 2
    assert int(room.runs(job).env["GRID_FENCE"]) > int(run.env["GRID_FENCE"])


def test_another_home_adopts_what_runs():
    room, job = OnceRoom(4), away()
    room[0].submit(job)
    room.settle()
    host = room.host(job)
    fence = room.runs(job)
    room.kill(room[0])
    room.until(lambda: any(one.is_up and one.knows(job) and job.id in one.node.coordinator.jobs
                           for one in room.nodes))  # fmt: skip
    room.pass_time(25_000)

    assert len(room.starts) == 1
    assert room.runs(job) is fence
    assert room.host(job) is host
    room.finish(job)
    room.pass_time(3_000)
    assert room.home_of(job).state(job) == "succeeded"


def test_another_home_learns_from_the_voters_what_no_copy_told_it():
    room, job = OnceRoom(4), once(require=Where(nodes=("node-4",)))
    room[3].peer = {"is_dialable": False}  # So it is not the one that takes over.
    room.look()
    room[0].submit(job)
    room.deliver_until(Granted)
    room.losing = (Copy,)
    room.settle()
    assert len(room.starts) == 1
    room.losing = ()
    room.kill(room[0])
    room.until(lambda: any(job.id in one.node.coordinator.jobs for one in room.nodes if one.is_up))
    room.pass_time(30_000)

    assert len(room.starts) == 1
    assert room.home_of(job).job(job).live_attempts[0].lease == room.runs(job).attempt


@pytest.mark.parametrize("is_over", [False, True])
def test_a_new_home_that_runs_it_itself_adopts_what_no_copy_told_it(is_over):
    room, job = OnceRoom(4), away("job-0")
    room[0].submit(job)
    room.deliver_until(Granted)
    room.losing = (Copy,)  # The attempt is named to the voters, and in no copy of the record.
    room.settle()
    host = room.host(job)
    room.kill(room[0])
    if is_over:
        room.finish(job)
    room.losing = ()
    room.until(lambda: job.id in host.node.coordinator.jobs)
    room.pass_time(2 * LEASE_MS)
    if not is_over:
        assert room.running(job.id) == [host.name]
        room.finish(job)
    room.pass_time(2_000)

    assert len(room.starts) == 1
    assert [node.knows(job) for node in room.nodes[1:]] == ["succeeded"] * 3
    assert all(node.node.ledger.leases == {} for node in room.nodes[1:])


def test_who_was_restarted_is_told_apart_from_who_is_gone():
    room, job = OnceRoom(3), once()
    room[0].submit(job)
    room.settle()
    room.kill(room[1])
    room[2].start_agent()
    room.look()
    room.pass_time(30_000)

    word = "stuck: needs node-2, node-3 (which waits for them)"
    assert (room[0].state(job), room[0].job(job).reason) == ("waiting", word)


def test_of_five_voters_any_two_may_be_lost():
    room, job = OnceRoom(5), once(voters=5)
    room[0].submit(job)
    room.settle()
    assert len(room[0].job(job).votes.voters) == 5
    keepers = [room.by_id(node) for node in room[0].job(job).guardians]
    room.kill(room[0])
    room.kill(keepers[-1])
    room.until(lambda: len(room.starts) == 2, 30_000)
    room.finish(job)
    room.pass_time(5_000)

    assert {node.knows(job) for node in room.nodes if node.is_up} == {"succeeded"}


def test_with_fewer_than_five_machines_three_vote():
    room, job = OnceRoom(4), once(voters=5)
    room[0].submit(job)
    room.settle()

    assert len(room[0].job(job).votes.voters) == 3


def test_whose_disk_is_full_does_not_vote_until_there_is_room():
    room, job = OnceRoom(4), once()
    full = room[2]
    full.peer = {"is_disk_full": True}
    room.look()
    room[0].submit(job)
    room.settle()
    voters = {member.node for member in room[0].job(job).votes.voters}
    assert len(voters) == 3
    assert full.me not in voters

    room[1].peer = {"is_disk_full": True}
    room.look()
    alone = once("alone")
    room[0].submit(alone)
    room.settle()
    assert [member.node for member in room[0].job(alone).votes.voters] == [room[0].me]
    room[1].peer = full.peer = {}
    room.look()
    room.until(lambda: len(room[0].job(alone).votes.voters) == 3, 30_000)


def test_nobody_stands_in_a_row_with_one_that_may_have_to_wait_for_votes():
    assert shape_of(Job(spec=once(), submitted_ms=1)) is None
    assert shape_of(Job(spec=a_job("other"), submitted_ms=1)) is not None


def test_without_a_majority_it_waits_says_so_and_goes_on_when_a_person_says_so():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    for node in room.nodes[1:]:
        node.is_up = False
    for node in room.nodes[1:]:
        room.kill(node)
    room.pass_time(8_000)

    assert room.starts == []
    assert room[0].job(job).reason in {"stuck: needs node-2, node-3", "stuck: needs node-3, node-2"}
    said = explain(room[0].node.coordinator, room[0].job(job), room[0].now_ms)
    assert any("needs the votes of node-" in word for word in said.remedies)
    (stuck,) = [one for one in room[0].happened if one.name == "job.stuck"]
    assert (stuck.job, sorted(stuck.fields["needs"])) == (job.id, ["node-2", "node-3"])

    room[0].step(Force(now_ms=room[0].now_ms, job=job.id))
    room.settle()
    assert room.running(job.id) == ["node-1"]
    assert "stuck" not in room[0].job(job).reason
    room[0].step(Force(now_ms=room[0].now_ms, job=job.id))  # It is not stuck: nothing happens.
    room.pass_time(1_000)
    assert len(room.starts) == 1


def test_of_two_nodes_the_submitter_alone_votes_and_the_other_waits_for_it_or_a_person():
    room, job = OnceRoom(2), once()
    room[0].submit(job)
    room.settle()
    assert room.votes(job) == ["node-1"]
    record = room[1].node.across.guarding.find(job.id)
    assert [one.node for one in standing_of(record.standing).votes.voters] == [room[0].me]

    room.kill(room[0])
    room.until(lambda: job.id in room[1].node.coordinator.jobs)
    room.until(lambda: room[1].job(job).reason == "stuck: needs node-1")
    room[1].step(Force(now_ms=room[1].now_ms, job=job.id))
    room.until(lambda: room.running(job.id) == ["node-2"])
    room.finish(job)
    assert room[1].state(job) == "succeeded"


def test_a_home_that_was_restarted_and_gets_no_answer_says_whose_votes_it_needs():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    room.settle()
    room.kill(room[0])
    room.revive(room[0])
    for node in room.nodes[1:]:
        room.kill(node)
    room.pass_time(20_000)

    assert room.running(job.id) == []
    assert room[0].job(job).reason.startswith("stuck: needs node-")
    room[0].step(Force(now_ms=room[0].now_ms, job=job.id))
    room.until(lambda: room.running(job.id) == ["node-1"])


def test_a_holder_whose_home_is_just_gone_may_be_forced():
    room, job = OnceRoom(2), once()
    room[0].submit(job)
    room.settle()
    room.kill(room[0])
    room[1].step(Force(now_ms=room[1].now_ms, job=job.id))
    assert room[1].job(job).state == "waiting"
    room.until(lambda: room.running(job.id) == ["node-2"])


def test_nobody_is_forced_who_has_a_home_that_lives():
    room, job = OnceRoom(2), once()
    room[0].submit(job)
    room.settle()
    room[1].step(Force(now_ms=room[1].now_ms, job=job.id))
    room.settle()

    assert room.running(job.id) == ["node-1"]
    assert job.id not in room[1].node.coordinator.jobs


def test_one_that_waits_for_votes_can_be_cancelled():
    room, here, there = OnceRoom(), once("here"), away("there")
    room[0].submit(here, there)
    room.settle()
    for job in (here, there):
        room[0].step(Cancel(now_ms=room[0].now_ms, job=job.id))
    room.settle()
    for node in room.nodes:
        for attempt in list(node.keeper.runs):
            node.keeper.end_one(attempt, 143)
    room.settle()
    assert {room[0].state(here), room[0].state(there)} <= {"cancelled", "failed"}


@pytest.mark.parametrize("what", [{"array": Array(start=0, stop=3)}, {"gang": 2}])
def test_arrays_and_gangs_cannot_be_voted_on(what):
    with pytest.raises(BadValue) as refused:
        World().submit(once(**what))
    assert "no array and no gang" in str(refused.value)


def test_fences_are_numbers_that_rise():
    a, b = NodeId("0a" * 32), NodeId("f0" * 32)
    fences = [Fence(), Fence(Epoch(1, a), 1), Fence(Epoch(1, a), 2), Fence(Epoch(1, b), 1),
              Fence(Epoch(2, a), 1)]  # fmt: skip
    numbers = [fence_number(one) for one in fences]
    assert numbers[0] == 0
    assert numbers == sorted(set(numbers))
    assert fence_number(Fence(Epoch(400_000, b), 10**9)) < 2**63


def test_a_vote_that_is_repeated_waits_for_the_disk_too():
    room, job = OnceRoom(), once()
    voter = room[1]
    me = voter.node.across.once.register.voter.me
    prepare = Prepare(job=job.id, epoch=Epoch(1, room[0].me), ask=7, sets=((me,),))
    first = voter.step(Told(now_ms=1, peer=room[0].me, message=prepare))
    again = voter.step(Told(now_ms=1, peer=room[0].me, message=prepare))

    for ready in (first, again):
        assert [type(message) for _, message in ready.send] == [Promised]
    assert again.save_meta == first.save_meta
    assert set(again.save_meta) == {STORE, JOB + job.id}

    store = room[2].node.across.once.register.voter.me.store
    word = Recollect(life=1, store=store, count=5)
    first, again = (voter.step(Told(now_ms=1, peer=room[2].me, message=word)) for _ in range(2))
    assert again.save_meta == first.save_meta
    assert set(again.save_meta) == {REMEMBERED + room[2].me}


def test_a_delayed_save_undoes_no_later_vote():
    room, job = OnceRoom(), once()
    voter = room[1]
    me = voter.node.across.once.register.voter.me
    readies = [
        voter.step(
            Told(
                now_ms=1,
                peer=room[0].me,
                message=Prepare(job=job.id, epoch=Epoch(n, room[0].me), ask=n, sets=((me,),)),
            )
        )
        for n in (1, 2)
    ]
    first, second = (voter.node.newest(ready.save_meta) for ready in readies)
    assert first == second == readies[1].save_meta
    assert voter.node.newest({"bookings": b"x"}) == {"bookings": b"x"}


def test_nobody_votes_on_a_job_that_is_known_to_be_over():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    room.settle()
    votes = room[0].job(job).votes
    room.finish(job)
    room.pass_time(3_000)
    late = Prepare(job=job.id, epoch=Epoch(9, room[2].me), ask=1, sets=votes.sets)
    standing = msgspec.structs.replace(votes, version=Fence(Epoch(9, room[2].me), 1))
    accept = Accept(job=job.id, ask=1, sets=votes.sets, written=Written(standing=standing))

    for message in (late, accept):
        ready = room[1].step(Told(now_ms=room[1].now_ms, peer=room[2].me, message=message))
        assert [type(answer) for _, answer in ready.send] == [Holding]
    assert room.votes(job) == []


def test_who_knows_the_end_votes_for_it_all_the_same():
    room, job = OnceRoom(), once()
    room[0].submit(job)
    room.settle()
    room.finish(job)
    room.pass_time(3_000)
    record = room[1].node.across.guarding.find(job.id)
    me = room[1].node.across.once.register.voter.me
    standing = Standing(version=Fence(Epoch(9, room[2].me), 1), voters=(me,))
    written = Written(standing=standing, value=encode(record))
    word = Accept(job=job.id, ask=1, sets=((me,),), written=written)
    ready = room[1].step(Told(now_ms=room[1].now_ms, peer=room[2].me, message=word))

    assert [type(answer) for _, answer in ready.send] == [Accepted]


def test_who_runs_goes_on_under_its_lease_after_a_restart_of_the_agent():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.settle()
    host = room.host(job)
    before = len(told(host, Deadline))
    host.start_agent()
    room.look()
    room.pass_time(25_000)

    assert room.running(job.id) == [host.name]
    assert len(told(host, Deadline)) > before + 5
    assert len(room.starts) == 1
    room.finish(job)
    assert room[0].state(job) == "succeeded"


def test_who_waited_for_votes_when_its_agent_went_down_never_started():
    room, job = OnceRoom(), away()
    room[0].submit(job)
    room.deliver_until(Start)
    (start,) = room[0].said(Start)
    host = room.by_id(next(peer for peer, message in room[0].sent if message is start))
    host.step(Told(now_ms=host.now_ms, peer=room[0].me, message=start))
    assert host.node.coordinator.jobs[start.lease].live_attempts[0].awaits_votes
    room.post.clear()
    host.start_agent()
    room.look()
    room.pass_time(2_000)

    assert room[0].said(Start)[-1].lease != start.lease
    assert len(room.starts) == 1
    (report, *_) = host.said(Report)
    assert report.ends[0].how == "stopped"
