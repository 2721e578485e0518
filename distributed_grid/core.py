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

from distributed_grid.client import across_calls, borrowing, calls, mesh_calls, sharing_calls
from distributed_grid.client.awaiting import AsyncCaller
from distributed_grid.client.specification import Wishes, specification
from distributed_grid.client.status_dicts import cluster_status, shared_everywhere
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
        max_wait_time: float | str | None = borrowing.WAIT_S_DEFAULT,
        job_id: str | None = None,
        preferred_nodes: Sequence[str] | None = None,
        timeout: float | str | None = None,  # noqa: ASYNC109  (of the job, too)
        **wishes: Any,
    ) -> dict[str, Any]:
        """Run a command on what owners lend, and give `{"output": …}` when it has ended well.

        A string runs under a shell. `amount` is in devices, cores or GiB. `max_wait_time` seconds
        may pass until something is lent (None: any time), at most `timeout`, and as long it may
        run; then NoResources has the reasons of each node. Why it has not begun after 3 s is a
        warning of the logger `distributed_grid`. JobFailed has the stderr of a job that failed.
        `wishes` are those of `Cluster.submit`.
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
            **({} if timeout is None else {"timeout": timeout}),
            **wishes,  # type: ignore[typeddict-item]  # Looked at by `specification`.
        }
        spec = specification(command, told)
        wait_ms = borrowing.wait_ms_of(max_wait_time)
        if timeout is not None:
            wait_ms = min(wait_ms, borrowing.wait_ms_of(timeout))
        await running.borrow(
            caller,
            spec,
            kind=kind,
            wanted=borrowing.wanted_text(kind, amount),
            wait_ms=wait_ms,
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
        cannot run anything: NoResources names them. Of several nodes the first one's result is
        given, beside the `outputs` of all; JobFailed is that of the first that failed.
        """
        caller = self._caller()
        chosen = await self._chosen(caller, nodes, tuple(node_names or ()))
        gpus = self._gpus_per_node(gpus_per_node)
        told: Wishes = {
            **running.configured(self.config),
            "gpus": gpus or None,
            **wishes,  # type: ignore[typeddict-item]  # Looked at by `specification`.
        }
        specs = [specification(command, told | running.placed(node)) for node in chosen]
        await caller.run(calls.submit(specs))
        ends = await asyncio.gather(*(running.ended(caller, spec) for spec in specs))
        results = [end.result() for end in ends]
        outputs = {result["node"]: result["output"] for result in results}
        return {**results[0], "outputs": outputs}

    async def get_shared_resource_status(self) -> dict[str, Any]:
        """What is offered, what is borrowed, and why the rest is not: on all nodes of the mesh."""
        return shared_everywhere(await self._caller().run(across_calls.sharing_everywhere()))

    async def get_status(self) -> Status:
        """The cluster: the machines of the mesh, and those listed that have not joined."""
        caller = self._caller()
        status = await caller.run(calls.status())
        sharing = await caller.run(sharing_calls.sharing())
        mesh = await caller.run(mesh_calls.nodes())
        found = cluster_status(
            status,
            sharing,
            now_ms=time.time_ns() // 1_000_000,
            name=self.config.name,
            listed=tuple(node.name for node in self.config.nodes),
            others=tuple(node for node in mesh.nodes if not node.is_self and node.health != "left"),
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

    async def _chosen(
        self, caller: AsyncCaller, nodes: int | None, names: tuple[str, ...]
    ) -> list[str | None]:
        """The nodes that a command runs on; None: wherever it fits."""
        wanted = nodes if nodes is not None else max(len(names), 1)
        if not names and wanted == 1:
            return [None]
        mesh = await caller.run(mesh_calls.nodes())
        there = [node.name for node in mesh.nodes if node.health in ("alive", "suspect")]
        listed = [node.name for node in self.config.nodes]
        absent = [name for name in names if name not in there]
        # Those of the configuration first: whoever wrote it wants them used.
        usable = list(names) or sorted(
            there, key=lambda name: (name not in listed, there.index(name))
        )
        if not absent and len(usable) < wanted:
            absent = [name for name in listed if name not in there]
        if absent or len(usable) < wanted:
            why = [(name, borrowing.not_joined(name)) for name in absent]
            count = f"has {len(there)} machines" if len(there) > 1 else "has one machine"
            reasons = why or [("the cluster", count)]
            raise NoResources(f"{wanted} nodes", reasons=reasons, waited_ms=0)
        if len(mesh.nodes) == 1:
            return [None]  # Alone; the machine need not know its own name.
        return [*usable[:wanted]]
