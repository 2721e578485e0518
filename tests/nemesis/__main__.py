"""Rounds of the nemesis, one after the other; 1 if a promise was broken in one of them."""

import argparse
import sys

from tests.nemesis.trial import Verdict, play


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.nemesis", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="of each round, before healing")
    parser.add_argument("--rounds", type=int, default=1, help="with the seeds that follow")
    parser.add_argument("--pause", type=float, default=1, help="of people, between two jobs")
    parser.add_argument("--honest", action="store_true", help="without the lying member")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.rounds):
        verdict = play(seed, options.seconds, with_liar=not options.honest, pause_s=options.pause)
        told(verdict, options.seconds)
        bad += bool(verdict.violations)
    return 1 if bad else 0


def told(verdict: Verdict, seconds: float) -> None:
    """One line of figures; of a round that broke something all that helps to understand it."""
    words = ", ".join(f"{name}: {value}" for name, value in verdict.figures.items())
    print(f"seed {verdict.seed}, {seconds:g} s: {words}", flush=True)
    if not verdict.violations:
        return
    print("\n".join(verdict.history))
    print("\n\n".join(verdict.violations))
    print(f"seed {verdict.seed}: {len(verdict.violations)} violations; to repeat it: "
          f"make nemesis SEED={verdict.seed} SECONDS={seconds:g}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
