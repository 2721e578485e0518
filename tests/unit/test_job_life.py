"""What happens to jobs, without a process: submission, order, retries, losses, arrays, cancels."""

import msgspec
import pytest

from distributed_grid.errors import Conflict, NeverFits, NotFound, Overloaded
from distributed_grid.kernel import admitting
from distributed_grid.kernel import coordinator as coordinator_module
from distributed_grid.kernel import jobs as jobs_module
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.jobs import MOVES, IllegalMove, Job, Progress
from distributed_grid.kernel.node import Submit
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.restarting import recall
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.job import After, Where, Work
from distributed_grid.model.resources import Request
from distributed_grid.wire.api import ENDED
from distributed_grid.wire.keeper import Run, Started, Stop
from tests.node_world import World, a_job


def test_a_job_that_fits_is_saved_with_its_lease_before_it_is_started():
    world = World()

    ready = world.submit(a_job("one"))

    assert list(ready.save_jobs) == [a_job("one").id]
    assert len(ready.save_leases) == 1
    assert [type(message) for message in ready.tell] == [Run]
    assert ready.tell[0].attempt == ready.save_leases[0].id


@pytest.mark.rows("S3-17", "S3-82")
def test_a_job_ends_as_its_process_did():
    world = World()
    good, bad = a_job("good"), a_job("bad")
    world.submit(good, bad)

    world.end(good, 0)
    world.end(bad, 3)

    assert (world.state(good), world.job(good).exit_code) == ("succeeded", 0)
    assert (world.state(bad), world.job(bad).exit_code) == ("failed", 3)
    assert world.job(good).attempts[0].usage.memory_bytes_peak == 5
    assert not world.node.ledger.leases, "what both held is free again"


def test_the_same_id_with_another_spec_is_a_conflict():
    world = World()
    world.submit(a_job("one"))

    with pytest.raises(Conflict):
        world.submit(a_job("one", cpus=2_000))


def test_a_job_larger_than_the_machine_is_refused_with_the_shortfall():
    world = World()

    with pytest.raises(NeverFits) as refused:
        world.submit(a_job("huge", cpus=5_000))

    assert refused.value.shortfall == (("cpu_milli", 5_000, 4_000),)
    assert not world.node.coordinator.jobs


def test_a_job_larger_than_the_machine_waits_if_it_wants_to():
    world = World()
    huge = a_job("huge", cpus=5_000, wait_for_capacity=True)

    world.submit(huge)

    assert world.state(huge) == "waiting"


def test_of_one_submission_all_are_taken_or_none():
    world = World()

    with pytest.raises(NeverFits):
        world.submit(a_job("fine"), a_job("huge", cpus=5_000))

    assert not world.node.coordinator.jobs


def test_the_queue_is_bounded(monkeypatch):
    monkeypatch.setattr(admitting, "QUEUE_MAX", 2)
    world = World()
    world.submit(a_job("one"), a_job("two"))

    with pytest.raises(Overloaded):
        world.submit(a_job("three"))


def test_a_failed_job_is_tried_again_as_often_as_it_may():
    world = World()
    job = a_job("flaky", retries=2)
    world.submit(job)

    world.end(job, 1)
    world.end(job, 1)
    assert world.state(job) in ("waiting", "running")
    world.pass_time(1_000)
    world.end(job, 1)

    assert world.state(job) == "failed"
    assert len(world.job(job).attempts) == 3


def test_each_retry_waits_longer_than_the_one_before_and_says_how_long_over_restarts():
    world = World()
    job = a_job("flaky", retries=9)
    world.submit(job)
    pauses = []
    while not world.job(job).has_ended:
        world.end(job, 1)
        pause_ms = max(world.job(job).again_ms - world.now_ms, 0)
        pauses.append(pause_ms // 1_000)
        if pause_ms:
            told = explain(world.node.coordinator, world.job(job), world.now_ms).summary
            assert told == f"it has failed, and tries again in {pauses[-1]} s"
            assert world.job(job).reason.endswith(f"in {pauses[-1]} s")
            world.pass_time(pause_ms - 1)
            world.start_agent()
            assert not world.keeper.runs
            world.pass_time(1)

    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60, 0]


