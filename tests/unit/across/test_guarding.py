"""Copies of a job's record: who gets one, when it counts, who may drop it."""

import msgspec
import pytest

from distributed_grid.kernel.accounts import LIMITS, Allowance
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_parts import encode as encode_part
from distributed_grid.kernel.across.record_parts import fields_of
from distributed_grid.kernel.across.shelf import BLOCK_BYTES
from distributed_grid.kernel.jobs import Attempt
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import JobId, job_id_of
from distributed_grid.wire.across import Copied, Copy, Holding, NotCopied
from tests.unit.across.guard_lab import JOB, Mesh, listed, node


def sent(ready: Ready, kind: type) -> list:
    return [(to, message) for to, message in ready.send if isinstance(message, kind)]


# Copying


def test_a_submitted_job_is_copied_and_the_copies_are_counted_when_they_are_durable():
    mesh = Mesh()
    job = mesh.submit(1)
    assert mesh[1].guarding.copies(job) == 1

    mesh.deliver()
    assert mesh[1].guarding.copies(job) == 1, "it is on a second disk, and nobody said so yet"
    mesh.settle()

    assert mesh[1].guarding.copies(job) == 4
    assert mesh.holders(job) == {*listed(mesh)}
    assert mesh[1].guarding.copies(job_id_of("unknown")) == 0


def test_a_copy_is_durable_before_it_is_answered():
    mesh = Mesh()
    job = mesh.submit(1)
    (_, to, body), *_ = mesh.mail
    copy = msgspec.msgpack.decode(body)["record"]

    for _ in range(2):  # The second changes nothing; the answer waits for the disk all the same.
        ready = mesh.tell(node(1), to, Copy(record=copy))
        assert list(ready.save_held) == [job]
        assert sent(ready, Copied)


def test_a_submission_waits_for_the_first_of_its_guardians_alone():
    mesh = Mesh()
    mesh.submit(1)
    copies = [(to, msgspec.msgpack.decode(body)["record"]) for _, to, body in mesh.mail]
    readies = {to: mesh.tell(node(1), to, Copy(record=copy)) for to, copy in copies}
    first, *others = map(node, listed(mesh))

    assert {to for to, ready in readies.items() if ready.is_awaited} == {first}
    assert {*others} < readies.keys()


def test_a_change_is_confirmed_by_one_holder_more():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    mesh.change(1, job)
    version = mesh.record(1, job).version
    assert not mesh[1].guarding.is_confirmed(job, version, mesh.now_ms)

    mesh.settle()

    assert mesh[1].guarding.is_confirmed(job, version, mesh.now_ms)
    assert not mesh[1].guarding.is_confirmed(job_id_of("unknown"), version, mesh.now_ms)


def test_what_is_lost_with_where_it_runs_is_not_spread_while_others_could_hold_it():
    mesh = Mesh()
    job_id = mesh.submit(1)
    mesh.settle()
    first, *others = listed(mesh)
    job = mesh[1].jobs[job_id]
    job.attempts = [Attempt(number=1, lease="l", host=node(first), node="x", granted_ms=1)]
    mesh.lost = lambda _sender, to, message: isinstance(message, Copy) and to != node(first)
    mesh.change(1, job_id)
    mesh.settle()
    guarding = mesh[1].guarding
    assert guarding.is_told(job, mesh.now_ms)
    assert not guarding.is_spread(job, mesh.now_ms)

    mesh.lost = lambda *_: False
    mesh.pass_ms(2_000)
    mesh.settle()
    assert guarding.is_spread(job, mesh.now_ms)
    mesh.change(1, job_id)
    assert not guarding.is_spread(job, mesh.now_ms)
    for other in others:
        mesh.crash(other)
    mesh.look()
    mesh.settle()
    assert guarding.is_spread(job, mesh.now_ms), "nobody else is there"


def test_alone_the_own_disk_is_enough():
    mesh = Mesh(1)
    job = mesh.submit(1)

    assert mesh[1].guarding.is_confirmed(job, mesh.record(1, job).version, mesh.now_ms)
    assert mesh[1].guarding.copies(job) == 1


def test_after_a_start_nobody_is_alone_before_the_mesh_could_show_itself():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.crash(1)
    mesh.crash(2)
    mesh.start(1)

    version = mesh.record(1, job).version
    assert not mesh[1].guarding.is_confirmed(job, version, mesh.now_ms)
    mesh.pass_ms(6_000)
    assert mesh[1].guarding.is_confirmed(job, version, mesh.now_ms)


def test_one_copy_is_under_way_to_each_and_the_newest_follows():
    mesh = Mesh(2)
    job = mesh.submit(1)
    for _ in range(5):
        mesh.change(1, job)
    assert len(mesh.mail) == 1

    mesh.settle()

    assert mesh.record(2, job).version.seq == 6
    assert mesh[1].guarding.holders.own[job].durable == {node(2): mesh.record(1, job).version}


def test_a_copy_is_repeated_until_it_is_answered():
    mesh = Mesh(2)
    mesh.lost = lambda sender, to, message: isinstance(message, Copied)
    job = mesh.submit(1)
    mesh.pass_ms(3_000)
    assert mesh[1].guarding.copies(job) == 1

    mesh.lost = lambda *_: False
    mesh.pass_ms(1_000)

    assert mesh[1].guarding.copies(job) == 2


def test_nothing_is_sent_to_the_dead_and_they_are_told_when_they_come_back():
    mesh = Mesh(2)
    mesh.crash(2)
    mesh.look()
    job = mesh.submit(1)
    mesh.pass_ms(3_000)
    assert not mesh.mail

    mesh.start(2)
    mesh.look()
    mesh.settle()

    assert mesh[1].guarding.copies(job) == 2


