"""A mesh at rest: what an agent costs, and how far its neighbours are.

Lives here: processor time, memory and bytes of agents that have nothing to do.
"""

import time
from statistics import mean, median
from typing import Any

from benchmarks.mesh_fleet import Agent, quantiles, sent_bytes


def resting(agents: list[Agent], *, settle_s: float, seconds: float) -> dict[str, Any]:
    """Agent and keeper of each node, while nothing happens."""
    time.sleep(settle_s)  # Coordinates find their places, and claims are proven.
    begin, sent, used = time.monotonic(), sent_bytes(), [agent.cpu_s() for agent in agents]
    time.sleep(seconds)
    took = time.monotonic() - begin
    percents = [
        (agent.cpu_s() - before) / took * 100 for agent, before in zip(agents, used, strict=True)
    ]
    bytes_each = (sent_bytes() - sent) / took / len(agents)
    memory = [agent.pss_bytes() / 1e6 for agent in agents]
    return {
        "nodes": len(agents),
        "seconds": seconds,
        "cpu_percent": {"mean": round(mean(percents), 2), "most": round(max(percents), 2)},
        "pss_mb": {"mean": round(mean(memory), 1), "most": round(max(memory), 1)},
        "sent_kb_per_s": round(bytes_each / 1e3, 2),
    }


def latency_ms(agents: list[Agent]) -> dict[str, float]:
    """Round trips between neighbours as `grid nodes` shows them: of datagrams."""
    found = [
        node.latency_us / 1e3
        for agent in agents
        for node in agent.nodes().values()
        if node.latency_us is not None
    ]
    return quantiles(found) | {"median": round(median(found), 2)}
