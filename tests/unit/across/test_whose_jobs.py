"""Whose a job is: its user stays its user on every node, and its record tells of it everywhere."""

import msgspec
import pytest

from distributed_grid.kernel.across.guests import guest_spec
from distributed_grid.kernel.across.held import held_job, homeless
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.travelling import certified, local
from distributed_grid.kernel.views import job_view
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.keeper import Run
from tests.across_world import Room
from tests.node_world import a_job, fill, told


@pytest.fixture
def room() -> Room:
    return Room(4)


def guests_of(node) -> list[str]:
    return [job.spec.user for job in node.node.coordinator.jobs.values() if job.is_guest]


def test_a_user_stays_who_it_was_when_another_node_takes_the_job_over(room):
    job = a_job("job", user="ada")
    room[0].submit(job)
    room.settle()
    room.kill(room[0])
    room.until(lambda: any(job.id in node.node.coordinator.jobs for node in room.nodes[1:]))
    home = room.home_of(job)
    assert home.job(job).spec.user == "ada@node-1"
    peer = Peer(id=home.me, name=home.name)
    assert guest_spec(home.job(job).spec, peer).user == "ada@node-1"  # And to whom it asks.


def test_a_user_of_the_home_is_called_by_the_home_on_every_other_node(room):
    fill(room[0])
    job = a_job("job", user="ada")
    room[0].submit(job)
    room.settle()
    host = room.by_id(room[0].job(job).live_attempts[0].host)

    assert room[0].job(job).spec.user == "ada"  # At home it is who it is.
    assert guests_of(host) == ["ada@node-1"]


def test_on_its_own_node_a_user_that_comes_back_is_one_of_its_own():
    spec = a_job("job", user="ada")
    told_to_others = certified(spec, "desk")

    assert told_to_others.user == "ada@desk"
    assert certified(told_to_others, "attic") == told_to_others  # Whoever holds it next.
    assert certified(spec, "") == spec
    assert certified(a_job("job"), "desk").user == ""
    assert local(told_to_others, "desk") == spec
    assert local(told_to_others, "attic") == told_to_others


@pytest.mark.parametrize(
    ("user", "may_vouch", "named"),
    [
        ("ada", True, "ada@attic"),
        ("ada@desk", True, "ada@desk"),  # Taken over from there.
        ("ada", False, "ada@attic"),
        ("root@desk", False, "root@attic"),  # A guest of the mesh speaks for its own users.
    ],
)
def test_only_who_may_take_jobs_over_speaks_for_the_users_of_others(user, may_vouch, named):
    attic = Peer(id=NodeId("a" * 64), name="attic", may_lend=may_vouch)
    assert guest_spec(a_job("job", user=user), attic).user == named


def test_a_guest_of_the_mesh_cannot_claim_the_name_of_another_nodes_user(room):
    fill(room[0])
    room[0].peer["may_lend"] = False
    room.look()
    room[0].submit(a_job("job", user="root@node-2"))
    room.settle()

    assert [user for node in room.nodes[1:] for user in guests_of(node)] == ["root@node-1"]


def test_a_job_of_a_dead_home_is_listed_by_who_holds_its_record(room):
    jobs = [a_job(name, user="ada") for name in ("one", "two")]
    for job in jobs:
        room[0].submit(job)
        room[0].now_ms += 10
    room.settle()
    holder = room[1].node.across
    assert list(homeless(holder.guarding, room[1].node.across.peers)) == []
    room.dead.add((room[1].me, room[0].me))
    peers = {node.me: room.seen(room[1], node) for node in room.nodes if node is not room[1]}

    def names(**asked):
        return [job.spec.name for job in homeless(holder.guarding, peers, **asked)]

    assert names() == ["two", "one"]  # The newest first.
    assert names(name="one") == ["one"]
    assert names(user="ada@node-1") == ["two", "one"]
    assert names(user="ada") == []
    first_ms = min(job.submitted_ms for job in homeless(holder.guarding, peers))
    assert names(before_ms=first_ms) == []
    assert names(before_ms=first_ms + 1) == ["one"]
    del peers[room[0].me]  # Nobody has heard of it any more.
    assert names() == ["two", "one"]


def test_a_job_that_ended_at_a_home_that_is_gone_is_still_found_by_name(room):
    job = a_job("done", user="ada")
    room[0].submit(job)
    room.settle()
    room[0].drain()
    room.settle()
    room.pass_time(2_000)
    guarding = room[1].node.across.guarding

    assert held_job(guarding, "done").state == "succeeded"
    assert held_job(guarding, "name:done").state == "succeeded"
    [found] = homeless(guarding, {})
    assert found.state == "succeeded"


def test_of_two_with_one_name_the_unfinished_or_the_newest_is_meant(room):
    first, second, third, fourth = (
        msgspec.structs.replace(a_job(f"film-{at}"), name="film") for at in range(4)
    )
    guarding = room[1].node.across.guarding
    for job in (first, second):
        room.pass_time(1_000)
        room[0].submit(job)
        room.settle()
        room[0].drain()
        room.settle()
    assert held_job(guarding, "film").spec.id == second.id
    assert held_job(guarding, first.id[:8].upper()).spec.id == first.id
    room[0].submit(third)
    room.settle()

    assert held_job(guarding, "name:film").spec.id == third.id
    room[0].submit(fourth)
    room.settle()
    assert held_job(guarding, "film") is None


def test_a_view_tells_who_holds_the_record_and_how_careful_it_is(room):
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    view = job_view(room[0].job(job), limits={})

    assert set(view.holders) == {node.me for node in room.nodes[1:]}
    assert (view.gang, view.at_most_once) == (1, False)
    careful = msgspec.structs.replace(job, gang=3, at_most_once=True)
    view = job_view(msgspec.structs.replace(room[0].job(job), spec=careful), limits={})
    assert (view.gang, view.at_most_once) == (3, True)
    assert told(room[0], Run)
