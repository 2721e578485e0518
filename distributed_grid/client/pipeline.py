"""Submissions that do not wait for each other's acknowledgement.

Lives here: what is on its way, what waits for it, what was refused. Never here: sockets and
reconnects (`blocking`), what a job is (`specification`).
Invariant: at most one request is under way; when the block is left without an error, every job that
was submitted in it is durable. Submitting again after a crash changes nothing: the id is ours.

A job that is submitted while an answer is awaited goes out with the others that were, in the next
request. So one submission alone is as quick as ever, and of many the agent makes one sync for each
request: the faster a program submits, the more of them share it.
"""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller, Line
from distributed_grid.client.exchange import Broken
from distributed_grid.client.specification import Command, Wishes, specification
from distributed_grid.client.submission import several, with_files
from distributed_grid.errors import GridError, NoAgent
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import Submit, Submitted

if TYPE_CHECKING:
    from distributed_grid.client.cluster import Job, JobHandle

TOGETHER_MAX: Final = 64  # In one request; an agent takes them in some ten milliseconds.


class Pipeline:
    """Made by `Cluster.pipeline`; belongs to one thread."""

    def __init__(self, caller: Caller, handle: "Callable[[JobSpec], JobHandle]") -> None:
        self._caller, self._handle = caller, handle
        self._line: Line | None = None  # On which an answer is awaited.
        self._asked: list[JobSpec] = []
        self._waiting: list[JobSpec] = []
        self._refused: list[GridError] = []

    def submit(
        self, command: Command, *, after: "Iterable[Job] | Job" = (), **wishes: Unpack[Wishes]
    ) -> "JobHandle":
        """As `Cluster.submit`, but durable, or refused, only when the block is left."""
        words = [calls.job_word(job) for job in several(after)]
        if words:
            self.settle()  # The agent must know them before it is asked for them.
        waits_for = self._caller.run(calls.resolved(words))
        spec = specification(command, wishes, after=waits_for)
        spec = self._caller.run(with_files(spec, wishes))
        self._waiting.append(spec)
        if self._line is not None:
            if len(self._waiting) < TOGETHER_MAX and self._line.is_silent:
                return self._handle(spec)
            self._hear()
        self._ask()
        return self._handle(spec)

    def settle(self) -> None:
        """Wait until everything that was submitted so far is durable, or refused."""
        while self._line is not None or self._waiting:
            if self._line is not None:
                self._hear()
            if self._waiting:
                self._ask()

    def _ask(self) -> None:
        self._asked, self._waiting = self._waiting, []
        request = calls.request_for("submit", body=Submit(jobs=tuple(self._asked)))
        try:
            self._line = self._caller.asked(request)
        except Broken:
            self._submit_again()

    def _hear(self) -> None:
        assert self._line is not None, "only after something was asked"
        line, self._line = self._line, None
        try:
            calls.decoded(self._caller.heard(line), Submitted)
        except Broken:
            self._submit_again()
        except NoAgent:
            raise
        except GridError as error:
            self._refuse(error)

    def _submit_again(self) -> None:
        """The agent went away: the same once more, as patiently as ever."""
        try:
            self._caller.run(calls.submit(self._asked))
        except NoAgent:
            raise
        except GridError as error:
            self._refuse(error)

    def _refuse(self, error: GridError) -> None:
        """One of those asked for is wrong, and none was taken: each alone tells which."""
        if len(self._asked) == 1:
            self._refused.append(error)
            return
        for spec in self._asked:
            try:
                self._caller.run(calls.submit([spec]))
            except NoAgent:
                raise
            except GridError as problem:
                self._refused.append(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Everything is sent, also after an error of the program. Raises the first refusal."""
        try:
            self.settle()
        except GridError as problem:
            self._refused.append(problem)
        finally:
            if self._line is not None:
                self._line.close()
        if not self._refused:
            return
        first, *others = self._refused
        if error is not None:
            error.add_note(f"{len(self._refused)} submissions were refused, the first: {first}")
            return
        if others:
            first.add_note(f"{len(others)} more submissions were refused")
        raise first