def test_losses_do_not_count_as_failures_and_have_their_own_limit():
    world = World()
    job = a_job("unlucky", retries=0, losses_max=1)
    world.submit(job)

    world.keeper.die()
    world.start_agent()
    assert not world.job(job).has_ended
    world.keeper.die()
    world.start_agent()

    assert world.state(job) == "lost"
    assert world.job(job).failures == 0


def test_a_job_whose_agent_died_before_the_keeper_heard_of_it_is_started_again_without_a_loss():
    world = World()
    job = a_job("unheard")
    ready = world.node.step(Submit(now_ms=world.now_ms, jobs=(job,)))
    world.save(ready)  # Durable, and then the agent dies: the keeper was never told.

    world.start_agent()

    assert len(world.keeper.runs) == 1
    assert world.job(job).losses == 0


def test_a_running_attempt_that_the_keeper_no_longer_knows_counts_as_lost():
    world = World()
    job = a_job("gone")
    world.submit(job)
    world.pump()
    world.saved_jobs[job.id] = msgspec.msgpack.encode(world.job(job))
    world.keeper.runs.clear()

    world.start_agent()

    assert world.job(job).losses == 1


def test_what_waits_is_served_in_order_and_small_work_overtakes_only_for_a_while():
    world = World()
    first, large, small, late = (
        a_job("first", cpus=3_000),
        a_job("large", cpus=4_000),
        a_job("small", cpus=1_000),
        a_job("late", cpus=1_000),
    )
    world.submit(first)
    world.submit(large)
    world.submit(small)
    assert world.state(small) == "waiting" or world.job(small).live_attempts
    assert world.job(small).live_attempts, "small work uses what the large one cannot"

    world.pass_time(61_000)
    world.submit(late)
    world.end(small)

    assert not world.job(late).live_attempts, "nobody overtakes one that has waited a minute"
    world.end(first)
    assert world.job(large).live_attempts


def test_a_cancelled_job_that_waits_ends_at_once_and_one_that_runs_is_stopped():
    world = World()
    running, waiting = a_job("running", cpus=4_000), a_job("waiting", cpus=4_000)
    world.submit(running)
    world.submit(waiting)

    world.cancel(waiting)
    ready = world.cancel(running)

    assert world.state(waiting) == "cancelled"
    assert isinstance(ready.tell[0], Stop)
    world.end(running)
    assert world.state(running) == "cancelled"


def test_a_job_that_ended_stays_as_it_is_when_cancelled():
    world = World()
    job = a_job("done")
    world.submit(job)
    world.end(job)

    assert not world.cancel(job).save_jobs
    assert world.state(job) == "succeeded"


def test_a_cancelled_job_that_is_lost_is_cancelled():
    world = World()
    job = a_job("both")
    world.submit(job)
    world.cancel(job)
    world.cancel(job)

    world.keeper.die()
    world.start_agent()

    assert world.state(job) == "cancelled"


@pytest.mark.parametrize(
    ("when", "code", "expected"),
    [
        ("ok", 0, "runs"),
        ("ok", 1, "skipped"),
        ("any", 1, "runs"),
        ("failed", 1, "runs"),
        ("failed", 0, "skipped"),
    ],
)
def test_a_job_comes_after_another_only_if_that_ended_as_wanted(when, code, expected):
    world = World()
    before = a_job("before")
    after = a_job("after", after=(After(job=before.id, when=when),))
    world.submit(before, after)
    assert not world.job(after).live_attempts

    world.end(before, code)

    if expected == "skipped":
        assert world.state(after) == "skipped"
    else:
        assert world.job(after).live_attempts


def test_a_chain_of_any_length_is_skipped_at_once():
    world = World()
    chain = [a_job("job-0")]
    for number in range(1, 3_000):
        chain.append(a_job(f"job-{number}", after=(After(job=chain[-1].id),)))
    world.submit(*chain)

    world.end(chain[0], 1)

    assert world.node.coordinator.unfinished == 0
    assert world.job(chain[-1]).state == "skipped"


