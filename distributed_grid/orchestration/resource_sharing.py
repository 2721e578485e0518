"""`ResourceSharingManager`: offers, requests and allocations for Python programs (seed 003).

Lives here: the manager, and the seed's names. Never here: what is lent and why (`kernel.lending`),
a single node (`worker_protocol`).
Invariant: an allocation is a job that holds its devices; the agent counts nothing else.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from distributed_grid.client import across_calls, borrowing, calls
from distributed_grid.client.awaiting import AsyncCaller
from distributed_grid.client.specification import Wishes, specification
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.errors import BadValue, GridError, NotFound
from distributed_grid.model.job import JobSpec
from distributed_grid.orchestration import running
from distributed_grid.orchestration.beside import AgentBeside
from distributed_grid.orchestration.entities import (
    ResourceAllocation,
    ResourceOffer,
    ResourceRequest,
    ResourceType,
    type_named,
)
from distributed_grid.orchestration.failures import NoResources, NotInitialized
from distributed_grid.orchestration.worker_protocol import ResourceSharingProtocol

__all__ = [
    "ResourceAllocation",
    "ResourceOffer",
    "ResourceRequest",
    "ResourceSharingManager",
    "ResourceSharingProtocol",
    "ResourceType",
]

# Waits for a script in a directory of ours, and runs it. It ends when whoever holds it has died.
_HOLD: Final = (
    'while [ ! -e "$1/go" ]; do kill -0 "$2" 2>/dev/null || exit 75; sleep 0.05; done; '
    'exec /bin/sh "$1/script"'
)


class _Held(NamedTuple):
    """Something that a request got and nobody has used yet."""

    spec: JobSpec
    folder: Path


class ResourceSharingManager:
    """Knows what is offered, takes some of it, and gives it back."""

    def __init__(
        self,
        config: ClusterConfig | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.config = config or ClusterConfig()
        self._data_dir = data_dir
        self._agent: AgentBeside | None = None
        self._held: dict[str, _Held] = {}

    async def start(self) -> None:
        """Find the agent of this machine, or start one."""
        if self._agent is None:
            agent = AgentBeside(self.config, self._data_dir)
            await agent.open()
            self._agent = agent

    async def stop(self) -> None:
        """Release what is held, and hang up; ends the agent if `start` started it."""
        if self._agent is None:
            return
        for request_id in list(self._held):
            await self.release_resources(request_id)
        agent, self._agent = self._agent, None
        await agent.close()

    async def get_resource_offers(
        self, resource_type: ResourceType | str | None = None
    ) -> list[ResourceOffer]:
        """What is offered now on all nodes of the mesh, of one type or of all."""
        everyone = await self._caller().run(across_calls.sharing_everywhere())
        found = [
            ResourceOffer.of(offer, status.node)
            for status in everyone.nodes
            for offer in status.offers
        ]
        wanted = None if resource_type is None else type_named(resource_type)
        return [offer for offer in found if wanted in (None, offer.resource_type)]

    async def get_active_allocations(self) -> list[ResourceAllocation]:
        """What is borrowed now, by anyone on any node; one for each kind of each job."""
        everyone = await self._caller().run(across_calls.sharing_everywhere())
        return [
            ResourceAllocation.of(one, status.node)
            for status in everyone.nodes
            for one in status.allocations
        ]

    async def request_resources(self, request: ResourceRequest) -> ResourceAllocation:
        """Take what a request asks for, and hold it; waits `max_wait_time`, then NoResources.

        On this machine: what is held waits for a script in one of its directories. On another run
        it at once, with `execute_on_shared_resources`.
        """
        caller = self._caller()
        if request.request_id in self._held:
            raise BadValue(
                request.request_id, expected="a request that holds nothing yet", remedy="Release it"
            )
        folder = Path(tempfile.mkdtemp(prefix="grid-hold-"))
        argv = ["/bin/sh", "-c", _HOLD, "hold", str(folder), str(os.getpid())]
        here = (await caller.run(calls.status())).name
        spec = self._spec(argv, request, name=request.request_id, node=here)
        try:
            await self._borrow(caller, spec, request)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._held[request.request_id] = _Held(spec, folder)
        for allocation in await self.get_active_allocations():
            if allocation.job_id == spec.id:
                return allocation
        raise NoResources(str(request.resource_type), reasons=[("it", "was lost")], waited_ms=0)

    async def release_resources(self, request_id: str) -> None:
        """Give back what a request holds; all of it is free when this returns."""
        held = self._held.pop(request_id, None)
        if held is None:
            raise NotFound("request", request_id)
        caller = self._caller()
        await caller.run(calls.cancel(f"id:{held.spec.id}"))
        await caller.run(calls.wait(f"id:{held.spec.id}"))
        shutil.rmtree(held.folder, ignore_errors=True)

    async def execute_on_shared_resources(
        self, request: ResourceRequest, script: str
    ) -> tuple[bool, str]:
        """Run a script on what a request holds, or asks for: whether it ended well, and its output.

        Whatever it held is given back when the script has ended.
        """
        caller = self._caller()
        held = self._held.pop(request.request_id, None)
        try:
            if held is None:
                spec = self._spec(script, request, name=request.job_id or request.request_id)
                await self._borrow(caller, spec, request)
            else:
                spec = held.spec
                (held.folder / "script").write_text(script, encoding="utf-8")
                (held.folder / "go").touch()
            ran = await running.ended(caller, spec)
        except GridError as error:
            return False, str(error)
        finally:
            if held is not None:
                shutil.rmtree(held.folder, ignore_errors=True)
        return (True, ran.stdout) if ran.is_ok else (False, ran.stderr or ran.job.reason)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _borrow(self, caller: AsyncCaller, spec: JobSpec, request: ResourceRequest) -> None:
        kind = borrowing.kind_of(request.resource_type)
        await running.borrow(
            caller,
            spec,
            kind=kind,
            wanted=borrowing.wanted_text(kind, request.amount),
            wait_ms=borrowing.wait_ms_of(request.max_wait_time),
            is_named=True,
        )

    def _spec(
        self,
        command: str | Sequence[str],
        request: ResourceRequest,
        *,
        name: str,
        node: str | None = None,
    ) -> JobSpec:
        told: Wishes = {
            **running.placed(node),
            **running.configured(self.config),
            **borrowing.loan(borrowing.kind_of(request.resource_type), request.amount),
            "name": name,
            "priority": request.priority,
            "shared": True,
            "preferred_nodes": request.preferred_nodes,
        }
        return specification(command, told)

    def _caller(self) -> AsyncCaller:
        if self._agent is None:
            raise NotInitialized("the manager", begin="manager.start()")
        return self._agent.caller
