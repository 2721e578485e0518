"""The end of a job that never runs twice at once counts when a majority of its voters has it."""

import pytest

from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.record_writing import closing_record
from distributed_grid.kernel.node import Beat, Cancel, Force, Reports, Told
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.job import After, Where
from distributed_grid.wire.across import Begun, Confirmed, Copied, Copy, Halt, Holding
from distributed_grid.wire.keeper import Stop
from distributed_grid.wire.register import Accept, Accepted, Prepare, Promised
from tests.node_world import a_job, told
from tests.unit.across.once_room import OnceRoom, away, once


class WatchedRoom(OnceRoom):
    """Somebody watches every node."""

    def __init__(self, count: int = 3) -> None:
        super().__init__(count)
        self.happened = []
        for node in self.nodes:
            node.step = self.watching(node, node.step)

    def watching(self, node, step):
        def watched(event) -> Ready:
            ready = step(event)
            self.happened += [(node.name, one) for one in ready.happened]
            return ready

        return watched

    def obey_stops(self) -> None:
        """Whatever was told to stop does."""
        for node in self.nodes:
            for attempt in sorted(node.keeper.stopped & node.keeper.runs.keys()):
                node.keeper.end_one(attempt, 0)

    def ends(self, job) -> list[tuple[str, str]]:
        """What was told of its end, and by whom."""
        return [
            (name, one.fields["state"])
            for name, one in self.happened
            if (one.name, one.job) == ("job.ended", job.id)
        ]


def careful(node):
    return node.node.across.once


def conclude(node, job, state: str) -> None:
    """Something decides that it is over."""
    ready = Ready()
    node.node.coordinator.conclude(node.job(job), state, node.now_ms, ready)
    node.save(ready)
    node.step(Beat(now_ms=node.now_ms))


@pytest.mark.parametrize("make", [once, away])
@pytest.mark.parametrize("lost", [Accept, Accepted])
def test_an_end_is_told_to_nobody_before_a_majority_has_it(make, lost):
    room, job = WatchedRoom(), make()
    after = a_job("after", after=(After(job=job.id),))
    room[0].submit(job, after)
    room.settle()
    room.losing = (lost,)
    room.finish(job)
    room.pass_time(20_000)

    assert (room[0].state(job), room[0].state(after)) == ("running", "waiting")
    assert {node.knows(job) for node in room.nodes} <= {"running", "waiting"}
    assert room[0].job(job).reason.startswith("stuck: needs node-")
    assert room.ends(job) == []
    assert room[0].said(Confirmed) == []
    assert len(room.starts) == 1

    room.losing = ()
    room.until(lambda: room[0].state(job) == "succeeded", 10_000)
    room.pass_time(5_000)
    assert room.ends(job) == [("node-1", "succeeded")]
    assert room[0].state(after) == "running"
    assert {node.knows(job) for node in room.nodes} == {"succeeded"}
    assert len(room[0].said(Confirmed)) == (make is away)
    assert len(room.starts) == 1
    assert room.votes(job) == []


def test_with_one_voter_a_job_ends_at_once():
    room, job = WatchedRoom(2), once()
    room[0].submit(job)
    room.settle()
    room[0].keeper.end_one(room.runs(job).attempt, 0)
    room[0].pump()

    assert room[0].state(job) == "succeeded"
    room.settle()
    assert room[1].knows(job) == "succeeded"


def test_what_its_end_decides_for_others_is_copied_with_it():
    room, job = WatchedRoom(2), once()
    never = a_job("never", after=(After(job=job.id, when="failed"),))
    last = a_job("last", after=(After(job=never.id, when="any"),))
    room[0].submit(job, never, last)
    room.settle()
    room[0].keeper.end_one(room.runs(job).attempt, 0)
    room[0].pump()  # Of one voter: its own vote is the last that is counted in this step.

    assert (room[0].state(never), room[0].state(last)) == ("skipped", "waiting")
    room.settle()
    assert room[1].knows(never) == "skipped"
    held = room[1].node.across.guarding.find(last.id)
    assert standing_of(held.standing).after_left == ()


def test_who_waits_for_another_job_of_the_same_step_is_woken_too():
    room, job, aside = WatchedRoom(2), once(), a_job("aside")
    room[0].submit(job, aside)
    room.settle()
    for attempt in list(room[0].keeper.started):
        room[0].keeper.end_one(attempt, 0)
    reports = tuple(room[0].keeper.unacknowledged)
    ready = room[0].step(Reports(now_ms=room[0].now_ms, reports=reports))

    assert room[0].state(job) == room[0].state(aside) == "succeeded"
    assert {job.id, aside.id} <= ready.changed.keys()


