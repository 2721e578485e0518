"""A network with ends on it, as the cases of transports see it.

Lives here: the shape of a lab, and what many cases do. Never here: the cases, the transports.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from distributed_grid.edges.transport import Admit, Lane, Limits, Link, Transport
from distributed_grid.model.ids import NodeId

KIB, MIB = 1 << 10, 1 << 20
NOBODY = NodeId("5866666666666666666666666666666666666666666666666666666666666666")  # A key.
DIAL_MS = 5_000


class Lab(Protocol):
    """A network, and ends on it."""

    nowhere: tuple[str, ...]  # An address at which nobody listens.

    async def end(self, limits: Limits = ..., admit: Admit = ...) -> Transport:
        """A new one, open; closed after the case."""
        ...


Case = Callable[[Lab], Awaitable[None]]


async def meet(one: Transport, other: Transport) -> tuple[Link, Link]:
    """Two ends of a new link, strangers to each other."""
    dialled = await one.dial(other.contact(), timeout_ms=DIAL_MS)
    accepted = await other.accept()
    assert accepted is not None
    return dialled, accepted


async def friends(lab: Lab, limits: Limits = Limits()) -> tuple[Link, Link]:  # noqa: B008
    """Two ends of a link, trusted on both."""
    links = await meet(await lab.end(limits), await lab.end(limits))
    for link in links:
        link.trust()
    return links


async def got(link: Link) -> bytes:
    received = await link.receive()
    assert received is not None, link.why_closed
    return received[1]


async def take_all(link: Link) -> None:
    while await link.receive() is not None:
        pass


async def flood(link: Link, message: bytes, *, lane: Lane = "control", pause_s: float = 0) -> None:
    while True:
        await link.send(message, lane=lane)
        await asyncio.sleep(pause_s)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def cases_in(names: dict[str, Any]) -> dict[str, Case]:
    """Every coroutine of a module that asks for a lab and nothing else."""
    return {
        name: value
        for name, value in names.items()
        if inspect.iscoroutinefunction(value)
        and list(inspect.signature(value).parameters) == ["lab"]
        and not name.startswith("_")
    }
