"""The real kernel of many nodes in virtual time: what a job costs, and what of the cores is used.

`python -m benchmarks.cluster_kernel` prints JSON. Jobs of unlike sizes and lengths come to all
nodes, half of them to a few; as many as all cores together can just do. The same jobs in the same
order go to a central scheduler that knows everything at once. Then equal users with unlike heaps of
work share the same nodes: Jain's index is 1 when all get the same.

Lives here: what is measured. Never here: the crowd (`cluster_crowd`), the jobs (`cluster_trace`).
"""

import argparse
import gc
import json
import random
import resource
import sys
from statistics import median
from time import process_time
from typing import Any, Final

from benchmarks.cluster_crowd import Crowd
from benchmarks.cluster_trace import Coming, Use, busy, central, cores_of, job_of, trace
from benchmarks.fairness import jain
from distributed_grid.model.ids import JobId

UTILISATION_GOAL: Final = 0.95
JAIN_GOAL: Final = 0.95
BEGIN_MS: Final = 3_000  # Everyone has looked around.
LATE_S: Final = 300  # After the last has come; what takes longer has got lost.
# Fairness: small nodes on which people sit, and large ones that do the work.
USERS: Final = ("ada", "ben", "cleo", "dina", "emil")
WORKER_CORES: Final = 8
JOB_CORES: Final = 2
JOB_MS: Final = (5_000, 15_000)
WINDOW_S: Final = 10 * (JOB_MS[0] + JOB_MS[1]) // 2 // 1_000  # Ten mean job lengths.


