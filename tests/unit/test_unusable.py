"""What a node has on its disk and cannot work with is named, and the rest of it is of use."""

import msgspec
import pytest

from distributed_grid.kernel.across.register import PREFIX
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.memory import ACCOUNTS, BOOKINGS, LENDING
from distributed_grid.kernel.node import Lend, Met, Node
from distributed_grid.kernel.unusable import Unusable, about
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Hello
from tests.node_world import FOUR_CORES, PATHS, SENSES, World, a_job

ME = "a" * 64


def a_node() -> Node:
    return Node(name="n", ledger=Ledger(FOUR_CORES), paths=PATHS, new_lease_id=lambda: "x")


def test_an_attempt_without_its_lease_is_told_with_the_name_of_its_job():
    world = World()
    world.submit(a_job("one"))
    jobs = [msgspec.msgpack.decode(data, type=Job) for data in world.saved_jobs.values()]
    with pytest.raises(Unusable) as told:
        a_node().restore(jobs, {})
    assert (told.value.kind, told.value.name) == ("job", a_job("one").id)
    assert isinstance(told.value.__cause__, KeyError)


@pytest.mark.parametrize("name", [ACCOUNTS, BOOKINGS, LENDING])
def test_a_value_that_means_nothing_is_told_with_its_name(name):
    with pytest.raises(Unusable) as told:
        a_node().restore([], {}, {name: b"\xc1"})
    assert (told.value.kind, told.value.name) == ("meta", name)


def test_votes_of_which_one_means_nothing_are_unusable_all_together():
    node = a_node()
    node.join(ME, senses=SENSES)
    node.restore([], {}, {f"{PREFIX}job/x": b"\xc1"})
    hello = Hello(keeper_id="k", boot_id="b", pid=1, limits={}, running=())
    with pytest.raises(Unusable) as told:
        node.step(Met(now_ms=1, hello=hello))
    assert (told.value.kind, told.value.name) == ("meta", PREFIX)


def test_the_innermost_name_is_told():
    with pytest.raises(Unusable) as told, about("job", "outer"), about("record", "inner"):
        raise ZeroDivisionError
    assert told.value.name == "inner"


def test_a_node_that_forgets_is_as_new_but_for_what_it_was_told_from_outside():
    world = World()
    node = world.node
    world.submit(a_job("one"))
    node.step(Lend(now_ms=1, pause_until_ms=0))
    node.host.files_bytes_max = 7
    node.coordinator.node = "renamed"
    before = node.step(Lend(now_ms=1, is_resumed=True))
    assert before.life == node.life == 0
    node.forget()

    assert (node.life, node.coordinator.node, node.host.files_bytes_max) == (1, "renamed", 7)
    assert not node.coordinator.jobs
    assert not node.ledger.leases
    assert node.hello is not None
    assert node.host.lending.paused_until_ms is None
    jobs = [msgspec.msgpack.decode(data, type=Job) for data in world.saved_jobs.values()]
    leases = {
        key: msgspec.msgpack.decode(data, type=Lease) for key, data in world.saved_leases.items()
    }
    node.restore(jobs, leases, world.saved_meta)
    node.check()
    assert list(node.ledger.leases) == list(leases)
