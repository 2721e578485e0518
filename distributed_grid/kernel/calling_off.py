"""Ending one index of an array, while the others go on.

Lives here: what follows for the line and for what runs. Never here: the indices (`arrays`), ending
a whole job (`coordinator`).
Invariant: a chunk is stopped only when it has come to such an index; what of it has not run goes
back into the line.
"""

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready


def call_off(coordinator: Coordinator, job: Job, index: int, now_ms: int, ready: Ready) -> None:
    """This index is not to run, or to end; one that has ended stays as it is."""
    if job.has_ended or not coordinator.arrays.call_off(job, index):
        return
    job.tell(now_ms, "cancel asked", f"index {index}")
    ready.touch(job)
    if not coordinator.arrays.wants_more(job):
        coordinator.wait_no_more(job.spec.id)
    for attempt in job.live_attempts:
        if coordinator.arrays.is_called_off(job, attempt):
            coordinator.halt(job, attempt, ready)
    coordinator.go_on(job, now_ms, ready)
