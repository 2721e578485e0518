"""Reports on their way to an agent, until one acknowledges them.

Lives here: numbering, keeping, repeating, forgetting; what a dead keeper left to be told. Never
here: sockets (`agent_process`), file formats (`journal`).
Invariant: a report is in the journal or in memory until its number is acknowledged.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import msgspec

from distributed_grid.edges.runner.journal import (
    COMPACT_ABOVE_BYTES,
    Acknowledged,
    Begun,
    Journal,
    Opened,
)
from distributed_grid.edges.runner.turns import did_not_start
from distributed_grid.errors import EXIT_GRID
from distributed_grid.wire.frames import framed
from distributed_grid.wire.keeper import Ended, Run, Started, Usage

IN_MEMORY_MAX: Final = 100_000  # Some 30 MB; older ones are read from the journal when asked for.
MENDING_NS: Final = 1_000_000_000  # Between tries to write a journal that had no space.

_encode: Final = msgspec.msgpack.Encoder().encode


class Reports:
    """Everything that was not acknowledged, numbered upwards."""

    def __init__(
        self,
        journal: Journal,
        *,
        keeper_id: str,
        boot_id: str,
        groups: str = "",
        rescue: Callable[[str, tuple[str, ...]], str] = lambda _directory, _lent: "",
    ) -> None:
        """`rescue` brings home what a dead keeper's attempt wrote; why not, if that failed."""
        self._journal = journal
        self._rescue = rescue
        self._unacknowledged: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._running: dict[str, Begun] = {}
        self._acknowledged = 0
        self._next_number = 1
        self._mend_at_ns = 0
        self.is_urgent = False  # Somebody may be waiting for what is to be sent.
        self._fresh: deque[bytes] = deque()
        self._repeats: Iterator[bytes] = iter(())
        self._opened = Opened(keeper_id=keeper_id, boot_id=boot_id, next_number=1, groups=groups)
        self.predecessor: Opened | None = None
        self.leftover_scratch: list[str] = []
        self.leftover_containers: list[str] = []  # Attempts that ran in one.
        self._recover()

    def _recover(self) -> None:
        """Take over what an earlier keeper could not tell."""
        for record in self._journal.records():
            match record:
                case Opened():
                    self.predecessor = record
                    self._next_number = max(self._next_number, record.next_number)
                case Begun():
                    self._running[record.attempt] = record
                case Acknowledged(upto=upto):
                    self._forget(upto)
                case Started() | Ended():
                    self._next_number = max(self._next_number, record.number + 1)
                    self._keep(record.number, _encode(record))
                    if isinstance(record, Ended) and record.is_last:
                        self._running.pop(record.attempt, None)
        # Numbers that are in no record any more will not come again: nobody shall wait for them.
        oldest = self._unacknowledged[0][0] if self._unacknowledged else self._next_number
        self._acknowledged = oldest - 1
        self._tell_lost()
        self._fresh.clear()
        self._rewrite()

    def _tell_lost(self) -> None:
        """Whatever the earlier keeper ran has ended with it."""
        before = self.predecessor.boot_id if self.predecessor else self._opened.boot_id
        died = "the keeper died" if before == self._opened.boot_id else "the machine restarted"
        now_ms = time.time_ns() // 1_000_000
        for begun in list(self._running.values()):
            if begun.is_queued:
                # Not a loss: that would count against the job, and nothing was tried.
                self.add(did_not_start(begun.attempt, note=f"{died} before it started"))
                continue
            self.leftover_scratch.append(begun.scratch_dir)
            if begun.is_container:
                self.leftover_containers.append(begun.attempt)
            # Before the journal forgets whose the files are.
            problem = self._rescue(begun.output_dir, begun.lent)
            self.add(
                Ended(
                    number=0,
                    attempt=begun.attempt,
                    how="lost",
                    code=EXIT_GRID,
                    started_ms=begun.started_ms,
                    ended_ms=now_ms,
                    usage=Usage(),
                    note=f"{died}; its output is lost: {problem}" if problem else died,
                )
            )

    # --- From attempts ----------------------------------------------------------------------------

    def wait(self, run: Run) -> None:
        """An attempt has work left from now on, and waits for its turn."""
        self._begin(run, is_queued=True)

    def begin(self, run: Run, lent: tuple[str, ...] = ()) -> bool:
        """An attempt is about to start; whether the next keeper would know, and whose files.

        Written before it starts: the next keeper must not say of one that ran that it never did.
        """
        self._begin(run, lent=lent)
        self._journal.flush()
        if self._journal.trouble and lent:
            # An older record may still give these files to another attempt: it must not use them.
            self._begin(run)
        return not self._journal.trouble

    def _begin(self, run: Run, *, is_queued: bool = False, lent: tuple[str, ...] = ()) -> None:
        begun = Begun(
            attempt=run.attempt,
            scratch_dir=run.scratch_dir,
            started_ms=time.time_ns() // 1_000_000,
            is_container=bool(run.image),
            is_queued=is_queued,
            lent=lent,
            output_dir=run.output_dir if lent else "",
        )
        self._running[run.attempt] = begun
        self._journal.add(begun)

    def add(self, report: Started | Ended, *, is_urgent: bool = True) -> None:
        """Number a report and keep it. One that is not urgent may wait a moment for company."""
        if self._journal.trouble and isinstance(report, Ended):
            trouble = f"the keeper's journal could not be written: {self._journal.trouble}"
            note = f"{report.note}; {trouble}" if report.note else trouble
            report = msgspec.structs.replace(report, note=note)
        number = self._next_number
        self._next_number += 1
        body = _encode(msgspec.structs.replace(report, number=number))
        if isinstance(report, Started) or report.is_last:
            self.is_urgent = self.is_urgent or is_urgent
            if isinstance(report, Ended):
                self._running.pop(report.attempt, None)
        self._journal.add_encoded(body)
        self._keep(number, body)
        self._fresh.append(framed(body))
        if len(self._unacknowledged) > IN_MEMORY_MAX and not self._journal.trouble:
            self._kept_bytes -= len(self._unacknowledged.popleft()[1])

    @property
    def unacknowledged(self) -> int:
        """How many there are, in memory and in the journal."""
        return self._next_number - 1 - self._acknowledged

    # --- To an agent ------------------------------------------------------------------------------

    def acknowledge(self, upto: int) -> None:
        """An agent has these for good."""
        upto = min(upto, self._next_number - 1)
        if upto > self._acknowledged:
            self._forget(upto)
            self._journal.add(Acknowledged(upto=upto))

    def repeat(self) -> None:
        """A new agent: begin with the oldest that was not acknowledged."""
        self._journal.flush()
        kept = list(self._unacknowledged)
        oldest_kept = kept[0][0] if kept else self._next_number
        self._repeats = chain(self._from_journal(oldest_kept), (framed(body) for _, body in kept))
        self._fresh.clear()
        self.is_urgent = True

    def take(self, bytes_max: int) -> bytes:
        """The next frames to be sent, about as many bytes as asked for; empty if none wait."""
        frames: list[bytes] = []
        size = 0
        self.is_urgent = False
        while size < bytes_max:
            frame = next(self._repeats, None)
            if frame is None:
                if not self._fresh:
                    break
                frame = self._fresh.popleft()
            frames.append(frame)
            size += len(frame)
        return b"".join(frames)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something new to be sent."""
        return bool(self._fresh)

    def flush(self) -> None:
        """Write the journal; make it small again when little of it is still needed."""
        self._journal.flush()
        if self._is_spilled():
            return  # The file is the only copy of some.
        if self._journal.trouble:
            now_ns = time.monotonic_ns()
            if now_ns >= self._mend_at_ns:
                self._mend_at_ns = now_ns + MENDING_NS
                self._rewrite()
        elif self._journal.size > max(COMPACT_ABOVE_BYTES, 2 * self._kept_bytes):
            self._rewrite()  # Costs at most as much as writing did.

    def _is_spilled(self) -> bool:
        oldest = self._unacknowledged[0][0] if self._unacknowledged else self._next_number
        return oldest > self._acknowledged + 1

    def _rewrite(self) -> None:
        opened = msgspec.structs.replace(self._opened, next_number=self._next_number)
        self._journal.rewrite(
            [opened, Acknowledged(upto=self._acknowledged), *self._running.values()],
            [body for _, body in self._unacknowledged],
        )

    def _keep(self, number: int, body: bytes) -> None:
        self._unacknowledged.append((number, body))
        self._kept_bytes += len(body)

    def _forget(self, upto: int) -> None:
        self._acknowledged = max(self._acknowledged, upto)
        while self._unacknowledged and self._unacknowledged[0][0] <= upto:
            self._kept_bytes -= len(self._unacknowledged.popleft()[1])

    def _from_journal(self, before: int) -> Iterator[bytes]:
        if self._acknowledged + 1 >= before:
            return
        for record in self._journal.records():
            if isinstance(record, Started | Ended) and self._acknowledged < record.number < before:
                yield framed(_encode(record))
