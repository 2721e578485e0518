"""A million spoilt messages, records, tickets, files and bodies, as many processes as cores.

    python -m scripts.fuzz --seed 0 --cases 1000000

Lives here: dealing cases out to processes, and the sum. Never here: the readers and how bytes are
spoilt (`tests.words.readers`, `tests.words.fuzzing`).
Invariant: a finding is printed with the seed that shows it again.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

CASES = 50_000  # Of one process, and of one seed.
PROCESS_S = 600.0  # On average it takes five seconds.


def main() -> int:
    """Run them; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="scripts.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1_000_000)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + max(1, options.cases // CASES))
    cases, bad = min(CASES, options.cases), 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for code, text in pool.map(lambda seed: _run(seed, cases), seeds):
            bad += bool(code)
            sys.stdout.write(text)
            sys.stdout.flush()
    return 1 if bad else 0


def _run(seed: int, cases: int) -> tuple[int, str]:
    argv = [sys.executable, "-m", "tests.words.fuzzing", "--seed", str(seed), "--cases", str(cases)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PROCESS_S)
    except subprocess.TimeoutExpired as late:
        return 1, f"seed {seed}: no end after {late.timeout:g} s\n"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
