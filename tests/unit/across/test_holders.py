"""When a copy may go, what is kept in the end, and who asks whom."""

import msgspec

from distributed_grid.kernel.across import shelf as shelf_module
from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.across.record_bytes import decode
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.across import Copied, Copy, Dispensable, Holding, Inquiry
from tests.unit.across.guard_lab import JOB, Mesh, a_mesh, listed, node


def sent(ready: Ready, kind: type) -> list:
    return [(to, message) for to, message in ready.send if isinstance(message, kind)]


# Dropping


def moved_list(mesh: Mesh) -> tuple[int, list[int]]:
    """A guardian that died, came back after it was replaced, and still has its copy."""
    mesh.submit(1)
    mesh.settle()
    gone = listed(mesh)[0]
    mesh.crash(gone)
    mesh.look()
    return gone, listed(mesh)


def test_who_is_no_longer_listed_drops_its_copy_when_a_majority_has_a_newer_one():
    mesh = Mesh()
    gone, _ = moved_list(mesh)
    mesh.settle()
    mesh.start(gone)
    assert mesh.record(gone, JOB) is not None

    mesh.look()
    mesh.pass_ms(2_000)

    assert mesh.record(gone, JOB) is None
    assert JOB not in mesh[gone].disk_held


def test_it_keeps_its_copy_as_long_as_one_on_the_list_has_not_answered():
    """Or there would be fewer copies for a while than were promised."""
    mesh = Mesh()
    gone, names = moved_list(mesh)
    mesh.start(gone)
    mesh.lost = lambda sender, to, message: (
        isinstance(message, Copied) and sender == node(names[-1])
    )
    mesh.look()
    mesh.pass_ms(3_000)
    assert mesh[1].guarding.holders.own[JOB].durable.keys() >= {node(n) for n in names[:-1]}
    assert mesh.record(gone, JOB) is not None

    mesh.lost = lambda *_: False
    mesh.pass_ms(3_000)

    assert mesh.record(gone, JOB) is None


def test_a_dismissal_that_was_lost_is_said_again_when_the_holder_asks():
    mesh = Mesh()
    gone, _ = moved_list(mesh)
    mesh.settle()
    mesh.start(gone)
    mesh.lost = lambda sender, to, message: isinstance(message, Dispensable)
    mesh.look()
    mesh.pass_ms(2_000)
    mesh.lost = lambda *_: False
    assert mesh.record(gone, JOB) is not None

    mesh.pass_ms(40_000, step_ms=1_000)

    assert mesh.record(gone, JOB) is None


def test_an_old_dismissal_does_not_cost_a_newer_copy():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    guardian = listed(mesh)[0]
    older = mesh.record(1, job).version
    mesh.change(1, job)
    mesh.settle()
    higher = Fence(Epoch(9, node(1)), 0)

    mesh.tell(node(1), node(guardian), Dispensable(job=job, version=older))
    mesh.tell(node(3), node(guardian), Dispensable(job=job, version=higher))
    mesh.tell(node(1), node(guardian), Dispensable(job=job_id_of("unknown"), version=higher))

    assert mesh.record(guardian, job) is not None


def test_an_answer_from_before_the_dismissal_is_void():
    mesh = Mesh()
    gone, _ = moved_list(mesh)
    mesh.start(gone)
    mesh.look()
    mesh.settle()
    own = mesh[1].guarding.holders.own[JOB]
    assert node(gone) in own.dropped
    count = mesh[1].guarding.copies(JOB)

    mesh.tell(node(gone), node(1), Copied(job=JOB, version=Fence(Epoch(0, node(1)), 1)))

    assert mesh[1].guarding.copies(JOB) == count


def test_whoever_is_listed_again_counts_when_it_has_the_record_again():
    mesh = Mesh()
    gone, names = moved_list(mesh)
    mesh.start(gone)
    mesh.look()
    mesh.settle()
    old = Copied(job=JOB, version=Fence(Epoch(0, node(1)), 1))
    mesh.crash(names[0])
    mesh.look()
    assert gone in listed(mesh)

    mesh.tell(node(gone), node(1), old)
    assert node(gone) not in mesh[1].guarding.holders.own[JOB].durable
    mesh.settle()
    assert node(gone) in mesh[1].guarding.holders.own[JOB].durable


def test_a_short_list_dismisses_nobody_though_all_on_it_have_a_newer_copy():
    """Whose disk was full for another job is not chosen for a while, and has this one."""
    mesh, (first, *others) = a_mesh(4)
    mesh[1].guarding.is_disk_full = True
    mesh.submit(first, "another")
    mesh.settle()
    mesh.cut(1)  # The home alone: the first on its list takes the job over.
    mesh.pass_ms(500)
    assert (mesh.homes(JOB), listed(mesh, first)) == ({1, first}, others)

    mesh.heal()
    mesh.pass_ms(3_000)
    assert (mesh.homes(JOB), listed(mesh, first)) == ({first}, others)
    assert mesh.holders(JOB) >= {1, *others}
    mesh[1].guarding.is_disk_full = False
    mesh.pass_ms(20_000)
    assert {1, *others} == {*listed(mesh, first)}
    assert mesh[first].guarding.copies(JOB) == 4


