"""A node that took a job over looks after it; it runs it only if it lends to whose job it is."""

import msgspec
import pytest

from distributed_grid.kernel.across.guests import foreign_spec
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.launching import BORROWED_NICENESS
from distributed_grid.kernel.node import Drain, Lend
from distributed_grid.model.job import Preempt, Where, Work
from distributed_grid.wire.keeper import Run
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told
from tests.unit.across.filling import occupy

ASKING = "distributed_grid.kernel.across.asking"
WRITING = "distributed_grid.kernel.across.record_writing"


@pytest.fixture
def room() -> Room:
    return Room(3)


def lend(node: Neighbour, **terms) -> None:
    changed = msgspec.structs.replace(node.node.host.lending.terms, **terms)
    node.step(Lend(now_ms=node.now_ms, terms=changed))


def taken_over(room: Room, job) -> Neighbour:
    """Its home dies before it has begun; who looks after it now."""
    fill(room[0])
    for node in room.nodes[1:]:
        room.cut.add((room[0].me, node.me))
    room[0].submit(job)
    room.settle()
    room.cut.clear()
    room.pass_time(1_000)
    room.kill(room[0])
    room.until(lambda: any(job.id in node.node.coordinator.jobs for node in room.nodes[1:]))
    return room.home_of(job)


def runs(room: Room, job) -> list[str]:
    return [node.name for node in room.nodes if any(one.job for one in of(node, job))]


def of(node: Neighbour, job) -> list[Run]:
    return [run for run in told(node, Run) if run.env["GRID_JOB_ID"] == job.id]


def test_nobody_runs_what_it_does_not_lend_also_if_it_is_the_home_now(room):
    for node in room.nodes:
        lend(node, is_enabled=False)
    job = a_job("job", user="ada")
    home = taken_over(room, job)
    room.pass_time(20_000)

    assert runs(room, job) == []
    why = explain(home.node.coordinator, home.job(job), home.now_ms)
    assert why.summary == "it waits for room on another node"
    assert f"{home.name} took it over from others: this node does not lend" in why.remedies


def test_a_home_that_lies_about_where_a_job_is_from_names_no_files_of_others(room, monkeypatch):
    """Else whoever takes it over, or runs it, would write where its submitter says."""
    for module in (ASKING, WRITING):
        monkeypatch.setattr(f"{module}.travelling", lambda spec: spec)
    work = Work(argv=("true",), cwd="/", env={"SECRET": "x"}, log="/srv/profile")
    job = a_job("job", user="ada", work=work)
    home = taken_over(room, job)
    room.until(lambda: runs(room, job))

    assert home.job(job).spec.work.is_abroad
    (host,) = [node for node in room.nodes if node.name in runs(room, job)]
    guests = [one.spec.work for one in host.node.coordinator.jobs.values()]
    assert all(one.is_abroad and not one.env for one in guests)


def test_a_guest_is_from_elsewhere_whatever_its_home_says(monkeypatch):
    monkeypatch.setattr(f"{ASKING}.travelling", lambda spec: spec)
    room = Room(2)
    fill(room[0])
    job = a_job("job", work=Work(argv=("true",), cwd="/", env={"SECRET": "x"}, log="/tmp/out"))
    room[0].submit(job)
    room.settle()

    (guest,) = room[1].node.coordinator.jobs.values()
    assert (guest.spec.work.is_abroad, guest.spec.work.env) == (True, {})


@pytest.mark.parametrize("is_there", [True, False])
def test_who_waits_for_a_node_that_is_not_there_is_told_which(room, is_there):
    wanted = "node-3" if is_there else "node-9"
    if is_there:
        occupy(room[2])
    job = a_job("job", require=Where(nodes=(wanted,)), wait_for_capacity=True)
    room[0].submit(job)
    room.settle()

    why = explain(room[0].node.coordinator, room[0].job(job), room[0].now_ms)
    assert why.summary.startswith("it waits for room on another node")
    assert why.summary.endswith("is as it wants it (node node-9)") != is_there
    assert why.remedies


def test_it_runs_at_its_new_home_as_any_borrower_once_that_lends(room):
    for node in room.nodes[1:]:
        lend(node, is_enabled=False)
    job = a_job("job", user="ada")
    home = taken_over(room, job)
    room.pass_time(5_000)
    lend(home, is_enabled=True)
    room.until(lambda: runs(room, job))

    assert runs(room, job) == [home.name]
    assert of(home, job)[0].niceness == BORROWED_NICENESS
    lease = of(home, job)[0].lease
    assert lease in home.node.host.borrowers
    assert home.node.host.accounts.holder(lease)[0] == "ada@node-1"


