"""Meshes that are not there: the real kernel at some sizes, the model beyond, hours of heavy loss.

Lives here: starting `mesh_kernel` and the model of heartbeats in processes of their own, and what
they say. Never here: what they do.
"""

import json
import re
import subprocess
import sys
from math import log
from pathlib import Path
from typing import Any

from benchmarks import mesh_model
from distributed_grid.agent.mesh import MANY_TICK_S
from distributed_grid.sim.mesh.convergence import Cohort

ROOT = Path(__file__).parents[1]
AT_ONCE = 4  # Processes, each with a seed and an equal part of the hours.
SPEAKERS = 10
TICK_MS = str(round(MANY_TICK_S * 1_000))  # As an agent ticks that has many neighbours.
SPEAKERS_ALIGNED = 100  # Who has anything to say; the others listen and pass it on.
_STORY = re.compile(r"dead (\d+), suspect (\d+), (\d+) datagrams")


def kernels(sizes: list[int], *, watch_s: float) -> list[dict[str, Any]]:
    """Each size, one after the other: they are compared by their memory."""
    found = []
    for nodes in sizes:
        argv = [sys.executable, "-m", "benchmarks.mesh_kernel", "--nodes", str(nodes)]
        argv += ["--speakers", str(SPEAKERS), "--watch", str(watch_s), "--tick-ms", TICK_MS]
        done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout))
    return found


def aligned(sizes: list[int]) -> list[dict[str, int]]:
    """Everybody's rounds at one moment, the slowest case: from nothing, and for one change."""
    found = []
    for nodes in sizes:
        cohort = Cohort(nodes, speakers=min(nodes, SPEAKERS_ALIGNED))
        formed, news = cohort.form(), cohort.spread()
        found.append({
            "nodes": nodes,
            "rounds_from_nothing": formed.rounds,
            "rounds": news.rounds,
            "bytes_from_nothing": formed.bytes_per_node,
            "bytes_for_news": news.bytes_per_node,
        })  # fmt: skip
    return found


def beyond(nodes: int, kernel: dict[str, Any]) -> dict[str, Any]:
    """The model, where the kernel was measured and where it was not."""
    same = mesh_model.modelled(kernel["nodes"], speakers=100)
    far = mesh_model.modelled(nodes, speakers=SPEAKERS)
    deviations = mesh_model.deviation(same, kernel)
    growth = nodes / kernel["nodes"]  # Of what is held: as many entries more.
    held_mb = (kernel["kernel_bytes"] + kernel["entry_bytes"]) * growth / 1e6
    return {
        **far,
        "memory_mb": round(held_mb, 1),
        "at_the_kernels_size": same,
        "deviation": deviations,
        "tolerance": mesh_model.TOLERANCE,
        "agrees": max(deviations.values()) <= mesh_model.TOLERANCE,
    }


def growth(kernels: list[dict[str, Any]]) -> dict[str, float]:
    """With which power of the nodes each figure grows, between the two largest sizes."""
    if len(kernels) == 1:
        return {}
    small, large = kernels[-2:]
    nodes = log(large["nodes"] / small["nodes"])
    pairs = zip(_growing(small).items(), _growing(large).values(), strict=True)
    return {name: round(log(there / here) / nodes, 2) for (name, here), there in pairs}


def _growing(kernel: dict[str, Any]) -> dict[str, float]:
    return {
        "rounds_from_nothing": kernel["rounds_from_nothing"],
        "rounds": kernel["rounds"]["mean"],
        "bytes_from_nothing": kernel["bytes_from_nothing"],
        "bytes_per_s": kernel["heartbeat_bytes_per_s"] + kernel["gossip_bytes_per_s"],
        "memory": kernel["kernel_bytes"] + kernel["entry_bytes"],
    }


def verdicts(*, nodes: int, hours: float, loss: float) -> dict[str, Any]:
    """Heartbeats of real kernels in virtual time, each lost by its own chance; nobody dies."""
    share = hours / AT_ONCE
    argv = [sys.executable, "-m", "tests.liveness_model", "--nodes", str(nodes), "--deaths", "0"]
    argv += ["--hours", str(share), "--loss", str(loss), "--tick-ms", TICK_MS]
    running = [
        subprocess.Popen([*argv, "--seed", str(seed)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for seed in range(AT_ONCE)
    ]
    totals = [0, 0, 0]
    for process in running:
        told, _ = process.communicate()
        assert process.returncode == 0, told
        numbers = _STORY.findall(told)[-1]  # They are sums from the start.
        totals = [sum(pair) for pair in zip(totals, map(int, numbers), strict=True)]
    return {
        "nodes": nodes,
        "hours": hours,
        "hours_of_each_seed": [share] * AT_ONCE,
        "tick_ms": int(TICK_MS),
        "loss": loss,
        "false_verdicts": totals[0],
        "suspicions": totals[1],
        "datagrams": totals[2],
    }
