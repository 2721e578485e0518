"""Worlds of words: what is said in them by their seed, and the shortest list that breaks one.

Lives here: choosing acts, playing them, shrinking. Never here: what must hold (`stage`).
"""

import random
import time
import traceback
from collections import defaultdict, deque

import msgspec

from distributed_grid.kernel.across import record_parts
from distributed_grid.kernel.across.record_bytes import _Written as Record
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.job_lane import JobMessage, decode
from tests.words.drawing import ABSENT, Drawer, kind_of
from tests.words.stage import HONEST, ROLES, Stage, Watch, is_heard

MESSAGES = 400  # Of one world.
ACT_S = 3.0  # Of processor time: several steps follow from one act.
TO_END_MS = 240_000
SPOILT_MAX = 3  # Of ten jobs, by hundreds of words about all of them.
SHRINK_S = 20.0  # Of processor time: then what is left is shown.
# What is inside of the bytes of these fields.
INSIDE = {
    ("across.Copy", "record"): Record,
    ("across.Holding", "record"): Record,
    ("register.Written", "value"): Record,
    ("record_bytes._Written", "standing"): record_parts.Standing,
    ("record_bytes._Written", "spec"): JobSpec,
    ("record_bytes._Written", "attempts"): record_parts.AttemptNote,
    ("record_bytes._Written", "results"): record_parts.Result,
    ("record_bytes._Written", "concluded"): record_parts.Result,
}


def roles_of(seed: int) -> tuple[str, ...]:
    """Who is in a world: one liar of each role in turn, then all of them."""
    names = (*ROLES,)
    return (names[seed % 5],) if seed % 5 < len(names) else names


def overhears(seed: int) -> bool:
    """Whether the liars of a world know also what was said to others."""
    return seed % 2 == 1 or len(roles_of(seed)) > 1


