"""Who belongs to a mesh, and on whose word: certificates, revocations, tickets.

Lives here: the nouns, and the exact bytes that are signed. Never here: signing (`edges.keys`),
judging (`kernel.mesh.trust`), the text of a ticket (`wire.ticket`).
Invariant: what is signed names its kind and its mesh first, so that no signature can be used for
anything else, or anywhere else.
"""

from typing import Annotated, ClassVar, Final, Literal, NamedTuple, NewType

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model.bounds import Count, Moment, Most, Name, Seal
from distributed_grid.model.discretion import Discreet
from distributed_grid.model.ids import NodeId

MeshId = NewType("MeshId", Name)  # The public key of its authority, as 64 hex digits.
Role = Literal["admin", "member", "worker", "guest"]

ROLES: Final[tuple[Role, ...]] = ("admin", "member", "worker", "guest")
CHAIN_READ_MAX: Final = 64
CHAIN_MAX: Final = 4  # Certificates from a member up to the authority: people delegate twice or so.
NAME_BYTES_MAX: Final = 64  # Of a node: a host name has at most as many.
ADDRESSES_MAX: Final = 16  # Of one node: some interfaces, both families.
DAY_MS: Final = 86_400_000
CERTIFICATE_MS: Final = 90 * DAY_MS
RENEW_MS: Final = 30 * DAY_MS  # Before the end; and how long an expired one may go on unseen.
GRACE_MS: Final = 7 * DAY_MS  # Whoever was away longer starts from what the others know.


class Person(NamedTuple):
    """Whose a machine is: two people of one name are told apart by the id."""

    id: Name  # 64 hex digits; of who has no person in its certificate, the node's own id.
    name: Name


class Certificate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delegate, or the authority itself, says that this node is one of us, and whose it is."""

    mesh: MeshId
    node: NodeId
    name: Name
    roles: Most[Role]
    expires_ms: Moment
    issuer: Name  # The public key that signed: the authority's, or the node id of a delegate.
    signature: Seal = b""
    person: Person | None = None  # None: from before there were people.

    def signed_bytes(self) -> bytes:
        """What the signature is over; without a person as it always was."""
        said = (self.mesh, self.node, self.name, self.roles, self.expires_ms, self.issuer)
        if self.person is None:
            return b"grid certificate 1\0" + msgspec.msgpack.encode(said)
        return b"grid certificate 2\0" + msgspec.msgpack.encode((*said, self.person))

    @property
    def owner(self) -> Person:
        """Whose the machine is; one without a person is somebody of its own."""
        return self.person or Person(self.node, self.name)


Chain = Annotated[
    tuple[Certificate, ...], msgspec.Meta(max_length=CHAIN_READ_MAX)
]  # A member's first; the last one is signed by the authority.


class Revocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delegate, or another machine of the same person, says that this node is out, for good."""

    mesh: MeshId
    node: NodeId
    at_ms: Moment  # By the issuer's clock; for people.
    issuer: Name
    chain: Chain = ()  # Of the issuer, so that it can be checked after the issuer has left.
    signature: Seal = b""
    about: Chain = ()  # Of the node, if the issuer is no delegate: that both are one person's.

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return b"grid revocation 1\0" + msgspec.msgpack.encode(
            (self.mesh, self.node, self.at_ms, self.issuer)
        )


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """Ways to reach a node."""

    node: NodeId
    addresses: Most[Name] = ()  # `host:port`, most promising first.
    relay: Name = ""  # A URL; empty: none.


class Ticket(Discreet, frozen=True, kw_only=True):
    """What a person carries from one machine to another. It holds a secret."""

    SECRETS: ClassVar[frozenset[str]] = frozenset({"secret"})

    mesh: MeshId
    issuer: Contact
    others: tuple[Contact, ...] = ()  # Members that forward to the issuer, if it cannot be reached.
    secret: bytes
    expires_ms: int


class TicketRecord(Discreet, frozen=True, kw_only=True):
    """What the issuer of a ticket remembers, durably."""

    SECRETS: ClassVar[frozenset[str]] = frozenset({"secret"})

    id: Name  # Public: the first 16 hex digits of a hash of the secret.
    secret: Seal
    role: Role
    made_ms: Moment
    expires_ms: Moment
    uses_max: Count
    used_by: Most[NodeId] = ()  # Counted by node id: a retry is not a second use.
    is_revoked: bool = False
    person: Person | None = None  # Whose the machines are; None: from before there were people.


def is_node_name(text: str) -> bool:
    """Whether a node can be called that: it prints, and can be found by it."""
    return (
        text.isprintable()
        and text == text.strip()
        and 1 <= len(text.encode(errors="replace")) <= NAME_BYTES_MAX
        and not text.startswith(("-", "id:", "name:"))  # Those mean something on a command line,
        and "/" not in text  # and this in a path.
    )


def node_name(text: str) -> str:
    """The name of a node, as it is; raises BadValue for what would not print or not be found."""
    if not is_node_name(text):
        raise BadValue(
            text,
            expected=f"a name of 1 to {NAME_BYTES_MAX} bytes, printable, without /, not beginning"
            " with a dash, id: or name:",
            remedy="Choose another, such as workbench",
            field="name",
        )
    return text
