"""What happens to the nodes of a mesh, in the three words of seed 002.

Lives here: which event of ours is which of the seed's, and a stream of those. Never here: noticing
what happens (`kernel.mesh`).
Invariant: whoever joined leaves once before it joins again. Nothing that happens after
`watch_events` was awaited is missed; over a restart of the agent, it is told with the next event.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable
from typing import Any, Final, Self

import msgspec

from distributed_grid.client.async_cluster import AsyncCluster
from distributed_grid.wire.api import Event
from distributed_grid.wire.mesh_api import Health, NodeView

_COMING: Final = ("node.joined", "node.alive")
_GOING: Final[dict[str, Health]] = {"node.dead": "dead", "node.left": "left"}
_GONE: Final = frozenset(("dead", "down", "left"))
_TOLD: Final = (*_COMING, *_GOING, "node.updated", "node.suspect", "node.path_changed")


class NodeJoined(msgspec.Struct, frozen=True):
    """It is one of us now, or heard again after it was lost."""

    node: NodeView


class NodeLeft(msgspec.Struct, frozen=True):
    """It left, was removed, or died; `node.health` tells."""

    node: NodeView


class NodeUpdated(msgspec.Struct, frozen=True):
    """It has other resources, another path, or another health."""

    node: NodeView


NodeEvent = NodeJoined | NodeLeft | NodeUpdated


class Reading:
    """Turns events of the agent into the seed's; remembers who is there, and how they looked."""

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        self._views = {node.id: node for node in nodes}
        self._present = _present(self._views.values())

    def read(self, event: Event, nodes: Iterable[NodeView]) -> NodeEvent | None:
        """What an event means, given how everyone looks now; None: nothing new."""
        self._views |= {node.id: node for node in nodes}
        node_id = str(event.fields.get("node", ""))
        is_present = node_id in self._present
        if event.name in _COMING and not is_present:
            self._present.add(node_id)
            return NodeJoined(self._view(event, node_id))
        if event.name in _GOING and is_present:
            self._present.remove(node_id)
            # It may be forgotten already, or back: this is how it was when it happened.
            gone = msgspec.structs.replace(self._view(event, node_id), health=_GOING[event.name])
            return NodeLeft(gone)
        return NodeUpdated(self._view(event, node_id)) if is_present else None

    def compared(self, nodes: Iterable[NodeView]) -> list[NodeEvent]:
        """What must have happened while nobody told us, judged by how everyone looks now."""
        now = {node.id: node for node in nodes}
        before, self._present = self._present, _present(now.values())
        self._views |= now
        lost = [self._views[node_id] for node_id in sorted(before - self._present)]
        return [
            *(NodeLeft(_gone(node)) for node in lost),
            *(NodeJoined(now[node_id]) for node_id in sorted(self._present - before)),
        ]

    def _view(self, event: Event, node_id: str) -> NodeView:
        known = self._views.get(node_id)
        return known or NodeView(id=node_id, name=str(event.fields.get("name", node_id[:8])))


def _present(nodes: Iterable[NodeView]) -> set[str]:
    return {node.id for node in nodes if node.health not in _GONE}


def _gone(node: NodeView) -> NodeView:
    """As it is told; one that nobody knows any more has left."""
    is_told = node.health in _GONE
    return node if is_told else msgspec.structs.replace(node, health="left")


class NodeEvents:
    """The events of a mesh from now on: await it to begin, then iterate; or just iterate."""

    def __init__(self, cluster: AsyncCluster) -> None:
        self._cluster = cluster
        self._reading: Reading | None = None
        self._stream: AsyncIterator[Event] | None = None
        self._agent = 0  # Its process.
        self._ready: deque[NodeEvent] = deque()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._begun().__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NodeEvent:
        await self._begun()
        while not self._ready:
            if self._stream is None:
                raise StopAsyncIteration
            await self._take(await anext(self._stream))
        return self._ready.popleft()

    async def close(self) -> None:
        """Stop listening."""
        stream, self._stream = self._stream, None
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()

    async def _begun(self) -> Self:
        if self._reading is None:
            self._agent = (await self._cluster.status()).pid
            reading = Reading(await self._cluster.nodes())
            last = "0"
            async for event in self._cluster.events(after=0, follow=False):
                last = event.id
            self._stream = self._cluster.events(after=last)
            # Between the two looks something may have happened, and been numbered.
            self._ready += reading.compared(await self._cluster.nodes())
            self._reading = reading
        return self

    async def _take(self, event: Event) -> None:
        if self._reading is None or event.name not in _TOLD:
            return
        agent = (await self._cluster.status()).pid
        nodes = await self._cluster.nodes()
        if agent != self._agent:  # Another counts its events anew: we may have missed some.
            self._agent = agent
            self._ready += self._reading.compared(nodes)
        elif (found := self._reading.read(event, nodes)) is not None:
            self._ready.append(found)