def test_the_dead_are_not_counted_whatever_they_said():
    mesh, (first, *_) = a_mesh(4)
    assert mesh[1].guarding.copies(JOB) == 4
    mesh.crash(first, with_disk=True)
    mesh.look()

    assert mesh[1].guarding.copies(JOB) == 3
    mesh.tell(node(first), node(1), Copied(job=JOB, version=mesh.record(1, JOB).version))
    assert mesh[1].guarding.copies(JOB) == 3
    mesh.start(first)
    mesh.look()
    assert mesh[1].guarding.copies(JOB) == 3
    mesh.settle()
    assert mesh[1].guarding.copies(JOB) == 4


def test_a_late_answer_of_one_that_was_replaced_is_kept_until_it_is_dismissed():
    mesh = Mesh()
    job = mesh.submit(1)
    late = listed(mesh)[0]
    mesh.lost = lambda sender, to, message: to != node(late)
    mesh.settle()  # Only that one has the record, and its answer is lost.
    mesh.lost = lambda *_: True
    mesh.crash(late)
    mesh.look()
    mesh.settle()
    assert late not in listed(mesh)

    mesh.tell(node(late), node(1), Copied(job=job, version=mesh.record(late, job).version))
    assert node(late) in mesh[1].guarding.holders.own[job].durable
    assert mesh[1].guarding.copies(job) == 1  # It is dead.

    mesh.lost = lambda *_: False
    mesh.pass_ms(2_000)
    assert node(late) in mesh[1].guarding.holders.own[job].durable
    assert mesh[1].guarding.copies(job) == 4
    mesh.start(late)
    mesh.look()
    mesh.settle()
    assert mesh[1].guarding.copies(job) == 4
    assert mesh.record(late, job) is None


# The end


def test_the_end_is_told_to_all_and_then_only_remembered():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    mesh.end(1, job, "succeeded", code=0)
    assert mesh.homes(job) == {1}

    mesh.settle()

    assert mesh.homes(job) == set()
    assert {state_of(mesh.record(n, job)) for n in (1, *mesh.holders(job))} == {"succeeded"}
    assert mesh[1].guarding.is_confirmed(job, mesh.record(1, job).version, mesh.now_ms)


def test_a_home_cares_for_what_has_ended_until_a_former_guardian_knows_it():
    mesh = Mesh()
    gone, _ = moved_list(mesh)
    mesh.settle()
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.pass_ms(500)
    assert mesh.homes(JOB) == {1}

    mesh.start(gone)
    mesh.look()
    mesh.settle()

    assert mesh.homes(JOB) == set()
    assert state_of(mesh.record(gone, JOB)) == "succeeded"


def test_what_has_ended_becomes_a_summary_and_is_forgotten_after_twice_the_grace():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.end(1, job, "failed", code=3)
    mesh.settle()
    long = len(mesh[2].disk_held[job])
    assert not mesh.record(2, job).is_summary

    mesh.pass_ms(3_700_000, step_ms=100_000)
    assert mesh.record(2, job).is_summary
    assert state_of(mesh.record(2, job)) == "failed"
    assert len(mesh[2].disk_held[job]) < long / 2

    mesh.crash(2)
    mesh.start(2)
    mesh.look()
    mesh.pass_ms(13 * 86_400_000, step_ms=86_400_000)
    assert state_of(mesh.record(2, job)) == "failed"
    mesh.pass_ms(2 * 86_400_000, step_ms=86_400_000)
    assert mesh.record(2, job) is None
    assert job not in mesh[2].disk_held


def test_summaries_come_early_and_go_early_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(shelf_module, "ENDED_MAX", 2)
    monkeypatch.setattr(shelf_module, "SUMMARIES_MAX", 3)
    mesh = Mesh(2)
    jobs = []
    for number in range(8):
        jobs.append(mesh.submit(1, f"job-{number}"))
        mesh.settle()
        mesh.end(1, jobs[-1], "failed", code=3)
        mesh.pass_ms(1_000)

    records = [mesh.record(2, job) for job in jobs]

    assert records[:3] == [None, None, None]
    assert [record.is_summary for record in records[3:]] == [True] * 3 + [False] * 2
    assert set(mesh[2].disk_held) == set(jobs[3:])


