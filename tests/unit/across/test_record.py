"""What is written of a job for others, and what a successor makes of it."""

import itertools

import msgspec
import pytest

from distributed_grid.kernel.across.record import JobRecord, has_ended, joined, normal, state_of
from distributed_grid.kernel.across.record_bytes import decode, encode, is_readable, spec_of
from distributed_grid.kernel.across.record_jobs import job_of, summary
from distributed_grid.kernel.across.record_parts import (
    AttemptNote,
    Result,
    Standing,
    fields_of,
    note_of,
    result_of,
    standing_of,
)
from distributed_grid.kernel.across.record_parts import encode as encode_part
from distributed_grid.kernel.across.record_runs import BAD, GONE, GOOD, Run
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.travelling import travelling
from distributed_grid.kernel.jobs import (
    CANCELLED,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Attempt,
    Job,
)
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array
from distributed_grid.wire.mesh import JUNK
from tests.node_world import World, a_job
from tests.unit.across.guard_lab import node

HOME, OTHER = node(1), node(2)
FIRST = Fence(Epoch(0, HOME), 1)


def later(version: Fence, by: int = 1) -> Fence:
    return Fence(version.epoch, version.seq + by)


def a_home(*specs) -> tuple[World, list[Job]]:
    """Jobs on a node that has written them down."""
    world = World()
    world.submit(*specs)
    world.pump()
    jobs = [world.job(spec) for spec in specs]
    for job in jobs:
        job.epoch, job.seq, job.guardians = FIRST.epoch, FIRST.seq, (OTHER,)
    return world, jobs


def with_more(record: JobRecord, **more) -> JobRecord:
    """As a newer version would have written it: more fields in every part."""

    def wide(body: bytes) -> bytes:
        return encode_part({**fields_of(body), **more})

    body = encode_part(
        {
            **fields_of(encode(record)),
            "spec": msgspec.Raw(wide(record.spec)),
            "standing": msgspec.Raw(wide(record.standing)),
            "attempts": {key: msgspec.Raw(wide(note)) for key, note in record.attempts.items()},
            **more,
        }
    )
    return decode(body)


# From a job and back


def test_a_successor_begins_where_the_home_was():
    world, (job,) = a_home(a_job("job", retries=2))
    world.end(job.spec, 3)
    world.pump()
    job.ready_ms = 77

    again = job_of(record_of(job, FIRST))

    assert again.spec == travelling(job.spec)
    assert (again.state, again.failures, again.attempts_made) == ("running", 1, 2)
    assert [a.state for a in again.attempts] == ["ended", "running"]
    assert [a.exit_code for a in again.attempts] == [3, None]
    assert {a.host for a in again.attempts} == {HOME}
    assert [line.what for line in again.story] == [line.what for line in job.story]
    assert (again.epoch, again.seq, again.guardians) == (FIRST.epoch, 1, (OTHER,))
    assert (again.submitted_ms, again.ready_ms) == (job.submitted_ms, 77)


def test_where_an_attempt_runs_is_written_as_a_node_and_stays_so():
    _world, (job,) = a_home(a_job("job"))
    taken = job_of(record_of(job, FIRST))
    taken.epoch = Epoch(1, OTHER)

    record = record_of(taken, Fence(taken.epoch, 1), record_of(job, FIRST))

    (note,) = map(note_of, record.attempts.values())
    assert note.host == HOME
    assert note.epoch == FIRST.epoch


def test_an_attempt_in_the_lease_of_another_is_known_by_its_own_id():
    job = Job(spec=a_job("job"), submitted_ms=1, epoch=FIRST.epoch)
    job.attempts = [Attempt(number=1, lease="lease", own_id="mine", node="n", granted_ms=1)]

    (again,) = job_of(record_of(job, FIRST)).attempts

    assert (again.id, again.lease, again.own_id) == ("mine", "lease", "mine")


def test_an_attempt_that_never_was_is_not_waited_for_by_a_successor():
    _world, (job,) = a_home(a_job("job"))
    before = record_of(job, FIRST)
    job.attempts.clear()

    record = record_of(job, later(FIRST), before)

    assert not job_of(record).live_attempts
    assert record_of(job, later(FIRST, 2), record).attempts == record.attempts


def test_what_has_not_changed_is_not_written_again():
    _world, (job,) = a_home(a_job("job"))
    before = record_of(job, FIRST)

    after = record_of(job, later(FIRST), before)

    assert after.attempts == before.attempts
    assert after.version == later(FIRST)


