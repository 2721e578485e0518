"""A keeper in a cluster: whose process it really is, deadlines of leases, a machine that sleeps.

Lives here: what happened, whatever agents believe. Never here: rows and reports (`sim.keeper`).
Invariant: a process that has a deadline is gone one look after it, agent or no agent.
"""

import random
from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.model.ids import JobId
from distributed_grid.sim.arrivals import Life
from distributed_grid.sim.keeper import Keeper as Single
from distributed_grid.sim.keeper import Process
from distributed_grid.wire.keeper import Deadline, Hello, Run, ToKeeper

LOOK_US: Final = 100_000  # A keeper looks at its deadlines so often.


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """A process, as nobody but the world knows it."""

    job: JobId  # As people call it, also of a guest.
    index: int  # Of an array; else -1.
    attempt: str
    rank: int = 0


class Keeper(Single):
    """One machine's keeper."""

    def __init__(
        self,
        rng: random.Random,
        lives: Callable[[JobId], Life],
        *,
        began: Callable[[Truth], None],
        codes: dict[tuple[JobId, int], list[int]],
    ) -> None:
        super().__init__(rng, self._life)
        self._true_lives = lives
        self._began = began
        self._codes = codes  # Of all machines: how processes ended by themselves.
        self._jobs: dict[JobId, JobId] = {}  # What a guest is called here -> what people call it.
        self._until_us: dict[str, int] = {}  # By attempt: its deadline, on the boot clock.
        self._boots = 0

    def _life(self, job: JobId) -> Life:
        return self._true_lives(self._jobs.get(job, job))

    def calls(self, guest: JobId, job: JobId) -> None:
        """A guest of this machine is really an attempt of that job."""
        self._jobs[guest] = job

    def truth(self, process: Process) -> Truth:
        """Whose process this is."""
        run = process.run
        rank = int(run.env.get("GRID_RANK") or 0)
        job = self._jobs.get(run.job, run.job)
        return Truth(job=job, index=process.indices[0], attempt=run.attempt, rank=rank)

    @property
    def truths(self) -> list[Truth]:
        """Everything that runs, or is suspended."""
        return [self.truth(process) for process in self.firsts]

    # Deadlines

    def hear(self, message: ToKeeper, now_ms: int) -> None:
        """Do as told."""
        if isinstance(message, Deadline):
            if message.attempt in self.attempts:
                before_us = self._until_us.get(message.attempt, 0)
                self._until_us[message.attempt] = max(before_us, message.until_boot_us)
            return
        if isinstance(message, Run) and message.until_boot_us:
            self._until_us[message.attempt] = message.until_boot_us
        super().hear(message, now_ms)

    def hello(self) -> Hello:
        """What a new agent hears first."""
        return msgspec.structs.replace(
            super().hello(),
            boot_id=f"boot-{self._boots}",
            deadlines={one: us for one, us in self._until_us.items() if one in self.attempts},
        )

    def die(self, now_ms: int) -> None:
        """The next keeper finds in the journal what this one had."""
        self._until_us.clear()
        super().die(now_ms)

    def power_off(self, now_ms: int) -> None:
        """The whole machine: another boot, and another clock of it."""
        self.die(now_ms)
        self._boots += 1

    def look(self, boot_us: int, now_ms: int) -> bool:
        """End whatever is over its deadline; whether something was."""
        over = [one for one, until_us in self._until_us.items() if until_us <= boot_us]
        found = False
        for attempt in over:
            del self._until_us[attempt]
            process = self.attempts.get(attempt)
            if process is None:
                continue
            found = True
            is_first = self.rows[process.run.lease][0] == attempt
            self._end(attempt, "lost" if is_first else "stopped", 125, now_ms, is_last=True)
        return found

    @property
    def has_deadlines(self) -> bool:
        """Whether it must look at the clock."""
        self._until_us = {one: us for one, us in self._until_us.items() if one in self.attempts}
        return bool(self._until_us)

    # What the world decides

    def slept(self, long_ms: int) -> None:
        """The machine was asleep: whatever ran there made no progress."""
        for process in self.attempts.values():
            if process.due_ms is not None:
                process.due_ms += long_ms
            if process.leaves_ms is not None:
                process.leaves_ms += long_ms

    def forget(self) -> None:
        """The disk is new: there is no journal of what was."""
        self.journal = []

    def _start(self, attempt: str, now_ms: int) -> None:
        super()._start(attempt, now_ms)
        self._began(self.truth(self.attempts[attempt]))

    def _code(self, process: Process) -> int:
        """Of one that ends by itself: the first ones in the whole cluster may fail."""
        truth = self.truth(process)
        codes = self._codes.setdefault((truth.job, truth.index), [])
        codes.append(int(len(codes) < self._true_lives(truth.job).fails_first))
        return codes[-1]
