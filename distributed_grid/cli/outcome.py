"""How a job ended, as an exit code and a sentence.

Lives here: the codes of `run` and `wait`, once. Nothing heavy is imported.
"""

from typing import Final

from distributed_grid.errors import EXIT_GRID, EXIT_USAGE, GridError
from distributed_grid.wire.api import ENDED, ArrayView, JobView

EXIT_NOT_IN_TIME: Final = 124


def exit_code(job: JobView) -> int:
    """The job's own code, as a shell would say it; 125 if it has none of its own."""
    if job.state == "succeeded":
        return 0
    if job.state == "failed" and job.exit_code is not None:
        return job.exit_code
    return EXIT_GRID if job.state in ENDED else EXIT_NOT_IN_TIME


def code_of(error: GridError) -> int:
    """Of `run` and `wait`, whose other codes are the job's: 2 for a wrong word, else 125."""
    return EXIT_USAGE if error.exit_code == EXIT_USAGE else EXIT_GRID


def reason(job: JobView) -> str | None:
    """Why it did not end well, if that was not its own doing; of an array always, what became."""
    if job.array is not None and job.state in ("succeeded", "failed"):
        return array_summary(job)
    if job.state == "succeeded":
        return None
    code = exit_code(job)
    if job.state == "failed" and code not in (124, EXIT_GRID, 126, 127) and code < 128:
        return None
    why = job.reason or f"it ended with {code}"
    return f"job {job.name} ({job.id[:12]}) {job.state}: {why}"


def too_late(job: JobView) -> str | None:
    """Of one that was to be cancelled: that only its outputs were under way, if so."""
    is_one = job.array is None and job.gang == 1  # Else others of it may still run, and stop.
    if job.state in ENDED or not is_one or not any(one.is_after_the_end for one in job.transits):
        return None
    ended = f"the process of job {job.name} ({job.id[:12]}) has already ended"
    return f"{ended}, and its outputs still come home: grid wait {job.id}"


def failures(array: ArrayView) -> list[tuple[int, str]]:
    """The first indices that failed, with why; an older home tells only their codes."""
    whys = array.reasons or [f"exit {code}" for _, code in array.failed_indices]
    return [(index, why) for (index, _), why in zip(array.failed_indices, whys, strict=False)]


def array_summary(job: JobView) -> str:
    """What became of an array, in a line."""
    assert job.array is not None
    array = job.array
    parts = [f"{array.succeeded} of {array.total} succeeded"]
    parts += [f"{array.failed} failed"] if array.failed else []
    parts += [f"{array.cancelled} cancelled"] if array.cancelled else []
    if array.failed_indices:
        first = ", ".join(f"{index} ({why})" for index, why in failures(array)[:5])
        parts.append(f"first failures: {first}")
    return f"array {job.name} ({job.id[:12]}): {', '.join(parts)}"
