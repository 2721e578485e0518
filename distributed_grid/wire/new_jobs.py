"""Jobs as any program may write them over HTTP: with no more than the words of a command.

Lives here: what may be left out. Never here: what is taken instead (`web.new_jobs`); our own
clients send whole specifications (`wire.api.Submit`).
"""

from typing import Final

import msgspec

from distributed_grid.model.bounds import (
    Arguments,
    Environment,
    Milli,
    Most,
    Name,
    Path,
    Span,
)
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec, Work
from distributed_grid.model.milli import WHOLE
from distributed_grid.model.resources import Request

# Of an agent's own environment, what a job finds that was given none or comes from another node:
# enough to find programs.
PLAIN_ENV: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR",
)  # fmt: skip


class NewWork(Work, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run; without `cwd` it begins in an empty directory."""

    cwd: Path = ""


class NewRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it asks of one node; a core, unless it says how much of one, or 0."""

    cpu_milli: Milli = WHOLE


class NewJob(JobSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: `argv` and what belongs to it, or both within `work`."""

    id: JobId = JobId("")  # Empty: made here. Yours: again with the same job changes nothing.
    name: Name = ""  # Empty: that of the command.
    request: NewRequest = NewRequest()
    work: NewWork | None = None
    argv: Arguments = ()
    cwd: Path = ""
    env: Environment = msgspec.field(default_factory=dict)
    image: Path = ""
    timeout_ms: Span = 0
    grace_ms: Span = 10_000
    brings_changes: bool = True  # What it makes or changes of `cwd` elsewhere comes back.


class NewJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several jobs."""

    jobs: Most[NewJob]
