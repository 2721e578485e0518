"""Two nodes look after one job for a while: one of them stops, and nothing is lost."""

from zlib import crc32

import msgspec
import pytest

from distributed_grid.kernel.across import holders as holders_module
from distributed_grid.kernel.across.record import joined, state_of
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_parts import result_of
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.across import Copied, Copy, Holding, Inquiry, NotCopied
from tests.unit.across.guard_lab import JOB, Mesh, a_mesh, listed, node, partitioned

# Two homes


def test_after_a_partition_the_lower_epoch_abdicates_and_all_records_are_equal():
    mesh, first = partitioned()
    mesh.change(1, JOB)
    mesh.heal()
    mesh.pass_ms(3_000)

    assert mesh.homes(JOB) == {first}
    assert mesh[1].names("abdicated") == [JOB]
    records = [mesh.record(n, JOB) for n in range(1, 6) if mesh.record(n, JOB) is not None]
    assert all(record == records[0] for record in records)
    assert len(records) == 4, "and whoever is not on the list has dropped it"


@pytest.mark.parametrize("bad", ["failed", "cancelled"])
def test_a_success_on_the_other_side_changes_the_result_and_the_losing_one_stays_listed(bad):
    mesh, first = partitioned()
    mesh.end(first, JOB, bad, code=3)
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.pass_ms(500)
    mesh.heal()
    mesh.pass_ms(4_000)

    record = mesh.record(first, JOB)
    assert state_of(record) == "succeeded"
    assert [result_of(body).state for body in record.results] == ["succeeded", bad]
    assert mesh[first].jobs[JOB].state == "succeeded"
    (event,) = [e for e in mesh[first].happened if e.name == "job.result_changed"]
    assert event.fields == {"before": bad, "state": "succeeded"}
    assert {state_of(mesh.record(n, JOB)) for n in range(1, 6) if mesh.record(n, JOB)} == {
        "succeeded"
    }


def test_a_failure_on_the_other_side_changes_nothing():
    mesh, first = partitioned()
    mesh.end(first, JOB, "succeeded", code=0)
    mesh.end(1, JOB, "failed", code=3)
    mesh.pass_ms(500)
    mesh.heal()
    mesh.pass_ms(4_000)

    assert state_of(mesh.record(first, JOB)) == "succeeded"
    assert not [e for e in mesh[first].happened if e.name == "job.result_changed"]
    (event,) = [e for e in mesh[1].happened if e.name == "job.result_changed"]
    assert event.fields["before"] == "failed", "who saw it fail learns it"


def test_a_lower_home_whose_job_is_long_over_learns_of_the_higher_one(monkeypatch):
    mesh, first = partitioned()
    mesh.end(1, JOB, "failed", code=3)
    mesh.pass_ms(500)
    assert mesh.homes(JOB) == {1, first}, "who held it is away, and must be told"
    monkeypatch.setattr(holders_module, "ENDED_MAX", 0)
    mesh.change(1, JOB)
    assert mesh.homes(JOB) == {first}, "there are too many of these: it is only remembered"
    mesh.heal()
    mesh.pass_ms(3_000)

    assert mesh[1].names("abdicated") == [JOB]
    assert [result_of(b).state for b in mesh.record(first, JOB).results] == ["failed"]


def test_what_the_lower_home_knew_reaches_the_higher_though_messages_are_lost():
    mesh, first = partitioned()
    mesh[1].jobs[JOB].is_cancelled = True
    mesh.change(1, JOB)
    mesh.heal()
    lost = []

    def is_lost(sender, to, message):
        is_hand_over = isinstance(message, Copy) and (sender, to) == (node(1), node(first))
        if is_hand_over and len(lost) < 2:
            lost.append(message)
            return True
        return False

    mesh.lost = is_lost
    mesh.pass_ms(5_000)

    assert lost
    assert mesh[first].jobs[JOB].is_cancelled


def test_a_hand_over_is_not_forgotten_by_a_restart():
    mesh, first = partitioned()
    mesh[1].jobs[JOB].is_cancelled = True
    mesh.change(1, JOB)
    mesh.lost = lambda sender, to, message: sender == node(1) and isinstance(message, Copy)
    mesh.heal()
    mesh.pass_ms(500)
    assert mesh[1].names("abdicated") == [JOB]
    mesh.crash(1)
    mesh.lost = lambda *_: False
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(2_000)

    assert mesh[first].jobs[JOB].is_cancelled