class Talk:
    """One world, and who talks there."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.roles = roles_of(seed)
        self.rng = rng = random.Random(f"{seed}/words")
        self.stage = Stage(seed, self.roles)
        self.drawer = Drawer(rng)
        self.drawer.inside = INSIDE
        self.heard: dict[str, deque] = defaultdict(lambda: deque(maxlen=24))
        self.acts: list[tuple] = []
        self.said = 0
        self._submitted = 0
        for _, spec in self.stage.jobs.values():  # Their names are no secret.
            self.drawer.learn(kind_of(JobSpec), msgspec.to_builtins(spec))
        for node in (*self.stage.nodes, *self.stage.liars):
            self.drawer.known.setdefault("node", deque(maxlen=48)).append(node.me)

    def run(self, messages: int = MESSAGES) -> None:
        """All of it; what breaks is raised."""
        while self.said < messages:
            self._learn()
            act = self._act()
            self.acts.append(act)
            self.play(act)
        self.stage.settle()
        self.acts.append(("finish",))
        finish(self.stage, self.seed)

    def play(self, act: tuple) -> None:
        with Watch(ACT_S):
            self.stage.play(act)

    def _learn(self) -> None:
        stage = self.stage
        heard = stage.overheard if overhears(self.seed) else stage.ears
        for body in heard[-6:]:
            raw = msgspec.msgpack.decode(body)
            self.heard[raw["type"]].append(raw)
            self.drawer.learn(KINDS[raw["type"]], raw)
        stage.overheard, stage.ears = [], []

    def _act(self) -> tuple:
        rng = self.rng
        at = rng.random()
        if at < 0.80:
            return self._say()
        if at < 0.88:
            return ("settle",)
        if at < 0.95:
            return ("pass", rng.choice((20, 500, 500, 500, 500, 5_000, 31_000)))
        if at < 0.97:
            return ("end", rng.randrange(HONEST), rng.randrange(9), rng.choice((0, 0, 1)))
        if at < 0.98:
            return ("restart", rng.randrange(HONEST))
        if at < 0.99:
            return ("turn", rng.randrange(len(self.roles)), rng.random() < 0.7)
        if at < 0.995:
            self._submitted += 1
            return ("submit", rng.randrange(HONEST), self._submitted)
        return ("look",)

    def _say(self) -> tuple:
        rng = self.rng
        count = rng.choice((1, 1, 1, 2, 3, 8))
        self.said += count
        bodies = [self._message() for _ in range(count)]
        return ("say", rng.randrange(len(self.roles)), rng.randrange(HONEST), *bodies)

    def _message(self) -> bytes:
        rng, drawer = self.rng, self.drawer
        while True:
            tag = rng.choice(TAGS)
            known = self.heard[tag]
            like = rng.choice(known) if known and rng.random() < 0.7 else ABSENT
            drawer.wild = rng.choice((0.0, 0.05, 0.1, 0.3, 1.0))
            try:
                body = msgspec.msgpack.encode(drawer.draw(KINDS[tag], "", like))
            except OverflowError:
                continue
            if is_heard(body):
                return body


KINDS = {kind.tag: kind for kind in kind_of(JobMessage).types}
TAGS = (*KINDS,)


def finish(stage: Stage, seed: int) -> None:
    """The end of every world."""
    with Watch(20):
        stage.restart_all()
        stage.settle()
    # Members hold the records of others' jobs: one that lies can spoil those, as it could cancel
    # them.
    spoilt = 0 if set(roles_of(seed)) <= {"guest", "worker"} else SPOILT_MAX
    with Watch(60):
        stage.finish(TO_END_MS, all_of_them=not overhears(seed), spoilt=spoilt)


def broken(seed: int, messages: int = MESSAGES) -> str:
    """What goes wrong in a world, and how to see it again; empty: nothing."""
    talk = Talk(seed)
    try:
        talk.run(messages)
    except Exception as error:  # noqa: BLE001 - whatever it is: it is named with its seed.
        site = site_of(error)
        acts = shrunk(seed, talk.roles, talk.acts, site)
        return f"seed {seed}, {'+'.join(talk.roles)}: {site}\n{told(acts)}"
    return ""


def site_of(error: BaseException) -> str:
    """What was raised where, in the product."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/distributed_grid/" in one.filename] or frames
    where = " < ".join(
        f"{one.filename.rpartition('distributed_grid/')[2]}:{one.lineno} {one.name}"
        for one in ours[::-1][:4]
    )
    return f"{type(error).__name__}: {str(error)[:300]} at {where}"


def again(seed: int, roles: tuple[str, ...], acts: list[tuple]) -> str:
    """Play these acts; what was raised, without its words."""
    stage = Stage(seed, roles)
    try:
        for act in acts:
            if act[0] == "finish":
                finish(stage, seed)
            else:
                with Watch(ACT_S):
                    stage.play(act)
    except Exception as error:  # noqa: BLE001 - as above.
        return _kind(site_of(error))
    return ""


def _kind(site: str) -> str:
    return site.partition(":")[0] + site.partition(" at ")[2].partition(" < ")[0]


def shrunk(seed: int, roles: tuple[str, ...], acts: list[tuple], site: str) -> list[tuple]:
    """Fewer acts that come to the same."""
    wanted, until = _kind(site), time.process_time() + SHRINK_S
    size = max(1, len(acts) // 2)
    while size and time.process_time() < until:
        at = 0
        while at < len(acts) and time.process_time() < until:
            fewer = acts[:at] + acts[at + size :]
            if again(seed, roles, fewer) == wanted:
                acts = fewer
            else:
                at += size
        size //= 2
    return acts


def told(acts: list[tuple]) -> str:
    """As a person reads it."""
    lines = []
    for what, *more in acts:
        if what != "say":
            lines.append(f"  {what} {more}")
            continue
        liar, target, *bodies = more
        lines += [f"  say {liar} -> {target}: {str(decode(body))[:1_500]}" for body in bodies]
    return "\n".join(lines[-12:])