def test_a_loss_can_be_taken_back_and_an_end_cannot():
    _world, (job,) = a_home(a_job("job"))
    running = record_of(job, FIRST)
    job.attempts[0].state = "lost"
    lost = record_of(job, later(FIRST), running)
    job.attempts[0].state = "running"
    back = record_of(job, later(FIRST, 2), lost)
    job.attempts[0].state = "ended"
    ended = record_of(job, later(FIRST, 3), back)
    job.attempts[0].state = "lost"
    doubted = record_of(job, later(FIRST, 4), ended)

    states = [note_of(*r.attempts.values()).state for r in (running, lost, back, ended, doubted)]
    assert states == ["begun", "lost", "begun", "ended", "ended"]


@pytest.mark.parametrize(
    ("code", "state"), [(0, "succeeded"), (4, "failed")], ids=["well", "badly"]
)
def test_how_it_ended_is_a_result_of_the_attempt_that_decided_it(code, state):
    world, (job,) = a_home(a_job("job"))
    world.end(job.spec, code)

    record = record_of(job, FIRST)

    result = result_of(*record.results)
    assert state_of(record) == state
    assert has_ended(record)
    assert (result.state, result.exit_code, result.number) == (state, code, 1)
    assert (result.node, result.attempt) == (HOME, job.attempts[0].id)
    again = job_of(record)
    assert (again.state, again.exit_code, again.reason) == (state, code, job.reason)
    assert again.ended_ms == job.ended_ms


def test_a_job_that_ended_without_an_attempt_has_a_result_too():
    world, (_one, two) = a_home(a_job("one", cpus=4_000), a_job("two", cpus=4_000))
    if two.attempts:
        two = _one
    world.cancel(two.spec)

    record = record_of(two, FIRST)

    assert state_of(record) == "cancelled"
    assert record.cancel
    assert result_of(*record.results).number == 0


def test_a_result_is_written_once_though_the_job_is_written_again():
    world, (job,) = a_home(a_job("job"))
    world.end(job.spec, 1)
    before = record_of(job, FIRST)
    job.reason = "in other words"

    assert record_of(job, later(FIRST), before).results == before.results


def test_a_success_after_a_failure_that_others_saw_is_written_too():
    world, (job,) = a_home(a_job("job"))
    before = joined(record_of(job, FIRST), a_record(results=(result("failed"),)))
    world.end(job.spec, 0)

    record = record_of(job, later(FIRST), before)

    assert [result_of(body).state for body in record.results] == ["succeeded", "failed"]


def test_two_stories_of_one_millisecond_are_told_once_each_and_in_order():
    ours = a_record(story=((5, 0, "submitted", ""), (5, 1, "granted", "x"), (5, 2, "failed", "")))
    theirs = a_record(
        story=((5, 0, "submitted", ""), (5, 1, "taken over", ""), (5, 2, "failed", ""))
    )

    both = joined(ours, theirs)
    job = job_of(both)
    again = record_of(job, later(FIRST), both)

    told = ["submitted", "granted", "taken over", "failed"]
    assert [line[2] for line in both.story] == told
    assert [line[2] for line in again.story] == told


def test_of_a_long_story_the_beginning_and_the_end_are_kept():
    one = a_record(story=tuple((at, 0, "waiting", "") for at in range(0, 300, 2)))
    other = a_record(story=tuple((at, 0, "waiting", "") for at in range(1, 300, 2)))

    story = joined(one, other).story

    assert len(story) == 200
    assert (story[0][0], story[1][0], story[-1][0]) == (0, 101, 299)


# Joining


def a_record(**facts) -> JobRecord:
    facts.setdefault("version", FIRST)
    facts.setdefault("standing", encode_part(Standing(name="job", submitted_ms=1)))
    spec = facts.pop("spec", None) or a_job("job")
    return normal(JobRecord(job=spec.id, spec=encode_part(spec), **facts))


def result(state: str, number: int = 1, **facts) -> bytes:
    return encode_part(Result(state=state, number=number, epoch=FIRST.epoch, **facts))


def test_the_best_result_counts_and_four_are_kept():
    every = ["skipped", "lost", "failed", "cancelled", "succeeded"]
    records = [a_record(results=(result(state),)) for state in every]

    seen = list(itertools.accumulate(records, joined))

    assert [state_of(record) for record in seen] == every
    assert [result_of(body).state for body in seen[-1].results] == every[:0:-1]


def test_of_equal_results_the_oldest_attempt_counts():
    one, other = (
        a_record(results=(result("succeeded", 2),)),
        a_record(results=(result("succeeded", 1),)),
    )

    assert result_of(joined(one, other).results[0]).number == 1