def test_where_it_is_lent_it_runs_though_its_home_lends_nothing(room):
    job = a_job("job", user="ada")
    for node in room.nodes[1:]:
        lend(node, is_enabled=False)
    home = taken_over(room, job)
    other = next(node for node in room.nodes[1:] if node is not home)
    lend(other, is_enabled=True)
    room.until(lambda: runs(room, job))

    assert runs(room, job) == [other.name]


@pytest.mark.parametrize(
    ("facts", "terms", "why"),
    [
        ({"priority": "urgent"}, {"allow_urgent": False}, "borrowers may not be urgent here"),
        (
            {"preempt": Preempt(is_forbidden=True)},
            {"allow_no_preempt": False},
            "borrowers have to give way here",
        ),
    ],
)
def test_a_new_home_holds_it_to_what_it_demands_of_borrowers(room, facts, terms, why):
    for node in room.nodes[1:]:
        lend(node, **terms)
    job = a_job("job", user="ada", **facts)
    home = taken_over(room, job)
    room.pass_time(5_000)

    assert runs(room, job) == []
    assert any(why in line for line in home.node.across.obstacles(job.id))


def test_a_new_home_that_is_being_drained_does_not_run_it(room):
    for node in room.nodes[1:]:
        node.step(Drain(now_ms=node.now_ms, is_on=True))
    job = a_job("job", user="ada")
    taken_over(room, job)
    room.pass_time(5_000)

    assert runs(room, job) == []


def test_the_owner_comes_first_on_the_machine_of_a_new_home():
    room = Room(2)
    job = a_job("job", user="ada")
    room[0].submit(job)
    room.settle()
    room.kill(room[0])
    room.until(lambda: of(room[1], job))
    room[1].submit(a_job("mine", cpus=4_000, user="bob"))
    room.settle()

    assert of(room[1], job)[0].lease in room[1].node.coordinator.giving_way.leaving


def test_a_job_that_comes_home_is_its_users_own_again():
    room = Room(2)
    lend(room[0], is_enabled=False)
    lend(room[1], is_enabled=False)
    job = a_job("job", user="ada")
    home = taken_over(room, job)
    room.revive(room[0])
    room.pass_time(5_000)
    assert job.id not in room[0].node.coordinator.jobs
    assert home is room[1]
    room.kill(room[1])
    room.until(lambda: job.id in room[0].node.coordinator.jobs)

    back = room[0].job(job)
    assert (back.spec.user, back.spec.is_shared, back.is_foreign) == ("ada", False, False)
    record = room[0].node.across.guarding.find(job.id)
    assert b"ada@node-1" in record.standing  # And is told to others with its node.


def test_a_job_that_comes_home_to_who_does_not_remember_it_borrows():
    room = Room(2)
    job = a_job("job", user="ada")
    taken_over(room, job)
    room.revive(room[0])
    room.pass_time(5_000)
    room[0].start_agent()  # That it had given it away was not on disk.
    room.look()
    room.kill(room[1])
    room.until(lambda: job.id in room[0].node.coordinator.jobs)

    back = room[0].job(job)
    assert (back.spec.user, back.spec.is_shared) == ("ada@node-1", True)


def test_a_job_of_others_that_comes_back_to_who_looked_after_it_still_borrows(room):
    job = a_job("job", user="ada")
    first = taken_over(room, job)
    second = next(node for node in room.nodes[1:] if node is not first)
    room.dead.add((second.me, first.me))
    room.look()
    room.until(lambda: job.id in second.node.coordinator.jobs)
    room.dead.discard((second.me, first.me))
    room.until(lambda: job.id in first.node.across.handover.given)
    room.kill(second)
    room.until(lambda: job.id in first.node.coordinator.jobs)

    assert (first.job(job).spec.user, first.job(job).is_foreign) == ("ada@node-1", True)


@pytest.mark.parametrize(
    ("user", "here"), [("ada@desk", "ada@desk"), ("root", "root@elsewhere"), ("", "")]
)
def test_a_name_that_nobody_vouches_for_is_none_of_this_nodes(user, here):
    spec = foreign_spec(a_job("job", user=user, booking="theirs"))

    assert (spec.user, spec.is_shared, spec.booking) == (here, True, "")
