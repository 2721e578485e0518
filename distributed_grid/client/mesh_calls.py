"""What can be asked about the mesh, as `calls` has it for jobs.

Lives here: one generator for each route. Never here: where a ticket comes from (`cli`).
Invariant: the text of a ticket goes into a body only, never into a path or an error.
"""

from typing import Any, Final

import msgspec

from distributed_grid.client.calls import Call, decoded, quoted
from distributed_grid.client.exchange import Request
from distributed_grid.errors import BadValue
from distributed_grid.model import duration
from distributed_grid.model.membership import ROLES, Role, node_name
from distributed_grid.wire.mesh_api import (
    MESH_ROUTES,
    TICKET_CHARACTERS_MAX,
    TICKET_TTL_MS_MAX,
    TICKET_USES_MAX,
    WORD_CHARACTERS_MAX,
    Join,
    Joined,
    Leave,
    MakeTicket,
    Nodes,
    NodeView,
    Parted,
    Rename,
    TicketMade,
    Tickets,
    TicketView,
)

JOIN_MS: Final = 60_000  # Every address of five machines, some seconds each.
# A second one would be a second ticket, or hear that there is nothing left to do.
ONCE: Final = ("make_ticket", "leave", "kick")
_ROUTES: Final = {route.name: route for route in MESH_ROUTES}


def nodes() -> Call[Nodes]:
    """Everyone in the mesh, this node first."""
    return decoded((yield _request("nodes")), Nodes)


def ticket(
    *, role: str = "member", ttl: float | str = "24h", uses: int = 1, person: str = ""
) -> Call[TicketMade]:
    """A ticket for another machine of this person to join with, or of somebody else's."""
    wanted = MakeTicket(role=_role(role), ttl_ms=ttl_ms(ttl), uses=_uses(uses), person=person)
    return decoded((yield _request("make_ticket", body=wanted)), TicketMade)


def tickets() -> Call[Tickets]:
    """The tickets that this node issued."""
    return decoded((yield _request("tickets")), Tickets)


def revoke_ticket(ticket_id: str) -> Call[TicketView]:
    """Void a ticket."""
    word = _word(ticket_id, "the id of a ticket", "See: grid ticket list")
    return decoded((yield _request("revoke_ticket", ticket=word)), TicketView)


def join(text: str) -> Call[Joined]:
    """Join the mesh of a ticket."""
    plain = text.strip()
    if not 1 <= len(plain) <= TICKET_CHARACTERS_MAX:
        raise BadValue(
            f"{len(plain)} characters",
            expected="the text of a ticket",
            remedy="Copy the whole line that grid ticket printed",
            field="ticket",
        )
    return decoded((yield _request("join", body=Join(ticket=plain), wait_ms=JOIN_MS)), Joined)


def leave(*, force: bool = False) -> Call[Parted]:
    """Leave the mesh."""
    return decoded((yield _request("leave", body=Leave(is_forced=force))), Parted)


def kick(word: str) -> Call[NodeView]:
    """Remove a node from the mesh, for good."""
    named = _word(word, "a node", "Give its id, its name or the start of its id; see: grid nodes")
    return decoded((yield _request("kick", node=named)), NodeView)


def rename(name: str) -> Call[NodeView]:
    """Call this node something else."""
    return decoded((yield _request("rename", body=Rename(name=node_name(name)))), NodeView)


def ttl_ms(ttl: float | str) -> int:
    """How long a ticket is good, from seconds or a span such as 24h."""
    found_ms = duration.parse(ttl)
    if not 1 <= found_ms <= TICKET_TTL_MS_MAX:
        most = duration.text(TICKET_TTL_MS_MAX)
        raise BadValue(
            ttl, expected=f"a span of at most {most}", remedy="Write 24h or 7d", field="ttl"
        )
    return found_ms


def _role(word: str) -> Role:
    for role in ROLES:
        if role == word:
            return role
    raise BadValue(
        word, expected=f"one of {', '.join(ROLES)}", remedy="Most need member", field="role"
    )


def _uses(uses: int) -> int:
    if not isinstance(uses, int) or not 1 <= uses <= TICKET_USES_MAX:
        raise BadValue(
            uses, expected=f"1 to {TICKET_USES_MAX} uses", remedy="Make several", field="uses"
        )
    return uses


def _word(word: str, expected: str, remedy: str) -> str:
    if not 1 <= len(word) <= WORD_CHARACTERS_MAX:
        raise BadValue(word, expected=expected, remedy=remedy)
    return word


def _request(operation: str, *, body: Any = None, wait_ms: int = 0, **named: str) -> Request:
    route = _ROUTES[operation]
    target = route.path
    for kind, word in named.items():
        target = target.replace(f"{{{kind}}}", quoted(word))
    return Request(
        method=route.method,
        target=target,
        body=b"" if body is None else msgspec.json.encode(body),
        wait_ms=wait_ms,
        is_repeatable=operation not in ONCE,
    )
