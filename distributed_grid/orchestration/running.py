"""One job from submission to its output, for asyncio programs.

Lives here: waiting, cancelling with the task that waits, collecting output. Never here: words and
reasons (`client.borrowing`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from distributed_grid.client import borrowing, calls
from distributed_grid.client.awaiting import AsyncCaller
from distributed_grid.client.specification import Wishes
from distributed_grid.client.why_waiting import News
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.errors import GridError
from distributed_grid.model.job import JobSpec
from distributed_grid.orchestration.failures import JobFailed
from distributed_grid.wire.api import JobView


class Ran(NamedTuple):
    """A job that has ended, with what it wrote."""

    job: JobView
    stdout: str
    stderr: str

    @property
    def is_ok(self) -> bool:
        """Whether it ended well."""
        return self.job.state == "succeeded"

    def result(self) -> dict[str, Any]:
        """What the seed's programs get; raises JobFailed if it did not end well."""
        if not self.is_ok:
            raise JobFailed(self.job, stdout=self.stdout, stderr=self.stderr)
        return {
            "output": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.job.exit_code,
            "node": self.job.node,
            "node_id": self.job.node,
            "job_id": self.job.id,
            "name": self.job.name,
        }


async def borrow(
    caller: AsyncCaller, spec: JobSpec, *, kind: str, wanted: str, wait_ms: int, is_named: bool
) -> JobView:
    """Submit a job that borrows, and answer when it has begun; raises NoResources.

    Why it has not begun is logged.
    """
    async with cancelled_with_us(caller, spec):
        await caller.run(borrowing.submitted(spec, kind=kind, is_named=is_named))
        view = await caller.run(borrowing.begun(spec.id, wait_ms=wait_ms, news=News()))
        if view is None:
            raise await caller.run(
                borrowing.given_up(spec, kind=kind, wanted=wanted, waited_ms=wait_ms)
            )
        return view


async def ended(caller: AsyncCaller, spec: JobSpec) -> Ran:
    """A submitted job once it has ended, with its output."""
    async with cancelled_with_us(caller, spec):
        view = await caller.run(calls.wait(f"id:{spec.id}"))
    stdout = await caller.run(calls.logs(f"id:{spec.id}", stream="stdout"))
    stderr = await caller.run(calls.logs(f"id:{spec.id}", stream="stderr"))
    return Ran(view, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


@contextlib.asynccontextmanager
async def cancelled_with_us(caller: AsyncCaller, spec: JobSpec) -> AsyncIterator[None]:
    """A task that is cancelled takes its job with it."""
    try:
        yield
    except asyncio.CancelledError:
        with contextlib.suppress(GridError):
            await caller.run(calls.cancel(f"id:{spec.id}"))
        raise


def placed(node: str | None) -> Wishes:
    """On this node or nowhere; None: wherever it fits."""
    return Wishes() if node is None else Wishes(node=node)


def configured(config: ClusterConfig) -> Wishes:
    """What the `execution` section says of every job, as far as somebody set it."""
    execution = config.execution
    wishes = Wishes(env=execution.environment)
    if config.is_set("execution.timeout_seconds"):
        wishes["timeout"] = execution.timeout_seconds
    if config.is_set("execution.retry_attempts"):
        wishes["retries"] = execution.retry_attempts
    if config.is_set("execution.working_directory"):
        Path(execution.working_directory).mkdir(parents=True, exist_ok=True)
        wishes["cwd"] = execution.working_directory
    return wishes
