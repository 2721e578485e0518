"""A job from the words of a program to the moment it is durable: one call for both faces.

Lives here: what `submit` and `wait` mean. Never here: what single words mean (`specification`).
"""

from collections.abc import Iterable
from typing import Any

from distributed_grid.client import calls
from distributed_grid.client.calls import Call
from distributed_grid.client.specification import SHIPPING, Command, Wishes, specification
from distributed_grid.errors import BadValue
from distributed_grid.model import duration
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import ENDED


def submitted(
    command: Command, others: tuple[object, ...], after: Any, wishes: Wishes
) -> Call[JobSpec]:
    """Submit a job that comes after others: a handle, a view, a word, or several of them."""
    if others or callable(command):
        raise BadValue(
            command,
            expected="a command: one string, or one list of words",
            remedy="A function is for distributed_grid.Executor().submit, or for cluster.call",
            field="command",
        )
    waits_for = yield from calls.resolved([calls.job_word(job) for job in several(after)])
    spec = yield from with_files(specification(command, wishes, after=waits_for), wishes)
    yield from calls.submit([spec])
    return spec


def with_files(spec: JobSpec, wishes: Wishes) -> Call[JobSpec]:
    """The job, with the files that travel with it."""
    if SHIPPING.isdisjoint(wishes):
        return spec
    from distributed_grid.client.shipping import shipped  # Few jobs name any.

    return (yield from shipped(spec, wishes))


def several(jobs: Any) -> Iterable[Any]:
    """One job, or jobs, as jobs."""
    return (jobs,) if is_one(jobs) else jobs


def is_one(jobs: Any) -> bool:
    """Whether this names one job: a word, or anything with an id."""
    return isinstance(jobs, str) or hasattr(jobs, "id")


def waited(jobs: Any, timeout: float | str | None) -> Call[Any]:
    """A job, or a list of jobs, once they have ended; NotEnded if that takes too long."""
    timeout_ms = span_ms(timeout)
    if is_one(jobs):
        return (yield from calls.ended(calls.job_word(jobs), timeout_ms=timeout_ms))
    ids = []
    for job in jobs:  # All of them first, so that a wrong word is told now and not in an hour.
        known = (yield from calls.job(job)) if isinstance(job, str) else job
        ids.append(known.id)
    views = yield from calls.wait_many(ids, timeout_ms=timeout_ms)
    for view in views:
        if view.state not in ENDED:
            raise calls.NotEnded(view)
    return views


def span_ms(timeout: float | str | None) -> int | None:
    """How long to wait; None: for ever."""
    return None if timeout is None else duration.parse(timeout)
