"""People: on every machine somebody submits jobs of all kinds, and knows how each has to end.

Lives here: the kinds of jobs, what their processes write down, who submits them. Never here: what
became of them (`checker`).
Invariant: a job is written down before it is submitted; it counts as promised once the agent said
so, and how it must end is known from its kind alone, whatever fails meanwhile.
"""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import specification
from distributed_grid.errors import GridError
from distributed_grid.model.job import After, JobSpec
from tests.mesh_lab import Member
from tests.nemesis.history import History

Kind = Literal["plain", "once", "array", "gang", "after", "cancelled"]
KINDS: tuple[Kind, ...] = ("plain", "plain", "once", "once", "array", "gang", "after", "cancelled")
ANSWER_S = 8.0
FAILS = 3  # The exit code of those that are to fail.
LONG_S = 900  # Of what is cancelled: longer than any round.
LOSSES = 100_000  # However often machines fail it.
# What a process writes down, each a line: that it began, each step of it, that it ended. The time
# is that of CLOCK_BOOTTIME, of which this file tells the hundredths.
SCRIPT = """\
say() { read up _ </proc/uptime; echo "$1 $$ $GRID_NODE $up" >>"$0"; }
say begin
step=0
while [ $step -lt $1 ]; do sleep 0.2; say step; step=$((step + 1)); done
say end
exit $2
"""


class Promise(msgspec.Struct):
    """A job, and how it has to end."""

    id: str
    kind: Kind
    tag: str
    home: str
    state: str
    code: int | None
    is_kept: bool = False  # The agent said that it is durable.
    is_cancelled: bool = False  # The agent said that it ends.
    word: str = ""  # What came instead.
    after: str = ""  # The job that it comes after.


class People:
    """Everybody together."""

    def __init__(
        self, members: list[Member], directory: Path, seed: int, history: History, pause_s: float
    ) -> None:
        self._members, self._history, self._pause_s = members, history, pause_s
        self.runs = directory / "runs"
        self.runs.mkdir()
        self._empty = directory / "empty"
        self._empty.mkdir()
        self.promises: list[Promise] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._live, args=(random.Random(f"{seed} {number}"), number))
            for number in range(3)
        ]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _live(self, dice: random.Random, number: int) -> None:
        made = 0
        while not self._over.wait(dice.uniform(0.2, 1.8) * self._pause_s):
            made += 1
            member, kind = dice.choice(self._members), dice.choice(KINDS)
            spec, promise = self._job(dice, kind, f"{number}-{made}", member)
            self.promises.append(promise)
            self._submit(member, spec, promise)
            if kind == "cancelled" and promise.is_kept:
                self._over.wait(dice.uniform(0, 2))
                self.cancel(member, promise)

    def _job(
        self, dice: random.Random, kind: Kind, tag: str, member: Member
    ) -> tuple[JobSpec, Promise]:
        code = FAILS if dice.random() < 0.2 else 0
        steps = dice.randrange(0, 12)
        wishes: dict[str, Any] = {"cpus": 0.2, "max_losses": LOSSES, "wait_for_capacity": True}
        after: tuple[After, ...] = ()
        state, ends = ("succeeded", 0) if code == 0 else ("failed", code)
        match kind:
            case "once":
                wishes["at_most_once"] = True
                steps += 5
            case "array":
                wishes["array"] = dice.randrange(2, 7)
                ends = min(code, 1)
            case "gang":
                wishes["gang"], code = 2, 0
                state, ends = "succeeded", 0
            case "cancelled":
                steps, code = LONG_S * 5, 0
                state, ends = "cancelled", None
            case "after":
                after, is_wanted = self._condition(dice)
                if not is_wanted:
                    state, ends = "skipped", None
        words = ["sh", "-c", SCRIPT, str(self.runs / tag), str(steps), str(code)]
        spec = specification(words, {"name": tag, "cwd": self._empty, **wishes}, after=after)
        waits_for = after[0].job if after else ""
        return spec, Promise(spec.id, kind, tag, member.name, state, ends, after=waits_for)

    def _condition(self, dice: random.Random) -> tuple[tuple[After, ...], bool]:
        """A job to come after, and whether what is wanted of it comes true."""
        known = [one for one in self.promises if one.is_kept and one.kind != "cancelled"]
        if not known:
            return (), True
        earlier = dice.choice(known[-40:])
        when = dice.choice(("any", "ok", "failed"))
        is_true = {"any": True, "ok": earlier.state == "succeeded",
                   "failed": earlier.state != "succeeded"}[when]  # fmt: skip
        return (After(job=earlier.id, when=when),), is_true

    def _submit(self, member: Member, spec: JobSpec, promise: Promise) -> None:
        try:
            self._asked(member, lambda agent: agent.run(calls.submit([spec])))
        except GridError as error:
            promise.word = f"{type(error).__name__}: {error.message}"
        else:
            promise.is_kept = True
        what = "kept" if promise.is_kept else promise.word
        self._history.add(member.name, f"{promise.kind} {promise.tag} {promise.id[:16]}: {what}")

    def cancel(self, member: Member, promise: Promise) -> None:
        try:
            self._asked(member, lambda agent: agent.run(calls.cancel(promise.id)))
        except GridError as error:
            what = f"{type(error).__name__}: {error.message}"
        else:
            promise.is_cancelled, what = True, "cancelled"
        self._history.add(member.name, f"cancel {promise.tag} {promise.id[:16]}: {what}")

    @staticmethod
    def _asked(member: Member, question: Callable[[Caller], Any]) -> Any:
        with Caller(str(member.home / "agent.sock"), answer_s=ANSWER_S) as agent:
            return question(agent)
