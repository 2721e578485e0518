"""What the end of an attempt means for its job, and how it is told in words.

Lives here: over, or once more; the reason that people read. Never here: doing it (`coordinator`),
the indices of arrays (`arrays`).
"""

from typing import Final, Literal

import msgspec

from distributed_grid.kernel.jobs import Job
from distributed_grid.wire.api import JobState
from distributed_grid.wire.keeper import Ended

TIMEOUT_CODE: Final = 124  # As `timeout` exits, and `grid run` after a deadline.

PAUSE_MS: Final = 1_000  # Before the second retry; the first comes at once,
PAUSE_MS_MAX: Final = 60_000  # and each later one after twice the pause, up to this.
_SIGNALLED: Final = 128  # A shell adds it to the number of the signal.

# The numbers are those of Linux and macOS alike; others are told as numbers.
SIGNALS: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
}


def in_words(report: Ended) -> str:
    """Why a process did not end well."""
    if report.how == "exited":
        return f"exit code {report.code}"
    if report.how == "signalled":
        return f"killed by {_signal(report.code - _SIGNALLED)} (exit {report.code})"
    return f"{report.how} (exit {report.code})"


def index_in_words(code: int, note: str) -> str:
    """The same of an index of an array, of which only its code is kept, and what was noted."""
    if note:
        return f"exit {code}: {note}"
    if code == TIMEOUT_CODE:
        return f"exit {code}: timeout"
    if code > _SIGNALLED:
        return f"exit {code}: {_signal(code - _SIGNALLED)}"
    return f"exit {code}"


def _signal(number: int) -> str:
    return SIGNALS.get(number, f"signal {number}")


class Over(msgspec.Struct, frozen=True):
    """The job has ended."""

    state: JobState
    exit_code: int | None = None  # None: as it was.
    reason: str = ""


class Again(msgspec.Struct, frozen=True):
    """It waits for another try."""

    reason: str = ""
    counts_as: Literal["failure", "loss", "preemption", "nothing"] = "nothing"
    pause_ms: int = 0  # It is not tried again before.


def outcome_of(job: Job, report: Ended) -> Over | Again:
    """What follows from the end of the one process of a job."""
    if report.how == "lost":
        return _loss(job, report.note)
    if report.how in ("stopped", "preempted") and job.is_cancelled:
        return Over("cancelled", None, "while it ran")
    if job.is_overdue and report.code != 0:
        return Over("failed", TIMEOUT_CODE, "its deadline passed")
    if report.how in ("stopped", "preempted"):  # Not by its owner, and not its fault.
        counts_as = "preemption" if report.how == "preempted" else "nothing"
        return Again(report.note or report.how, counts_as)  # type: ignore[arg-type]
    if report.code == 0:
        return Over("succeeded", 0)
    if job.failures < job.spec.retries and not job.is_stopping:
        pause_ms = pause_after(job.failures + 1, report.ended_ms - report.started_ms)
        later = f" in {pause_ms // 1_000} s" if pause_ms else ""
        return Again(f"exit {report.code}, retry {job.failures + 1}{later}", "failure", pause_ms)
    return Over("failed", report.code, report.note or in_words(report))


def pause_after(failures: int, ran_ms: int) -> int:
    """How long the next try waits: longer after each failure, unless the last one took long."""
    if failures <= 1 or ran_ms >= PAUSE_MS_MAX:
        return 0
    return min(PAUSE_MS << min(failures - 2, 16), PAUSE_MS_MAX)


def _loss(job: Job, why: str) -> Over | Again:
    if job.is_cancelled:
        return Over("cancelled", None, why)
    if job.is_overdue:
        return Over("failed", TIMEOUT_CODE, "its deadline passed")
    if job.losses + 1 > job.spec.losses_max:
        return Over("lost", None, why)
    return Again(f"lost: {why}", "loss")


def guest_outcome(report: Ended) -> Over:
    """Of an attempt that another node lets this one run: it is over, whatever happened."""
    if report.how == "lost":
        return Over("lost", None, report.note)
    if report.how in ("stopped", "preempted"):
        return Over("cancelled", None, report.note or report.how)
    if report.code == 0:
        return Over("succeeded", 0)
    return Over("failed", report.code, report.note or in_words(report))
