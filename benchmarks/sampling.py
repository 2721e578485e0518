"""What looking at the owner's machine costs, as a part of one core.

`python -m benchmarks.sampling` prints JSON. A sampler looks at this machine while some processes of
"Grid's own" wait below it; the processor time of the looks, by the clock of the process, is divided
by the time between two of them: 60 s (`check_interval`), 10 s (while something is lent), 1 s.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from distributed_grid.edges.probe.load import Sampler
from distributed_grid.edges.probe.machine import profile
from distributed_grid.kernel.lending import Lending
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.lending import GpuUse, Sample
from distributed_grid.model.resources import Resources

GOAL_PERCENT = 0.5
INTERVALS_S = (60, 10, 1)


def look_ms(looks: int, processes: int) -> list[float]:
    """Processor time of each look, in milliseconds."""
    waiting = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        for _ in range(processes)
    ]
    try:
        sampler = Sampler(profile(), own_pid=os.getpid(), work_path="/")
        found = []
        for number in range(looks):
            started = time.process_time()
            # An hour apart, so that the slow sensors are read each time.
            sample = sampler.sample(number * 3_600_000)
            found.append((time.process_time() - started) * 1_000)
            assert sample is not None
        sampler.close()
    finally:
        for process in waiting:
            process.communicate(b"\n")
    return found


def decide_us(looks: int) -> float:
    """What the kernel makes of a sample: median microseconds, with eight GPUs."""
    gpus = tuple(Gpu(device=f"gpu{n}", model="H100") for n in range(8))
    total = Resources(cpu_milli=64_000, memory_bytes=256 * GIB, gpus=gpus)
    lending = Lending(total)
    uses = tuple(
        GpuUse(device=gpu.device, utilization_milli=0, memory_free_bytes=0, memory_total_bytes=0)
        for gpu in gpus
    )
    found = []
    for number in range(looks):
        now_ms = number * 1_000
        started = time.perf_counter()
        lending.sampled(
            Sample(
                at_ms=now_ms,
                local_minute=number % 10_080,
                cpu_total_milli=64_000,
                cpu_used_milli=500,
                memory_total_bytes=256 * GIB,
                memory_used_bytes=GIB,
                storage_free_bytes=GIB,
                gpus=uses,
            ),
            now_ms,
        )
        lending.survey(total, Resources(), now_ms)
        lending.gives_way(now_ms)
        found.append((time.perf_counter() - started) * 1e6)
    return statistics.median(found)


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=200)
    parser.add_argument("--processes", type=int, default=20)
    arguments = parser.parse_args()
    looks = look_ms(arguments.looks, arguments.processes)
    mean_ms = statistics.fmean(looks)
    result = {
        "looks": arguments.looks,
        "own_processes": arguments.processes,
        "look_ms": {
            "mean": round(mean_ms, 3),
            "p50": round(statistics.median(looks), 3),
            "max": round(max(looks), 3),
        },
        "percent_of_a_core": {
            f"every {seconds} s": round(mean_ms / seconds / 10, 4) for seconds in INTERVALS_S
        },
        "decide_us": round(decide_us(arguments.looks), 1),
        "goal_percent": GOAL_PERCENT,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
