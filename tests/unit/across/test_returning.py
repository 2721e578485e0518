"""A node comes back: what it may go on with, and whom it asks before."""

import msgspec
import pytest

from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.shelf import GRACE_MS
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.across import Epoch
from distributed_grid.wire.across import Copy, Dispensable, Holding, Inquiry
from tests.unit.across.guard_lab import JOB, Mesh, a_mesh, event_names, node

# The home comes back


def test_a_home_that_was_replaced_abdicates_before_it_places_anything():
    mesh, (first, *_) = a_mesh()
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(300)
    mesh.start(1)
    assert not mesh[1].guarding.is_cleared(JOB)

    mesh.look()
    mesh.pass_ms(1_200)

    assert mesh[1].names("abdicated") == [JOB]
    assert mesh[1].names("cleared") == []
    assert mesh.homes(JOB) == {first}
    assert "job.abdicated" in event_names(mesh)


def test_a_home_that_was_not_replaced_goes_on_under_its_epoch():
    mesh, _guardians = a_mesh()
    before = mesh.record(1, JOB).version
    mesh.crash(1)
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(200)

    assert mesh[1].names("cleared") == [JOB]
    assert mesh[1].guarding.is_cleared(JOB)
    assert mesh.record(1, JOB).version == before
    assert mesh[1].guarding.copies(JOB) == 4


def test_one_answer_is_enough_when_the_delay_is_over():
    mesh, guardians = a_mesh()
    mesh.crash(1)
    for number in guardians[1:]:
        mesh.crash(number)
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(2_900)
    assert mesh[1].names("cleared") == []

    mesh.pass_ms(200)

    assert mesh[1].names("cleared") == [JOB]
    assert mesh.record(1, JOB).version.epoch == Epoch(0, node(1))


@pytest.mark.parametrize("at_most_once", [False, True])
def test_without_an_answer_it_goes_on_under_a_new_epoch_or_its_voters_decide(at_most_once):
    mesh, guardians = a_mesh(at_most_once=at_most_once)
    for number in (1, *guardians):
        mesh.crash(number)
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(2_900)
    assert not mesh[1].guarding.is_cleared(JOB)
    mesh.pass_ms(300)

    assert mesh[1].guarding.is_cleared(JOB)
    assert mesh.record(1, JOB).version.epoch == Epoch(0 if at_most_once else 1, node(1))


def test_a_home_without_guardians_asks_nobody():
    mesh = Mesh(1)
    mesh.submit(1)
    mesh.crash(1)
    mesh.start(1)

    assert mesh[1].guarding.is_cleared(JOB)


def test_a_home_with_an_old_disk_learns_what_it_wrote_itself():
    mesh, _guardians = a_mesh()
    old = dict(mesh[1].disk_jobs)
    mesh[1].jobs[JOB].failures = 7
    mesh.change(1, JOB)
    mesh.settle()
    mesh[1].disk_jobs = old
    mesh.crash(1)
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(300)

    assert mesh[1].jobs[JOB].failures == 7
    assert mesh.record(1, JOB).version.seq > 2
    assert mesh[1].names("cleared") == [JOB]


def test_what_was_joined_survives_a_restart_of_the_home():
    mesh, (first, *_) = a_mesh()
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(300)
    record = mesh.record(first, JOB)
    mesh[first].disk_jobs[JOB] = msgspec.msgpack.encode(mesh[first].jobs[JOB])
    mesh.crash(first)
    mesh.start(first)

    assert mesh.record(first, JOB) == record


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_job_that_was_handed_over_is_not_taken_up_from_the_own_disk(is_marked):
    mesh, _ = a_mesh()
    old = mesh[1].disk_jobs[JOB]
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(300)
    mesh.start(1)
    mesh.lost = lambda sender, to, message: isinstance(message, Dispensable)
    mesh.look()
    mesh.pass_ms(500)
    assert mesh[1].names("abdicated") == [JOB]
    job = msgspec.msgpack.decode(old, type=Job)
    if is_marked:
        job.epoch = mesh.record(1, JOB).version.epoch
    mesh[1].disk_jobs[JOB] = msgspec.msgpack.encode(job)
    mesh.crash(1)
    mesh.start(1)

    assert JOB not in mesh[1].guarding.holders.own
    assert mesh.record(1, JOB).version.epoch.counter == 1


def test_what_ended_shortly_before_a_restart_is_told_again():
    mesh, guardians = a_mesh()
    mesh.lost = lambda sender, to, message: isinstance(message, Copy)
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.settle()
    mesh.crash(1)
    mesh.start(1)
    mesh.lost = lambda sender, to, message: isinstance(message, Inquiry)
    mesh.look()
    mesh.pass_ms(500)

    assert {state_of(mesh.record(g, JOB)) for g in guardians} == {"succeeded"}
    assert mesh[1].names("cleared") == []


def test_what_ended_long_before_a_restart_is_only_remembered():
    mesh, _guardians = a_mesh()
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.settle()
    mesh.crash(1)
    mesh.now_ms += 700_000
    mesh.start(1)

    assert mesh.homes(JOB) == set()
    assert mesh.record(1, JOB).is_summary


