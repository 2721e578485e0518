"""Jobs over several nodes: throughput, the way to another node, and what a death costs.

`python -m benchmarks.cluster` prints a table on stderr and JSON on stdout; it needs root, for a
network of its own. Four agents of two cores each on one loopback; Ray, Dask and HyperQueue with as
many workers afterwards, in the same run (benchmarks/peers/).
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from statistics import median
from typing import Any

from benchmarks.mesh_fleet import Agent, at_once, enter_network, fleet, form, quantiles, settled
from benchmarks.peers.environment import run_peer
from benchmarks.peers.work import TRUE
from benchmarks.raw import spawn_per_second
from distributed_grid.client.cluster import Cluster, JobHandle, connect

PEERS = ("dask", "ray", "hyperqueue")
MOVERS = ("dask", "ray")  # HyperQueue's workers are many on one machine: none dies with it here.
CORES = 2  # A node with a single core lends none: see docs/reference on thresholds.
CONFIG = f"pretend: {{cpus: {CORES}}}\n"
LOOK_S = 0.005


def array_per_second(cluster: Cluster, count: int) -> float:
    """One array of `true`, from one submitter over all nodes."""
    begin = time.perf_counter()
    done = cluster.submit([TRUE], array=range(count)).wait()
    assert done.state == "succeeded", done
    return count / (time.perf_counter() - begin)


def start_ms(cluster: Cluster, name: str, count: int) -> dict[str, float]:
    """From the submission here until a process runs there; both by the clock of this machine."""
    samples = []
    for _ in range(count):
        begin = time.time_ns() / 1e6
        done = cluster.submit([TRUE], node=name).wait()
        assert done.node == name, done
        assert done.attempts[-1].started_ms is not None
        samples.append(max(0.0, done.attempts[-1].started_ms - begin))
    return quantiles(samples)


def replacing(agents: list[Agent], cluster: Cluster, kills: int) -> dict[str, Any]:
    """A node that runs a job is killed: until the job runs again, from the kill and the verdict."""
    from_kill, from_verdict = [], []
    for _ in range(kills):
        job = cluster.submit(["/bin/sleep", "600"], avoid=agents[0].name)
        victim = next(agent for agent in agents if agent.name == _node(job, not_on=""))
        killed_ms = time.time_ns() // 1_000_000
        victim.kill()
        again = _node(job, not_on=victim.name)
        started_ms = job.view().attempts[-1].started_ms or 0
        verdict = agents[0].events("node.dead", victim.name, killed_ms)
        from_kill.append((started_ms - killed_ms) / 1e3)
        from_verdict.append((started_ms - verdict[0].at_ms) / 1e3)
        assert again != victim.name
        job.cancel()
        victim.up()
        settled(agents)
    return {"from_kill_s": quantiles(from_kill), "from_verdict_s": quantiles(from_verdict)}


def _node(job: JobHandle, *, not_on: str) -> str:
    """Where it runs, once it runs there."""
    deadline = time.monotonic() + 60
    while True:
        seen = job.view()
        last = seen.attempts[-1] if seen.attempts else None
        if last is not None and last.state == "running" and last.node != not_on:
            return last.node
        assert time.monotonic() < deadline, seen
        time.sleep(LOOK_S)


def grid(options: argparse.Namespace) -> dict[str, Any]:
    """Ours."""
    raw = spawn_per_second(options.jobs, options.nodes * CORES)  # Before there are other children.
    # An empty directory: what is measured are jobs, not the files that travel with them.
    with (
        fleet(options.nodes, config=CONFIG) as agents,
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        at_once(agents, Agent.up)
        form(agents)
        with connect(agents[0].home / "agent.sock") as cluster:
            array_per_second(cluster, 200)  # Everyone has heard of everyone's room.
            rates = [array_per_second(cluster, options.jobs) for _ in range(options.repeats)]
            return {
                "nodes": options.nodes,
                "array_per_s": round(median(rates)),
                "raw_per_s": round(raw),
                "start_here_ms": start_ms(cluster, agents[0].name, options.starts),
                "start_elsewhere_ms": start_ms(cluster, agents[1].name, options.starts),
                "replacing": replacing(agents, cluster, options.kills),
            }


def peer(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The same work, and for those that move work the same kill; an error is a result too."""
    result = run_peer(name, options.jobs, 1, 1)
    if "error" in result:
        return result
    told: dict[str, Any] = {"array_per_s": round(options.jobs / result["array_s"])}
    if name in MOVERS:
        moved = run_peer(name, options.peer_kills, what="replacing")
        is_measured = "error" not in moved
        told["replacing"] = (
            {"from_kill_s": quantiles(moved["from_kill_s"])} if is_measured else moved
        )
    return told


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--peer-kills", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    enter_network(with_peers=not options.no_peers)
    found: dict[str, Any] = {"benchmark": "cluster", "grid": grid(options), "peers": {}}
    os.environ["GRID_PEER_WIDTH"] = str(options.nodes * CORES)
    for name in () if options.no_peers else PEERS:
        found["peers"][name] = peer(name, options)
    print(f"{'grid':12}{found['grid']['array_per_s']:>9} jobs/s", file=sys.stderr)
    for name, row in found["peers"].items():
        print(f"{name:12}{row.get('array_per_s', '-'):>9} jobs/s", file=sys.stderr)
    print(json.dumps(found["grid"]), file=sys.stderr)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