def test_a_late_copy_of_what_has_ended_changes_nothing():
    mesh = Mesh(2)
    job = mesh.submit(1)
    copy = msgspec.msgpack.decode(mesh.mail[0][2])["record"]
    mesh.settle()
    mesh.end(1, job, "failed", code=3)
    mesh.settle()
    mesh.pass_ms(3_700_000, step_ms=100_000)
    before = mesh.record(2, job)

    mesh.tell(node(1), node(2), Copy(record=copy))

    assert state_of(mesh.record(2, job)) == "failed"
    assert mesh.record(2, job).version == before.version


# Questions


def test_whoever_is_asked_tells_what_it_has():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    holder = listed(mesh)[0]
    unknown = job_id_of("unknown")

    ready = mesh.tell(node(5), node(holder), Inquiry(jobs=(job, unknown)))
    home = mesh.tell(node(5), node(1), Inquiry(jobs=(job,)))

    (_, known), (_, nothing) = ready.send
    assert decode(known.record) == mesh.record(holder, job)
    assert nothing == Holding(job=unknown)
    assert decode(home.send[0][1].record) == mesh.record(1, job)


def test_a_guardian_that_lost_its_disk_unseen_is_found_out():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.crash(2, with_disk=True)
    mesh.start(2)
    mesh.look_from(mesh[2])
    mesh.pass_ms(31_000, step_ms=1_000)

    assert mesh.holders(job) == {2}


def test_home_and_holder_ask_each_other_now_and_then_and_are_answered_in_short():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    asked = []
    mesh.lost = lambda sender, to, message: asked.append(message) or False
    mesh.pass_ms(31_000, step_ms=1_000)

    version = mesh.record(1, job).version
    assert (
        asked == [Inquiry(jobs=(job,), is_short=True)] * 2 + [Copied(job=job, version=version)] * 2
    )


def test_a_holder_that_missed_the_end_learns_it_when_it_asks():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.lost = lambda sender, to, message: isinstance(message, Copy)
    mesh.end(1, job, "succeeded", code=0)
    mesh.pass_ms(32_000, step_ms=1_000)

    assert state_of(mesh.record(2, job)) == "succeeded"


def test_a_holder_may_know_more_than_the_home_and_the_home_learns_it():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    record = msgspec.structs.replace(mesh.record(2, job), cancel=True)
    mesh[2].guarding.shelf.put(record, mesh.now_ms, None)

    mesh.change(1, job)
    mesh.settle()

    assert mesh[1].jobs[job].is_cancelled
    assert mesh[1].names("merged") == [job]
    assert mesh.record(1, job) == mesh.record(2, job)


# Cancelling at any holder


def test_a_cancel_is_taken_by_any_holder_and_reaches_the_home_when_it_can():
    mesh = Mesh()
    job = mesh.submit(1)
    mesh.settle()
    holder = mesh[listed(mesh)[0]]
    mesh.cut(1)

    taken = mesh.act(holder, lambda ready: holder.guarding.cancel(job, mesh.now_ms, ready))
    assert list(taken.save_held) == [job]
    assert not mesh[1].jobs[job].is_cancelled
    mesh.heal()
    mesh.pass_ms(2_000)

    assert mesh[1].jobs[job].is_cancelled
    assert mesh.record(holder.guarding and listed(mesh)[1], job).cancel


def test_a_cancel_is_repeated_until_the_home_has_it():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.lost = lambda sender, to, message: to == node(1)
    mesh.act(mesh[2], lambda ready: mesh[2].guarding.cancel(job, mesh.now_ms, ready))
    mesh.act(mesh[2], lambda ready: mesh[2].guarding.cancel(job, mesh.now_ms, ready))
    mesh.pass_ms(3_000)
    mesh.lost = lambda *_: False
    assert not mesh[1].jobs[job].is_cancelled

    mesh.pass_ms(1_000)
    assert mesh[1].jobs[job].is_cancelled
    mail = []
    mesh.lost = lambda sender, to, message: mail.append(message) or False
    mesh.pass_ms(3_000)
    assert not mail


def test_a_job_that_is_not_held_cannot_be_cancelled_here():
    mesh = Mesh(2)
    job = mesh.submit(1)

    answers = []
    mesh.act(mesh[1], lambda ready: answers.append(mesh[1].guarding.cancel(job, 0, ready)))
    mesh.act(mesh[2], lambda ready: answers.append(mesh[2].guarding.cancel(job, 0, ready)))

    assert answers == [False, False]


def test_two_jobs_of_one_home_have_lists_of_their_own():
    mesh = Mesh(4)
    one, other = mesh.submit(1, "one"), mesh.submit(1, "other")
    mesh.settle()
    mesh.end(1, one, "succeeded", code=0)
    mesh.settle()
    assert mesh.homes(one) == set()
    mesh.crash(2)
    mesh.look()
    mesh.start(2)
    mesh.look()
    mesh.settle()

    assert mesh.homes(other) == {1}
    assert mesh[1].guarding.copies(other) == 4