def test_coming_after_the_same_job_twice_is_fine():
    world = World()
    before = a_job("before")
    twice = (After(job=before.id), After(job=before.id, when="any"))
    after = a_job("after", after=twice)
    world.submit(before, after)
    world.end(before)

    assert world.job(after).live_attempts


def test_a_job_cannot_come_after_one_that_nobody_knows():
    with pytest.raises(NotFound):
        World().submit(a_job("after", after=(After(job=a_job("ghost").id),)))


def test_a_finished_job_can_be_recalled_for_one_that_comes_after_it():
    world = World()
    before = a_job("before")
    world.submit(before)
    world.end(before)
    remembered = world.node.coordinator.jobs.pop(before.id)

    recall(world.node.coordinator, remembered)
    world.submit(a_job("after", after=(After(job=before.id),)))

    assert len(world.keeper.runs) == 1


def test_a_repeated_report_changes_nothing():
    world = World()
    job = a_job("one")
    world.submit(job)
    world.pump()
    started = next(m for m in world.keeper.told if isinstance(m, Run)).attempt
    world.keeper.end_one(started, 0)
    reports = list(world.keeper.unacknowledged)
    world.pump()
    world.keeper.unacknowledged = reports

    world.pump()

    assert world.state(job) == "succeeded"
    assert len(world.job(job).attempts) == 1


def test_only_the_latest_finished_jobs_stay_in_memory(monkeypatch):
    monkeypatch.setattr(coordinator_module, "FINISHED_KEPT", 2)
    world = World()
    jobs = [a_job(f"job-{number}") for number in range(5)]
    for job in jobs:
        world.submit(job)
        world.end(job)

    assert list(world.node.coordinator.jobs) == [job.id for job in jobs[-2:]]


def test_what_a_job_comes_after_is_decided_once_and_may_be_forgotten(monkeypatch):
    monkeypatch.setattr(coordinator_module, "FINISHED_KEPT", 0)
    world = World()
    first = a_job("first")
    second = a_job("second", after=(After(job=first.id),))
    third = a_job("third", after=(After(job=first.id), After(job=second.id)))
    world.submit(first, second, third)
    world.end(first)
    world.end(second)
    world.end(third)

    assert not world.node.coordinator.jobs
    assert len(world.saved_jobs) == 3


def test_nothing_starts_before_a_keeper_has_greeted():
    world = World()
    world.node.hello = None

    world.submit(a_job("early"))

    assert not world.keeper.runs


@pytest.mark.rows("S3-67", "S4-71")
def test_a_job_names_its_devices_to_its_process():
    from distributed_grid.kernel.inventory import Inventory
    from distributed_grid.model.node import unnamed_gpus

    world = World(
        Inventory(
            cores=((0, 0), (1, 0)),
            cpu_milli=2_000,
            memory_bytes=1 << 30,
            gpus=unnamed_gpus("H100", 2),
        )
    )
    job = a_job(
        "train",
        request=Request(cpu_milli=500, gpus=GpuRequest(milli=1_000)),
        work=Work(argv=("train",), cwd="/", env={"MINE": "1"}),
    )
    [run] = world.submit(job).tell

    assert run.env["CUDA_VISIBLE_DEVICES"] == "H100#000"
    assert run.env["GRID_GPUS"] == "H100#000"
    assert run.env["GRID_CPUS"] == "0.5"
    assert run.env["GRID_NODE"] == "here"
    assert run.env["MINE"] == "1"
    assert run.slot.cores == ()
    assert run.limits.cpu_milli == 500


def test_an_ended_job_never_moves_again():
    for state in ENDED:
        assert MOVES[state] == frozenset()
    job = Job(spec=a_job("one"), submitted_ms=1, state="succeeded")

    with pytest.raises(IllegalMove, match="from succeeded to running"):
        job.move("running", 2)


