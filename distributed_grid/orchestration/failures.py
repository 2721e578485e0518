"""What can go wrong for a program that orchestrates; each is a RuntimeError too, as in seed 003.

Lives here: the errors of this face alone. Never here: those of the agent (`errors`).
"""

from typing import Final

from distributed_grid.client.borrowing import NoResources, not_joined
from distributed_grid.errors import GridError, shown
from distributed_grid.wire.api import JobView

__all__ = ["JobFailed", "NoResources", "NotInitialized", "NotJoined", "NotStarted"]

STDERR_CHARACTERS_MAX: Final = 4_000  # Of the message; the field has all of it.


class NotInitialized(GridError, RuntimeError):
    """A call before `initialize`, or after `shutdown`."""

    def __init__(self, who: str, *, begin: str) -> None:
        self.who = who
        super().__init__(f"{who} is not initialized", remedy=f"Call first: await {begin}")


class JobFailed(GridError, RuntimeError):
    """A job did not end well; what it wrote to stderr is in the message."""

    def __init__(self, job: JobView, *, stdout: str, stderr: str) -> None:
        self.job, self.stdout, self.stderr = job, stdout, stderr
        self.job_exit_code = job.exit_code
        how = f"with exit code {job.exit_code}" if job.exit_code is not None else job.reason
        said = stderr.strip()[-STDERR_CHARACTERS_MAX:]
        super().__init__(
            f"job {shown(job.name)} {job.state} on {job.node or 'no node'} {how}: {said}",
            remedy=f"See what happened: grid job {job.id[:12]}",
        )


class NotJoined(GridError, RuntimeError):
    """A machine that only the configuration knows."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"{shown(node)} is {not_joined(node)}", remedy="Or leave it out")


class NotStarted(GridError, RuntimeError):
    """No agent runs here, and none could be started."""

    exit_code = 4

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"no agent could be started: {why}", remedy="Start one by hand with: grid up"
        )
