"""The routes of the mesh: decode, check, call.

Lives here: their handlers, and bounds that the types do not tell. Never here: the table
(`wire.mesh_api`), what the operations do (`agent`).
Invariant: the text of a ticket is in no answer but that of its making, and in no error.
"""

from typing import Any, Final

from starlette.requests import Request

from distributed_grid.agent import Operations
from distributed_grid.errors import BadValue, NotFound
from distributed_grid.model.membership import node_name
from distributed_grid.web.application import Handler
from distributed_grid.web.bodies import body
from distributed_grid.wire.mesh_api import (
    TICKET_CHARACTERS_MAX,
    TICKET_TTL_MS_MAX,
    TICKET_USES_MAX,
    WORD_CHARACTERS_MAX,
    Join,
    Leave,
    MakeTicket,
    Rename,
)


async def _nodes(operations: Operations, _: Request) -> Any:
    return await operations.mesh.nodes()


async def _make_ticket(operations: Operations, request: Request) -> Any:
    wanted = await body(request, MakeTicket)
    bounds = (("ttl_ms", wanted.ttl_ms, TICKET_TTL_MS_MAX), ("uses", wanted.uses, TICKET_USES_MAX))
    for what, value, most in bounds:
        if not 1 <= value <= most:
            raise BadValue(
                value, expected=f"{what} from 1 to {most}", remedy="See /openapi.json", field=what
            )
    if not wanted.person.startswith("id:"):
        node_name(wanted.person or "me")  # People are called as machines are.
    return await operations.mesh.make_ticket(wanted)


async def _tickets(operations: Operations, _: Request) -> Any:
    return await operations.mesh.tickets()


async def _revoke_ticket(operations: Operations, request: Request) -> Any:
    return await operations.mesh.revoke_ticket(word(request, "ticket"))


async def _join(operations: Operations, request: Request) -> Any:
    wanted = await body(request, Join)
    length = len(wanted.ticket)
    if not 1 <= length <= TICKET_CHARACTERS_MAX:
        raise BadValue(
            length,  # Not the text: a part of it may be a secret.
            expected=f"a ticket of 1 to {TICKET_CHARACTERS_MAX} characters",
            remedy="Copy the whole line that grid ticket printed",
            field="ticket",
        )
    return await operations.mesh.join(wanted)


async def _leave(operations: Operations, request: Request) -> Any:
    return await operations.mesh.leave(await body(request, Leave))


async def _kick(operations: Operations, request: Request) -> Any:
    return await operations.mesh.kick(word(request, "node"))


async def _rename(operations: Operations, request: Request) -> Any:
    wanted = await body(request, Rename)
    node_name(wanted.name)
    return await operations.mesh.rename(wanted)


def word(request: Request, kind: str) -> str:
    """What names a node or a ticket in the path."""
    told: str = request.path_params[kind]
    if len(told) > WORD_CHARACTERS_MAX:
        raise NotFound(kind, told)
    return told


MESH_HANDLERS: Final[dict[str, Handler]] = {
    "nodes": _nodes,
    "make_ticket": _make_ticket,
    "tickets": _tickets,
    "revoke_ticket": _revoke_ticket,
    "join": _join,
    "leave": _leave,
    "kick": _kick,
    "rename": _rename,
}
