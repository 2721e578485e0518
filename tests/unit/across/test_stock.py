"""What others have is looked at only where it has changed, and is as if it were made anew."""

import random

import msgspec
import pytest

from distributed_grid.kernel.across import stock as stock_module
from distributed_grid.kernel.across.peers import Peer, turned
from distributed_grid.kernel.across.stock import AMPLE_MS, Stock
from distributed_grid.kernel.placement import PLAIN_NODES_MAX, snapshot
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import NodeId, job_id_of
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Request, Resources

ONE_CORE = JobSpec(
    id=job_id_of("job"), name="job", request=Request(cpu_milli=1_000, memory_bytes=GIB)
)


def node(number: int) -> NodeId:
    return NodeId(f"{number:064x}")


def a_record(number: int, free: int, cores: int = 4, **facts) -> NodeRecord:
    return NodeRecord(
        id=node(number),
        name=f"n{number}",
        total=Resources(cpu_milli=cores * 1_000, memory_bytes=16 * GIB),
        free=Resources(cpu_milli=free * 1_000, memory_bytes=16 * GIB),
        **facts,
    )


def a_peer(record: NodeRecord, **facts) -> Peer:
    return Peer(id=record.id, name=record.name, record=record, **facts)


def lenders(peers):
    """The simple version: everything anew."""
    return [
        peer.record
        for peer in peers.values()
        if peer.record is not None and peer.is_alive and peer.may_lend and not peer.is_draining
    ]


def changed_somehow(dice: random.Random, peers: dict) -> dict:
    """The next view: most peers are the same objects."""
    found = dict(peers)
    for number in dice.sample(range(90), 12):
        kind = dice.randrange(6)
        if kind == 0:
            found.pop(node(number), None)
            continue
        cores = dice.choice((4, 4, 8))
        facts = {"is_alive": False} if kind == 1 else {"is_draining": True} if kind == 2 else {}
        record = a_record(number, dice.randrange(cores + 1), cores, jobs=dice.randrange(5))
        found[node(number)] = a_peer(record, **facts)
    return found


@pytest.mark.parametrize("count", [20, PLAIN_NODES_MAX, 90])
def test_it_is_as_if_it_were_made_anew_from_every_view(count):
    dice, stock, now_ms = random.Random(count), Stock(), 0
    peers = {node(n): a_peer(a_record(n, n % 5)) for n in range(count)}
    for _ in range(60):
        now_ms += AMPLE_MS
        stock.see(peers, now_ms)
        if dice.random() < 0.7:  # Sometimes nobody asks between two views.
            fresh = lenders(peers)
            assert stock.has_lenders() == bool(fresh)
            assert stock.free.records() == snapshot(fresh).records()
            ample = [msgspec.structs.replace(one, free=one.total) for one in fresh]
            assert stock.ample.records() == snapshot(ample).records()
            for one in dice.sample(fresh, 2):
                if one.free.fits(ONE_CORE.request):
                    stock.take(after_placing(ONE_CORE, one))
        peers = changed_somehow(dice, peers)


def test_what_was_taken_is_gone_until_the_next_view():
    stock, record = Stock(), a_record(1, 1)
    stock.see({record.id: a_peer(record)}, 0)
    stock.take(after_placing(ONE_CORE, record))

    assert stock.free.records()[0].free.cpu_milli == 0
    stock.see({record.id: a_peer(record)}, 1)
    assert stock.free.records() == [record]


def test_with_everything_free_only_what_lasts_is_told_at_once():
    stock = Stock()
    stock.see({node(1): a_peer(a_record(1, 4))}, 0)
    assert stock.ample.records()[0].jobs == 0

    stock.see({node(1): a_peer(a_record(1, 3, jobs=1))}, 1)
    assert stock.ample.records()[0].jobs == 0
    stock.see({node(1): a_peer(a_record(1, 3, cores=8, jobs=1))}, 2)
    assert stock.ample.records()[0].free.cpu_milli == 8_000
    stock.see({node(1): a_peer(a_record(1, 3, cores=8, jobs=2))}, AMPLE_MS)
    assert stock.ample.records()[0].jobs == 2


def test_nothing_is_made_before_somebody_asks_and_nothing_twice(monkeypatch):
    made = []
    monkeypatch.setattr(stock_module, "_ample", lambda record: made.append(record) or record)
    stock = Stock()
    peers = {node(n): a_peer(a_record(n, 1)) for n in range(3)}
    for now_ms in range(5):
        stock.see(peers, now_ms)
    assert made == []

    assert len(stock.ample) == len(stock.ample) == 3
    stock.see(dict(peers), 6)
    assert len(stock.ample) == 3
    assert len(made) == 3


def test_who_died_and_who_came_between_two_views():
    alive = {n: a_peer(a_record(n, 1)) for n in range(1, 6)}
    dead = {n: a_peer(a_record(n, 1), is_alive=False) for n in range(1, 6)}
    before = {node(3): alive[3], node(2): alive[2], node(1): dead[1], node(4): dead[4]}
    now = {node(3): dead[3], node(5): alive[5], node(1): alive[1], node(4): dead[4]}

    assert turned(before, now) == ([node(2), node(3)], [node(1), node(5)])
    assert turned(now, now) == ([], [])
    # Again, in other objects.
    assert turned(before, {n: msgspec.structs.replace(p) for n, p in before.items()}) == ([], [])
    assert turned({node(1): dead[1]}, {}) == ([], [])
    assert turned({}, {node(1): dead[1]}) == ([], [])