def test_a_record_on_disk_that_cannot_be_read_is_left_there():
    mesh, (first, *_) = a_mesh()
    mesh.crash(first)
    mesh[first].disk_held[JOB] = b"\xc1"
    mesh.start(first)

    assert mesh.record(first, JOB) is None
    assert mesh[first].disk_held[JOB] == b"\xc1"


def test_a_holder_that_starts_gives_the_mesh_time_before_it_takes_anything_over():
    mesh, (first, *_) = a_mesh()
    mesh.crash(first)
    mesh.start(first)
    mesh.cut(first)
    mesh.pass_ms(4_900)
    assert first not in mesh.homes(JOB)

    mesh.pass_ms(1_300)

    assert first in mesh.homes(JOB)


# Away for longer than the grace


def away(mesh: Mesh, number: int) -> None:
    mesh.crash(number)
    mesh.look()
    mesh.pass_ms(600)
    mesh.now_ms += GRACE_MS + 1
    mesh.start(number, away_ms=GRACE_MS + 1)
    mesh.look()


def test_after_a_long_absence_a_guardian_must_say_that_the_job_is_unfinished():
    mesh, guardians = a_mesh()
    for number in guardians:
        mesh[number].takes_over = False
    mesh.lost = lambda sender, to, message: isinstance(message, Holding)
    away(mesh, 1)
    mesh.pass_ms(10_000)
    assert not mesh[1].guarding.is_cleared(JOB), "however long nobody answers"

    mesh.lost = lambda *_: False
    mesh.pass_ms(1_500)

    assert mesh[1].guarding.is_cleared(JOB)
    assert mesh[1].names("cleared") == [JOB]


def test_a_job_that_nobody_knows_any_more_is_untracked_until_a_person_wants_it():
    mesh, guardians = a_mesh()
    for number in guardians:
        mesh.crash(number, with_disk=True)
        mesh.start(number)
    away(mesh, 1)
    mesh.pass_ms(2_000)
    guarding = mesh[1].guarding
    assert guarding.is_untracked(JOB)
    assert not guarding.is_cleared(JOB)
    assert "job.untracked" in event_names(mesh)
    mesh.pass_ms(40_000, step_ms=1_000)
    assert mesh.holders(JOB) == set(), "and nobody is told to hold it"
    mesh.tell(node(5), node(1), Inquiry(jobs=(JOB,)))
    assert not [body for sender, _, body in mesh.mail if sender == node(1)], "nor assured of it"

    mesh.act(mesh[1], lambda ready: guarding.requeue(JOB, mesh.now_ms, ready))
    mesh.settle()

    assert guarding.is_cleared(JOB)
    assert len(mesh.holders(JOB)) == 3
    assert mesh.record(1, JOB).version.epoch.counter == 1


def test_only_what_is_untracked_is_requeued():
    mesh, _ = a_mesh()

    ready = mesh.act(mesh[1], lambda ready: mesh[1].guarding.requeue(JOB, mesh.now_ms, ready))

    assert not ready.save_jobs


def test_a_holder_that_was_long_away_takes_nothing_over_unasked():
    mesh, (first, *rest) = a_mesh()
    mesh.crash(1)
    for number in rest:
        mesh.crash(number)
    away(mesh, first)
    mesh.pass_ms(20_000, step_ms=500)
    assert mesh.homes(JOB) == set()

    mesh.start(rest[0])  # It was away as well, and says so.
    mesh[rest[0]].start()
    mesh.look()
    mesh.pass_ms(3_000)
    assert mesh.homes(JOB) == set()
    mesh.start(rest[1])
    mesh.look()
    mesh.pass_ms(8_000)

    assert mesh.homes(JOB) == {first}


def test_a_holder_that_was_long_away_forgets_what_nobody_knows():
    mesh, (first, *rest) = a_mesh()
    for number in (1, *rest):
        mesh.crash(number, with_disk=True)
        mesh.start(number)
    away(mesh, first)
    mesh.pass_ms(40_000, step_ms=1_000)
    assert mesh[first].guarding.is_untracked(JOB)
    assert mesh.homes(JOB) == set()

    guarding = mesh[first].guarding
    mesh.act(mesh[first], lambda ready: guarding.requeue(JOB, mesh.now_ms, ready))
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(8_000)

    assert mesh.homes(JOB) == {first}


def test_whoever_hears_of_its_old_job_from_others_doubts_no_longer():
    mesh, guardians = a_mesh()
    (first, *_) = guardians
    mesh.lost = lambda sender, to, message: isinstance(message, Holding | Copy)
    away(mesh, first)
    mesh.pass_ms(1_000)
    assert not mesh[first].guarding.is_cleared(JOB)

    mesh.change(1, JOB)
    mesh.tell(node(1), node(first), Copy(record=encode(mesh.record(1, JOB))))

    assert mesh[first].guarding.is_cleared(JOB)
