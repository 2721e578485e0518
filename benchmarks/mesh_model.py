"""How news spreads in a mesh too large for the real kernel: arrays instead of nodes.

Lives here: the graph of gossip and the moments of its rounds, for any number of nodes. Never here:
what a message is. Checked against the real kernel at 1,000 nodes (`mesh_kernel`), within TOLERANCE.

A node passes on what it has at its next round, to its partners, unless one of them told it; rounds
come every 200 ms, each node's at a moment of its own. All nodes are hubs that can be dialled.
"""

from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from distributed_grid.kernel.mesh.liveness_news import REST_MAX
from distributed_grid.kernel.mesh.liveness_rules import LAN
from distributed_grid.kernel.mesh.rules import MeshRules
from distributed_grid.wire import heartbeat

TOLERANCE = 0.2  # Of the kernel's mean: rounds, sends for each change, bytes of heartbeats.
DELAY_ROUNDS = 0.002  # On the way: 0.4 ms of 200.
CLOSE = 4  # As `kernel.mesh.topology` has them.
FANOUT = 4
ESSENTIAL = 2

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def partners(nodes: int, dice: np.random.Generator) -> Ints:
    """With whom each node gossips; a row for each, by their places in the circle."""
    fingers = [1 << power for power in range((nodes // 2).bit_length())]
    steps = [*fingers, *(step for step in range(2, CLOSE + 1) if step not in fingers)]
    signed = np.array([sign * step for step in steps for sign in (1, -1)], dtype=np.int64)
    first, rest = signed[:ESSENTIAL], signed[ESSENTIAL:]
    count = FANOUT - ESSENTIAL
    start = dice.integers(0, len(rest), size=(nodes, 1))
    picked = rest[(start + np.arange(count) * len(rest) // count) % len(rest)]
    chosen = np.concatenate([np.broadcast_to(first, (nodes, ESSENTIAL)), picked], axis=1)
    found: Ints = (np.arange(nodes)[:, None] + chosen) % nodes
    return found


def spread(edges: Ints, phases: Floats, source: int) -> tuple[Floats, Floats]:
    """When each node has the news, and when it passes it on; in rounds."""
    nodes = len(edges)
    has = np.full(nodes, np.inf)
    has[source] = 0.0
    while True:
        says = np.ceil(has - phases) + phases  # The next round of each.
        arrives = np.repeat(says + DELAY_ROUNDS, edges.shape[1])
        later = has.copy()
        np.minimum.at(later, edges.ravel(), arrives)
        if np.array_equal(later, has):
            return has, says
        has = later


def sends(edges: Ints, says: Floats) -> float:
    """How often one change is sent, for each node: not to those who told it first."""
    nodes, width = edges.shape
    here, there = np.repeat(np.arange(nodes), width), edges.ravel()
    pairs = here * nodes + there
    back = np.isin(there * nodes + here, pairs)  # The other one tells us as well.
    is_told = back & (says[there] + DELAY_ROUNDS <= says[here])
    return float((~is_told).sum() / nodes)


def heartbeat_bytes_per_s(nodes: int) -> float:
    """Of one node: the same for everyone in a large mesh."""
    a_second = LAN.fanout * 1_000_000 / LAN.period_us
    others = nodes - 1
    around = 2 * LAN.observers
    named = others if others < LAN.everyone else around + REST_MAX * (1 - around / others)
    head = len(heartbeat.encode(heartbeat.Heartbeat(heartbeat.BEAT, 0, 0)))
    return a_second * (head + heartbeat.MEMBER_BYTES * named)


def modelled(nodes: int, *, speakers: int, seed: int = 0) -> dict[str, Any]:
    """The same figures as `mesh_kernel.measured` has."""
    dice = np.random.default_rng(seed)
    edges, phases = partners(nodes, dice), dice.random(nodes)
    rounds, sent = [], []
    for source in dice.integers(0, nodes, size=speakers):
        has, says = spread(edges, phases, int(source))
        rounds.append(float(has.max()))
        sent.append(sends(edges, says))
    return {
        "nodes": nodes,
        "rounds": {"mean": round(mean(rounds), 1), "most": round(max(rounds), 1)},
        "seconds": round(max(rounds) * MeshRules().gossip_us / 1e6, 2),
        "sends_per_change": round(mean(sent), 2),
        "heartbeat_bytes_per_s": round(heartbeat_bytes_per_s(nodes)),
    }


def deviation(model: dict[str, Any], kernel: dict[str, Any]) -> dict[str, float]:
    """By which part of the kernel's figure the model's differs."""
    pairs = {
        "rounds": (model["rounds"]["mean"], kernel["rounds"]["mean"]),
        "sends_per_change": (model["sends_per_change"], kernel["sends_per_change"]),
        "heartbeat_bytes_per_s": (
            model["heartbeat_bytes_per_s"],
            kernel["heartbeat_bytes_per_s"],
        ),
    }
    return {name: round(abs(ours / theirs - 1), 3) for name, (ours, theirs) in pairs.items()}
