"""What a job is told that waits: the real reason, with numbers, and the command that changes it."""

import pytest

from distributed_grid.errors import NeverFits
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.node import Bound, Lend, Sampled
from distributed_grid.kernel.obstacles import LEND
from distributed_grid.model.job import Where
from distributed_grid.model.lending import Sample, Terms
from tests.across_world import Room
from tests.node_world import a_job, fill

THERE = Where(nodes=("node-2",))


@pytest.fixture
def room() -> Room:
    return Room()


def told(node, job):
    return explain(node.node.coordinator, node.job(job), node.now_ms)


def make_busy(node) -> None:
    """Its owner uses nine tenths of it."""
    total = node.node.ledger.total
    sample = Sample(
        at_ms=node.now_ms,
        local_minute=12 * 60,
        cpu_total_milli=total.cpu_milli,
        cpu_used_milli=total.cpu_milli * 9 // 10,
        memory_total_bytes=total.memory_bytes,
        memory_used_bytes=0,
        storage_free_bytes=0,
    )
    node.step(Sampled(now_ms=node.now_ms, sample=sample))


def ask_in_vain(room, count: int = 5) -> list:
    jobs = [a_job(f"job-{number}", require=THERE) for number in range(count)]
    room[0].submit(*jobs)
    room.settle()
    return jobs


def behind_others(room) -> list[str]:
    """What those are told who are not the first there."""
    said = [told(room[0], job).remedies[0] for job in ask_in_vain(room)]
    behind = [one for one in said if "position 1," not in one]
    assert behind
    return behind


def test_whoever_waits_behind_others_for_a_threshold_is_told_the_threshold(room):
    make_busy(room[1])
    said = behind_others(room)
    for one in said:
        assert "waits for an offer: cpu_percent_max is 30 %, measured 90 %; on node-2: " in one
        assert one.endswith("on node-2: grid offer all, or: grid offer set KEY VALUE")


def test_whoever_is_not_first_on_a_node_that_is_paused_is_told_so(room):
    room[1].step(Lend(now_ms=room[1].now_ms, pause_until_ms=0))
    for one in behind_others(room):
        assert one.endswith("waits for an offer: lending is paused; on node-2: grid offer resume")


def test_a_node_that_lends_nothing_at_all_says_what_its_owner_can_type(room):
    room[1].step(Lend(now_ms=room[1].now_ms, terms=Terms(is_enabled=False)))
    (job,) = ask_in_vain(room, 1)
    said = (f"node-2: this node does not lend; on node-2: {LEND}",)
    assert told(room[0], job).remedies == said

    room.cut.add((room[0].me, room[1].me))
    room.pass_time(10_000)
    room.look()
    assert room[0].node.across.asking.wish(job.id).asked  # Again; there is no answer yet,
    assert told(room[0], job).remedies == said  # and what it said before holds.


def test_behind_others_on_a_node_that_lends_one_waits_for_them(room):
    fill(room[1])
    assert all(one.endswith("waits for others ahead of it") for one in behind_others(room))


def test_what_only_a_dead_node_could_run_says_which(room):
    room[1].step(Lend(now_ms=room[1].now_ms, terms=Terms(is_enabled=False)))
    (job,) = ask_in_vain(room, 1)  # It has said no, which is no news of a dead one.
    room.kill(room[1])
    room.pass_time(1_000)
    why = told(room[0], job)

    assert why.summary.endswith("room on another node: node-2 could run it, and is dead")
    assert why.remedies[0] == "start node-2; there: grid up --detach"


def test_what_only_a_dead_node_could_run_is_refused_with_its_name(room):
    room.kill(room[1])
    room.look()
    with pytest.raises(NeverFits, match="'node-2' could run job 'job', and is dead"):
        room[0].submit(a_job("job", require=THERE))


def test_a_gang_is_not_told_of_single_dead_nodes(room):
    room[0].submit(gang := a_job("gang", gang=2, wait_for_capacity=True))
    room.kill(room[1])
    room.pass_time(1_000)

    assert "dead" not in told(room[0], gang).summary


def test_a_job_whose_directory_cannot_travel_is_told_that_it_stays_and_what_would_help():
    room = Room()
    home = room[0]
    fill(home)
    fill(room[1])
    home.submit(job := a_job("job"))
    room.settle()
    why = "its directory cannot travel: 7 GiB"
    home.step(Bound(now_ms=home.now_ms, job=job.id, why=why))
    room.settle()
    said = told(home, job)

    assert said.summary == f"it waits for resources that others use; it stays here: {why}"
    assert said.remedies[0].startswith("cancel one of them: grid cancel ")
    assert said.remedies[-1].startswith("send less with it: --ship PATH")
    assert not any("node-2" in one for one in said.remedies)