def test_an_end_of_a_kind_that_only_a_newer_version_knows_is_no_success():
    assert state_of(a_record(results=(result("evaporated"),))) == "failed"


def test_a_newer_versions_attempt_is_taken_for_one_that_runs():
    note = AttemptNote(number=1, host=OTHER, state="dreaming")

    (attempt,) = job_of(a_record(attempts={"a": encode_part(note)})).attempts

    assert attempt.state == "running"


def test_the_last_word_of_the_home_counts():
    word = [encode_part(Standing(name="job", submitted_ms=1, failures=n)) for n in range(3)]
    one = a_record(standing=word[2], version=FIRST)
    two = a_record(standing=word[1], version=later(FIRST))
    three = a_record(standing=word[0], version=Fence(Epoch(1, OTHER), 0))

    assert standing_of(joined(one, two).standing).failures == 1
    assert standing_of(joined(joined(one, three), two).standing).failures == 0


def test_two_specifications_of_one_id_have_an_order():
    one = a_record()
    other = msgspec.structs.replace(one, spec=encode_part(a_job("job", cpus=2_000)))

    assert joined(one, other).spec == joined(other, one).spec == max(one.spec, other.spec)


def test_records_of_two_jobs_are_never_joined():
    with pytest.raises(AssertionError):
        joined(a_record(), a_record(spec=a_job("another")))


# Newer versions


def test_what_a_newer_version_wrote_survives_bytes_joins_and_our_own_writing():
    world, (job,) = a_home(a_job("job"))
    theirs = with_more(record_of(job, FIRST), colour="red")
    again = decode(encode(theirs))
    assert again == theirs
    assert again.others == {"colour": encode_part("red")}

    taken = job_of(theirs)
    world.end(job.spec, 0)
    taken.attempts = job.attempts
    ours = record_of(taken, later(FIRST), theirs)

    assert "colour" in fields_of(encode(ours))
    for body in (ours.spec, ours.standing, *ours.attempts.values()):
        assert fields_of(body)["colour"] == msgspec.Raw(encode_part("red"))
    assert note_of(*ours.attempts.values()).state == "ended"
    assert joined(record_of(job, FIRST), ours).others == ours.others
    assert joined(record_of(job, FIRST), ours).spec == ours.spec


def test_a_specification_that_cannot_be_read_is_known_before_it_is_needed():
    record = a_record()
    strange = encode_part({**fields_of(record.spec), "priority": "galactic"})

    assert is_readable(record)
    assert spec_of(record).name == "job"
    assert not is_readable(msgspec.structs.replace(record, spec=strange))


@pytest.mark.parametrize(
    "facts",
    [
        {"job": "short"},
        {"job": "x" * 64},
        {"standing": []},
        {"attempts": {"a": 7}},
        {"results": [{}]},
        {"size": 2, "runs": [[0, 3, 1]]},
        {"size": 2, "runs": [[1, 2, 1], [0, 1, 1]]},
        {"size": 2, "runs": [[1, 1, 1]]},
        {"size": 2, "runs": [[0, 1, 9]]},
    ],
)
def test_junk_is_refused_at_the_door(facts):
    body = encode_part({**fields_of(encode(a_record())), **facts})

    with pytest.raises(JUNK):
        decode(body)


# Arrays


def an_array(stop: int = 10, **facts) -> tuple[World, Job]:
    world, (job,) = a_home(a_job("array", array=Array(start=0, stop=stop, width=1), **facts))
    return world, job


def test_an_array_goes_on_where_its_successor_finds_it():
    world, job = an_array(retries=1)
    for code in (0, 0, 1):
        world.end(job.spec, code)

    again = job_of(record_of(job, FIRST))

    assert again.progress is not None
    assert job.progress is not None
    assert again.progress.states == job.progress.states
    assert again.progress.tries == job.progress.tries
    assert [a.indices for a in again.live_attempts] == [a.indices for a in job.live_attempts]
    assert again.progress.mean_us == job.progress.mean_us


def test_who_ran_an_index_is_kept_when_the_home_has_forgotten_it():
    world, job = an_array(stop=30)
    record = record_of(job, FIRST)
    ids = set()
    for seq in range(2, 32):
        ids |= {attempt.id for attempt in job.attempts}
        world.end(job.spec, 0)
        record = record_of(job, later(FIRST, seq), record)

    assert state_of(record) == "succeeded"
    assert {run.attempt for run in record.runs} == ids
    assert {run.node for run in record.runs} == {HOME}
    assert not record.attempts, "of decided chunks nothing is left to ask"

    again = job_of(record)
    told = [again.progress.forgotten(at) for at in range(30)]
    assert [again.progress.hosts[one.host] for one in told] == [HOME] * 30
    assert {one.lease for one in told} == {job.spec.id}, "at its home it was no guest"


