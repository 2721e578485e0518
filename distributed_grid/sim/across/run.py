"""A run of a cluster from beginning to end, and its report.

Lives here: one seed, its outcome, the command. Never here: rules (`checkers`).
"""

import argparse
import contextlib
import gc
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from distributed_grid.sim.across.checkers import all_checkers
from distributed_grid.sim.across.moods import Mood, mood_of
from distributed_grid.sim.across.scenes import SCENES, played
from distributed_grid.sim.across.settling import first_state
from distributed_grid.sim.across.world import World
from distributed_grid.sim.mesh.timeline import SECOND_US

TRACE_LINES: Final = 60  # Of the end, where a violation is.


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a seed."""

    seed: int
    problem: str  # Empty: every rule held.
    trace: tuple[str, ...]
    seconds: int  # Of virtual time.
    nodes: int
    ends: dict[str, int]  # Jobs by how they ended.
    messages: int
    bytes_sent: int

    @property
    def digest(self) -> str:
        """The same for the same story."""
        counted = f"{self.messages} {self.bytes_sent}"
        return hashlib.sha256("\n".join((*self.trace, counted)).encode()).hexdigest()[:16]


def outcome_of(seed: int) -> Outcome:
    """Run a seed to its end, or to the first rule that is broken."""
    world = World(mood_of(seed), all_checkers())
    problem = ""
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  (whatever the kernel raises is a finding)
        problem = f"{type(error).__name__}: {error}"
    ends = Counter(first_state(world, job) or "unknown" for job in world.wishes)
    return Outcome(
        seed=seed,
        problem=problem,
        trace=tuple(world.trace),
        seconds=world.timeline.now_us // SECOND_US,
        nodes=world.mood.nodes,
        ends=dict(sorted(ends.items())),
        messages=world.network.sent.total(),
        bytes_sent=world.network.sent_bytes,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what happened; 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="sim.across", description=__doc__)
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
    with _collecting_seldom():
        for found in map(outcome_of, range(options.seed, options.seed + options.seeds)):
            _report(found, is_whole=options.trace)
            bad += bool(found.problem)
            gc.collect()
    return 1 if bad else 0


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """A world is garbage when it is over: to look for some all the time takes a sixth of it."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _report(found: Outcome, *, is_whole: bool) -> None:
    seed = found.seed
    if found.problem or is_whole:
        _say(_told(mood_of(seed)), *(found.trace if is_whole else found.trace[-TRACE_LINES:]))
    ends = ", ".join(f"{count} {state}" for state, count in found.ends.items())
    _say(
        f"seed {seed}: {found.nodes} nodes, {found.seconds} seconds, {ends}, "
        f"{found.messages} messages, story {found.digest}"
    )
    if found.problem:
        _say(
            f"seed {seed} FAILED: {found.problem}",
            f"again: python -m distributed_grid.sim.across --seed {seed} --trace",
        )


def _told(mood: Mood) -> str:
    """What is switched on."""
    plain = Mood(seed=0, nodes=0, span_us=0, jobs=0)
    facts = [
        f"{name}={getattr(mood, name)}"
        for name in mood.__struct_fields__
        if getattr(mood, name) != getattr(plain, name)
    ]
    return "\n".join(facts)


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
