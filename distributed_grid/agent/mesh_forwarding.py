"""Tickets that another node issued: shown here, decided there.

Lives here: passing a ticket on to its issuer, and the newcomer's wait for the answer. Never here:
whether a ticket is good (`kernel.mesh`).
Invariant: only the issuer answers for a ticket of its own.
"""

import asyncio
from typing import Final

from distributed_grid.agent.mesh_links import Links
from distributed_grid.kernel.mesh.membership import Forward
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import Refused, Welcome

FORWARD_S: Final = 3.5  # For the issuer; who passes a ticket on is waited for five seconds.


class Forwarding:
    """Tickets whose issuers have not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[NodeId, NodeId], asyncio.Future[Welcome | Refused]] = {}

    async def ask(self, forward: Forward, links: Links | None) -> Welcome | Refused:
        """What the issuer says; it must be linked with this node."""
        newcomer = forward.redeem.node
        unreachable = Refused(reason="issuer-unreachable", about=newcomer)
        if links is None or forward.issuer not in links.open:
            return unreachable
        future: asyncio.Future[Welcome | Refused] = asyncio.get_running_loop().create_future()
        self._waiting[newcomer, forward.issuer] = future
        try:
            links.send(forward.issuer, forward.redeem)
            async with asyncio.timeout(FORWARD_S):
                return await future
        except TimeoutError:
            return unreachable
        finally:
            if self._waiting.get((newcomer, forward.issuer)) is future:  # Not its next try.
                del self._waiting[newcomer, forward.issuer]

    def answered(self, peer: NodeId, about: str, answer: Welcome | Refused) -> None:
        """An issuer has decided about a newcomer."""
        future = self._waiting.get((NodeId(about), peer))
        if future is not None and not future.done():
            future.set_result(answer)