def test_an_index_that_failed_first_belongs_to_the_attempt_that_decided_it():
    world, job = an_array(stop=1, retries=1)
    world.end(job.spec, 1)
    record = record_of(job, FIRST)
    assert not record.runs
    assert record.attempts
    world.end(job.spec, 0)
    record = record_of(job, later(FIRST), record)

    assert [(run.start, run.stop, run.fate, run.number) for run in record.runs] == [(0, 1, GOOD, 2)]


def test_codes_are_those_of_indices_that_failed_everywhere():
    spec = a_job("array", array=Array(start=0, stop=3))
    one = a_record(spec=spec, size=3, runs=(Run(0, 2, BAD),), codes={0: 3, 1: 4, 2: 9})
    other = a_record(spec=spec, size=3, runs=(Run(1, 2, GOOD), Run(2, 3, GONE)))

    both = joined(one, other)

    assert one.codes == {0: 3, 1: 4}
    assert both.codes == {0: 3}
    assert [(run.start, run.stop, run.fate) for run in both.runs] == [
        (0, 1, BAD),
        (1, 2, GOOD),
        (2, 3, GONE),
    ]


def test_halves_that_each_failed_can_be_a_whole_that_succeeded():
    spec = a_job("array", array=Array(start=0, stop=4))
    one = a_record(
        spec=spec, size=4, runs=(Run(0, 2, GOOD), Run(2, 4, BAD)), results=(result("failed"),)
    )
    other = a_record(
        spec=spec, size=4, runs=(Run(0, 2, BAD), Run(2, 4, GOOD)), results=(result("failed"),)
    )

    both = joined(one, other)

    assert (state_of(one), state_of(other), state_of(both)) == ("failed", "failed", "succeeded")
    assert (job_of(both).state, job_of(both).exit_code) == ("succeeded", 0)


def test_an_array_all_of_whose_indices_are_decided_still_waits_for_its_verdict():
    spec = a_job("array", array=Array(start=0, stop=2))
    record = a_record(spec=spec, size=2, runs=(Run(0, 2, GOOD),))

    assert state_of(record) == "waiting"
    assert not has_ended(record)


def test_indices_that_run_elsewhere_are_not_pending_for_a_successor():
    spec = a_job("array", array=Array(start=10, stop=22, step=2))
    notes = {
        "live": AttemptNote(number=2, host=OTHER, state="begun", positions=((1, 3),)),
        "gone": AttemptNote(number=1, host=OTHER, state="lost", positions=((3, 5),)),
    }
    record = a_record(
        spec=spec,
        size=6,
        runs=(Run(0, 1, GOOD), Run(1, 2, BAD), Run(5, 6, GONE)),
        attempts={key: encode_part(note) for key, note in notes.items()},
    )

    job = job_of(record)

    assert job.progress is not None
    assert list(job.progress.states) == [SUCCEEDED, FAILED, RUNNING, PENDING, PENDING, CANCELLED]
    assert [attempt.indices for attempt in job.live_attempts] == [(12, 14)]


def test_somebody_who_knows_who_decided_an_index_is_believed():
    spec = a_job("array", array=Array(start=0, stop=2))
    known = Run(0, 2, GOOD, "attempt", FIRST.epoch, 1, HOME)
    one = a_record(spec=spec, size=2, runs=(known,))
    other = a_record(spec=spec, size=2, runs=(Run(0, 2, GOOD),))

    assert joined(one, other).runs == joined(other, one).runs == (known,)


# Summaries


def test_a_summary_is_small_and_tells_the_end():
    world, (job,) = a_home(a_job("job"))
    world.end(job.spec, 2)
    record = record_of(job, FIRST)

    short = summary(record)

    assert len(encode(short)) < len(encode(record)) // 2
    assert (state_of(short), short.results) == ("failed", record.results)
    assert [what for _, _, what, _ in short.story] == ["submitted", "failed"]
    assert decode(encode(short)) == short
    assert joined(short, record) == record


def test_nodes_are_nodes():
    assert record_of(a_home(a_job("job"))[1][0], FIRST).home == NodeId(HOME)
    assert record_of(a_home(a_job("job"))[1][0], FIRST).guardians == (OTHER,)
