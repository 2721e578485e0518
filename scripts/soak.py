"""Many made-up clusters, as many at a time as there are cores; then many worlds with liars.

    python -m scripts.soak --seed 0 --seeds 5000 --words 5000

Lives here: dealing seeds out to processes, and the sum. Never here: what a seed does
(`distributed_grid.sim.across`, `tests.words`), which starts no process.
Invariant: what a process prints of a seed that failed is printed whole; one that does not come to
an end has failed.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

SIMULATION = "distributed_grid.sim.across"
WORDS = "tests.words"
SEED_S = 60.0  # On average it takes a third of a second.


def main() -> int:
    """Run them; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="scripts.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--words", type=int, default=0, help="worlds with liars, after these")
    parser.add_argument("--chunk", type=int, default=20, help="seeds of one process")
    options = parser.parse_args()
    bad = 0
    for what, count in ((SIMULATION, options.seeds), (WORDS, options.words)):
        bad += deal(what, range(options.seed, options.seed + count), options.chunk)
    return 1 if bad else 0


def deal(what: str, seeds: range, size: int) -> int:
    """Run them all, so many in one process; how many processes found something."""
    chunks = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    bad = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for some, (code, text) in zip(chunks, pool.map(partial(_run, what), chunks), strict=True):
            bad += bool(code)
            sys.stdout.write(
                text if code else f"{what}, seeds {some[0]} to {some[-1]}: every rule held\n"
            )
            sys.stdout.flush()
    return bad


def _run(what: str, seeds: range) -> tuple[int, str]:
    argv = [sys.executable, "-m", what, "--seed", str(seeds[0]), "--seeds", str(len(seeds))]
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
