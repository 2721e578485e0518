"""Jobs that a program wrote by hand: what was left out is filled in.

Lives here: defaults of `POST /v1/jobs`. Never here: which fields there are (`wire.new_jobs`), what
a job may ask for (`admission`).
"""

import os
import pwd
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath
from typing import Any

import msgspec

from distributed_grid.errors import BadValue, GridError
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec, Work
from distributed_grid.model.resources import Request
from distributed_grid.model.soundness import NAME_CHARACTERS_MAX
from distributed_grid.web.admission import refusals
from distributed_grid.web.mistakes import (
    SHOWN_MAX,
    Mistake,
    mistake,
    mistakes_of,
    refuse,
    refuse_parts,
    within,
)
from distributed_grid.wire.new_jobs import PLAIN_ENV, NewJob, NewJobs


def new_jobs(body: Any) -> tuple[JobSpec, ...]:
    """The jobs of a body, `{"jobs": […]}` or one job; raises BadValue with all its mistakes."""
    are_many = not isinstance(body, dict) or "jobs" in body
    wrong = list(islice(mistakes_of(body, NewJobs if are_many else NewJob), SHOWN_MAX))
    if wrong:
        is_all = len(wrong) < SHOWN_MAX
        refuse([*wrong, *(_of_the_rest(body, {one["path"] for one in wrong}) if is_all else ())])
    asked = msgspec.convert(body, NewJobs).jobs if are_many else (msgspec.convert(body, NewJob),)
    placed = [(f"jobs[{at}]." if are_many else "", job) for at, job in enumerate(asked)]
    refuse(
        mistake(f"{path}argv", "the words of a command, here or in work", job.argv or "nothing")
        for path, job in placed
        if bool(job.argv) == (job.work is not None)
    )
    refuse_parts((path, _refusals(job)) for path, job in placed)
    return tuple(map(_whole, asked))


def _of_the_rest(body: Any, wrong: set[str]) -> Iterator[Mistake]:
    """What is refused in those fields whose kind is right."""
    jobs = body.get("jobs", [body]) if isinstance(body, dict) else ()
    for at, job in enumerate(jobs if isinstance(jobs, list) else ()):
        path = f"jobs[{at}]." if "jobs" in body else ""
        fields = {re.split(r"\W", one.removeprefix(path))[0] for one in wrong if path in one}
        fields |= {"argv"} if "work" in fields else set()
        if isinstance(job, dict):
            known = set(NewJob.__struct_fields__) - fields
            kept = {name: value for name, value in job.items() if name in known}
            for error in _refusals(msgspec.convert(kept, NewJob)):
                found = within(path, error)
                if not fields & {found["path"].removeprefix(path)}:
                    yield found


def _refusals(job: NewJob) -> Iterator[GridError]:
    """What is refused, under the names that the job has."""
    for error in refusals(_whole(job)):
        if job.work is None and isinstance(error, BadValue):
            error.expected = error.expected.removeprefix("work.")
            error.field = error.field.removeprefix("work.")
        yield error


def _whole(job: NewJob) -> JobSpec:
    asked = job.work or job
    work = {name: getattr(asked, name) for name in Work.__struct_fields__ if hasattr(asked, name)}
    has_directory = bool(work["cwd"])
    if not has_directory:  # As a job from elsewhere: an empty directory, a plain environment.
        work |= {"cwd": "/", "is_abroad": True}
    elif not work["env"] and not work["image"]:
        work["env"] = {name: os.environ[name] for name in PLAIN_ENV if name in os.environ}
    if work.get("log") and asked.cwd:
        work["log"] = str(PurePath(asked.cwd, work["log"]))
    fields = {name: getattr(job, name) for name in JobSpec.__struct_fields__}
    first = "".join(filter(str.isprintable, PurePath(*asked.argv[:1]).name))
    fields |= {
        "id": job.id or JobId(os.urandom(32).hex()),
        "name": job.name or first[:NAME_CHARACTERS_MAX] or "job",
        "user": job.user or _user(),
        "request": Request(**msgspec.structs.asdict(job.request)),
        "work": Work(**work),
        "brings_changes": job.brings_changes and has_directory,
    }
    return JobSpec(**fields)


def _user() -> str:
    """Whose agent this is: nobody else can use its socket."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