def test_jobs_come_after_earlier_ones_of_a_submission_only_and_ids_are_not_shared():
    world = World()
    first = a_job("first")
    later = a_job("later", after=(After(job=first.id),))
    with pytest.raises(NotFound):
        world.submit(later, first)
    with pytest.raises(NotFound):
        world.submit(a_job("self", after=(After(job=a_job("self").id),)))
    with pytest.raises(Conflict):
        world.submit(first, a_job("first", cpus=2_000))

    assert not world.node.coordinator.jobs
    world.submit(first, later)
    assert world.node.coordinator.unfinished == 2


def test_a_stop_that_nobody_asked_for_puts_a_running_job_back_without_blame():
    world = World()
    job = a_job("one")
    world.submit(job)
    world.pump()
    world.keeper.stopped.add(world.job(job).live_attempts[0].lease)
    world.end(job)

    assert world.job(job).live_attempts, "it is tried again"
    assert (world.job(job).failures, world.job(job).losses) == (0, 0)
    attempt = world.job(job).live_attempts[0].lease
    assert world.node.coordinator.attempts.here[attempt][0] == job.id
    assert world.node.coordinator.attempts.find("stranger") is None


def test_a_job_that_was_skipped_is_not_decided_again():
    world = World()
    bad, good = a_job("bad"), a_job("good")
    both = a_job("both", after=(After(job=bad.id), After(job=good.id)))
    world.submit(bad, good, both)
    world.end(bad, 1)
    world.end(good, 0)

    assert world.state(both) == "skipped"


def test_a_job_larger_than_the_machine_does_not_hold_up_the_others():
    world = World()
    world.submit(a_job("giant", cpus=64_000, wait_for_capacity=True))
    world.pass_time(600_000)
    small = a_job("small")
    world.submit(small)
    world.pump()
    assert world.state(small) == "running"


def test_what_went_on_while_the_agent_was_away_began_when_the_keeper_says():
    world = World()
    world.submit(a_job("one"))
    (attempt,) = world.keeper.runs
    world.keeper.unacknowledged.clear()  # That it started was told, and not saved for its own sake.
    world.began = {attempt: 5}
    world.start_agent()

    seen = world.job(a_job("one"))
    assert (seen.state, seen.started_ms) == ("running", 5)
    assert seen.attempts[0].started_ms == 5


def test_who_is_told_again_that_a_process_runs_keeps_when_it_began():
    world = World()
    world.submit(a_job("one"))
    world.pump()
    (attempt,) = world.job(a_job("one")).attempts
    before = attempt.started_ms, attempt.pid
    world.node.coordinator.started(
        Started(number=0, attempt=attempt.id, pid=0, at_ms=99_000), Ready()
    )

    assert (attempt.started_ms, attempt.pid) == before


def test_alone_a_job_for_another_node_is_refused_and_one_for_this_node_runs():
    world = World()
    mine, any_but = Where(nodes=(world.node_name,)), Where(nodes=("another",))
    world.submit(a_job("mine", require=mine), a_job("any but", avoid=any_but))
    assert world.state(a_job("mine")) == world.state(a_job("any but")) == "waiting"
    world.pump()
    assert world.state(a_job("mine")) == world.state(a_job("any but")) == "running"

    for name, what in (("theirs", {"require": any_but}), ("not here", {"avoid": mine})):
        with pytest.raises(NeverFits):
            world.submit(a_job(name, **what))
        world.submit(a_job(f"{name} later", wait_for_capacity=True, **what))
        world.pump()
        assert world.state(a_job(f"{name} later")) == "waiting"


def test_of_what_attempts_leave_behind_the_last_counts_and_of_an_array_all(monkeypatch):
    monkeypatch.setattr(jobs_module, "OUTPUTS_KEPT", 2)
    one = Job(spec=a_job("one"), submitted_ms=1)
    for manifest in ("a", "b"):
        one.leaves(manifest)
    assert one.outputs == ["b"]
    one.leaves("")
    assert one.outputs == []

    many = Job(spec=a_job("many"), submitted_ms=1, progress=Progress(states=bytearray(3)))
    for manifest in ("a", "", "b", "b", "c"):
        many.leaves(manifest)
    assert many.outputs == ["b", "c"]
