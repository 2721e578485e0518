"""The real kernel of many nodes in virtual time: how far news is, what it costs to be there.

Lives here: meshes that exist from the first moment on, links as the topology wants them, a network
that delays. Never here: faults (`distributed_grid.sim.mesh`), how a mesh forms (`mesh_fleet`).
Every node runs `kernel.mesh.machine.Mesh` whole; a keyed hash stands in for ed25519.
"""

import argparse
import gc
import heapq
import json
import random
from itertools import count
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec

from distributed_grid.kernel.mesh.events import Heard, LinkUp, MeshReady, Now, Publish, Tick, Told
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.replica_links import size_bytes
from distributed_grid.kernel.mesh.roster import chain_of
from distributed_grid.kernel.mesh.rules import MeshRules, Start
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact
from distributed_grid.sim.keys import Keys
from distributed_grid.wire.mesh import Entry, Key, MeshMessage, encode
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Reach

TICK_US = 50_000  # As the agent ticks.
SECOND_US = 1_000_000
DELAY_US = (100, 400)  # One way, on a local network; more jitter moves coordinates, which is told.
WALL_MS = 1_800_000_000_000
ROUNDS_MAX = 200  # News that takes longer has got lost.
KEYS: tuple[Key, ...] = ("chain", "contact", "profile", "load")
_pack = msgspec.msgpack.Encoder().encode


