"""A round: a mesh is formed, people and a nemesis do what they do, all is healed and counted.

Lives here: the order of it, the liar's part, what is told of it. Never here: the checks themselves.
Invariant: whatever happens, no process, no network and no mount of it is left.
"""

import contextlib
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests import lies
from tests.liar import Liar
from tests.mesh_jobs import PLAIN
from tests.mesh_lab import Member, MeshLab, passed
from tests.nemesis.checker import (
    leftovers,
    mistakes,
    moved,
    overlaps,
    unfinished,
    views_of,
    wrong_jobs,
)
from tests.nemesis.faults import Ground, Nemesis
from tests.nemesis.history import History
from tests.nemesis.people import People, Promise

NAMES = ("n1", "n2", "n3", "n4", "n5")
LIAR = "liar"
SETTLED_S = 150.0  # From healing until every job has ended, everywhere.
# From then on until nothing is left; a guest that nobody looks after is ended after a minute.
LEFT_S = 80.0
# It lends nothing: what it ran itself it could lie about as it likes.
OF_LIAR = "pretend: {cpus: 1, memory: 1GiB}\nresource_sharing: {enabled: false}\n"


class Verdict(msgspec.Struct):
    """What came out of a round."""

    seed: int
    figures: dict[str, object]
    violations: list[str]
    history: list[str]


class Lying(threading.Thread):
    """The lying member, for as long as the round lasts."""

    def __init__(self, liar: Liar, people: People, lab: MeshLab, seed: int, history: History):
        super().__init__()
        self._liar, self._people, self._lab, self._history = liar, people, lab, history
        self._dice, self._over = random.Random(f"{seed} lies"), threading.Event()
        self.said = self.knowing = 0

    def run(self) -> None:
        while not self._over.wait(self._dice.uniform(0.1, 0.5)):
            with contextlib.suppress(OSError, AssertionError, msgspec.MsgspecError):
                self._lie()

    def _lie(self) -> None:
        liar, dice = self._liar, self._dice
        victims = self._lab.members[: len(NAMES)]
        victim, known = dice.choice(victims), self._people.promises[-60:]
        if not known:
            return
        job = dice.choice(known).id
        tag = str(self.said)
        messages = dice.choice(list(lies.absurd(liar.me, job, tag).values()))
        if dice.random() < 0.95:  # What cannot be read closes the link, for a while.
            record = liar.learn(victim, job, within_s=2)
            leases = list(record.attempts) if record is not None else []
            self.knowing += bool(leases)
            messages = [lie for lease in leases for lie in lies.forged(liar.me, job, lease, 1)]
            messages.append(lies.shut_out(liar.me, job))
            for one in dice.sample(victims, 2):
                self.said += liar.says(one, *messages, within_s=1)
        else:
            self.said += liar.says(victim, *messages, within_s=1)

    def end(self) -> None:
        self._over.set()
        self.join()


class Round(NamedTuple):
    """Who takes part."""

    lab: MeshLab
    people: People
    nemesis: Nemesis
    lying: Lying | None
    history: History

    @property
    def honest(self) -> list[Member]:
        return self.lab.members[: len(NAMES)]


def play(seed: int, seconds: float, *, with_liar: bool = True, pause_s: float = 1.0) -> Verdict:
    """One round; raises only if the machines themselves could not be had."""
    history = History()
    names = [*NAMES, LIAR] if with_liar else [*NAMES]
    with contextlib.ExitStack() as rest:
        directory = Path(rest.enter_context(tempfile.TemporaryDirectory(prefix="grid-nemesis-")))
        config = {name: OF_LIAR if name == LIAR else PLAIN for name in names}
        made = MeshLab.on_wire(names, config=config)
        ground = Ground(made, directory)
        rest.callback(ground.end)  # After the mesh is closed, and before its files are removed.
        lab = rest.enter_context(made)
        liar = Liar(lab[LIAR]) if with_liar else None
        ground.begin()
        lab.form(lab.members)
        people = People(lab.members[: len(NAMES)], directory, seed, history, pause_s)
        nemesis = Nemesis(lab, ground, seed, history)
        lying = Lying(liar, people, lab, seed, history) if liar else None
        with _together([people, nemesis, *([lying] if lying else [])]):
            passed(seconds)
        return _counted(seed, Round(lab, people, nemesis, lying, history))


@contextlib.contextmanager
def _together(parts: list[Any]) -> Iterator[None]:
    """All of them at once; who began ends."""
    with contextlib.ExitStack() as begun:
        for part in parts:
            part.start() if isinstance(part, threading.Thread) else part.begin()
            begun.callback(part.end)
        yield


def _counted(seed: int, played: Round) -> Verdict:
    _, people, nemesis, lying, history = played
    honest, violations = played.honest, []
    try:
        nemesis.heal()
    except AssertionError as error:
        violations.append(f"NOT HEALED: {error}")
    began_s = time.monotonic()
    waiting = _ended(people, honest)
    settled_s = time.monotonic() - began_s
    views = views_of(honest)
    bad = [*wrong_jobs(people.promises, views)]
    bad += overlaps(people.promises, people.runs, nemesis.paused)
    for promise, what in bad:
        violations.append("\n".join((what, *_story(promise, honest, people, history))))
    # Of jobs that are stuck something must be left.
    violations += [] if waiting else _left(honest)
    violations += mistakes(honest)
    kept = [promise for promise in people.promises if promise.is_kept]
    figures: dict[str, object] = {
        "faults": sum(nemesis.counts.values()),
        "jobs": len(people.promises),
        "kept": len(kept),
        "at most once": sum(promise.kind == "once" for promise in kept),
        "of these moved": moved(people.promises, people.runs),
        "lies": lying.said if lying else 0,
        "lies that knew": lying.knowing if lying else 0,
        "settled, s": round(settled_s, 1),
        "by kind": dict(sorted(nemesis.counts.items())),
    }
    return Verdict(seed, figures, violations, history.told(by="nemesis"))


def _ended(people: People, honest: list[Member]) -> list[Promise]:
    """Wait until every job has ended, everywhere; those that did not."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        for promise in people.promises:
            if promise.kind == "cancelled" and not promise.is_cancelled:
                people.cancel(honest[0], promise)
                promise.is_cancelled |= not promise.is_kept  # It may never have been a job.
        waiting = unfinished(people.promises, views_of(honest))
        if not waiting or time.monotonic() > deadline:
            return waiting
        passed(0.5)


def _left(honest: list[Member]) -> list[str]:
    deadline = time.monotonic() + LEFT_S
    while (left := list(leftovers(honest))) and time.monotonic() < deadline:
        passed(0.5)
    return left


def _story(
    promise: Promise, honest: list[Member], people: People, history: History
) -> Iterator[str]:
    """All that is known of a job: what it was, what its processes wrote, what each node tells."""
    yield f"  {promise}"
    file = people.runs / promise.tag
    yield from (f"  {line}" for line in (file.read_text() if file.exists() else "").splitlines())
    yield from (f"  {line}" for line in history.told(promise.id[:16]))
    for member in honest:
        for words in (("job", promise.id), ("explain", promise.id)):
            done = member(*words)
            yield f"  {member.name}: " + (done.stdout + done.stderr).replace("\n", "\n    ")
    for other in people.promises:
        if other.id == promise.after:
            yield from _story(other, honest, people, history)
