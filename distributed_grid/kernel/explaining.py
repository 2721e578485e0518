"""Why a job is where it is, and what would help.

Lives here: reasons, as data with numbers. Never here: words for a terminal (`cli`), what stands in
the way of one that waits in the line (`obstacles`).
"""

from typing import Any

from distributed_grid.kernel.admitting import places
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.jobs import STAYS_HERE, Job
from distributed_grid.kernel.obstacles import obstacle, survey_of
from distributed_grid.model.priority import NAMES
from distributed_grid.wire.api import Explanation

HOLDERS_SHOWN = 5
ASK_LESS = "ask for something that is here: grid nodes"
UNSENT = "send less with it: --ship PATH for what it needs, --ship none for nothing"
REMEDY = "or submit it again with --ship: a second machine keeps a copy from then on"

COPY = "its home does not answer now; what is known here is a copy of its record"
COPY_REMEDY = "wait: its home comes back, or another node takes it over"


def explain(coordinator: Coordinator, job: Job, now_ms: int) -> Explanation:
    """The explanation of one job."""
    if job.has_ended:
        return _plain(
            job, f"it has ended: {job.state}" + (f" ({job.reason})" if job.reason else "")
        )
    if job.spec.id not in coordinator.jobs:  # Its home knew more, and is asked first.
        return Explanation(summary=COPY, remedies=(COPY_REMEDY,), **_common(job))
    pending = _unfinished_before(coordinator, job)
    if pending:
        return _plain(job, "it comes after jobs that have not ended", waits_for=pending)
    place = _place(coordinator, job, now_ms)
    if place is not None:
        return _waiting(coordinator, job, place, now_ms)
    if job.live_attempts:
        return _plain(job, _how_it_runs(coordinator, job))
    if coordinator.elsewhere.is_waiting(job.spec.id):
        return _elsewhere(coordinator, job)
    if not coordinator.elsewhere.is_cleared(job.spec.id):
        return _uncleared(coordinator, job)
    pauses = job.progress.again.values() if job.progress else (job.again_ms,)
    if again_ms := min(pauses, default=0):
        left_s = max(-((now_ms - again_ms) // 1_000), 0)  # Those who are due wait for a tick.
        return _plain(job, f"it has failed, and tries again in {left_s} s")
    return _plain(job, "its time has not come yet", start_ms=_start_ms(coordinator, job))


def _elsewhere(coordinator: Coordinator, job: Job) -> Explanation:
    """It may not run here, and looks for room on other nodes."""
    said = coordinator.elsewhere.obstacles(job.spec.id)
    why = "it waits for room on another node"
    if not said and not coordinator.elsewhere.could_run(job.spec):
        if drained := coordinator.elsewhere.drained(job.spec):
            why += f": {', '.join(drained)} could run it, and is being drained"
            remedies = tuple(f"grid undrain {name}" for name in drained)
            return Explanation(summary=why, remedies=remedies, **_common(job))
        if dead := coordinator.elsewhere.dead(job.spec):
            why += f": {', '.join(dead)} could run it, and is dead"
            remedies = tuple(f"start {name}; there: grid up --detach" for name in dead)
            return Explanation(summary=why, remedies=(*remedies, ASK_LESS), **_common(job))
        why += f": none that is here now is as it wants it ({', '.join(places(job.spec))})"
        said = ("start one that it allows, or require less",)
    return Explanation(summary=why, remedies=said, **_common(job))


def _uncleared(coordinator: Coordinator, job: Job) -> Explanation:
    """Other nodes must say first that it is not under way elsewhere, or vote; or have its files."""
    lacks = coordinator.elsewhere.lacks(job)
    if lacks:
        return Explanation(summary=lacks, remedies=(REMEDY,), **_common(job))
    said = coordinator.elsewhere.obstacles(job.spec.id)
    why = "other nodes are asked first whether it may run"
    if said and job.spec.at_most_once:
        said = (*said, f"start them; only if they are off for good: grid job force {job.spec.name}")
    return Explanation(summary=why, remedies=said, **_common(job))


def _how_it_runs(coordinator: Coordinator, job: Job) -> str:
    leases = {attempt.lease for attempt in job.live_attempts}
    way = coordinator.giving_way
    for lease in sorted(leases):
        if lease in way.leaving:
            return f"it was told to give way to {way.leaving[lease]}, and will wait again"
        if lease in way.suspended:
            return f"it is suspended, the owner is back: {way.suspended[lease]}"
    for attempt in job.live_attempts:
        if attempt.suspended:
            return f"it is suspended on {attempt.node}, its owner is back: {attempt.suspended}"
    return "it runs" if job.state == "running" else "it is being started"


def _place(coordinator: Coordinator, job: Job, now_ms: int) -> tuple[int, Entry] | None:
    host = coordinator.host
    order = enumerate(host.line.order(now_ms, host.accounts), start=1)
    return next((place for place in order if place[1].job == job.spec.id), None)


def _waiting(
    coordinator: Coordinator, job: Job, place: tuple[int, Entry], now_ms: int
) -> Explanation:
    host, (position, entry) = coordinator.host, place
    why = obstacle(host, entry, now_ms, survey_of(host, now_ms))
    bound = next((line.detail for line in job.story if line.what == STAYS_HERE), "")
    holders = [
        other.spec.name
        for other in coordinator.jobs.values()
        if any(not one.host for one in other.live_attempts) and other.spec.id != job.spec.id
    ]
    return Explanation(
        summary=f"{why.summary}; it stays here: {bound}" if bound else why.summary,
        position=position,
        shortfall=why.missing,
        waits_for=tuple(holders[:HOLDERS_SHOWN]),
        remedies=(
            *(f"cancel one of them: grid cancel {name}" for name in holders[:1] if why.missing),
            *why.remedies,
            *([UNSENT] if bound else coordinator.elsewhere.obstacles(job.spec.id)),
        ),
        lifted=NAMES[host.line.lifted(entry, now_ms)],
        share_milli=host.accounts.share_milli(entry.user, entry.project or None),
        **_common(job),
    )


def _unfinished_before(coordinator: Coordinator, job: Job) -> tuple[str, ...]:
    known = coordinator.jobs
    return tuple(known[one].spec.name if one in known else one[:12] for one in job.after_left)


def _start_ms(coordinator: Coordinator, job: Job) -> int:
    booking = coordinator.host.booking(job.spec.booking)
    return max(job.spec.start_ms, booking.from_ms if booking else 0)


def _plain(
    job: Job, summary: str, waits_for: tuple[str, ...] = (), start_ms: int = 0
) -> Explanation:
    return Explanation(summary=summary, waits_for=waits_for, start_ms=start_ms, **_common(job))


def _common(job: Job) -> dict[str, Any]:
    spec = job.spec
    return {
        "id": spec.id,
        "state": job.state,
        "priority": spec.priority,
        "is_shared": spec.is_shared,
        "user": spec.user,
        "project": spec.project,
    }
