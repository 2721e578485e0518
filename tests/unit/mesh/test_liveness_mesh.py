"""Who is alive, as a whole mesh sees it: real kernels on a made-up network that loses."""

import pytest

from distributed_grid.kernel.mesh.liveness import LAN, WAN
from tests.liveness_model import SECOND, Model, detection_us

pytestmark = pytest.mark.unmeasured


def cut(model, some, others):
    model.cut |= {(one, other) for one in some for other in others}


def isolated(model, id_):
    cut(model, [id_], model.ids)
    cut(model, model.ids, [id_])


@pytest.mark.slow
@pytest.mark.rows("S0-69")
def test_at_half_of_everything_lost_nobody_of_thirty_is_given_up_in_five_minutes():
    model = Model(30, seed=3, loss=0.5).run(5 * 60 * SECOND)

    assert model.verdicts("dead") == []


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.5])
def test_a_death_is_noticed_by_all_within_three_seconds(loss):
    times = sorted(at for seed in range(4) for at in detection_us(30, seed=seed, loss=loss))

    assert len(times) == 4 * 29
    assert times[len(times) // 2] < 2_800_000
    assert times[-1] < 3 * SECOND


@pytest.mark.slow
def test_over_a_wide_network_a_death_is_noticed_within_fifteen_seconds():
    times = detection_us(10, seed=1, loss=0.3, rules=WAN)

    assert len(times) == 9
    assert 7 * SECOND < min(times) <= max(times) < 15 * SECOND


@pytest.mark.slow
def test_slow_links_keep_nobody_young():
    model = Model(10, seed=8, delay_us=(100_000, 300_000)).run(5 * SECOND)
    model.kill(model.ids[0])
    model.run(4 * SECOND)

    assert model.beliefs(model.ids[0]) == {"dead": 9}
    assert {change.node for *_, change in model.verdicts("dead")} == {model.ids[0]}


def test_two_machines_notice_each_other():
    model = Model(2, seed=1, loss=0.3).run(60 * SECOND)

    assert model.story == []

    model.kill(model.ids[0])
    model.run(3 * SECOND)

    assert model.beliefs(model.ids[0]) == {"dead": 1}


def test_a_machine_that_pauses_is_dead_once_comes_back_and_blames_nobody():
    model = Model(10, seed=2).run(5 * SECOND)
    sleeper, slept_us = model.ids[3], model.now_us
    model.pause(sleeper, 60 * SECOND)
    model.run(70 * SECOND)

    assert len(model.verdicts("dead")) == len(model.verdicts("alive")) == 9
    assert all(at - slept_us < 62 * SECOND for at, _, _ in model.verdicts("alive"))
    assert all(who != sleeper and change.node == sleeper for _, who, change in model.story)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_one_that_hears_but_is_not_heard_makes_nobody_flap(loss):
    model = Model(10, seed=3, loss=loss)
    cut(model, model.ids[:1], model.ids[1:2])
    model.run(120 * SECOND)

    assert model.story == []


@pytest.mark.parametrize("count", [3, 6])
def test_two_that_cannot_reach_each_other_are_alive_through_a_third(count):
    model = Model(count, seed=3)
    cut(model, model.ids[:1], model.ids[1:2])
    cut(model, model.ids[1:2], model.ids[:1])
    model.run(60 * SECOND)

    assert model.story == []


@pytest.mark.rows("S0-88")
def test_a_mesh_in_two_halves_gives_up_the_other_half_and_heals():
    model = Model(10, seed=4).run(3 * SECOND)
    cut(model, model.ids[:5], model.ids[5:])
    cut(model, model.ids[5:], model.ids[:5])
    model.run(30 * SECOND)

    assert len(model.verdicts("dead")) == 50
    assert all(model.beliefs(id_) == {"alive": 4, "dead": 5} for id_ in model.ids)

    model.cut.clear()
    model.run(3 * SECOND)

    assert all(model.beliefs(id_) == {"alive": 9} for id_ in model.ids)


def test_one_that_is_cut_off_waits_twice_as_long_as_the_others_do():
    model = Model(10, seed=5).run(3 * SECOND)
    alone, cut_us = model.ids[0], model.now_us
    isolated(model, alone)
    model.run(10 * SECOND)
    after = {
        who == alone: [at - cut_us for at, one, _ in model.verdicts("dead") if one == who]
        for _, who, _ in model.verdicts("dead")
    }

    assert max(after[False]) < 2 * LAN.suspect_us
    assert min(after[True]) > 2 * LAN.dead_us - 500_000


def test_a_machine_that_starts_again_within_a_second_is_no_death():
    model = Model(10, seed=6).run(20 * SECOND)
    model.kill(model.ids[0])
    model.run(SECOND)
    model.start(model.ids[0])
    model.run(10 * SECOND)

    assert model.verdicts("dead") == []
    assert model.nodes[model.ids[0]].incarnation == 1


def test_a_machine_that_starts_again_after_its_death_is_alive_within_half_a_second():
    model = Model(10, seed=6).run(20 * SECOND)
    model.kill(model.ids[0])
    model.run(10 * SECOND)
    model.start(model.ids[0])
    model.run(500_000)

    assert model.beliefs(model.ids[0]) == {"alive": 9}


@pytest.mark.slow
def test_a_large_mesh_notices_a_death_and_a_return_though_few_watch():
    model = Model(150, seed=7, loss=0.2).run(5 * SECOND)
    victim = model.ids[0]
    model.kill(victim)
    model.run(5 * SECOND)

    assert model.beliefs(victim) == {"dead": 149}
    assert {change.node for *_, change in model.verdicts("dead")} == {victim}

    model.start(victim)
    model.run(3 * SECOND)

    assert model.beliefs(victim) == {"alive": 149}


@pytest.mark.slow
def test_where_only_some_are_linked_the_others_are_alive_by_hearsay():
    model = Model(20, seed=9, loss=0.2)
    for at, one in enumerate(model.ids):
        for step in range(5, 16):
            other = model.ids[(at + step) % 20]
            model.unlinked.add((min(one, other), max(one, other)))
    model.run(60 * SECOND)

    assert model.verdicts("dead") == []

    model.kill(model.ids[0])
    model.run(4 * SECOND)

    assert model.beliefs(model.ids[0]) == {"dead": 19}


def test_the_same_chance_tells_the_same_story():
    stories = []
    for _ in range(2):
        model = Model(6, seed=11, loss=0.4).run(5 * SECOND)
        model.kill(model.ids[1])
        stories.append((model.run(5 * SECOND).story, model.datagrams, model.bytes))

    assert stories[0] == stories[1]
