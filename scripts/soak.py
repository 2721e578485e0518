"""Many made-up clusters, as many at a time as there are cores.

    python -m scripts.soak --seed 0 --seeds 5000

Lives here: dealing seeds out to processes, and the sum. Never here: what a seed does
(`distributed_grid.sim.across`), which reads no clock and starts no process.
Invariant: what a process prints of a seed that failed is printed whole; one that does not come to
an end has failed.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SIMULATION = "distributed_grid.sim.across"
SEED_S = 60.0  # On average it takes a third of a second.


def main() -> int:
    """Run them; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="scripts.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--chunk", type=int, default=20, help="seeds of one process")
    options = parser.parse_args()
    first, last = options.seed, options.seed + options.seeds
    chunks = [range(at, min(at + options.chunk, last)) for at in range(first, last, options.chunk)]
    bad = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for seeds, (code, text) in zip(chunks, pool.map(_run, chunks), strict=True):
            bad += bool(code)
            sys.stdout.write(
                text if code else f"seeds {seeds[0]} to {seeds[-1]}: every rule held\n"
            )
            sys.stdout.flush()
    return 1 if bad else 0


def _run(seeds: range) -> tuple[int, str]:
    argv = [sys.executable, "-m", SIMULATION, "--seed", str(seeds[0]), "--seeds", str(len(seeds))]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=SEED_S * len(seeds)
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        return 1, f"{said}seeds {seeds[0]} to {seeds[-1]}: no end after {late.timeout:g} s\n"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