def test_a_result_that_nobody_was_told_of_is_told_after_a_restart():
    mesh, first = partitioned()
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.end(first, JOB, "failed", code=1)
    mesh.pass_ms(500)
    mesh.lost = lambda sender, to, message: sender == node(1) and isinstance(message, Copy)
    mesh.heal()
    mesh.tell(node(first), node(1), Copy(record=encode(mesh.record(first, JOB))))
    mesh.crash(1)
    mesh.lost = lambda *_: False
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(2_000)

    assert state_of(mesh.record(first, JOB)) == "succeeded"


def test_a_higher_epoch_in_an_answer_is_asked_about():
    mesh, (first, *_) = a_mesh()

    ready = mesh.tell(node(first), node(1), Copied(job=JOB, version=Fence(Epoch(5, node(2)), 1)))

    assert ready.send == [(node(first), Inquiry(jobs=(JOB,)))]
    assert mesh.homes(JOB) == {1}


def test_a_job_of_another_node_is_not_written_by_this_one_any_more():
    mesh, first = partitioned()
    job = mesh[1].jobs[JOB]
    mesh.heal()
    mesh.pass_ms(2_000)
    mesh[1].jobs[JOB] = job

    ready = mesh.change(1, JOB)

    assert not ready.save_jobs
    assert mesh.homes(JOB) == {first}


def test_answers_about_what_is_not_known_here_change_nothing():
    mesh, (_first, *_) = a_mesh()
    unknown = job_id_of("unknown")
    version = Fence(Epoch(0, node(1)), 1)
    other = mesh.record(1, JOB)

    for message in (
        Copied(job=unknown, version=version),
        NotCopied(job=unknown, version=version, why=""),
        Holding(job=unknown),
    ):
        assert not mesh.tell(node(1), node(5), message).send
    outsider = ({2, 3, 4, 5} - set(listed(mesh))).pop()
    ready = mesh.tell(node(1), node(outsider), Holding(job=JOB, record=encode(other)))
    assert not ready.save_held
    assert mesh.record(outsider, JOB) is None


def test_an_answer_that_tells_nothing_new_is_not_written():
    mesh, (first, *_) = a_mesh()

    ready = mesh.tell(
        node(1), node(first), Holding(job=JOB, record=encode(mesh.record(first, JOB)))
    )

    assert not ready.save_held


def test_what_this_node_learns_is_told_to_the_guardians_whatever_it_makes_of_it():
    mesh, (first, second, _) = a_mesh()
    mesh[1].learns = False
    holder = mesh[first]
    mesh.act(holder, lambda ready: holder.guarding.cancel(JOB, mesh.now_ms, ready))
    mesh.settle()

    assert mesh[1].names("merged") == [JOB]
    assert mesh.record(second, JOB).cancel
    assert mesh.record(second, JOB).version.seq == 2


def test_a_success_is_learnt_though_the_job_is_long_over_here(monkeypatch):
    mesh, first = partitioned()
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.end(first, JOB, "failed", code=1)
    monkeypatch.setattr(holders_module, "ENDED_MAX", 0)
    mesh.change(first, JOB)
    assert mesh.homes(JOB) == {1}
    mesh.heal()
    mesh.pass_ms(2_000)

    assert "merged" in [kind for kind, _ in mesh[first].consequences]
    assert mesh[first].jobs[JOB].state == "succeeded"
    assert [e.name for e in mesh[first].happened].count("job.result_changed") == 1


def test_a_home_that_knows_nothing_any_more_is_replaced_while_it_is_taken_for_dead():
    mesh, (first, *_) = a_mesh()
    mesh.lost = lambda sender, to, message: isinstance(message, Inquiry) and not message.is_short
    mesh.crash(1, with_disk=True)
    mesh.look()
    mesh.pass_ms(200)  # The first guardian waits for what the others know.
    mesh.start(1)
    mesh.look()
    mesh.pass_ms(3_000)

    assert mesh.homes(JOB) == {first}


def test_a_record_of_which_this_node_is_home_and_has_no_job_is_taken_up_after_a_restart():
    mesh, _ = a_mesh(count=2)
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(300)
    assert mesh.homes(JOB) == {2}
    mesh[2].disk_jobs.clear()
    mesh.crash(2)
    mesh.start(2)
    mesh.look()
    mesh.pass_ms(300)

    assert mesh.homes(JOB) == {2}
    assert mesh.record(2, JOB).version.epoch == Epoch(2, node(2))


def test_a_home_without_a_disk_that_hears_of_its_job_from_two_tells_itself_nothing():
    mesh, _ = a_mesh(count=2)
    mesh.crash(1, with_disk=True)
    mesh.look_from(mesh.start(1))
    record = mesh.record(2, JOB)
    for some in (record, msgspec.structs.replace(record, cancel=True)):
        mesh.tell(node(2), node(1), Copy(record=encode(some)))

    assert mesh.record(1, JOB).cancel
    assert not mesh[1].guarding._meeting.errands.has(JOB, node(1))


