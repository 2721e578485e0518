"""`GridOrchestrator`: the programme of seed 003, as it is printed there.

Lives here: the seed's calls over the agent of this machine. Never here: deciding anything.

    orchestrator = GridOrchestrator(ClusterConfig.from_yaml("config/cluster_config.yaml"))
    await orchestrator.initialize()
    result = await orchestrator.run_with_shared_resources("python train.py", ResourceType.GPU, 1)
    await orchestrator.shutdown()
"""

import asyncio
import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from distributed_grid.client import borrowing, calls, sharing_calls
from distributed_grid.client.awaiting import AsyncCaller
from distributed_grid.client.specification import Wishes, specification
from distributed_grid.client.status_dicts import cluster_status, shared_status
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.orchestration import running
from distributed_grid.orchestration.beside import AgentBeside
from distributed_grid.orchestration.failures import NoResources, NotInitialized
from distributed_grid.orchestration.resource_sharing import ResourceType

__all__ = ["GridOrchestrator", "Status"]


class Status(dict[str, Any]):
    """The status of a cluster: a dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class GridOrchestrator:
    """Runs commands on this machine and on what its owner lends; any number of tasks at once.

    Without an agent on this machine, `initialize` starts one and `shutdown` ends it.
    """

    def __init__(
        self,
        config: ClusterConfig | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.config = config or ClusterConfig()
        self._data_dir = data_dir
        self._agent: AgentBeside | None = None
        self._opening = asyncio.Lock()

    @property
    def is_initialized(self) -> bool:
        """Whether calls are answered."""
        return self._agent is not None

    async def initialize(self) -> None:
        """Find the agent of this machine, or start one; doing it twice changes nothing."""
        async with self._opening:
            if self._agent is None:
                agent = AgentBeside(self.config, self._data_dir)
                await agent.open()
                self._agent = agent

    async def shutdown(self) -> None:
        """Hang up, and end the agent if we started it; doing it twice changes nothing."""
        async with self._opening:
            agent, self._agent = self._agent, None
            if agent is not None:
                await agent.close()

    async def run_with_shared_resources(  # noqa: PLR0917  (the order of seed 003)
        self,
        command: str | Sequence[str],
        resource_type: ResourceType | str,
        amount: float | str,
        priority: str = "medium",
        max_wait_time: float | str = borrowing.WAIT_S_DEFAULT,
        job_id: str | None = None,
        preferred_nodes: Sequence[str] | None = None,
        **wishes: Any,
    ) -> dict[str, Any]:
        """Run a command on what owners lend, and give `{"output": …}` when it has ended well.

        A string runs under a shell. `amount` is in devices, cores or GiB. `max_wait_time` seconds
        may pass until something is lent; then NoResources has the reasons of each node. JobFailed
        has the stderr of a job that failed. `wishes` are those of `Cluster.submit`.
        """
        caller = self._caller()
        kind = borrowing.kind_of(resource_type)
        told: Wishes = {
            **running.configured(self.config),
            **borrowing.loan(kind, amount),
            **borrowing.naming(job_id),
            "priority": priority,
            "shared": True,
            "preferred_nodes": tuple(preferred_nodes or ()),
            **wishes,  # type: ignore[typeddict-item]  # Looked at by `specification`.
        }
        spec = specification(command, told)
        await running.borrow(
            caller,
            spec,
            kind=kind,
            wanted=borrowing.wanted_text(kind, amount),
            wait_ms=borrowing.wait_ms_of(max_wait_time),
            is_named=job_id is not None,
        )
        return (await running.ended(caller, spec)).result()

    async def run_command(
        self,
        command: str | Sequence[str],
        nodes: int | None = None,
        gpus_per_node: int | None = None,
        node_names: Sequence[str] | None = None,
        **wishes: Any,
    ) -> dict[str, Any]:
        """Run a command as the owner: one job on each node, `outputs` by node.

        What is left out comes from `execution` in the configuration. Machines that have not joined
        cannot run anything: NoResources names them.
        """
        caller = self._caller()
        status = await caller.run(calls.status())
        self._refuse_absent(status.name, nodes, tuple(node_names or ()))
        gpus = self._gpus_per_node(gpus_per_node)
        told: Wishes = {
            **running.configured(self.config),
            "gpus": gpus or None,
            **wishes,  # type: ignore[typeddict-item]  # Looked at by `specification`.
        }
        spec = specification(command, told)
        await caller.run(calls.submit([spec]))
        result = (await running.ended(caller, spec)).result()
        return {**result, "outputs": {result["node"]: result["output"]}}

    async def get_shared_resource_status(self) -> dict[str, Any]:
        """What is offered, what is borrowed, and why the rest is not offered."""
        return shared_status(await self._caller().run(sharing_calls.sharing()))

    async def get_status(self) -> Status:
        """The cluster: this machine, and those of the configuration that have not joined."""
        caller = self._caller()
        status = await caller.run(calls.status())
        sharing = await caller.run(sharing_calls.sharing())
        found = cluster_status(
            status,
            sharing,
            now_ms=time.time_ns() // 1_000_000,
            name=self.config.name,
            listed=tuple(node.name for node in self.config.nodes),
        )
        return Status({**found, "nodes": [Status(node) for node in found["nodes"]]})

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

    def _caller(self) -> AsyncCaller:
        if self._agent is None:
            raise NotInitialized("the orchestrator", begin="orchestrator.initialize()")
        return self._agent.caller

    def _gpus_per_node(self, told: int | None) -> int:
        if told is not None:
            return told
        is_set = self.config.is_set("execution.default_gpus_per_node")
        return self.config.execution.default_gpus_per_node if is_set else 0

    def _refuse_absent(self, here: str, nodes: int | None, names: tuple[str, ...]) -> None:
        wanted = nodes if nodes is not None else max(len(names), 1)
        absent = [name for name in names if name != here]
        if not absent and wanted > 1:
            absent = [node.name for node in self.config.nodes if node.name != here]
        if wanted > 1 or (names and here not in names):
            why = [(name, borrowing.not_joined(name)) for name in absent]
            reasons = why or [("the cluster", "has one machine")]
            raise NoResources(f"{wanted} nodes", reasons=reasons, waited_ms=0)
