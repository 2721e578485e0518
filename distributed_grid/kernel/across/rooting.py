"""A job whose files are on one machine only: nobody else can run it, and that is said.

Lives here: what follows from where the files of a job are. Never here: looking at directories and
copying them (`agent`), who is home (`meeting`).
Invariant: what has files that only its first home has is started by that home alone, which packs
them first if it is to run elsewhere; at another home it waits, and says for whom.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec, Shipment

if TYPE_CHECKING:
    from distributed_grid.kernel.across.machine import Across

NOWHERE: Final = NodeId("")


def is_rootable(spec: JobSpec) -> bool:
    """Whether it runs in a directory of this machine, and nobody has said what of that it needs."""
    work = spec.work
    return work is not None and not work.is_abroad and not work.image and spec.ship is None


def is_stranded(job: Job, me: NodeId) -> bool:
    """Whether its files are only on another node than this one, which is its home now."""
    return job.rooted not in (NOWHERE, me) and not job.is_guest


def why_stranded(name: str) -> str:
    """What people are told of such a job, by the name of the node."""
    return f"its directory was only on {name}: it goes on when {name} is back"


def mark(across: "Across", jobs: frozenset[JobId], ready: Ready) -> None:
    """These were submitted just now, and have a directory here that nobody has packed."""
    for job_id in jobs & ready.save_jobs.keys():
        job = across.coordinator.jobs[job_id]
        if not job.epoch.node:  # Else it is said again.
            job.rooted = across.me


def know_files(
    across: "Across",
    jobs: tuple[JobId, ...],
    ship: Shipment | None,
    ready: Ready,
    *,
    are_only_here: bool,
) -> None:
    """What was packed for jobs of this node, and whether another machine has it too."""
    for job_id in jobs:
        job = across.coordinator.jobs.get(job_id)
        if job is None or job.is_guest or job.has_ended or is_stranded(job, across.me):
            continue
        rooted = across.me if are_only_here else NOWHERE
        is_news = ship is not None and job.spec.ship is None
        if is_news:
            job.spec = msgspec.structs.replace(job.spec, ship=ship)
        if is_news or rooted != job.rooted:
            job.rooted = rooted
            ready.save_jobs[job_id] = job  # Nobody waits for this: nobody is woken.


def complain(across: "Across", now_ms: int, ready: Ready) -> None:
    """Whoever looks at a job that waits for its first home is told so."""
    for job in list(ready.save_jobs.values()):
        if not is_stranded(job, across.me) or job.has_ended or job.live_attempts:
            continue
        word = across.lacks(job)
        if job.state == "waiting" and job.reason != word:
            job.reason = word
            job.tell(now_ms, "waits for its directory", word)
            ready.touch(job)


def give_up(across: "Across", now_ms: int, ready: Ready) -> None:
    """This node leaves the others: nobody will bring the files of such jobs any more."""
    coordinator = across.coordinator
    for job in list(coordinator.jobs.values()):
        if job.has_ended or job.is_guest or not job.rooted:
            continue
        if not is_stranded(job, across.me):
            job.rooted = NOWHERE  # Alone it is where its files are; in another mesh it is asked.
            ready.save_jobs[job.spec.id] = job
        elif not job.live_attempts and job.ending is None:
            why = f"its directory was only on {across.guarding.name_of(job.rooted)}"
            coordinator.end(job, "lost", now_ms, ready, why)
