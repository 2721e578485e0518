"""Why a mesh says no, and what can be wrong with a ticket: the sentences, each with its remedy.

Lives here: tables of words. Never here: the errors that say them (`errors`).
"""

from typing import Final, Literal

# Reason -> the sentence about it, and what to do.
REFUSALS: Final[dict[str, tuple[str, str]]] = {
    "stranger": ("this node is no member", "Join with a ticket: grid join TICKET"),
    "other-mesh": (
        "it belongs to another mesh",
        "Ask for a ticket of the mesh that you mean; to change over: grid leave, then grid join",
    ),
    "expired": ("the certificate has expired", "Ask an admin for a ticket, and join again"),
    "revoked": (
        "the node was removed from the mesh, for good",
        "Begin anew: grid down, grid up --new-identity, and a new ticket",
    ),
    "forged": ("a signature is wrong", "Ask for a new ticket; the text may have been changed"),
    "malformed": ("it cannot read what it was sent", "Compare grid version on both machines"),
    "protocol": ("it speaks no version that this node speaks", "Bring both to one version of Grid"),
    "ticket-expired": ("the ticket has expired", "Ask for a new one: grid ticket --ttl 24h"),
    "ticket-used-up": ("the ticket is used up", "Ask for a new one: grid ticket --uses N"),
    "ticket-revoked": ("the ticket was revoked", "Ask for a new one: grid ticket"),
    "ticket-unknown": ("it did not issue this ticket", "Ask for a new one: grid ticket"),
    "issuer-unreachable": (
        "the machine that issued the ticket does not answer",
        "Bring that machine up, or ask for a ticket on another",
    ),
    "busy": ("too many ask at once", "Try again in a minute"),
    "clone": (
        "another machine uses the same key",
        "Let one keep it; on the other: grid down, then grid up --new-identity",
    ),
    "not-permitted": ("the role does not allow it", "Ask an admin of the mesh, see: grid nodes"),
    "denied": ("its owner keeps this address out", "Ask for it in mesh.allow and mesh.deny there"),
}

TicketFault = Literal["cut-off", "mistyped", "no-ticket", "newer"]
TICKET_FAULTS: Final[dict[TicketFault, tuple[str, str]]] = {
    "cut-off": ("the ticket is cut off", "Copy the whole line, to its last letter"),
    "mistyped": ("the ticket has a wrong letter", "Copy it again rather than type it"),
    "no-ticket": ("that is no ticket", "A ticket is the line that grid ticket prints: grid1…"),
    "newer": ("the ticket is of a later version of Grid", "Install the issuer's version here"),
}
