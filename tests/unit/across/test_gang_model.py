"""Gangs that contend, in many small worlds of chance: all or none, no deadlock, one attempt."""

import pytest

from tests.unit.across.gang_world import NODES, Wild

ROUNDS_MAX = 600  # Five minutes; a gang that has waited for one keeps what it has.


def finish(world: Wild, **chances) -> int:
    """How many rounds it takes until every gang is over."""
    for count in range(ROUNDS_MAX):
        if world.are_done():
            return count
        world.round(**chances)
    raise AssertionError(f"not done: {world.states()}")


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(6))
def test_two_gangs_that_want_all_nodes_both_finish(seed):
    world = Wild(seed)
    specs = [
        world.submit_gang(f"gang-{number}", number, 3 * NODES, cpus=1_000) for number in range(2)
    ]
    finish(world, ends=0.3)
    assert [world.nodes[number].state(spec) for number, spec in enumerate(specs)] == [
        "succeeded",
        "succeeded",
    ]
    assert all(not node.node.ledger.leases for node in world.nodes)


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(8))
def test_gangs_of_all_sizes_beside_other_work_all_finish(seed):
    world = Wild(seed)
    rng = world.rng
    world.loss = rng.choice([0.0, 0.05, 0.2])
    for number in range(rng.randrange(2, 5)):
        priority = rng.choice(["high", "medium", "medium", "low"])
        cpus = rng.choice([1_000, 2_000])
        # A node lends three of four single cores.
        ranks = rng.randrange(2, (3 if cpus == 1_000 else 2) * NODES)
        world.submit_gang(
            f"gang-{number}", rng.randrange(NODES), ranks, cpus=cpus, priority=priority, retries=1
        )
        if rng.random() < 0.5:
            world.round(ends=0.1)
    finish(world, ends=0.2, fails=0.02)


@pytest.mark.parametrize("seed", range(10))
def test_gangs_survive_nodes_that_die_and_agents_that_start_again(seed):
    world = Wild(seed)
    rng = world.rng
    for number in range(2):
        world.submit_gang(
            f"gang-{number}",
            rng.randrange(NODES),
            rng.randrange(2, 2 * NODES),
            cpus=1_000,
            losses_max=50,
        )
    for _ in range(40):
        world.round(ends=0.03)
        who = rng.choice(world.nodes)
        fate = rng.random()
        if fate < 0.06 and sum(node.is_up for node in world.nodes) > NODES - 1:
            world.fall(who)
        elif fate < 0.12 and who.is_up:
            who.start_agent()
        elif not who.is_up and fate < 0.5:
            world.rise(who)
    for node in world.nodes:
        if not node.is_up:
            world.rise(node)
    finish(world, ends=0.3)
