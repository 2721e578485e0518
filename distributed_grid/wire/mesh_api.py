"""What clients and the agent say to each other about the mesh.

Lives here: requests, answers and their routes, as in `api`. Never here: what members say to each
other (`mesh`).
"""

from typing import ClassVar, Final, Literal

import msgspec

from distributed_grid.model.bounds import (
    Bytes,
    Count,
    Moment,
    Most,
    Name,
    Sentence,
    Signed,
    Story,
    Table,
)
from distributed_grid.model.discretion import Discreet
from distributed_grid.model.membership import Role
from distributed_grid.wire.api import Nothing, Route

Health = Literal["alive", "suspect", "dead", "down", "left"]
Path = Literal["self", "direct", "relayed", "none"]

TICKET_USES_MAX: Final = 1_000
TICKET_TTL_MS_MAX: Final = 365 * 86_400_000
TICKET_CHARACTERS_MAX: Final = 16 << 10  # Four times the longest: mail programmes add blanks.
WORD_CHARACTERS_MAX: Final = 256  # What names a node or a ticket: an id has 64, a name no more.


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the mesh as this one sees it."""

    id: Name
    name: Name
    is_self: bool = False
    roles: Most[Role] = ()
    person: Name = ""  # Whose it is; with the beginning of the id, if two have that name.
    person_id: Name = ""
    node_class: Name = ""
    version: Name = ""
    health: Health = "alive"
    since_ms: Moment = 0  # Of the health.
    why: Story = ""  # It is not alive.
    path: Path = "none"
    address: Name = ""  # Where the selected path goes.
    latency_us: Count | None = None  # Measured; None: never.
    estimated_us: Count | None = None  # From coordinates.
    bandwidth_kbps: Count | None = None
    cpu_milli_total: Count = 0
    cpu_milli_free: Count = 0
    memory_bytes_total: Bytes = 0
    memory_bytes_free: Bytes = 0
    storage_bytes_total: Bytes = 0
    storage_bytes_free: Bytes = 0
    gpus_total: Count = 0
    gpus_free_milli: Count = 0
    gpu_models: Most[Name] = ()
    load_milli: Count = 0  # Of all cores: 1000 is one busy core.
    jobs_running: Count = 0
    jobs_waiting: Count = 0
    offers: Most[Name] = ()  # As people read them.
    labels: Table[Name, Name] = {}
    # In thousandths of a TFLOPS: of its cores as measured, of its GPUs as their makers state.
    scores_tflops_milli: Count = 0
    verification: Name = "claimed"  # claimed, verified, failed, pretended
    verification_why: Story = ""  # It is not verified, in the words of one who asked.
    seen_age_ms: Signed | None = None  # Since it last spoke, directly or through others.
    record_age_ms: Signed | None = None  # Since its load last changed here.
    expires_ms: Moment = 0  # Its certificate.
    note: Story = ""  # Quarantined as a clone, on an expired certificate, …
    is_draining: bool = False  # It takes no work.
    faults: Count = 0  # How often in a row what it said could not be handled here.


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """Everyone this node knows of, itself first."""

    mesh: Name  # Empty: not in a mesh.
    nodes: Most[NodeView]


class MakeTicket(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Let somebody in; founds the mesh if there is none."""

    role: Role = "member"
    ttl_ms: Moment = 86_400_000
    uses: Count = 1
    # Whose the machines are: a new name, or id: and digits; empty: this person's.
    person: Name = ""


class TicketMade(Discreet, frozen=True, kw_only=True):
    """The text to carry over, once."""

    SECRETS: ClassVar[frozenset[str]] = frozenset({"text"})

    id: Name
    text: Story
    role: Role
    expires_ms: Moment
    uses: Count
    recovery_file: Sentence = ""  # Only if the mesh was founded now.
    person: Name = ""
    is_own: bool = True  # Of the person who made it.


class TicketView(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket without its secret."""

    id: Name
    role: Role
    made_ms: Moment
    expires_ms: Moment
    uses_max: Count
    used_by: Most[Name] = ()  # Names where known, else ids.
    person: Name = ""
    state: Literal["open", "used-up", "expired", "revoked"] = "open"


class Tickets(msgspec.Struct, frozen=True, kw_only=True):
    """The tickets that this node issued."""

    tickets: Most[TicketView]


class Join(Discreet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Redeem a ticket."""

    SECRETS: ClassVar[frozenset[str]] = frozenset({"ticket"})

    ticket: Sentence


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """One of them now, or already before."""

    mesh: Name
    name: Name
    roles: Most[Role]
    was_member: bool
    nodes: Count
    is_all: bool = True  # Or there are more, of whom nothing has come yet.
    person: Name = ""  # Whose this machine is,
    own: Most[Name] = ()  # and the names of the other machines of that person.


class Rename(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Call this node something else."""

    name: Name


class Leave(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave the mesh; forced: also when nobody is left who could let us in again."""

    is_forced: bool = False


class Parted(msgspec.Struct, frozen=True, kw_only=True):
    """This node has left; unheard, it will look dead to the others."""

    is_heard: bool


MESH_ROUTES: tuple[Route, ...] = (
    Route("nodes", "GET", "/v1/nodes", Nothing, Nodes, "Everyone in the mesh"),
    Route("make_ticket", "POST", "/v1/tickets", MakeTicket, TicketMade, "Let somebody in"),
    Route("tickets", "GET", "/v1/tickets", Nothing, Tickets, "Tickets issued here"),
    Route("revoke_ticket", "POST", "/v1/tickets/{ticket}/revoke", Nothing, TicketView,
          "Void a ticket"),
    Route("join", "POST", "/v1/join", Join, Joined, "Join the mesh of a ticket"),
    Route("leave", "POST", "/v1/leave", Leave, Parted, "Leave the mesh"),
    Route("kick", "POST", "/v1/nodes/{node}/kick", Nothing, NodeView, "Revoke a node, for good"),
    Route("rename", "POST", "/v1/rename", Rename, NodeView, "Rename this node"),
)  # fmt: skip
