"""The real kernel of many nodes in virtual time: how they find each other, how far news is.

Lives here: what is measured of a crowd that starts from nothing. Never here: the crowd itself
(`mesh_crowd`), faults (`distributed_grid.sim.mesh`), real agents (`mesh_fleet`).
"""

import argparse
import gc
import json
import resource
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.mesh_crowd import SECOND_US, Crowd, load
from distributed_grid.kernel.mesh.replica_links import size_bytes
from distributed_grid.kernel.mesh.rules import MeshRules
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import Key

ROUND_US = MeshRules().gossip_us
LOOK_US = ROUND_US // 5  # How often it is looked whether everyone has something.
CALM_US = 2 * ROUND_US
ROUNDS_MAX = 400  # What takes longer has got lost.
KEYS: tuple[Key, ...] = ("chain", "contact", "profile", "load")


def rounds_of_forming(crowd: Crowd) -> float:
    """Until everyone has the certificate, the addresses, the profile and the load of everyone."""
    start_us, waiting = crowd.now_us, set(crowd.meshes)
    while waiting:
        crowd.run(LOOK_US)
        rounds = (crowd.now_us - start_us) / ROUND_US
        assert rounds < ROUNDS_MAX, f"{len(waiting)} do not know everyone"
        waiting = {node for node in waiting if not knows_all(crowd, node)}
    return round(rounds, 1)


def knows_all(crowd: Crowd, node: NodeId) -> bool:
    """Whether this node counts everyone as a member, and has all that they said."""
    mesh = crowd.meshes[node]
    assert mesh.roster is not None, "a member"
    assert mesh.replica is not None, "a member"
    if len(mesh.roster.standings) < len(crowd.meshes):
        return False
    return all(mesh.replica.value(other, key) for other in crowd.meshes for key in KEYS)


def rounds_of_linking(crowd: Crowd) -> float:
    """Until everyone is linked with those with whom it wants to be."""
    start_us = crowd.now_us
    while not all(set(mesh.neighbours()) <= set(mesh.links) for mesh in crowd.meshes.values()):
        crowd.run(ROUND_US)
        assert crowd.now_us - start_us < ROUNDS_MAX * ROUND_US, "some links are never made"
    return round((crowd.now_us - start_us) / ROUND_US, 1)


def rounds_of_catching_up(crowd: Crowd) -> float:
    """Until nothing waits for a neighbour: a thousand that come at once are told of for a while."""
    start_us, replicas = crowd.now_us, [mesh.replica for mesh in crowd.meshes.values()]
    while any(replica is not None and replica.staleness_us > CALM_US for replica in replicas):
        crowd.run(ROUND_US)
        assert crowd.now_us - start_us < ROUNDS_MAX * ROUND_US, "some never catch up"
    return round((crowd.now_us - start_us) / ROUND_US, 1)


def rounds_of_news(crowd: Crowd, speakers: int) -> list[float]:
    """So many nodes say something new; after how many rounds everyone has it."""
    waiting = crowd.dice.sample(sorted(crowd.meshes), speakers)
    told = load(crowd.now_us)
    said_us: dict[NodeId, int] = {}
    found: list[float] = []
    while waiting or said_us:
        if waiting:  # One after the other, at any moment of the others' rounds.
            node = waiting.pop()
            said_us[node] = crowd.now_us
            crowd.say(node, told)
        crowd.run(ROUND_US // 10)
        for node, at_us in list(said_us.items()):
            rounds = (crowd.now_us - at_us) / ROUND_US
            assert rounds < ROUNDS_MAX, "it does not arrive"
            if all(mesh.said.load(node) == told for mesh in crowd.meshes.values()):
                found.append(round(rounds, 1))
                del said_us[node]
    return found


def entry_bytes(crowd: Crowd) -> int:
    """Of everything that one node holds."""
    replica = next(iter(crowd.meshes.values())).replica
    assert replica is not None, "a member"
    keys = (*KEYS, "coordinate")
    entries = (replica.entry(node, key) for node in crowd.meshes for key in keys)
    return sum(size_bytes(entry) for entry in entries if entry is not None)


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measured(nodes: int, *, speakers: int, watch_s: float, tick_us: int) -> dict[str, Any]:
    """One size. The bytes are those handed to the transport, without QUIC's."""
    before = resident_bytes()
    crowd = Crowd(nodes, tick_us=tick_us)
    forming = rounds_of_forming(crowd)
    formed_bytes = (crowd.datagram_bytes + crowd.message_bytes) // nodes
    linking = rounds_of_linking(crowd)
    crowd.run(2 * SECOND_US)  # The last comparisons.
    catching_up = rounds_of_catching_up(crowd)
    sent_before = crowd.entries_sent()
    rounds = rounds_of_news(crowd, speakers)
    crowd.run(SECOND_US)
    sends = (crowd.entries_sent() - sent_before) / speakers / nodes
    datagram_bytes, message_bytes = crowd.datagram_bytes, crowd.message_bytes
    crowd.run(round(watch_s * SECOND_US))
    each = nodes * watch_s
    gc.collect()
    return {
        "nodes": nodes,
        "rounds_from_nothing": forming,
        "bytes_from_nothing": formed_bytes,
        "rounds_until_linked": linking,
        "rounds_until_calm": round(linking + 2 * SECOND_US / ROUND_US + catching_up, 1),
        "links": round(mean(len(mesh.links) for mesh in crowd.meshes.values()), 1),
        "rounds": {"mean": round(mean(rounds), 1), "most": max(rounds)},
        "sends_per_change": round(sends, 2),
        "heartbeat_bytes_per_s": round((crowd.datagram_bytes - datagram_bytes) / each),
        "gossip_bytes_per_s": round((crowd.message_bytes - message_bytes) / each),
        "deaths": sum(mesh.liveness.deaths for mesh in crowd.meshes.values()),
        "kernel_bytes": (resident_bytes() - before) // nodes,  # Entries are shared here, by all.
        "entry_bytes": entry_bytes(crowd),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000,
        "cpu_s": round(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])),
    }


def main() -> None:
    """One size, in a process of its own: memory is counted from its start."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--speakers", type=int, default=10)
    parser.add_argument("--watch", type=float, default=5.0, help="seconds of rest")
    parser.add_argument("--tick-ms", type=int, default=100)
    options = parser.parse_args()
    gc.disable()  # Nothing here is garbage: millions of entries would be looked through for none.
    found = measured(
        options.nodes,
        speakers=options.speakers,
        watch_s=options.watch,
        tick_us=options.tick_ms * 1_000,
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
