"""The canned agent with a mesh in which things happen: members change, and watchers hear of it.

Lives here: a stand-in below the client. Never here: assertions.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from distributed_grid.agent.watchers import Watchers
from distributed_grid.kernel.ready import Happened
from distributed_grid.wire.api import Event, EventPlace, NodeStatus
from distributed_grid.wire.mesh_api import NodeView
from tests.agent_stand_in import CannedAgent


class TellingAgent(CannedAgent):
    """Its events are the real agent's: numbered, kept, and given to whoever listens."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers = Watchers()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pid = 1

    async def status(self) -> NodeStatus:
        self._loop = asyncio.get_running_loop()
        return msgspec.structs.replace(await super().status(), pid=self.pid)

    def events(self, *, after: EventPlace, follow: bool = True) -> AsyncIterator[Event]:
        return self._watchers.events(after=after, follow=follow)

    def tell(self, name: str, node: NodeView | None = None, **fields: Any) -> None:
        """Something happened; from the thread of the test, or before anybody asked anything."""
        about = {} if node is None else {"node": node.id, "name": node.name}
        happened = Happened(name=name, at_ms=1, fields={**about, **fields})
        if self._loop is None:
            self._watchers.publish(happened)
        else:
            self._loop.call_soon_threadsafe(self._watchers.publish, happened)

    def restart(self) -> None:
        """Another process answers, and counts its events from one."""
        self.pid += 1
        if self._loop is not None:
            self._loop.call_soon_threadsafe(setattr, self._watchers, "_number", 0)

    def let_go(self) -> None:
        """End every stream, as an agent does that goes down."""
        assert self._loop is not None, "somebody listens"
        self._loop.call_soon_threadsafe(self._watchers.close)
