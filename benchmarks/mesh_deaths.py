"""Real deaths and real loss: how soon a killed node is noticed, whether a living one is given up.

Lives here: kill -9 of keeper and agent, loss by the kernel's packet filter. The others note when
they give somebody up (`node.dead`), and their clock is ours.
"""

import random
import subprocess
import time
from collections.abc import Callable
from typing import Any

from benchmarks.mesh_fleet import Agent, quantiles, settled

NOTICED_S = 30.0  # Longer than this is a failure, not a figure.
CALM_S = 2.0  # Between two deaths.


def killing(agents: list[Agent], kills: int) -> dict[str, Any]:
    """One after the other dies and comes back; seconds until each survivor says `dead`."""
    return _deaths(agents, kills, Agent.kill, Agent.up)


def stopping(agents: list[Agent], stops: int) -> dict[str, Any]:
    """The same with SIGSTOP, as if a machine hung; it comes back by itself."""
    return _deaths(agents, stops, Agent.stop, Agent.resume)


def _deaths(
    agents: list[Agent],
    count: int,
    end: Callable[[Agent], None],
    begin: Callable[[Agent], None],
) -> dict[str, Any]:
    dice = random.Random(0)
    samples: list[float] = []
    for number in range(count):
        victim = agents[number % len(agents)]
        others = [agent for agent in agents if agent is not victim]
        time.sleep(CALM_S + dice.random())  # At another moment of everyone's rounds.
        begin_ms = time.time_ns() // 1_000_000
        end(victim)
        samples += noticed(others, victim.name, begin_ms)
        begin(victim)
        settled(agents)
    return {"nodes": len(agents), "deaths": count, "seconds": quantiles(samples)}


def noticed(agents: list[Agent], name: str, since_ms: int) -> list[float]:
    """When each of them gave this node up, in seconds after that moment."""
    found: dict[str, float] = {}
    time.sleep(2.5)  # Nobody does so earlier, and asking is work for them.
    deadline = time.monotonic() + NOTICED_S
    while len(found) < len(agents):
        assert time.monotonic() < deadline, f"{name}'s death was noticed by {sorted(found)} only"
        for agent in agents:
            if agent.name not in found:
                events = agent.events("node.dead", name, since_ms)
                if events:
                    found[agent.name] = (events[0].at_ms - since_ms) / 1e3
        time.sleep(0.1)
    return list(found.values())


def losing(agents: list[Agent], *, percent: int, seconds: float) -> dict[str, Any]:
    """So much of all UDP is lost; who is suspected or given up meanwhile, and everyone lives."""
    begin_ms = time.time_ns() // 1_000_000
    before = dropped()
    filtered("-A", "INPUT", "-p", "udp", "-m", "statistic", "--mode", "random",
             "--probability", f"{percent / 100}", "-j", "DROP")  # fmt: skip
    try:
        time.sleep(seconds)
        lost = dropped() - before
    finally:
        filtered("-F", "INPUT")
    names = ("node.suspect", "node.dead")
    told = {
        name: sum(len(agent.events(name, since_ms=begin_ms)) for agent in agents) for name in names
    }
    return {
        "nodes": len(agents),
        "percent": percent,
        "seconds": seconds,
        "packets_lost": lost,
        "suspicions": told["node.suspect"],
        "false_verdicts": told["node.dead"],
    }


def filtered(*words: str) -> None:
    """Tell the packet filter of this network."""
    subprocess.run(["iptables-nft", *words], check=True, capture_output=True, timeout=30)


def dropped() -> int:
    """How many packets the filter has dropped."""
    shown = subprocess.run(
        ["iptables-nft", "-L", "INPUT", "-v", "-x", "-n"],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    return sum(int(line.split()[0]) for line in shown.splitlines() if " DROP " in line)