class Crowd:
    """So many nodes, all members, all linked as they want to be."""

    def __init__(self, nodes: int, *, seed: int = 0) -> None:
        self.dice = random.Random(seed)
        self.now_us = 1_000 * SECOND_US
        self.datagram_bytes = self.message_bytes = self.datagrams = 0
        self._heap: list[tuple[int, int, NodeId, NodeId | None, bytes | MeshMessage | None]] = []
        self._numbers = count()
        before = resident_bytes()
        self.meshes = self._members(nodes)
        self.entries = self._introduce()
        gc.collect()
        self.bytes_per_node = (resident_bytes() - before) // nodes
        self._link()
        for node in self.meshes:  # Machines that started at any time.
            self._at(self.dice.randrange(MeshRules().gossip_us), node, None, None)

    def _members(self, nodes: int) -> dict[NodeId, Mesh]:
        keys = Keys(0)
        authority = keys.make("authority")
        made = {}
        for number in range(nodes):
            key = keys.make(f"node {number}")
            node = NodeId(key.public)
            start = Start(nonce=f"{number}", machine=f"machine {number}", now=self.now())
            made[node] = mesh = Mesh(
                me=node,
                signer=key,
                verify=keys.verify,
                chance=random.Random(f"{self.dice.random()}").randrange,
                rules=MeshRules(),
                start=start,
            )
            mesh.membership.found(authority, f"n{number}", self.now())
            contact = Contact(node=node, addresses=(f"10.0.{number >> 8}.{number & 255}:4000",))
            reach = Reach(contact=contact)
            profile = NodeProfile(node_class="workstation", version="0.3.0", cores=4)
            values: dict[Key, bytes] = {"contact": _pack(reach), "profile": _pack(profile)}
            mesh.step(Publish(now=self.now(), values={**values, "load": load(0)}))
        return made

    def _introduce(self) -> list[Entry]:
        """Everyone has heard everything already."""
        entries = []
        for node, mesh in self.meshes.items():
            assert mesh.replica is not None, "founded"
            entries += [entry for key in KEYS if (entry := mesh.replica.entry(node, key))]
        chains = {entry.node: chain_of(entry) for entry in entries if entry.key == "chain"}
        for mesh in self.meshes.values():
            assert mesh.roster is not None, "founded"
            assert mesh.replica is not None, "founded"
            for node, chain in chains.items():
                mesh.roster.take(node, chain, WALL_MS)
            others = [entry for entry in entries if entry.node != mesh.me]
            mesh.replica.take(others, source=None, now_us=self.now_us)
            mesh.refresh(self.now())
        return entries

    def _link(self) -> None:
        for node, mesh in self.meshes.items():
            for peer in mesh.neighbours():
                hello = self.meshes[peer].hello(self.now())
                self._carry_out(node, mesh.step(LinkUp(now=self.now(), peer=peer, hello=hello)))

    def now(self) -> Now:
        """By everyone's clocks."""
        return Now(WALL_MS + self.now_us // 1_000, self.now_us)

    def run(self, duration_us: int) -> None:
        """Let it happen."""
        end_us = self.now_us + duration_us
        while self._heap[0][0] <= end_us:
            self.now_us, _, node, peer, what = heapq.heappop(self._heap)
            mesh, now = self.meshes[node], self.now()
            if peer is None:
                ready = mesh.step(Tick(now=now))
                self._at(TICK_US, node, None, None)
            elif isinstance(what, bytes):
                ready = mesh.step(Heard(now=now, peer=peer, datagram=what))
            else:
                assert what is not None, "a message"
                ready = mesh.step(Told(now=now, peer=peer, message=what))
            self._carry_out(node, ready)
        self.now_us = end_us

    def _carry_out(self, node: NodeId, ready: MeshReady) -> None:
        delay = self.dice.randrange
        for peer, datagram in ready.datagrams:
            self.datagrams += 1
            self.datagram_bytes += len(datagram)
            self._at(delay(*DELAY_US), peer, node, datagram)
        for peer, message in ready.messages:
            self.message_bytes += len(encode(message))
            # One after the other, as on a stream: the same delay for all.
            self._at(DELAY_US[1], peer, node, message)

    def _at(
        self,
        wait_us: int,
        node: NodeId,
        peer: NodeId | None,
        what: bytes | MeshMessage | None,
    ) -> None:
        heapq.heappush(
            self._heap, (self.now_us + wait_us, next(self._numbers), node, peer, what)
        )  # fmt: skip

    # Figures

    def entries_sent(self) -> int:
        """By all, so far."""
        return sum(mesh.replica.entries_sent for mesh in self.meshes.values() if mesh.replica)

    def rounds_of_news(self, speakers: int) -> list[float]:
        """So many nodes say something new; after how many rounds everyone has it."""
        waiting = self.dice.sample(sorted(self.meshes), speakers)
        told, step_us = load(self.now_us), MeshRules().gossip_us // 10
        said_us: dict[NodeId, int] = {}
        found: list[float] = []
        while waiting or said_us:
            if waiting:  # One after the other, at any moment of the others' rounds.
                node = waiting.pop()
                said_us[node] = self.now_us
                ready = self.meshes[node].step(Publish(now=self.now(), values={"load": told}))
                self._carry_out(node, ready)
            self.run(step_us)
            for node, at_us in list(said_us.items()):
                rounds = (self.now_us - at_us) / MeshRules().gossip_us
                assert rounds < ROUNDS_MAX, "it does not arrive"
                if self._has(node, told):
                    found.append(round(rounds, 1))
                    del said_us[node]
        return found

    def _has(self, node: NodeId, told: bytes) -> bool:
        return all(
            mesh.replica is not None and mesh.replica.value(node, "load") == told
            for mesh in self.meshes.values()
        )


def load(number: int) -> bytes:
    """Something that a node may say."""
    return _pack(NodeLoad(cpu_milli_free=number, memory_bytes_free=0))


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measured(nodes: int, *, speakers: int, watch_s: float) -> dict[str, Any]:
    """One size. The bytes are those handed to the transport, without QUIC's."""
    crowd = Crowd(nodes)
    crowd.run(2 * SECOND_US)  # Comparing, first round trips.
    before = crowd.entries_sent()
    rounds = crowd.rounds_of_news(speakers)
    crowd.run(SECOND_US)
    sends = (crowd.entries_sent() - before) / speakers / nodes
    datagram_bytes, message_bytes = crowd.datagram_bytes, crowd.message_bytes
    crowd.run(round(watch_s * SECOND_US))
    each = nodes * watch_s
    return {
        "nodes": nodes,
        "links": round(mean(len(mesh.links) for mesh in crowd.meshes.values()), 1),
        "rounds": {"mean": round(mean(rounds), 1), "most": max(rounds)},
        "sends_per_change": round(sends, 2),
        "heartbeat_bytes_per_s": round((crowd.datagram_bytes - datagram_bytes) / each),
        "gossip_bytes_per_s": round((crowd.message_bytes - message_bytes) / each),
        "deaths": sum(mesh.liveness.deaths for mesh in crowd.meshes.values()),
        "kernel_bytes": crowd.bytes_per_node,  # Entries are shared here, by all nodes.
        "entry_bytes": sum(map(size_bytes, crowd.entries)),
    }


def main() -> None:
    """One size, in a process of its own: memory is counted from its start."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--speakers", type=int, default=10)
    parser.add_argument("--watch", type=float, default=3.0, help="seconds of rest")
    options = parser.parse_args()
    print(json.dumps(measured(options.nodes, speakers=options.speakers, watch_s=options.watch)))


if __name__ == "__main__":
    main()
