"""A job goes on where an attempt of it left off, on any node: what is kept of its state, and when.

Lives here: whose state travels, which an attempt begins with, how that is told. Never here: packing
and fetching it (`agent`), asking a job to save it (`giving_way`).
Invariant: an attempt begins with the newest state of its job that can be had, by epoch and number
of whoever saved it; one that begins without any says so.
"""

from typing import Final

from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import is_checkpointable
from distributed_grid.model.across import HERE, Epoch, Saved
from distributed_grid.wire.keeper import HAVING_RUN, Ended

WHAT: Final = "its state"  # In the story.
OLDEST: Final = (Epoch(), 0)
ANEW: Final = "none was saved: it begins anew"


def travels(job: Job) -> bool:
    """Whether its state follows it; many processes of one job have no state that is one."""
    spec, origin = job.spec, job.spec.origin
    is_part = origin is not None and (origin.ranks > 1 or bool(origin.indices))
    return is_checkpointable(spec) and spec.array is None and spec.gang == 1 and not is_part


def is_kept(job: Job, end: Ended) -> bool:
    """Whether what it has saved when an attempt ends so is for another one."""
    if not travels(job) or job.has_ended or job.is_stopping:
        return False
    if end.how not in HAVING_RUN:
        return end.how in ("preempted", "lost")
    return end.code != 0 and (job.is_guest or job.failures < job.spec.retries)


def saved_by(job: Job) -> tuple[Saved, ...]:
    """The states of a job of this node, the newest first."""
    if not travels(job):
        return ()
    return tuple(map(_as_told, job.saved))


def to_restore(job: Job) -> tuple[Saved, ...]:
    """What an attempt on this node is to begin with, the newest first.

    If none of them can be had, or there is none: with what is in its directory here.
    """
    if not travels(job):
        return ()
    if job.spec.origin is not None:
        return job.spec.origin.saved
    ages = [(one.epoch, one.number) for one in job.attempts if _has_run(one) and one.host == HERE]
    last = max(ages, default=OLDEST)  # Its directory is as this one left it.
    return tuple(_as_told(one) for one in job.saved if (one.epoch, one.number) > last)


def begins(job: Job, attempt: Attempt, word: str, at_ms: int) -> None:
    """The process of an attempt runs: tell with which state, if that is not plain."""
    if attempt.state == "running":
        return  # Said before.
    attempt.resumed = word
    if word or _is_anew(job, attempt):
        job.tell(at_ms, WHAT, word or ANEW)


def _is_anew(job: Job, attempt: Attempt) -> bool:
    """Whether others ran before it, and nothing of what they may have saved is left."""
    before = [one for one in job.attempts if _has_run(one) and one is not attempt]
    if not before or job.is_guest or job.saved or not travels(job):
        return False
    return attempt.host != HERE or all(one.host != HERE for one in before)


def _as_told(attempt: Attempt) -> Saved:
    return Saved(manifest=attempt.saved, number=attempt.number, node=attempt.node)


def _has_run(attempt: Attempt) -> bool:
    return attempt.pid is not None
