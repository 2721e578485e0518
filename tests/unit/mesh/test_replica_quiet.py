"""Neighbours to whom there is nothing to say are passed by, and nobody could tell."""

import random

import pytest

from distributed_grid.kernel.mesh.replica_links import Link
from distributed_grid.wire.mesh import encode
from tests.unit.mesh.replica_lab import SECOND_US, Wires, replica, spread


def said_by_some(seed: int) -> list[tuple[str, str, bytes]]:
    """All words of six nodes, of which each speaks to some of its neighbours at a time."""
    chance, nodes = random.Random(seed), [spread(number) for number in range(6)]
    wires = Wires(*(replica(each) for each in nodes))
    for at, left in enumerate(nodes):
        for right in nodes[at + 1 :]:
            wires.up(left, right)
    for _ in range(60):
        wires.now_us += chance.choice([200_000, 200_000, 3 * SECOND_US])
        one = wires.replicas[chance.choice(nodes)]
        if chance.random() < 0.5:
            one.publish(chance.choice(["load", "offers"]), chance.randbytes(4), wires.now_us)
        peers = chance.sample([each for each in nodes if each != one.me], 2)
        for peer, message in one.round(peers, wires.now_us):
            wires.send(one.me, peer, [message])
        for ends in sorted(wires.queues):
            while wires.queues[ends] and chance.random() < 0.7:
                wires.deliver(*ends)
    return [(me, peer, encode(message)) for me, peer, message in wires.sent]


@pytest.mark.parametrize("seed", range(5))
def test_who_has_nothing_to_hear_is_passed_by_as_if_it_were_looked_at(monkeypatch, seed):
    quick = said_by_some(seed)
    monkeypatch.setattr(Link, "is_settled", property(lambda _: False))

    assert len(quick) > 50
    assert said_by_some(seed) == quick
