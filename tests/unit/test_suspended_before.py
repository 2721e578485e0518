"""A keeper that outlived the agent tells which attempts are suspended."""

from distributed_grid.kernel.giving_way import BEFORE
from distributed_grid.kernel.node import Lend, Met, Sampled, Tick
from distributed_grid.wire import keeper
from tests.node_world import World
from tests.unit.test_giving_way import a_lender, borrowed, idle, told


def a_restart(*, is_suspended: bool) -> World:
    """Two loans that were suspended by a pause; the keeper tells of the first, or of none."""
    world = a_lender()
    loans = borrowed("loan"), borrowed("other")
    world.submit(*loans)
    world.pump()
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=0))
    first = world.job(loans[0]).live_attempts[0].id
    world.start_agent()
    hello = keeper.Hello(
        keeper_id="k", boot_id="b", pid=1, limits={}, running=tuple(sorted(world.keeper.runs)),
        suspended=(first,) if is_suspended else (),
    )  # fmt: skip
    for _ in range(2):  # Told twice, it counts once.
        world.step(Met(now_ms=world.now_ms, hello=hello))
    return world


def story(world: World) -> list[str]:
    return [line.what for line in world.job(borrowed("loan")).story]


def test_what_is_suspended_already_is_not_told_to_again():
    world = a_restart(is_suspended=True)
    assert world.job(borrowed("loan")).live_attempts[0].suspended == BEFORE
    world.step(Tick(now_ms=world.now_ms))
    assert story(world).count("suspended") == 1
    assert len(told(world, keeper.Suspend)) == 3  # Both before, the other one again.


def test_what_is_not_suspended_any_more_is_told_to():
    world = a_restart(is_suspended=False)
    assert world.job(borrowed("loan")).live_attempts[0].suspended == ""
    world.step(Tick(now_ms=world.now_ms))
    assert len(told(world, keeper.Suspend)) == 4


def test_it_goes_on_only_when_something_was_measured():
    world = a_restart(is_suspended=True)
    world.step(Lend(now_ms=world.now_ms, is_resumed=True))
    assert not told(world, keeper.Resume)
    world.step(Sampled(now_ms=world.now_ms, sample=idle(world)))
    assert len(told(world, keeper.Resume)) == 2
    assert story(world)[-1] == "resumed"
