"""Jobs on one machine: throughput, latency, start-up, memory; beside Dask, Ray and HyperQueue.

`python -m benchmarks.jobs` prints a table on stderr and JSON on stdout. Every figure of ours is
taken in pairs with raw `posix_spawn`; the peers run after it, in the same run, at their fastest
documented settings (benchmarks/peers/). All of them run `/bin/true` in two processes at once.
"""

import argparse
import json
import sys
import time
from statistics import median
from typing import Any

from benchmarks.agent_home import Running, running_agent
from benchmarks.peers.environment import run_peer
from benchmarks.peers.work import TRUE, WIDTH, trivial
from benchmarks.raw import spawn_per_second, starts_s
from distributed_grid.client.cluster import Cluster, connect

REST_S = 5.0


def array_per_second(cluster: Cluster, count: int) -> float:
    """One array of `true`."""
    begin = time.perf_counter()
    done = cluster.submit([TRUE], array=range(count)).wait()
    assert done.state == "succeeded", done
    return count / (time.perf_counter() - begin)


def separate_per_second(cluster: Cluster, count: int) -> float:
    """As many submissions, one after the other over one connection."""
    begin = time.perf_counter()
    jobs = [cluster.submit([TRUE]) for _ in range(count)]
    assert all(done.state == "succeeded" for done in cluster.wait(jobs))
    return count / (time.perf_counter() - begin)


def pipelined_per_second(cluster: Cluster, count: int) -> float:
    """The same, without waiting for each to be durable: as the peers submit."""
    begin = time.perf_counter()
    with cluster.pipeline() as pipeline:
        jobs = [pipeline.submit([TRUE]) for _ in range(count)]
    assert all(done.state == "succeeded" for done in cluster.wait(jobs))
    return count / (time.perf_counter() - begin)


def single_ms(cluster: Cluster, count: int) -> dict[str, float]:
    """From submission to the known exit, on an idle node."""
    samples = []
    for _ in range(count):
        begin = time.perf_counter()
        cluster.submit([TRUE]).wait()
        samples.append((time.perf_counter() - begin) * 1e3)
    samples.sort()
    return {"p50": round(median(samples), 2), "p99": round(samples[len(samples) * 99 // 100], 2)}


def submit_ms(cluster: Cluster, count: int) -> float:
    """One more submission, the middle of several; they wait for ever and are cancelled."""
    samples = []
    for _ in range(count):
        begin = time.perf_counter()
        job = cluster.submit([TRUE], cpus=1, after=())
        samples.append((time.perf_counter() - begin) * 1e3)
        job.cancel()
    return median(samples)


def queue_cost(cluster: Cluster, queued: int) -> dict[str, float]:
    """What a submission costs before and behind a long queue."""
    holder = cluster.submit(["/bin/sleep", "600"], cpus=WIDTH)
    empty = submit_ms(cluster, 30)
    jobs = [cluster.submit([TRUE]) for _ in range(queued)]
    full = submit_ms(cluster, 30)
    for job in jobs:
        job.cancel()
    holder.cancel()
    return {
        "empty_ms": round(empty, 2),
        "queued": queued,
        "queued_ms": round(full, 2),
        "ratio": round(full / empty, 2),
    }


def ours(agent: Running, options: argparse.Namespace) -> dict[str, Any]:
    """Everything about Grid itself."""
    rest_pss, rest_cpu = agent.pss_bytes(), agent.cpu_s()
    time.sleep(REST_S)  # The quantity measured is doing nothing.
    idle_percent = (agent.cpu_s() - rest_cpu) / REST_S * 100
    with connect(agent.socket) as cluster:
        cluster.submit([TRUE], array=range(200)).wait()
        pairs = []
        for _ in range(options.pairs):
            raw = spawn_per_second(options.jobs, WIDTH)
            pairs.append((raw, array_per_second(cluster, options.jobs)))
        separate = separate_per_second(cluster, options.separate)
        pipelined = pipelined_per_second(cluster, options.separate)
        latency = single_ms(cluster, 100)
        queue = queue_cost(cluster, options.queued)
        big = cluster.submit([TRUE], array=range(100_000), cpus=WIDTH, name="big")
        big_pss = agent.pss_bytes()
        big.cancel()
        begin = time.perf_counter()
        total = sum(cluster.map(trivial, range(options.calls)))
        map_s = time.perf_counter() - begin
        assert total == options.calls * (options.calls + 1) // 2
    bare, run = starts_s(agent.env)
    return {
        "raw_per_s": round(median(raw for raw, _ in pairs)),
        "array_per_s": round(median(mine for _, mine in pairs)),
        "array_to_raw": round(median(mine / raw for raw, mine in pairs), 2),
        "array_to_raw_best": round(max(mine / raw for raw, mine in pairs), 2),
        "separate_per_s": round(separate),
        "pipelined_per_s": round(pipelined),
        "single_ms": latency,
        "map_calls": options.calls,
        "map_s": round(map_s, 2),
        "run_command_s": round(run, 3),
        "python_start_s": round(bare, 3),
        "run_to_python": round(run / bare, 1),
        "rest_pss_mb": round(rest_pss / 1e6, 1),
        "rest_cpu_percent": round(idle_percent, 2),
        "array_100k_pss_mb": round(big_pss / 1e6, 1),
        "queue": queue,
    }


def peers(options: argparse.Namespace) -> dict[str, Any]:
    """The same work elsewhere."""
    found = {}
    for name in ("dask", "ray", "hyperqueue"):
        result = run_peer(name, options.jobs, options.separate, options.calls)
        if "error" not in result:
            result = {
                "array_per_s": round(options.jobs / result["array_s"]),
                "separate_per_s": round(options.separate / result["separate_s"]),
                "map_s": result["map_s"] and round(result["map_s"], 2),
            }
        found[name] = result
    return found


def show(found: dict[str, Any]) -> None:
    """The table, for people."""
    mine = found["grid"]
    heads = ("array/s", "separate/s", "pipelined/s", "map s")
    print(f"{'':12}" + "".join(f"{head:>12}" for head in heads), file=sys.stderr)
    print(f"{'posix_spawn':12}{mine['raw_per_s']:>12}", file=sys.stderr)
    for name, row in {"grid": mine, **found["peers"]}.items():
        keys = ("array_per_s", "separate_per_s", "pipelined_per_s", "map_s")
        cells = (row.get(key) for key in keys)
        text = (str(cell if cell is not None else "-") for cell in cells)
        print(f"{name:12}" + "".join(f"{cell:>12}" for cell in text), file=sys.stderr)
    print(
        json.dumps({key: mine[key] for key in mine if not key.endswith("per_s")}), file=sys.stderr
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--separate", type=int, default=500)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    with running_agent() as agent:
        found = {"benchmark": "jobs", "grid": ours(agent, options), "peers": {}}
    if not options.no_peers:
        found["peers"] = peers(options)
    show(found)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
