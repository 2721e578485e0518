"""Who looks after a job when its home is gone."""

import pytest

from distributed_grid.kernel.across import takeover as takeover_module
from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.model.across import Epoch
from distributed_grid.wire.across import Copy, Dispensable, Holding, Inquiry
from tests.unit.across.guard_lab import JOB, Mesh, a_mesh, event_names, listed, node

# The home dies


def test_the_first_guardian_takes_over_at_once_under_the_next_epoch():
    mesh, guardians = a_mesh()
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(200)

    assert mesh.homes(JOB) == {guardians[0]}
    record = mesh.record(guardians[0], JOB)
    assert record.version.epoch == Epoch(1, node(guardians[0]))
    assert node(guardians[0]) not in record.guardians
    assert len(record.guardians) == 3
    assert {mesh.record(g, JOB).home for g in guardians} == {node(guardians[0])}
    (event,) = [e for e in mesh[guardians[0]].happened if e.name == "job.taken_over"]
    assert event.fields == {"home": node(1), "epoch": 1}


@pytest.mark.parametrize("dead", [1, 2])
def test_each_later_name_waits_a_second_more(dead):
    mesh, guardians = a_mesh()
    for number in (1, *guardians[:dead]):
        mesh.crash(number)
    mesh.look()
    mesh.pass_ms(dead * 1_000 - 100)
    assert mesh.homes(JOB) == set()

    mesh.pass_ms(400)

    assert mesh.homes(JOB) == {guardians[dead]}


@pytest.mark.parametrize("dead", range(8))
@pytest.mark.parametrize("holding", range(1, 8))
def test_some_live_holder_takes_over_in_time_whoever_died_and_whoever_has_the_record(dead, holding):
    mesh = Mesh(5)
    mesh.submit(1)
    names = listed(mesh)
    gone = {names[at] for at in range(3) if dead >> at & 1}
    have = {node(names[at]) for at in range(3) if holding >> at & 1}
    mesh.lost = lambda sender, to, message: to not in have
    mesh.settle()
    mesh.lost = lambda *_: False
    for number in (1, *gone):
        mesh.crash(number)
    mesh.look()
    mesh.pass_ms((3 + 2) * 1_000)

    live = {number for number in names if node(number) in have} - gone
    assert len(mesh.homes(JOB)) == (1 if live else 0)


def test_a_holder_that_is_no_longer_listed_takes_over_after_all_names():
    mesh, guardians = a_mesh(count=5)
    gone = guardians[0]
    mesh.crash(gone)
    mesh.look()
    mesh.start(gone)
    mesh.lost = lambda sender, to, message: isinstance(message, Dispensable)
    mesh.look()
    mesh.pass_ms(6_000)
    assert node(gone) not in mesh.record(gone, JOB).guardians
    for number in (1, *listed(mesh)):
        mesh.crash(number)
    mesh.look()
    mesh.pass_ms(2_900)
    assert mesh.homes(JOB) == set(), "a second for each of three names"

    mesh.pass_ms(300)

    assert mesh.homes(JOB) == {gone}


def test_an_earlier_name_that_has_no_record_is_handed_one():
    mesh = Mesh()
    job = mesh.submit(1)
    first, second, _ = listed(mesh)
    mesh.lost = lambda sender, to, message: to not in (node(second), node(1))
    mesh.settle()
    assert mesh.holders(job) == {second}
    mesh.lost = lambda *_: False
    mesh.crash(1)
    mesh.look()

    mesh.pass_ms(1_300)

    assert mesh.homes(job) == {first}


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_an_earlier_name_that_does_not_take_it_is_passed_over(how):
    mesh = Mesh()
    job = mesh.submit(1)
    first, second, _ = listed(mesh)
    mesh.lost = lambda sender, to, message: to not in (node(second), node(1))
    mesh.settle()
    mesh.lost = lambda sender, to, message: how == "is silent" and to == node(first)
    mesh[first].guarding.is_disk_full = how == "refuses"
    mesh.crash(1)
    mesh.look()

    mesh.pass_ms(1_500 if how == "refuses" else 5_500)

    assert mesh.homes(job) == {second}


def test_an_earlier_name_that_has_it_and_sees_the_home_alive_is_left_alone():
    mesh, (_first, second, _third) = a_mesh()
    mesh.cuts = {frozenset((node(1), node(second)))}
    mesh.look()
    copies = []
    mesh.lost = lambda sender, to, message: (
        copies.append(to) if isinstance(message, Copy) and sender == node(second) else None
    )
    mesh.pass_ms(20_000)

    assert mesh.homes(JOB) == {1}
    assert 1 <= len(copies) <= 3


