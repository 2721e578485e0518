"""Whether a submission can be taken: all of it, or nothing.

Lives here: every reason to refuse a job at once. Never here: whether there is room now (`host`).
"""

from typing import Final

from distributed_grid.errors import (
    PLACE,
    BadValue,
    Conflict,
    NeverFits,
    NotFound,
    NotPermitted,
    Overloaded,
)
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import CONTAINERS, JobSpec
from distributed_grid.model.lending import Terms

QUEUE_MAX: Final = 100_000  # Unfinished jobs; an array of any length is one.


def admit_all(
    coordinator: Coordinator,
    specs: tuple[JobSpec, ...],
    now_ms: int,
    abroad: frozenset[JobId] = frozenset(),
) -> None:
    """Raise if one of these cannot be taken; those of one submission may need each other."""
    new = [spec for spec in specs if spec.id not in coordinator.jobs]
    if coordinator.unfinished + len(new) > QUEUE_MAX:
        raise Overloaded("unfinished jobs", most=QUEUE_MAX)
    known: dict[JobId, JobSpec] = {}
    for spec in specs:
        for after in spec.after:  # Only of what came before: so there are no circles.
            if not (after.job in coordinator.jobs or after.job in known or after.job in abroad):
                raise NotFound("job", after.job)
        if known.setdefault(spec.id, spec) != spec:
            raise Conflict("job", spec.id)
    for spec in new:
        _admit(coordinator, spec, now_ms)
    for spec in specs:
        if spec.id in coordinator.jobs and coordinator.jobs[spec.id].spec != spec:
            raise Conflict("job", spec.id)


def _admit(coordinator: Coordinator, spec: JobSpec, now_ms: int) -> None:
    host, elsewhere = coordinator.host, coordinator.elsewhere
    _permit(spec, host.lending.terms)
    _check_dates(spec, now_ms)
    _check_once(spec)
    if spec.booking and host.booking(spec.booking) is None:
        raise NotFound("booking", spec.booking)
    lacking = host.ledger.could_ever(spec.request)
    is_here = lacking is None and elsewhere.may_run_here(spec.lasting)
    if spec.wait_for_capacity or is_here:
        return
    if elsewhere.could_run(spec):  # Last: that is about a thousand nodes.
        return
    if elsewhere.drained(spec):  # It waits; the end of a drain is known here a moment later.
        return
    missing = [(PLACE + wish, 1, 0) for wish in places(spec)]
    if lacking is not None:
        missing = list(lacking.missing)
    raise NeverFits(spec.name, shortfall=missing, dead=elsewhere.dead(spec))


def places(spec: JobSpec) -> list[str]:
    """What it wants of its node, in words."""
    wanted, unwanted = spec.require, spec.avoid
    words = [f"node {name}" for name in wanted.nodes]
    words += [f"class {name}" for name in wanted.classes]
    words += [f"label {key}={value}" for key, value in wanted.labels]
    words += [f"not node {name}" for name in unwanted.nodes]
    words += ["podman or docker"] if CONTAINERS in spec.needs else []
    words += [f"a gang of {spec.gang}"] if spec.gang > 1 else []
    return words or ["its other wishes"]


def _permit(spec: JobSpec, terms: Terms) -> None:
    if not spec.is_shared:
        return  # The owner may do everything.
    if not terms.is_enabled:
        raise _forbidden("borrow here", "enabled")
    if spec.priority == "urgent" and not terms.allow_urgent:
        raise _forbidden("be urgent as a borrower", "allow_urgent")
    if spec.preempt.is_forbidden and not terms.allow_no_preempt:
        raise _forbidden("refuse to give way as a borrower", "allow_no_preempt")


def _forbidden(what: str, setting: str) -> NotPermitted:
    return NotPermitted(
        what,
        remedy=f"The owner can allow it: resource_sharing.{setting}: true in the configuration",
    )


def _check_once(spec: JobSpec) -> None:
    """Votes are about one process at a time: neither chunks nor ranks have rules for them."""
    if spec.at_most_once and (spec.array is not None or spec.gang > 1):
        raise BadValue(
            spec.name,
            expected="no array and no gang, as it is to run at most once",
            remedy="Submit its parts as jobs of their own, each with --at-most-once",
        )


def _check_dates(spec: JobSpec, now_ms: int) -> None:
    if spec.deadline_ms and spec.deadline_ms <= max(now_ms, spec.start_ms):
        raise BadValue(
            spec.deadline_ms,
            expected="a deadline that is still to come, and after the start",
            remedy="Give --deadline a later time",
        )
