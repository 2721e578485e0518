"""A run of a mesh from beginning to end, and its report.

Lives here: one seed, its outcome, the command. Never here: rules (`checkers`, `acts`).
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from distributed_grid.sim.mesh.checkers import all_checkers
from distributed_grid.sim.mesh.moods import Mood, mood_of
from distributed_grid.sim.mesh.scenes import SCENES, played
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.sim.mesh.world import World

TRACE_LINES: Final = 60  # Of the end, where a violation is.


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a seed."""

    seed: int
    problem: str  # Empty: every rule held.
    trace: tuple[str, ...]
    seconds: int  # Of virtual time.
    nodes: int
    datagrams: int
    bytes_sent: int
    attempts: int  # Of strangers and forgers.

    @property
    def digest(self) -> str:
        """The same for the same story."""
        counted = f"{self.datagrams} {self.bytes_sent}"
        return hashlib.sha256("\n".join((*self.trace, counted)).encode()).hexdigest()[:16]


def outcome_of(seed: int) -> Outcome:
    """Run a seed to its end, or to the first rule that is broken."""
    world = World(mood_of(seed), all_checkers())
    problem = ""
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  (whatever the kernel raises is a finding)
        problem = f"{type(error).__name__}: {error}"
    network = world.network
    return Outcome(
        seed=seed,
        problem=problem,
        trace=tuple(world.trace),
        seconds=world.timeline.now_us // SECOND_US,
        nodes=world.mood.nodes,
        datagrams=network.datagrams,
        bytes_sent=network.datagram_bytes + network.message_bytes,
        attempts=world.faults.strangers.attempts,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what happened; 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="sim.mesh", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from --seed on")
    parser.add_argument("--scene", choices=sorted(SCENES), help="a script instead of a seed")
    parser.add_argument("--trace", action="store_true", help="print the whole story")
    options = parser.parse_args(arguments)
    if options.scene:
        problem, trace = played(options.scene)
        _say(*trace, f"scene {options.scene} FAILED: {problem}" if problem else "every rule held")
        return 1 if problem else 0
    bad = 0
    for seed in range(options.seed, options.seed + options.seeds):
        found = outcome_of(seed)
        shown = (
            found.trace if options.trace else found.trace[-TRACE_LINES if found.problem else -1 :]
        )
        if found.problem or options.trace:
            _say(_told(mood_of(seed)), *shown)
        _say(
            f"seed {seed}: {found.nodes} nodes, {found.seconds} seconds, "
            f"{found.datagrams} datagrams, {found.attempts} attacks, story {found.digest}"
        )
        if found.problem:
            bad += 1
            _say(
                f"seed {seed} FAILED: {found.problem}",
                f"again: python -m distributed_grid.sim.mesh --seed {seed} --trace",
            )
    return 1 if bad else 0


def _told(mood: Mood) -> str:
    """What is switched on."""
    plain = Mood(seed=0, nodes=0, pace="lan", span_us=0)
    facts = [
        f"{name}={getattr(mood, name)}"
        for name in mood.__struct_fields__
        if getattr(mood, name) != getattr(plain, name) or name == "pace"
    ]
    return "\n".join(facts)


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