def test_who_ends_alone_tells_nobody_and_another_home_learns_it_in_the_end():
    room, job = WatchedRoom(5), once()
    room[0].submit(job)
    room.settle()
    room.isolate(room[0])
    room[0].keeper.end_one(room.runs(job).attempt, 0)
    room.until(lambda: len(room.starts) == 2, 30_000)

    assert room.ends(job) == []
    assert room[0].state(job) == "running"
    room.heal()
    room.pass_time(1_000)
    room.obey_stops()
    room.pass_time(31_000)  # The former home holds no copy any more, and asks now and then.
    assert [state for _, state in room.ends(job)] == ["succeeded"]
    assert {node.knows(job) for node in room.nodes} == {"succeeded"}
    assert room.running(job.id) == []
    assert len(room.starts) == 2


def test_a_home_that_restarts_between_the_end_and_the_votes_remembers_the_end():
    room, job = WatchedRoom(), once()
    room[0].submit(job)
    room.settle()
    room.losing = (Accepted, Copy, Copied)
    room.finish(job)
    room[0].start_agent()
    room.look()
    assert room[0].state(job) == "running"
    room.losing = ()
    room.until(lambda: room[0].state(job) == "succeeded", 20_000)

    assert len(room.starts) == 1
    assert room[0].job(job).exit_code == 0


def test_a_home_that_dies_after_the_votes_leaves_the_end_to_the_next():
    room, job = WatchedRoom(), once()
    room[0].submit(job)
    room.settle()
    room.losing = (Accepted, Copy)
    room.finish(job)
    room.kill(room[0])
    room.losing = ()
    room.until(lambda: {node.knows(job) for node in room.nodes[1:]} == {"succeeded"})

    assert len(room.starts) == 1


def test_a_cancel_counts_when_a_majority_has_it_or_a_person_insists():
    room, job = WatchedRoom(), once()
    room[0].submit(job)
    room.losing = (Promised,)
    room.settle()
    room[0].step(Cancel(now_ms=room[0].now_ms, job=job.id))
    room.pass_time(10_000)
    assert (room[0].state(job), room.starts) == ("waiting", [])
    assert room[0].job(job).reason.startswith("stuck: needs ")

    room.losing = ()
    room[0].step(Force(now_ms=room[0].now_ms, job=job.id))
    room.pass_time(2_000)
    assert room[0].state(job) == "cancelled"
    assert not careful(room[0]).register.writer.is_asking(job.id)
    assert room.starts == []


