"""More worlds of words: python -m tests.words --seed 0 --seeds 100."""

import argparse
import gc
import resource
import sys

from tests.words.talking import MESSAGES, broken

RSS_MIB_MAX = 400  # Of a process after any number of worlds.


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.words", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.seeds):
        if problem := broken(seed, options.messages):
            bad += 1
            print(problem, flush=True)
        gc.collect()  # What a broken world leaves behind is not told of the next one.
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{options.seeds} worlds of {options.messages} messages, {bad} broken, {peak_mib} MiB")
    return 1 if bad or peak_mib > RSS_MIB_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
