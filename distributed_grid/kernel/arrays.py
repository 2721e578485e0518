"""The indices of arrays: which are still to run, which go out together, what became of each.

Lives here: everything that is about an index. Never here: leases and the line (`coordinator`), how
large a chunk should be (`chunks`).
Invariant: the positions that are pending here are exactly those that the record calls pending,
but for those that pause after a failure.
"""

from collections import deque

from distributed_grid.errors import EXIT_GRID
from distributed_grid.kernel.chunks import chunk_size, smoothed_us
from distributed_grid.kernel.endings import TIMEOUT_CODE, pause_after
from distributed_grid.kernel.jobs import (
    CANCELLED,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Attempt,
    Job,
    Progress,
)
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Array
from distributed_grid.wire.api import JobState
from distributed_grid.wire.keeper import Ended


class Arrays:
    """The pending positions of every array, worked out from its record once."""

    def __init__(self) -> None:
        self._pending: dict[JobId, deque[int]] = {}

    def wants_more(self, job: Job) -> bool:
        """Whether another lease would be of use; never for a job that is no array."""
        if job.spec.array is None or not self._pending_of(job):
            return False
        return not job.spec.array.width or len(job.live_attempts) < job.spec.array.width

    def take_chunk(self, job: Job, *, slots: int) -> tuple[int, ...]:
        """The indices for the next lease; none for a job that is no array."""
        if job.spec.array is None:
            return ()
        progress, array = _parts(job)
        pending = self._pending_of(job)
        side_by_side = min(slots, array.width) if array.width else slots
        size = chunk_size(pending=len(pending), slots=side_by_side, mean_us=progress.mean_us)
        tries = progress.tries.get(pending[0], 0)
        positions: list[int] = []
        # One chunk is of one try: GRID_ATTEMPT is the same for all of it.
        while pending and len(positions) < size and progress.tries.get(pending[0], 0) == tries:
            positions.append(pending.popleft())
        for position in positions:
            progress.states[position] = RUNNING
        return tuple(array.indices[position] for position in positions)

    def tries_of(self, job: Job, indices: tuple[int, ...]) -> int:
        """How often the indices of a chunk have failed before."""
        progress, array = _parts(job)
        return progress.tries.get(array.indices.index(indices[0]), 0)

    def index_ended(self, job: Job, report: Ended, now_ms: int) -> None:
        """One process of an array is gone; failures are tried again per index."""
        progress, array = _parts(job)
        position = array.indices.index(report.index)
        # Lost, or stopped by nobody's wish: it goes back with the rest of its chunk.
        goes_back = report.how in ("lost", "preempted") or (
            report.how == "stopped" and not job.is_stopping
        )
        if goes_back or progress.states[position] != RUNNING:
            return
        took_us = max(1, (report.ended_ms - report.started_ms) * 1_000)
        progress.mean_us = smoothed_us(progress.mean_us, took_us)
        if report.code == 0:
            progress.states[position] = SUCCEEDED
        elif report.how == "stopped":
            progress.states[position] = CANCELLED
        elif not job.is_stopping and progress.tries.get(position, 0) < job.spec.retries:
            tries = progress.tries[position] = progress.tries.get(position, 0) + 1
            pending, progress.states[position] = self._pending_of(job), PENDING
            if pause_ms := pause_after(tries, took_us // 1_000):
                progress.again[position] = now_ms + pause_ms
            else:
                pending.append(position)
        else:
            progress.fail(position, report.code, report.note)

    def wake(self, job: Job, now_ms: int) -> int:
        """Those whose pause is over are pending again; answers when the next one's is, or 0."""
        if job.progress is None or not job.progress.again:
            return 0
        again, pending = job.progress.again, self._pending_of(job)
        for position in [at for at, due_ms in again.items() if due_ms <= now_ms]:
            del again[position]
            if job.progress.states[position] == PENDING:  # Else another home knew its end.
                pending.append(position)
        return min(again.values(), default=0)

    def chunk_ended(self, job: Job, attempt: Attempt, report: Ended) -> None:
        """A lease is over; what of its chunk has not run goes back, or is cancelled."""
        progress, array = _parts(job)
        positions = [array.indices.index(index) for index in attempt.indices]
        left = [position for position in positions if progress.states[position] == RUNNING]
        if report.how == "lost" and left:
            _count_loss(job, progress, left, report.note)
        pending = self._pending_of(job)
        for position in left:
            progress.states[position] = CANCELLED if job.is_stopping else PENDING
        if not job.is_stopping:
            pending.extendleft(reversed(left))

    def verdict(self, job: Job) -> tuple[JobState, int | None, str] | None:
        """State, exit code and reason of an array all of whose indices have ended; else None."""
        progress, _ = _parts(job)
        if not progress.is_done:
            return None
        if job.is_stopping and progress.count(CANCELLED):
            if job.is_cancelled:
                return "cancelled", None, "while it ran"
            return "failed", TIMEOUT_CODE, "its deadline passed"
        if failed := progress.count(FAILED):
            return "failed", 1, f"{failed} of {len(progress.states)} failed"
        if not (cancelled := progress.count(CANCELLED)):
            return "succeeded", 0, ""
        if cancelled == len(progress.states):
            return "cancelled", None, "every index was"
        return "succeeded", 0, f"{cancelled} of {len(progress.states)} were cancelled"

    def cancel(self, job: Job) -> None:
        """Nothing that is pending will run."""
        if job.progress is not None:
            job.progress.states = bytearray(
                CANCELLED if state == PENDING else state for state in job.progress.states
            )
            job.progress.again = {}
            self.forget(job.spec.id)

    def call_off(self, job: Job, index: int) -> bool:
        """This index is not to run, or to end; False: it has ended."""
        progress, array = _parts(job)
        position = array.indices.index(index)
        if progress.states[position] not in (PENDING, RUNNING):
            return False
        progress.states[position] = CANCELLED
        progress.again.pop(position, None)
        self.forget(job.spec.id)  # Worked out again from the record.
        return True

    def is_called_off(self, job: Job, attempt: Attempt) -> bool:
        """Whether a chunk has come to an index that is not to run: then it is stopped."""
        progress, array = _parts(job)
        left = attempt.indices[attempt.ended_indices :]
        return bool(left) and progress.states[array.indices.index(left[0])] == CANCELLED

    def forget(self, job: JobId) -> None:
        """The job has ended."""
        self._pending.pop(job, None)

    def _pending_of(self, job: Job) -> deque[int]:
        if job.spec.id not in self._pending:
            self._pending[job.spec.id] = _parts(job)[0].pending_positions()
        return self._pending[job.spec.id]


def _parts(job: Job) -> tuple[Progress, Array]:
    assert job.progress is not None, "only arrays have progress"
    assert job.spec.array is not None, "only arrays have indices"
    return job.progress, job.spec.array


def _count_loss(job: Job, progress: Progress, left: list[int], why: str) -> None:
    """Of a lost chunk one index was running, the first that had not ended: it counts a loss."""
    position = left[0]
    progress.losses[position] = progress.losses.get(position, 0) + 1
    job.losses += 1
    if progress.losses[position] > job.spec.losses_max and not job.is_stopping:
        progress.fail(position, EXIT_GRID, f"lost: {why}")
        left.remove(position)
