"""`WorkDistributor` of seed 002: which node of a mesh takes a job, and the job goes there.

    distributor = WorkDistributor(SchedulingPolicy.BestFit)
    assignment = await distributor.schedule(job, mesh)
    print(f"Job assigned to node: {assignment.node_id}")

Lives here: from the nodes as the agent sees them to a decision and a submission. Never here: how
nodes are ordered (`kernel.placement`), what runs (`agent`).
Invariant: a job with a command is durable at the agent before its assignment is returned, and it
may only run on nodes that the policies allow; what was just given away is not given away again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from distributed_grid.client.async_cluster import AsyncJobHandle
from distributed_grid.client.borrowing import NoResources
from distributed_grid.cluster_mesh.mesh import ClusterMesh
from distributed_grid.cluster_mesh.policies import SchedulingPolicy
from distributed_grid.cluster_mesh.work import Job
from distributed_grid.kernel.placement import Decision, Refusal, Rules, place
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.node import NodeRecord

FRESH_S: Final = 3.0  # A node tells its load once a second: what was given to it shows by then.
ALLOWED_MAX: Final = 64  # Nodes that a job may run on, the best first; they travel with it.
REASONS_MAX: Final = 16  # Nodes whose reasons are told; more would fill a page.


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job goes."""

    node_id: NodeId
    node_name: str
    job_id: JobId
    decision: Decision  # Scores, order, and why not the others.
    snapshot: str = ""  # The hash of what was decided on: equal for equal views.
    job: AsyncJobHandle | None = None  # What was submitted; None: there was no command.


class _Given(NamedTuple):
    """Something that this distributor gave to a node."""

    node: NodeId
    job: Job
    until_s: float | None  # None: until it is released.


class WorkDistributor:
    """Chooses nodes by a policy, within what batteries and heat allow."""

    def __init__(
        self,
        policy: SchedulingPolicy | str = SchedulingPolicy.Balanced,
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = SchedulingPolicy.named(policy)
        self.power_policy: PowerPolicy | None = None  # None: as the mesh is configured.
        self._clock_s = clock_s
        self._given: dict[JobId, _Given] = {}

    def set_power_policy(self, policy: PowerPolicy) -> None:
        """From now on, no node below its battery level or above its temperature.

        This is about what this distributor schedules. When a machine gives its own work away is
        for its owner to say: `mesh.battery_threshold` and `thermal_limit_celsius` of its agent.
        """
        self.power_policy = policy

    async def schedule(self, job: Job, mesh: ClusterMesh) -> Assignment:
        """Decide, and submit what there is to run; raises NoResources with each node's reasons.

        The job runs on the node of the assignment, unless that is gone or full when it gets there:
        then on the next that the decision allows. Without a command nothing is submitted, and what
        the job needs counts as taken, for this distributor, until `release`.
        """
        seen = await mesh.snapshot()
        decision = self._decided(job, seen.nodes, mesh)
        best = decision.best
        if best is None:
            raise _nothing(job, decision)
        self._given[job.spec.id] = _Given(best.id, job, None)
        handle = None
        if job.command is not None:
            try:
                handle = await self._submit(job, decision, mesh, is_alone=not seen.hash)
            except BaseException:
                self.release(job)
                raise
            self._given[job.spec.id] = _Given(best.id, job, self._clock_s() + FRESH_S)
        return Assignment(
            node_id=best.id,
            node_name=best.name,
            job_id=job.spec.id,
            decision=decision,
            snapshot=seen.hash,
            job=handle,
        )

    def release(self, job: Job | Assignment) -> None:
        """What a job was given counts as free again; again: no change."""
        self._given.pop(job.spec.id if isinstance(job, Job) else job.job_id, None)

    def _decided(self, job: Job, nodes: Sequence[NodeRecord], mesh: ClusterMesh) -> Decision:
        rules = Rules(
            policy=self.policy.policy, power=self.power_policy or mesh.config.power_policy
        )
        decision = place(job.spec, self._less(nodes), rules)
        if decision.best is None and any(given.until_s for given in self._given.values()):
            # What was given may show already, and would then count twice.
            decision = place(job.spec, self._less(nodes, fresh=False), rules)
        return decision

    def _less(self, nodes: Sequence[NodeRecord], *, fresh: bool = True) -> list[NodeRecord]:
        """The nodes, without what was given away and does not show yet."""
        now_s = self._clock_s()
        for job_id, given in list(self._given.items()):
            if given.until_s is not None and given.until_s <= now_s:
                del self._given[job_id]
        left = {node.id: node for node in nodes}
        for given in self._given.values():
            node = left.get(given.node)
            counts = fresh or given.until_s is None
            if node is not None and counts and node.free.fits(given.job.spec.request):
                left[node.id] = after_placing(given.job.spec, node)
        return list(left.values())

    async def _submit(
        self, job: Job, decision: Decision, mesh: ClusterMesh, *, is_alone: bool
    ) -> AsyncJobHandle:
        wishes = {**job.wishes, "id": job.spec.id}
        if not is_alone:  # Else there is one node, and it has no id yet.
            allowed = [ranked.id for ranked in decision.ranked[:ALLOWED_MAX]]
            wishes |= {
                "node": allowed,
                "preferred_nodes": allowed[:1],
                "policy": self.policy.value,
            }
        return await mesh.cluster.submit(job.command, **wishes)


def _nothing(job: Job, decision: Decision) -> NoResources:
    reasons = [(refused.name, _why(refused)) for refused in decision.refused[:REASONS_MAX]]
    return NoResources(
        job.name,
        reasons=reasons or [("the mesh", "has no node that tells what it is")],
        waited_ms=0,
    )


def _why(refused: Refusal) -> str:
    return ", ".join(
        f"{reason.what}: {reason.wanted} wanted, {reason.has} there" for reason in refused.reasons
    )
