"""What an agent answers about jobs and nodes across the mesh, without a mesh: below the client.

Lives here: canned answers of `AcrossOperations`, and what was asked. Never here: assertions.
"""

from typing import Any

import msgspec

from distributed_grid.errors import NotFound
from distributed_grid.kernel.placement.snapshot_hash import snapshot_hash
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Shipment
from distributed_grid.model.node import NodeRecord
from distributed_grid.wire.across_api import (
    BringOutputs,
    DrainView,
    MeshSnapshot,
    OutputPlace,
    Outputs,
    OutputsBrought,
    Pack,
    Packed,
    Safety,
    SharingEverywhere,
)
from distributed_grid.wire.api import JobView, NodeStatus
from distributed_grid.wire.sharing import Queue, SharingStatus


class CannedAcross:
    """The other half of a `CannedAgent`."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.asked: list[tuple[Any, ...]] = []
        self.name = "desk"
        self.drained: list[DrainView] = []  # One for each time somebody asks; the last stays.
        self.safety: list[Safety] = []  # Likewise.
        self.records: tuple[NodeRecord, ...] = ()
        self.places: dict[str, OutputPlace] = {}  # By the name of the job; else it is here.
        self.python_env = "e" * 64
        self.brought = OutputsBrought(job=JobId(""), written=("out.txt",), files=1)
        self.others: tuple[SharingStatus, ...] = ()  # What other nodes offer.
        self.missing: tuple[str, ...] = ()

    async def requeue(self, word: str) -> JobView:
        view = await self.agent.job(word)
        self.asked.append(("requeue", view.name))
        return msgspec.structs.replace(view, state="waiting", exit_code=None)

    async def force(self, word: str) -> JobView:
        view = await self.agent.job(word)
        self.asked.append(("force", view.name))
        return msgspec.structs.replace(view, state="waiting", exit_code=None)

    async def output(self, word: str, *, index: int) -> OutputPlace:
        view = await self.agent.job(word)
        self.asked.append(("output", view.name, index))
        ended = view.state not in ("waiting", "running")
        return self.places.get(view.name, OutputPlace(job=view.id, attempt=1, is_over=ended))

    async def outputs(self, word: str) -> Outputs:
        view = await self.agent.job(word)
        self.asked.append(("outputs", view.name))
        return Outputs(job=view.id, name=view.name, manifests=("d" * 64,), globs=("**",))

    async def bring_outputs(self, word: str, wanted: BringOutputs) -> OutputsBrought:
        return await self.hand_out(await self.outputs(word), wanted)

    async def hand_out(self, found: Outputs, wanted: BringOutputs) -> OutputsBrought:
        self.asked.append(("hand out", found.node, found.name, wanted))
        return msgspec.structs.replace(self.brought, job=found.job)

    async def safe(self, word: str, *, timeout_ms: int) -> Safety:
        view = await self.agent.job(word)
        self.asked.append(("safe", view.name, timeout_ms))
        usual = Safety(id=view.id, copies=2, is_safe=True)
        return self.safety.pop(0) if self.safety else usual

    async def drain(self, node: str, *, timeout_ms: int, now: bool = False) -> DrainView:
        self._check(node)
        self.asked.append(("drain", timeout_ms, "now") if now else ("drain", timeout_ms))
        if len(self.drained) > 1:
            return self.drained.pop(0)
        usual = DrainView(id="ab" * 32, name=self.name, state="drained")
        return self.drained[0] if self.drained else usual

    async def undrain(self, node: str) -> DrainView:
        self._check(node)
        self.asked.append(("undrain",))
        return DrainView(id="ab" * 32, name=self.name, state="open")

    async def snapshot(self) -> MeshSnapshot:
        return MeshSnapshot(hash=snapshot_hash(self.records), at_ms=1, nodes=self.records)

    async def pack(self, wanted: Pack) -> Packed:
        self.asked.append(("pack", wanted))
        env = self.python_env if wanted.python_env else ""
        return Packed(ship=Shipment(manifest="c" * 64, size_bytes=10, files=2), python_env=env)

    async def status_of(self, node: str) -> NodeStatus:
        self._check(node)
        return msgspec.structs.replace(await self.agent.status(), name=node)

    async def sharing_of(self, node: str) -> SharingStatus:
        self._check(node)
        return msgspec.structs.replace(self.agent.lends, node=node)

    async def sharing_everywhere(self) -> SharingEverywhere:
        return SharingEverywhere(nodes=(self.agent.lends, *self.others), missing=self.missing)

    async def queue_of(self, node: str, *, limit: int) -> Queue:
        self._check(node)
        return await self.agent.queue(limit=limit)

    def _check(self, node: str) -> None:
        if node == "nobody":
            raise NotFound("node", node)
