"""Links that were accepted and are not trusted yet: few, and not for long.

Lives here: how many, how long, how much. Never here: whom to trust (`kernel.mesh.trust`).
Invariant: a half-open connection is gone after `stranger_idle_ms`, whatever its other end does.
"""

import asyncio
from typing import Final

from distributed_grid.edges.transport import Counters, Limits
from distributed_grid.edges.transport.end import LinkEnd

LOOK_S: Final = 0.1  # Ten times a second while there is any: some 10 us each.


class Strangers:
    """The ones that are here now."""

    def __init__(self, limits: Limits, counters: Counters) -> None:
        self._limits, self._counters = limits, counters
        self._links: set[LinkEnd] = set()
        self._knocking = 0  # In the middle of a handshake.
        self._look: asyncio.TimerHandle | None = None

    def has_room(self) -> bool:
        """True if one more may begin."""
        return self._knocking + len(self._links) < self._limits.strangers

    def knock(self) -> None:
        """A handshake begins."""
        self._knocking += 1

    def came(self, link: LinkEnd | None) -> None:
        """It ended; with a link, or without."""
        self._knocking -= 1
        if link is not None:
            self._links.add(link)
            if self._look is None:
                self._look = asyncio.get_running_loop().call_later(LOOK_S, self._sweep)

    def close(self) -> None:
        """No more looks."""
        self._links.clear()
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for link in list(self._links):
            if link.is_trusted or link.closed.is_set():
                self._links.discard(link)
            elif why := self._excess(link, now_s):
                self._counters.strangers_closed += 1
                self._links.discard(link)
                link.abort(why)
        self._look = loop.call_later(LOOK_S, self._sweep) if self._links else None

    def _excess(self, link: LinkEnd, now_s: float) -> str:
        limits = self._limits
        if now_s - link.heard_s > limits.stranger_idle_ms / 1000:
            return "a stranger that says nothing"
        if now_s - link.opened_s > limits.stranger_ms / 1000:
            return "a stranger for too long"
        if link.received_bytes() > limits.stranger_bytes:
            return "a stranger that says too much"
        return ""
