"""Two hundred meshes and their faults: no rule is broken; a seed is a story; news is quick."""

import os
import subprocess
import sys

import msgspec
import pytest

from distributed_grid.sim.keys import SIGNATURE_BYTES, Keys
from distributed_grid.sim.mesh import Mood, World, mood_of, run
from distributed_grid.sim.mesh.checkers import all_checkers
from distributed_grid.sim.mesh.convergence import Cohort
from distributed_grid.sim.mesh.disk import Disk
from distributed_grid.sim.mesh.scenes import SCENES
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.sim.mesh.world import FORM_US
from tests.sim.mesh_mutants import MUTANTS, SEEDS, broken, problem_of

HALVES = 2  # At the same time: machines with one core are rare.


def told(first: int, count: int, **variables: str) -> subprocess.Popen:
    """A run of some seeds in a process of its own; not measured, as that would take three times."""
    kept = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed_grid.sim.mesh",
         "--seed", str(first), "--seeds", str(count)],
        env=kept | variables, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_every_rule_holds_in_two_hundred_meshes_whatever_fails():
    each = SEEDS // HALVES
    runs = [told(first, each) for first in range(0, SEEDS, each)]
    lines = [line for run in runs for line in run.communicate()[0].splitlines()]

    assert [line for line in lines if "FAILED" in line] == []
    assert sum(line.startswith("seed ") for line in lines) == SEEDS
    assert [run.returncode for run in runs] == [0] * HALVES


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_mesh_with_a_broken_guard_fails_its_seed(mutant):
    is_run_whole = mutant.seed in range(SEEDS) or mutant.seed in SCENES
    assert is_run_whole, "the same seed or scene passes with the guard whole: see above"
    with broken(mutant):
        assert problem_of(mutant.seed)


@pytest.mark.parametrize("scene", SCENES)
def test_every_rule_holds_in_each_scene(scene, capsys):
    assert run.main(["--scene", scene]) == 0
    assert f"scene: {scene}" in capsys.readouterr().out


def test_a_scene_that_fails_says_so(capsys):
    mutant = next(one for one in MUTANTS if one.seed == "hearsay")
    with broken(mutant):
        assert run.main(["--scene", mutant.seed]) == 1
    assert "scene hearsay FAILED: Violation: " in capsys.readouterr().out


def test_a_torn_batch_is_gone_when_the_disk_is_opened_again():
    disk = Disk()
    disk.save({"a": b"1", "b": b"1"})
    disk.tear({"a": b"2", "b": None, "c": b"2"}, 2)
    torn = dict(disk.kept)
    disk.open()

    assert torn == {"a": b"2"}
    assert disk.kept == {"a": b"1", "b": b"1"}


@pytest.mark.slow
def test_a_mesh_is_one_story_whatever_the_order_of_hashes():
    runs = [told(3, 4, PYTHONHASHSEED=hashes) for hashes in ("0", "1", "77")]
    stories = {run.communicate()[0] for run in runs}

    assert len(stories) == 1


def test_the_seeds_switch_on_every_fault_and_every_act():
    moods = [mood_of(seed) for seed in range(SEEDS)]
    plain = Mood(seed=0, nodes=0, pace="lan", span_us=0)
    never = [
        name
        for name in Mood.__struct_fields__
        if all(getattr(mood, name) == getattr(plain, name) for mood in moods)
    ]

    assert never == []
    assert {mood.act for mood in moods} == {
        "none", "kill", "restart", "pause", "asymmetric", "clone", "years",
    }  # fmt: skip
    assert min(mood.nodes for mood in moods) == 5
    assert max(mood.nodes for mood in moods) <= 30


def test_a_failure_tells_the_seed_the_mood_the_story_and_how_to_repeat_it(capsys):
    mutant = next(one for one in MUTANTS if one.breaks == "a ticket lets in any number")
    with broken(mutant):
        assert run.main(["--seed", str(mutant.seed)]) == 1
    said = capsys.readouterr().out

    assert f"seed {mutant.seed} FAILED: Violation: a ticket for " in said
    assert f"again: python -m distributed_grid.sim.mesh --seed {mutant.seed} --trace" in said
    assert "pace=" in said
    assert "node.joined" in said


def test_the_whole_story_is_told_on_request(capsys):
    assert run.main(["--seed", "0", "--trace"]) == 0
    said = capsys.readouterr().out

    assert " agreed\n" in said
    assert "seed 0: " in said


@pytest.mark.parametrize("act", ["kill", "restart", "asymmetric", "pause", "clone", "years"])
def test_a_calm_mesh_passes_each_act(act):
    calm = Mood(seed=1, nodes=5, pace="slow", span_us=SECOND_US, act=act)
    world = World(calm, all_checkers())
    world.run()

    assert any(f"act: {act}" in line for line in world.trace)


@pytest.mark.parametrize(("seed", "nodes"), [(8, 20), (10, 20), (31, 14), (39, 14)])
def test_machines_that_nobody_can_dial_hear_of_everybody_in_a_sparse_mesh(seed, nodes):
    """While others count on hubs that they have not heard of, their former ones tell them."""
    sparse = Mood(seed=seed, nodes=nodes, pace="slow", span_us=0, connections_max=6,
                  hidden_milli=400)  # fmt: skip
    world = World(sparse, all_checkers())
    world.form()

    assert any(host.is_hidden for host in world.hosts)
    assert world.timeline.now_us < FORM_US


def test_another_seed_is_another_story():
    calm = Mood(seed=1, nodes=5, pace="slow", span_us=SECOND_US)
    traces = []
    for seed in (1, 1, 2):
        world = World(msgspec.structs.replace(calm, seed=seed), all_checkers())
        world.run()
        traces.append(world.trace)

    assert traces[0] == traces[1] != traces[2]


def test_only_the_holder_of_a_key_signs():
    keys = Keys(0)
    key = keys.make("a")
    forged = keys.forge(key.public, b"word")

    assert keys.verify(key.public, b"word", key.sign(b"word"))
    assert not keys.verify(key.public, b"other", key.sign(b"word"))
    assert not keys.verify(key.public, b"word", forged)
    assert not keys.verify("unknown", b"word", forged)
    assert len(forged) == len(key.sign(b"word")) == SIGNATURE_BYTES
    assert keys.make("a").public == key.public != keys.make("b").public


def test_a_hundred_nodes_know_everything_within_ten_rounds():
    cohort = Cohort(100)

    assert cohort.form().rounds <= 10
    assert cohort.spread().rounds <= 10


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_thousand_nodes_agree_within_twelve_rounds():
    cohort = Cohort(1_000, entries=1, speakers=20)
    formed, news = cohort.form(), cohort.spread()

    assert formed.rounds <= 12
    assert news.rounds <= 12
    assert formed.links_most <= 50
    assert news.bytes_per_node < 2_000