def test_whoever_came_back_may_have_lost_its_disk_and_is_told_again():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.crash(2, with_disk=True)
    mesh.look()
    mesh.start(2)
    mesh.look()
    assert mesh[1].guarding.copies(job) == 1

    mesh.settle()

    assert mesh[1].guarding.copies(job) == 2
    assert mesh.holders(job) == {2}


def test_a_dead_guardian_is_replaced_and_the_list_is_written_anew():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    first = listed(mesh)
    before = mesh.record(1, job).version

    mesh.crash(first[0])
    mesh.look()
    mesh.settle()

    assert set(listed(mesh)) == {2, 3, 4, 5} - {first[0]}
    assert mesh.record(1, job).version > before
    assert mesh.record(first[1], job).guardians == mesh[1].jobs[job].guardians


def test_a_guardian_that_restarts_as_planned_keeps_its_place():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    first = listed(mesh)
    mesh.facts[node(first[0])] = {"restarting_until_ms": mesh.now_ms + 30_000}
    mesh.crash(first[0])
    mesh.look()
    mesh.pass_ms(25_000, step_ms=1_000)
    assert listed(mesh) == first

    mesh.pass_ms(20_000, step_ms=1_000)

    assert first[0] not in listed(mesh)
    assert mesh[1].guarding.copies(job) >= 4


def test_a_list_that_is_too_short_is_filled_when_somebody_comes():
    mesh = Mesh(4)
    for number in (3, 4):
        mesh.crash(number)
    mesh.look()
    mesh.submit(1)
    mesh.settle()
    assert listed(mesh) == [2]

    for number in (3, 4):
        mesh.start(number)
    mesh.look()
    mesh.settle()

    assert set(listed(mesh)) == {2, 3, 4}


@pytest.mark.parametrize("why", ["full disk", "too many"])
def test_whoever_refuses_is_replaced_by_the_next_and_asked_again_later(why):
    mesh = Mesh(3)
    refusing = mesh[2].guarding
    if why == "full disk":
        refusing.is_disk_full = True
    else:
        refusing.shelf.accounts.limits = Allowance(0, 0, 0, 0, 0)
    job = mesh.submit(1)
    mesh.settle()
    assert listed(mesh) == [3]
    assert mesh.holders(job) == {3}

    refusing.is_disk_full = False
    refusing.shelf.accounts.limits = LIMITS["records"]
    mesh.pass_ms(25_000, step_ms=1_000)

    assert set(listed(mesh)) == {2, 3}
    assert mesh.holders(job) == {2, 3}


def test_records_are_counted_and_refused_beyond_the_limit():
    mesh = Mesh(2)
    most = 4 * BLOCK_BYTES  # Two of them.
    mesh[2].guarding.shelf.accounts.limits = Allowance(most, most, most, most, 0)
    jobs = [mesh.submit(1, f"job-{number}") for number in range(3)]
    mesh.settle()

    assert mesh.holders(jobs[0]) == mesh.holders(jobs[1]) == {2}
    assert mesh.holders(jobs[2]) == set()
    mesh.change(1, jobs[0])
    mesh.settle()
    assert mesh.record(2, jobs[0]).version.seq == 2, "what is held is still kept up to date"


def test_a_full_disk_refuses_what_it_would_have_to_change_too():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh[2].guarding.is_disk_full = True
    mesh.change(1, job)
    mesh.settle()

    assert mesh.record(2, job).version.seq == 1
    assert mesh[1].guarding.copies(job) == 1
    assert listed(mesh) == []


def test_a_job_that_this_version_cannot_read_is_refused():
    mesh = Mesh(2)
    job = mesh.submit(1)
    record = mesh.record(1, job)
    strange = encode_part({**fields_of(record.spec), "priority": "galactic"})
    body = encode(msgspec.structs.replace(record, spec=strange))

    ready = mesh.tell(node(1), node(2), Copy(record=body))

    assert "cannot be read" in sent(ready, NotCopied)[0][1].why


def test_junk_is_passed_over():
    mesh = Mesh(2)
    for message in (Copy(record=b"\xc1"), Copy(record=b""), Holding(job=JOB, record=b"\xc1")):
        ready = mesh.tell(node(1), node(2), message)
        assert not ready.send
        assert not ready.save_held


def test_copies_of_an_at_most_once_job_are_mended_like_any_other():
    mesh = Mesh()
    mesh.submit(1, at_most_once=True)
    mesh.settle()
    before = listed(mesh)
    mesh.crash(before[0])
    mesh[before[1]].guarding.is_disk_full = True
    mesh.look()
    for _ in range(3):
        mesh.change(1, JOB)
        mesh.settle()

    assert not {*before[:2]} & {*listed(mesh)}
    assert mesh.record(before[2], JOB).version == mesh.record(1, JOB).version


def test_a_refusal_of_somebody_who_was_not_asked_changes_nothing():
    mesh = Mesh()
    mesh.submit(1)
    mesh.settle()
    before = listed(mesh)
    stranger = next(one for one in range(2, 6) if one not in before)
    version = mesh.record(1, JOB).version
    mesh.tell(node(stranger), node(1), NotCopied(job=JOB, version=version, why="full"))

    assert listed(mesh) == before


def test_guests_are_written_down_by_their_home_only():
    mesh = Mesh(2)
    origin = Origin(home=node(2), job=JOB, epoch=Epoch(), attempt="a")

    job = mesh.submit(1, origin=origin)

    assert mesh.record(1, job) is None
    assert not mesh.mail


def test_a_word_to_end_a_job_that_is_not_held_here_changes_nothing():
    ready = Ready()
    assert not Mesh(2)[1].guarding.cancel(JobId("unknown"), 0, ready)
    assert ready == Ready()