def test_an_answer_about_what_has_ended_ends_the_errand():
    mesh, (first, *_) = a_mesh()
    mesh.end(1, JOB, "failed", code=1)
    mesh.settle()
    errands = mesh[first].guarding._meeting.errands
    errands.plan(JOB, node(1), mesh.now_ms)
    record = mesh.record(first, JOB)
    answer = Copied(job=JOB, version=record.version, mark=crc32(encode(record)))

    mesh.tell(node(1), node(first), msgspec.structs.replace(answer, mark=1))
    assert errands.has(JOB, node(1))
    mesh.tell(node(1), node(first), answer)
    assert not errands.has(JOB, node(1))


# Two ends


def two_ends(mesh: Mesh, first: int) -> None:
    """Node 1 saw it fail, the other side saw it succeed, and nobody has told anybody."""
    mesh.end(1, JOB, "failed", code=1)
    mesh.end(first, JOB, "succeeded", code=0)
    mesh.settle()


def states(mesh: Mesh) -> set[str]:
    return {state_of(mesh.record(n, JOB)) for n in range(1, 6) if mesh.record(n, JOB)}


def test_whoever_learns_of_two_ends_tells_all_in_case_the_home_cannot():
    mesh, first = partitioned()
    two_ends(mesh, first)
    whole = joined(mesh.record(1, JOB), mesh.record(first, JOB))
    mesh.crash(first, with_disk=True)
    mesh.heal()
    mesh.lost = lambda sender, to, message: sender == node(1)
    teller = listed(mesh)[1]
    mesh.tell(node(first), node(teller), Copy(record=encode(whole)))
    mesh.settle()

    assert len(mesh.record(1, JOB).results) == 2
    assert states(mesh) == {"succeeded"}


def test_whoever_was_away_meanwhile_is_told_of_both_when_it_comes():
    mesh, first = partitioned()
    two_ends(mesh, first)
    whole = joined(mesh.record(1, JOB), mesh.record(first, JOB))
    mesh.lost = lambda sender, to, message: sender == node(1)
    teller = listed(mesh)[1]
    mesh.tell(node(first), node(teller), Copy(record=encode(whole)))
    mesh.settle()
    mesh.crash(first, with_disk=True)
    mesh.heal()
    mesh.pass_ms(200)

    assert states(mesh) == {"succeeded"}


def test_an_end_that_only_one_holder_has_heard_of_reaches_those_who_were_away():
    mesh, guardians = a_mesh()
    side = {1, guardians[2]}
    mesh.cut(*side)
    mesh.end(1, JOB, "failed", code=3)
    mesh.pass_ms(500)
    assert {n for n in range(1, 6) if n in mesh.homes(JOB)} == {1, guardians[0]}
    mesh.crash(1, with_disk=True)
    mesh.heal()
    mesh.pass_ms(2_000)

    assert states(mesh) == {"failed"}


def test_what_was_to_be_told_is_told_though_the_teller_restarts():
    mesh, guardians = a_mesh()
    mesh.cut(1, guardians[2])
    mesh.end(1, JOB, "failed", code=3)
    mesh.pass_ms(500)
    mesh.crash(1, with_disk=True)
    mesh.crash(guardians[2])
    mesh.start(guardians[2])
    mesh.heal()
    mesh.pass_ms(2_000)

    assert states(mesh) == {"failed"}


def test_whoever_a_lower_home_had_told_is_told_by_the_higher():
    mesh, (first, *_) = a_mesh(count=8)
    mesh.cut(1)
    mesh.pass_ms(500)
    own = mesh[first].guarding.holders.own[JOB]
    stranger = next(name for name in mesh.machines if name not in {node(first), *own.names})
    lower = mesh.record(1, JOB)
    lower = msgspec.structs.replace(lower, holders=(*lower.holders, stranger))

    mesh.tell(node(1), node(first), Copy(record=encode(lower)))

    assert stranger in mesh[first].guarding.holders.own[JOB].outside


def test_a_higher_epoch_in_what_a_holder_has_ends_the_word_of_the_lower():
    mesh, first = partitioned()

    ready = mesh.tell(node(3), node(1), Holding(job=JOB, record=encode(mesh.record(first, JOB))))

    assert mesh[1].names("abdicated") == [JOB]
    assert mesh.record(1, JOB).home == node(first)
    assert list(ready.save_held) == [JOB]
