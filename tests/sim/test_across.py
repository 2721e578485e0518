"""Two hundred clusters and their faults: nothing is lost, nothing runs twice; a seed is a story."""

import os
import subprocess
import sys

import msgspec
import pytest

from distributed_grid.sim.across import Mood, World, mood_of, run
from distributed_grid.sim.across.checkers import all_checkers
from distributed_grid.sim.across.disk import Disk
from distributed_grid.sim.across.scenes import SCENES
from distributed_grid.sim.mesh.timeline import SECOND_US
from tests.sim.across_mutants import MUTANTS, SEEDS, broken

HALVES = 2  # At the same time: machines with one core are rare.
LONG = ("crash in turn", "drained", "restart in turn")  # Half the time of all scenes.


def told(first: int, count: int, **variables: str) -> subprocess.Popen:
    """A run of some seeds in a process of its own; not measured, as that would take three times."""
    kept = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed_grid.sim.across",
         "--seed", str(first), "--seeds", str(count)],
        env=kept | variables, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_every_rule_holds_in_two_hundred_clusters_whatever_fails():
    each = SEEDS // HALVES
    runs = [told(first, each) for first in range(0, SEEDS, each)]
    lines = [line for run in runs for line in run.communicate()[0].splitlines()]

    assert [line for line in lines if "FAILED" in line or "again: " in line] == []
    assert sum(line.startswith("seed ") for line in lines) == SEEDS
    assert [run.returncode for run in runs] == [0] * HALVES


@pytest.mark.slow
@pytest.mark.parametrize(
    "scene",
    [pytest.param(name, marks=pytest.mark.unmeasured if name in LONG else ()) for name in SCENES],
)
def test_every_rule_holds_in_each_scene(scene, capsys):
    assert run.main(["--scene", scene]) == 0
    assert f"scene: {scene}" in capsys.readouterr().out


def test_a_scene_that_fails_says_so(capsys):
    mutant = next(one for one in MUTANTS if one.seed in SCENES)
    with broken(mutant):
        assert run.main(["--scene", mutant.seed]) == 1
    assert f"scene {mutant.seed} FAILED: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_cluster_is_one_story_whatever_the_order_of_hashes():
    runs = [told(14, 6, PYTHONHASHSEED=hashes) for hashes in ("0", "1", "77")]
    stories = {run.communicate()[0] for run in runs}

    assert len(stories) == 1


def test_the_seeds_switch_on_every_fault():
    moods = [mood_of(seed) for seed in range(SEEDS)]
    plain = Mood(seed=0, nodes=0, span_us=0, jobs=0)
    never = [
        name
        for name in Mood.__struct_fields__
        if all(getattr(mood, name) == getattr(plain, name) for mood in moods)
    ]

    assert never == ["cores"]
    assert min(mood.nodes for mood in moods) == 3
    assert max(mood.nodes for mood in moods) == 9


def test_a_failure_tells_the_seed_the_mood_the_story_and_how_to_repeat_it(capsys):
    mutant = next(one for one in MUTANTS if isinstance(one.seed, int))
    with broken(mutant):
        assert run.main(["--seed", str(mutant.seed)]) == 1
    said = capsys.readouterr().out

    assert f"seed {mutant.seed} FAILED: " in said
    assert f"again: python -m distributed_grid.sim.across --seed {mutant.seed} --trace" in said
    assert "nodes=" in said
    assert " rough\n" in said


def test_the_whole_story_is_told_on_request(capsys):
    assert run.main(["--seed", "0", "--trace"]) == 0
    said = capsys.readouterr().out

    assert " settled\n" in said
    assert "seed 0: " in said


def test_another_seed_is_another_story():
    calm = Mood(seed=1, nodes=3, span_us=2 * SECOND_US, jobs=3)
    traces = []
    for seed in (1, 1, 2):
        world = World(msgspec.structs.replace(calm, seed=seed), all_checkers())
        world.run()
        traces.append(world.trace)

    assert traces[0] == traces[1] != traces[2]


def test_who_wants_a_job_to_end_goes_on_asking_in_calm_times_until_somebody_knows_it():
    world = World(Mood(seed=1, nodes=3, span_us=2 * SECOND_US, jobs=2))
    early, late = world.wishes.values()
    world.begin()
    world.is_rough = True
    world.people.cancel(early)
    world.is_rough = False
    world.people.cancel(late)
    world.pass_time(2 * SECOND_US)
    world.people.submit(early)
    world.people.submit(late)
    world.pass_time(3 * SECOND_US)

    assert (early.is_cancel_wanted, early.is_cancel_taken) == (True, True)
    assert not late.is_cancel_wanted, "nobody begins with what nobody knows"


def test_a_torn_batch_is_gone_when_the_disk_is_opened_again():
    disk = Disk()
    disk.save([("held", "a", b"1", ""), ("jobs", "b", b"1", "waiting")])
    disk.tear([("held", "a", b"2", ""), ("jobs", "b", None, ""), ("meta", "c", b"2", "")], 2)
    torn = dict(disk.held), dict(disk.jobs)
    disk.open()

    assert torn == ({"a": b"2"}, {})
    assert (disk.held, disk.jobs, disk.meta) == ({"a": b"1"}, {"b": b"1"}, {})


def test_an_old_disk_brings_back_what_was_and_a_new_one_nothing():
    disk = Disk()
    disk.save([("held", "a", b"1", "")])
    disk.keep_copy()
    disk.save([("held", "a", b"2", "")])
    disk.restore_copy()
    old = dict(disk.held)
    disk.erase()

    assert old == {"a": b"1"}
    assert not disk.has("a")
