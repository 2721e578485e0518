"""A run of the single-owner world: `python -m distributed_grid.sim.owner --seed 7`.

Lives here: one seed from beginning to end, and its report. Never here: rules (`checkers`).
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from distributed_grid.sim.checkers import all_checkers
from distributed_grid.sim.moods import Mood, mood_of
from distributed_grid.sim.world import START_MS, World

TRACE_LINES: Final = 60  # Of the end, where a violation is.


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a seed."""

    seed: int
    problem: str  # Empty: every rule held.
    trace: tuple[str, ...]
    minutes: int  # Of virtual time.
    ends: dict[str, int]  # Jobs by how they ended.

    @property
    def digest(self) -> str:
        """The same for the same story."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


def outcome_of(seed: int) -> Outcome:
    """Run a seed to its end, or to the first rule that is broken."""
    world = World(mood_of(seed), all_checkers())
    problem = ""
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  (whatever the kernel raises is a finding)
        problem = f"{type(error).__name__}: {error}"
    return Outcome(
        seed=seed,
        problem=problem,
        trace=tuple(world.trace),
        minutes=(world.now_ms - START_MS) // 60_000,
        ends=dict(sorted(Counter(world.store.states.values()).items())),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what happened; 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="sim.owner", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from --seed on")
    parser.add_argument("--trace", action="store_true", help="print the whole story")
    options = parser.parse_args(arguments)
    bad = 0
    for seed in range(options.seed, options.seed + options.seeds):
        found = outcome_of(seed)
        shown = (
            found.trace if options.trace else found.trace[-TRACE_LINES if found.problem else -1 :]
        )
        ends = ", ".join(f"{count} {state}" for state, count in found.ends.items())
        if found.problem or options.trace:
            _say(_told(mood_of(seed)), *shown)
        _say(f"seed {seed}: {found.minutes} minutes, {ends}, story {found.digest}")
        if found.problem:
            bad += 1
            _say(f"seed {seed} FAILED: {found.problem}")
    return 1 if bad else 0


def _told(mood: Mood) -> str:
    facts = [
        f"{name}={getattr(mood, name)}" for name in mood.__struct_fields__ if name != "machine"
    ]
    return f"machine={mood.machine.total}\n" + "\n".join(facts)


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
