"""What others must learn from this node, and how often it tells them."""

from distributed_grid.kernel.across import errands as errands_module
from distributed_grid.kernel.across.errands import Errands
from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.across import Copy
from tests.unit.across.guard_lab import JOB, a_mesh, listed, node

OTHER = job_id_of("other")


def test_an_errand_is_due_until_it_is_done():
    errands = Errands()
    errands.plan(JOB, node(1), 100)

    assert errands.due(99) == []
    assert errands.due(100) == errands.due(200) == [(JOB, node(1))]
    assert errands.has(JOB, node(1))
    errands.done(JOB, node(1))
    assert errands.due(200) == []
    assert not errands.has(JOB, node(1))


def test_whoever_is_away_is_told_when_it_comes():
    errands = Errands()
    errands.plan(JOB, node(1), 100)
    errands.wait(JOB, node(1))
    assert errands.due(200) == []
    assert errands.has(JOB, node(1))

    errands.came(node(2), 300)
    errands.came(node(1), 300)

    assert errands.due(300) == [(JOB, node(1))]


def test_for_one_that_is_away_only_so_much_is_remembered(monkeypatch):
    monkeypatch.setattr(errands_module, "AWAY_MAX", 1)
    errands = Errands()
    errands.wait(JOB, node(1))
    errands.wait(OTHER, node(1))

    assert not errands.has(JOB, node(1))
    assert errands.has(OTHER, node(1))


def test_whoever_refuses_is_left_alone_for_a_while_and_holds_nobody_up():
    errands = Errands()
    errands.plan(JOB, node(1), 100)
    errands.refused(JOB, node(1), 100)
    errands.refused(OTHER, node(1), 100)
    errands.plan(OTHER, node(2), 200)

    assert errands.due(1_000) == [(OTHER, node(2))]
    assert (JOB, node(1)) in errands.due(10_100)


def test_a_few_are_told_at_a_time(monkeypatch):
    monkeypatch.setattr(errands_module, "ERRANDS_MAX", 2)
    errands = Errands()
    for number in range(3):
        errands.plan(JOB, node(number), 100)

    assert len(errands.due(100)) == 2


def test_of_a_job_that_is_no_longer_held_nothing_is_told():
    mesh, (first, *_) = a_mesh()
    errands = mesh[first].guarding._meeting.errands
    errands.plan(OTHER, node(1), mesh.now_ms)
    mesh.pass_ms(200)

    assert not errands.has(OTHER, node(1))


def test_who_only_votes_on_a_job_knows_its_end_and_tells_nobody():
    """It is not named in the record: others would refuse it for ever."""
    mesh, (first, *_) = a_mesh(6)
    mesh.crash(first)
    mesh.look()  # Somebody else is on the list now.
    (voter,) = {2, 3, 4, 5, 6} - {first, *listed(mesh)}
    mesh.end(1, JOB, "succeeded")
    mesh.tell(node(1), node(voter), Copy(record=encode(mesh.record(1, JOB))))
    mesh.settle()
    told: list[object] = []
    mesh.lost = lambda sender, _, message: sender == node(voter) and bool(told.append(message))
    mesh.start(first)
    mesh.crash(voter)
    mesh.start(voter)  # It has its disk: who was told is not known there any more.
    mesh.look()
    mesh.pass_ms(30_000)

    assert {state_of(mesh.record(number, JOB)) for number in (1, first, voter)} == {"succeeded"}
    assert not [message for message in told if isinstance(message, Copy)]
    assert mesh[voter].guarding._meeting.errands.due(mesh.now_ms + 60_000) == []


def test_nobody_has_an_errand_to_itself_after_a_start():
    """It would never be done, and hold up all that come after it."""
    mesh, (first, *_) = a_mesh()
    mesh.end(1, JOB, "succeeded")
    mesh.settle()
    mesh.crash(first)
    mesh.start(first)
    mesh.look()
    mesh.pass_ms(3_000)

    assert not mesh[first].guarding._meeting.errands.has(JOB, node(first))