def test_who_lacks_votes_asks_seldom_and_at_once_when_somebody_comes_back():
    room, job = WatchedRoom(), once()
    room.isolate(room[0])
    room[0].submit(job)
    room.pass_time(120_000)
    asked = len(room[0].said(Prepare))
    assert asked <= 2 * (5 + 120 // 5)
    room.heal()
    room.pass_time(1_000)

    assert len(room.starts) == 1


def test_the_first_end_stays():
    room, job = WatchedRoom(), once(retries=1)
    room[0].submit(job)
    room.settle()
    room.losing = (Accepted,)
    conclude(room[0], job, "failed")
    room.finish(job)
    room[0].step(Cancel(now_ms=room[0].now_ms, job=job.id))
    room.losing = ()
    room.until(lambda: room[0].state(job) == "failed", 20_000)

    assert len(room.starts) == 1


def test_an_attempt_that_comes_back_after_the_end_is_ended():
    room, job = WatchedRoom(4), away()
    room[0].submit(job)
    room.settle()
    host = room.host(job)
    room.isolate(host)
    room.losing = (Accepted,)
    conclude(room[0], job, "failed")
    room.heal()
    room.pass_time(6_000)

    assert host.said(Begun)
    assert room[0].said(Halt)
    assert told(host, Stop)


def test_whoever_knows_the_end_already_is_believed():
    room, job = WatchedRoom(), once()
    room[0].submit(job)
    room.settle()
    record = room[0].node.across.guarding.find(job.id)
    room.losing = (Accepted,)
    room.finish(job)
    body = encode(closing_record(room[0].job(job), record))
    known = Holding(job=job.id, record=body)
    room[0].step(Told(now_ms=room[0].now_ms, peer=room[1].me, message=known))

    assert room.ends(job) == [("node-1", "succeeded")]
    room.losing = ()
    room.pass_time(10_000)
    assert room.ends(job) == [("node-1", "succeeded")]


def test_who_parts_from_its_voters_has_ended():
    room, job = WatchedRoom(), once()
    room[0].submit(job)
    room.settle()
    room.losing = (Accepted,)
    room.finish(job)
    assert room[0].state(job) == "running"
    room[0].node.part(room[0].now_ms)

    assert room[0].state(job) == "succeeded"


def test_a_voter_that_holds_no_copy_is_heard_when_it_says_that_a_job_is_over():
    """A majority knew the end, half of it is lost: whoever takes the job over must not be stuck."""
    room, job = WatchedRoom(7), once()
    room.pass_time(6_000)
    home, across = room[0], room[0].node.across
    first, *others = across.guarding.holders.choice.first(job.id, 5, without=lambda _: False)
    for node in others:  # The store of none of them is known yet: somebody else votes.
        del across.once.register.voter.stores[node]
    home.submit(job)
    room.settle()
    voter = next(
        room.by_id(one.node)
        for one in home.job(job).votes.voters
        if one.node not in (home.me, first)
    )
    assert voter.me not in home.job(job).guardians
    for node in room.nodes[1:]:
        if node is not voter:
            room.cut |= {(home.me, node.me), (node.me, home.me)}
    room.finish(job)
    assert (home.state(job), voter.knows(job)) == ("succeeded", "succeeded")
    room.kill(home)
    room.pass_time(20_000)

    assert room.by_id(first).state(job) == "succeeded"
    assert len(room.starts) == 1


def test_whoever_learns_an_end_from_a_former_home_tells_nobody_before_a_majority_has_it():
    room, job = WatchedRoom(5), once()
    room[0].submit(job)
    room.settle()
    room.isolate(room[0])
    room[0].keeper.end_one(room.runs(job).attempt, 0)
    room.until(lambda: len(room.starts) == 2, 30_000)
    room.losing = (Accepted,)
    room.heal()
    room.pass_time(4_000)

    successor = next(node for node in room.nodes[1:] if job.id in node.node.coordinator.jobs)
    assert job.id not in room[0].node.coordinator.jobs
    assert successor.job(job).ending.state == "succeeded"
    assert room.ends(job) == []
    assert {node.knows(job) for node in room.nodes} <= {"running", "waiting"}
    assert told(successor, Stop)

    room.losing = ()
    room.obey_stops()
    room.pass_time(31_000)  # The former home holds no copy any more, and asks now and then.
    assert [state for _, state in room.ends(job)] == ["succeeded"]
    assert {node.knows(job) for node in room.nodes} == {"succeeded"}
    assert len(room.starts) == 2


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_what_a_home_has_concluded_is_not_run_again_by_the_next(code, state):
    room, job = WatchedRoom(5), once()
    room[0].submit(job)
    room.settle()
    room.losing = (Accept,)  # Holders hear of it, voters do not.
    room[0].keeper.end_one(room.runs(job).attempt, code)
    room.look()
    room.pass_time(1_000)
    assert room.ends(job) == []
    room.kill(room[0])
    room.losing = ()
    room.until(lambda: {node.knows(job) for node in room.nodes[1:]} >= {state}, 20_000)

    assert [told_state for _, told_state in room.ends(job)] == [state]
    assert len(room.starts) == 1


def test_an_end_from_a_former_home_is_not_told_while_another_attempt_may_run():
    room, job = WatchedRoom(5), once(avoid=Where(nodes=("node-2",)))
    room[0].submit(job)
    room.settle()
    room.isolate(room[0])
    room[0].keeper.end_one(room.runs(job).attempt, 0)
    room.until(lambda: len(room.starts) == 2, 30_000)
    second = room.host(job)
    assert job.id in room[1].node.coordinator.jobs
    room.heal()
    room.isolate(second)
    room.until(lambda: room[1].job(job).ending is not None, 5_000)
    room.until(lambda: room.running(job.id) == [], 20_000)

    assert room.ends(job) == []
    room.until(lambda: room.ends(job) == [("node-2", "succeeded")], 2_000)
    room.heal()
    room.pass_time(30_000)
    assert {node.knows(job) for node in room.nodes} == {"succeeded"}
    assert len(room.starts) == 2