def test_before_it_takes_over_it_asks_the_others_for_the_last_word():
    mesh, (first, _, third) = a_mesh()
    mesh.lost = lambda sender, to, message: isinstance(message, Copy) and to != node(third)
    mesh.end(1, JOB, "succeeded", code=0)
    mesh.settle()
    mesh.lost = lambda *_: False
    assert mesh[1].guarding.is_confirmed(JOB, mesh.record(1, JOB).version, mesh.now_ms)

    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(3_000)

    assert mesh.homes(JOB) == set(), "nobody runs it again"
    assert state_of(mesh.record(first, JOB)) == "succeeded"


def test_it_asks_those_who_were_on_the_list_before_too():
    mesh, guardians = a_mesh()
    gone = guardians[0]
    mesh.crash(gone)
    mesh.look()
    mesh.settle()
    mesh.start(gone)
    mesh.look()
    mesh.pass_ms(6_000)
    assert gone not in listed(mesh)
    asked = []
    mesh.lost = lambda sender, to, message: (
        asked.append(to) if isinstance(message, Inquiry) and not message.is_short else None
    )
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(300)

    assert node(gone) in asked


def test_who_does_not_answer_is_not_waited_for_longer_than_a_second():
    mesh, (first, *_) = a_mesh()
    mesh.lost = lambda sender, to, message: isinstance(message, Inquiry)
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(900)
    assert mesh.homes(JOB) == set()

    mesh.pass_ms(300)

    assert mesh.homes(JOB) == {first}


def test_a_home_that_comes_back_in_time_keeps_its_job():
    mesh, _ = a_mesh()
    mesh.lost = lambda sender, to, message: isinstance(message, Inquiry | Holding)
    mesh.cut(1)
    mesh.pass_ms(500)
    mesh.heal()
    mesh.pass_ms(3_000)

    assert mesh.homes(JOB) == {1}
    assert "job.taken_over" not in event_names(mesh)


def test_a_planned_restart_is_waited_for_and_not_for_longer_than_a_minute():
    mesh, (first, *_) = a_mesh()
    mesh.facts[node(1)] = {"restarting_until_ms": mesh.now_ms + 3_600_000}
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(59_000, step_ms=500)
    assert mesh.homes(JOB) == set()

    mesh.pass_ms(2_000, step_ms=500)

    assert mesh.homes(JOB) == {first}


def test_a_home_that_lost_its_disk_and_came_back_unseen_is_found_out():
    mesh, (first, *_) = a_mesh()
    mesh.crash(1, with_disk=True)
    mesh.start(1)
    mesh.look_from(mesh[1])
    mesh.pass_ms(35_000, step_ms=500)

    assert mesh.homes(JOB) == {first}


def test_a_home_that_is_handed_its_own_lost_record_takes_it_up_again():
    mesh, (_first, *_) = a_mesh(count=2)
    mesh.crash(1, with_disk=True)
    mesh.look_from(mesh.start(1))
    mesh.tell(node(2), node(1), Copy(record=encode(mesh.record(2, JOB))))
    mesh.pass_ms(300)

    assert mesh.homes(JOB) == {1}
    assert mesh.record(1, JOB).version.epoch == Epoch(1, node(1))


def test_a_node_may_decline_and_is_asked_again_later():
    mesh, (_first, *_) = a_mesh(count=2)
    mesh[2].takes_over = False
    before = mesh.record(2, JOB)
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(9_000)
    assert mesh.homes(JOB) == set()
    assert mesh.record(2, JOB) == before
    assert mesh[2].names("taken over") == [JOB]

    mesh[2].takes_over = True
    mesh.pass_ms(3_000)

    assert mesh.homes(JOB) == {2}
    assert mesh.record(2, JOB).version.epoch.counter == 1


def test_thousands_are_taken_over_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(takeover_module, "TAKEN_MAX", 2)
    mesh = Mesh(2)
    jobs = [mesh.submit(1, f"job-{number}") for number in range(5)]
    mesh.settle()
    mesh.crash(1)
    mesh.look()
    taken = []
    for _ in range(3):
        mesh.pass_ms(100)
        taken.append(len(mesh[2].names("taken over")))

    assert taken == [2, 4, 5]
    assert all(mesh.homes(job) == {2} for job in jobs)


def test_a_cancelled_job_is_cancelled_for_its_successor_too():
    mesh, (first, *_) = a_mesh()
    holder = mesh[first]
    mesh.cut(1)
    mesh.act(holder, lambda ready: holder.guarding.cancel(JOB, mesh.now_ms, ready))
    mesh.pass_ms(300)

    assert mesh[first].jobs[JOB].is_cancelled


def test_the_turn_of_a_record_that_is_gone_is_nobodys():
    mesh, guardians = a_mesh()
    holder = mesh[guardians[0]]
    for number in (1, *guardians[1:]):
        mesh.crash(number)
    mesh.look()
    holder.guarding.shelf.take(JOB)
    mesh.pass_ms(40_000)

    assert mesh.homes(JOB) == set()
