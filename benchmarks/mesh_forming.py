"""Coming together: how long until all see a newcomer, thirty become one, a change is known.

Lives here: measuring with real agents that are up already, and with their start.
"""

import time

from benchmarks.mesh_fleet import PATIENCE_S, Agent, at_once, form, quantiles, settled
from distributed_grid.client import mesh_calls
from distributed_grid.client.cluster import connect

LOOK_AGAIN_S = 0.25


def joining(agents: list[Agent], tries: int) -> dict[str, float]:
    """From the word `grid join` at a running agent until all see it and it sees all: seconds."""
    samples = []
    newcomer, others = agents[-1], agents[:-1]
    for _ in range(tries):
        newcomer.caller.run(mesh_calls.leave())
        gone(others, newcomer.name)
        ticket = others[0].ticket(uses=1)
        begin = time.monotonic()
        newcomer.join(ticket)
        settled([newcomer], [agent.name for agent in agents])
        settled(others, [newcomer.name])
        samples.append(time.monotonic() - begin)
    return quantiles(samples)


def gone(agents: list[Agent], name: str) -> None:
    """Until all of them know that it left."""
    while any(
        (node := agent.nodes().get(name)) is not None and node.health != "left" for agent in agents
    ):
        time.sleep(0.05)


def forming(agents: list[Agent]) -> dict[str, float]:
    """Agents that are not up yet: what starting them takes, and what forming one mesh takes."""
    begin = time.monotonic()
    at_once(agents, Agent.up)
    start_s = time.monotonic() - begin
    formed_s = form(agents)
    return {
        "nodes": len(agents),
        "processes_up_s": round(start_s, 2),
        "formed_s": round(formed_s, 2),
        "together_s": round(start_s + formed_s, 2),
    }


def telling(agents: list[Agent], changes: int) -> dict[str, float]:
    """From a job's submission until each other node shows it as running there: seconds."""
    samples: list[float] = []
    for number in range(changes):
        speaker = agents[number % len(agents)]
        others = [agent for agent in agents if agent is not speaker]
        with connect(str(speaker.home / "agent.sock")) as cluster:
            begin = time.monotonic()
            job = cluster.submit(["/bin/sleep", "60"], cpus=1)
            samples += [at - begin for at in shown(others, speaker.name, running=1)]
            job.cancel()
            job.wait()
        shown(others, speaker.name, running=0)
    return quantiles(samples)


def shown(agents: list[Agent], name: str, *, running: int) -> list[float]:
    """When each of them learned that so many jobs run there.

    Asking is work for them, so it is done rarely; they say how old their record of a node is.
    """
    found: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < len(agents):
        assert time.monotonic() < deadline, f"{name} was not heard by all: {sorted(found)}"
        time.sleep(LOOK_AGAIN_S)
        for agent in agents:
            node = agent.nodes().get(name) if agent.name not in found else None
            if node is not None and node.jobs_running == running:
                found[agent.name] = time.monotonic() - (node.record_age_ms or 0) / 1e3
    return list(found.values())