def measured(nodes: int, jobs: int, *, load: float, seed: int) -> dict[str, Any]:
    """One size."""
    coming = trace(nodes, jobs, load=load, seed=seed)
    last_ms = BEGIN_MS + coming[-1].at_ms
    shifted = [_later(one, BEGIN_MS) for one in coming]
    ideal = central(nodes, shifted)
    crowd = Crowd([cores_of(node) for node in range(nodes)], seed=seed)
    for one in shifted:
        crowd.submit(one)
    begin_s = process_time()
    crowd.run(lambda: crowd.left == 0, (last_ms // 1_000 + LATE_S) * 1_000_000)
    cpu_s = process_time() - begin_s
    for machine in crowd.machines:
        machine.node.check()
    window = (BEGIN_MS + coming[-1].at_ms // 5, last_ms)
    capacity = sum(cores_of(node) for node in range(nodes)) * (window[1] - window[0]) / 1_000
    ours, theirs = busy(crowd.used, *window), busy(ideal, *window)
    waited = sorted(crowd.waited_ms)
    return {
        "nodes": nodes,
        "jobs": jobs,
        "load": load,
        "virtual_s": round(crowd.now_us / 1e6),
        "cpu_s": round(cpu_s, 1),
        "jobs_per_cpu_s": round(jobs / cpu_s),
        "steps_per_job": round(crowd.steps / jobs, 1),
        "us_per_step": round(cpu_s / crowd.steps * 1e6),
        "messages_per_job": round(crowd.messages.total() / jobs, 1),
        "bytes_per_job": round(crowd.message_bytes.total() / jobs),
        "messages": {k: round(v / jobs, 2) for k, v in crowd.messages.most_common()},
        "bytes": {k: round(v / jobs) for k, v in crowd.message_bytes.most_common()},
        "processes_per_job": round(crowd.runs.total() / jobs, 4),
        "elsewhere": round(crowd.away / jobs, 3),
        "utilisation": {
            "grid": round(ours / capacity, 4),
            "central": round(theirs / capacity, 4),
            "ratio": round(ours / theirs, 4),
        },
        "all_done_s": {
            "grid": round(max(one.to_ms for one in crowd.used) / 1_000, 1),
            "central": round(max(one.to_ms for one in ideal) / 1_000, 1),
        },
        "waited_ms": {"p50": round(median(waited)), "p99": waited[len(waited) * 99 // 100]},
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000,
    }


def _later(one: Coming, by_ms: int) -> Coming:
    return Coming(
        at_ms=one.at_ms + by_ms,
        node=one.node,
        spec=one.spec,
        cores=one.cores,
        takes_ms=one.takes_ms,
    )


class Heaps:
    """Equal users, each at a node of its own, who always have work waiting; some far more."""

    def __init__(self, workers: int, seed: int) -> None:
        self._dice = random.Random(f"{seed}/heaps")
        # Too small for these jobs: all run on the same nodes.
        self.crowd = Crowd([WORKER_CORES] * workers + [1] * len(USERS), seed=seed)
        self._workers = workers
        self._owner: dict[JobId, int] = {}
        self._made = 0
        slots = workers * WORKER_CORES // JOB_CORES
        for number in range(len(USERS)):
            for _ in range(slots * (3 + 2 * number) // 5):  # From 0.6 to 2.2 times all there is.
                self._add(number)
        self.crowd.on_end = lambda job: self._add(self._owner.pop(job))

    def _add(self, user: int) -> None:
        self._made += 1
        spec = job_of(f"{USERS[user]}-{self._made}", self._dice, cores=JOB_CORES, user=USERS[user])
        self._owner[spec.id] = user
        self.crowd.submit(
            Coming(
                at_ms=BEGIN_MS,
                node=self._workers + user,
                spec=spec,
                cores=JOB_CORES,
                takes_ms=self._dice.randint(*JOB_MS),
            )
        )


def fairness(workers: int, windows: int, *, seed: int) -> dict[str, Any]:
    """Jain's index of each window of ten mean job lengths."""
    heaps = Heaps(workers, seed)
    begin_s, end_us = process_time(), (BEGIN_MS // 1_000 + WINDOW_S * windows) * 1_000_000
    heaps.crowd.run(lambda: heaps.crowd.now_us >= end_us, end_us + 1_000_000_000)
    used = heaps.crowd.used
    used += [  # What still runs.
        Use(
            began_us // 1_000, end_us // 1_000, JOB_CORES, row[0].attempt and _user(machine, row[0])
        )
        for machine in heaps.crowd.machines
        for row in machine.rows.values()
        if (began_us := machine.began_us.get(row[0].attempt)) is not None
    ]
    found, shares = [], []
    for number in range(windows):
        span = (BEGIN_MS + number * WINDOW_S * 1_000, BEGIN_MS + (number + 1) * WINDOW_S * 1_000)
        parts = [busy([one for one in used if one.user == user], *span) for user in USERS]
        found.append(round(jain(parts), 4))
        whole = workers * WORKER_CORES * WINDOW_S
        shares.append([round(part / whole, 3) for part in parts])
    return {
        "users": len(USERS),
        "workers": workers,
        "window_s": WINDOW_S,
        "jain_min": min(found),
        "jain": found,
        "shares": shares,
        "cpu_s": round(process_time() - begin_s, 1),
    }


def _user(machine: Any, run: Any) -> str:
    spec = machine.node.coordinator.jobs[run.job].spec
    return str(spec.user.partition("@")[0])


def main() -> None:
    """Some sizes, the fairness of one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 300, 1_000])
    parser.add_argument("--jobs-per-node", type=int, default=100)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=40, help="for fairness; 0: not measured")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    gc.disable()  # Hardly anything here is garbage, and there is much to look through.
    found: dict[str, Any] = {"goals": {"utilisation": UTILISATION_GOAL, "jain": JAIN_GOAL}}
    found["sizes"] = []
    for nodes in options.nodes:
        jobs = nodes * options.jobs_per_node
        one = measured(nodes, jobs, load=options.load, seed=options.seed)
        print(f"{nodes} nodes, {jobs} jobs: {one['cpu_s']} s of CPU", file=sys.stderr)
        found["sizes"].append(one)
        gc.collect()
    if len(found["sizes"]) > 1:
        first, last = found["sizes"][0], found["sizes"][-1]
        found["growth"] = {
            key: round(last[key] / first[key], 3)
            for key in ("messages_per_job", "bytes_per_job", "us_per_step")
        }
    if options.workers:
        found["fairness"] = fairness(options.workers, options.windows, seed=options.seed)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
