"""Between the world and the kernel: a step that breaks off costs neither the agent nor its jobs.

Lives here: steps, and what becomes of one that raises or takes too long. Never here: building the
kernel's memory anew (`recovery`), whom a peer's fault costs its link (`across`, `mesh_links`).
Invariant: what a broken step has half changed is seen by no other step, and nothing that it
wanted is carried out; the kernel goes on as after a start, from what is on disk.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from distributed_grid.agent.watchdog import OWN_S, PEER_S, limited
from distributed_grid.errors import GridError
from distributed_grid.kernel.node import (
    Beat,
    Bound,
    Met,
    Node,
    NodeEvent,
    Noted,
    Packed,
    Reports,
    Sampled,
    Tick,
    Told,
    View,
)
from distributed_grid.kernel.ready import Ready

# What no person asked for: nobody could be told why not.
NOBODYS: Final = (Beat, Bound, Met, Noted, Packed, Reports, Sampled, Tick, Told, View)
TRIES: Final = 2

Rebuild = Callable[[Exception], Awaitable[None]]


class Faulty(Exception):
    """What peers said could not be heard; the kernel is as it was before."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(in_words(cause))


class BlastDoor:
    """The one way into a kernel."""

    def __init__(self, node: Node) -> None:
        self.faults = 0  # Steps that broke off.
        self.rebuild: Rebuild | None = None  # None: whoever stepped gets what was raised.
        self._node = node
        self._is_open = asyncio.Event()
        self._is_open.set()

    async def opened(self) -> None:
        """Until the kernel's memory is whole."""
        while not self._is_open.is_set():
            await self._is_open.wait()

    async def step(self, event: NodeEvent) -> Ready:
        """Tell the kernel, and again if that breaks off.

        Raises Faulty for peers' words, of which it was one; what people are to be told; and what
        breaks off again.
        """
        left = TRIES
        while True:
            await self.opened()
            try:
                return self._stepped(event)
            except Exception as error:
                if self.rebuild is None or _is_refusal(error, event):
                    raise
                await self._mend(error)
                left -= 1
                if isinstance(event, Told):
                    raise Faulty(error) from error
                if not left:
                    raise
                if isinstance(event, Met):
                    return Ready()  # It was greeted anew, with all that it had said.

    def _stepped(self, event: NodeEvent) -> Ready:
        with limited(PEER_S if isinstance(event, Told) else OWN_S):
            return self._node.step(event)

    async def _mend(self, error: Exception) -> None:
        assert self.rebuild is not None, "there is one"
        self.faults += 1
        self._is_open.clear()
        try:
            await self.rebuild(error)
        finally:
            self._is_open.set()


def _is_refusal(error: Exception, event: NodeEvent) -> bool:
    """Whether somebody asked for something, and is told why not."""
    return isinstance(error, GridError) and not isinstance(event, NOBODYS)


def in_words(error: BaseException) -> str:
    """An error and where it came from, in one line."""
    root = error.__cause__ or error
    frames = traceback.extract_tb(root.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(root).__name__}: {root}{where}"[:500]
