"""What members of a mesh say to each other on a control stream, and before they are members.

Lives here: one struct for each message, the versions that are spoken, the limits. Never here:
heartbeats, which are datagrams (`heartbeat`); what is said to clients (`mesh_api`).
Invariant: nothing but `Hello`, `Redeem` and `Renew` is read from a peer whose certificate was not
checked; every list has a limit, and so has every message.
"""

from typing import Final, Literal

import msgspec

from distributed_grid.model.bounds import Body, Bytes, Count, Lot, Moment, Most, Name, Seal, Story
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Chain, Contact, MeshId

PROTOCOL: Final = 2
PREVIOUS: Final = 1  # Still spoken: its heartbeats have no round-trip echoes.
SPOKEN: Final = (PREVIOUS, PROTOCOL)
JOBS: Final = 1  # The version of what is said about jobs; who says none would take it for junk.
ALPN: Final = "grid/mesh"  # The version is agreed on in `Hello`, where a refusal can say why.

MESSAGE_BYTES_MAX: Final = 64 << 10  # Of a member.
GREETING_BYTES_MAX: Final = 8 << 10  # Of a stranger: a chain of four certificates is 1.5 kB.
DELTA_BYTES_MAX: Final = 32 << 10  # Of entries in one message: 100 ms of a 2.5 Mbit/s uplink.
VALUE_BYTES_MAX: Final = 8 << 10  # Of one entry: a server with 16 GPUs and 64 labels is 4 kB.
ENTRIES_MAX: Final = 8  # Of one node.
RANGES_MAX: Final = 64  # In one message.
ITEMS_MAX: Final = 256  # In one message.
# What reading bytes of others may raise: text that is none is no DecodeError of msgspec's.
JUNK: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
GENERATION_FINAL: Final = 2**62  # Of a revocation: nothing of that node comes after it.

Key = Literal[
    "profile",  # What it is: NodeProfile.
    "load",  # What is free and how busy it is.
    "offers",
    "coordinate",
    "contact",  # How to reach it.
    "chain",  # Its certificates.
    "verdicts",  # Whose capabilities it has checked.
    "left",  # It said goodbye.
    "revoked",  # Written by a delegate instead: the value is a Revocation, the generation final.
]

Reason = Literal[
    "stranger",  # No certificate of this mesh.
    "other-mesh",
    "expired",
    "revoked",
    "forged",  # A signature or a MAC is wrong.
    "malformed",
    "protocol",  # No version in common.
    "ticket-expired",
    "ticket-used-up",
    "ticket-revoked",
    "ticket-unknown",
    "issuer-unreachable",
    "busy",  # Too many at once; later.
    "clone",  # Two machines use one key.
    "not-permitted",
    "denied",  # By the owner's lists of addresses.
]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One of the few things that a node says about itself, signed by it."""

    node: NodeId
    generation: Lot
    key: Key
    version: Lot  # Counted over all entries of a node in a generation.
    value: Body  # Empty: the node has withdrawn it.
    signature: Seal = b""

    def signed_bytes(self, mesh: MeshId) -> bytes:
        """What the signature is over."""
        return b"grid entry 1\0" + msgspec.msgpack.encode(
            (mesh, self.node, self.generation, self.key, self.version, self.value)
        )


class Hello(msgspec.Struct, frozen=True, tag="hello", kw_only=True):
    """The first message each way: who I am, on whose word, since when."""

    mesh: MeshId
    chain: Chain
    speaks: Most[Count] = SPOKEN
    jobs: Count = 0  # The highest version that it understands on the job lane; 0: none.
    machine: Name = ""  # A hash of the machine's id with the mesh's: tells clones, not machines.
    nonce: Name = ""  # Another at every start.
    generation: Lot = 0
    # The sender's clock: whose own is older than its programme takes the median.
    wall_ms: Moment = 0


class Refused(msgspec.Struct, frozen=True, tag="refused", kw_only=True):
    """No; and why. The connection is closed after it."""

    reason: Reason
    detail: Story = ""
    about: Name = ""  # The newcomer, in an answer to a member that forwarded its ticket.


class Redeem(msgspec.Struct, frozen=True, tag="redeem", kw_only=True):
    """A newcomer asks for a certificate. The secret itself is never sent."""

    mesh: MeshId
    ticket: Name  # Its public id.
    issuer: NodeId
    node: NodeId  # The newcomer; a member that forwards has checked it against the connection.
    name: Name
    mac: Seal  # Over both node ids, keyed with the secret.


class Welcome(msgspec.Struct, frozen=True, tag="welcome", kw_only=True):
    """The newcomer is one of us, and can reach these."""

    chain: Chain
    contacts: Most[Contact] = ()
    members: Count = 0  # As the issuer counts them, the newcomer too; 0: it does not say.


class Renew(msgspec.Struct, frozen=True, tag="renew", kw_only=True):
    """A member asks a delegate for a later expiry, or another name."""

    chain: Chain
    name: Name = ""


class Renewed(msgspec.Struct, frozen=True, tag="renewed", kw_only=True):
    """The chain with the later expiry; also sent unasked, when a delegate was revoked."""

    chain: Chain


class Delta(msgspec.Struct, frozen=True, tag="delta", kw_only=True):
    """Entries that the receiver may not have, in the order of their arrival at the sender."""

    number: Lot  # The sender's own; never used twice. It stands for its cursor after these.
    entries: Most[Entry]


class DeltaTaken(msgspec.Struct, frozen=True, tag="taken", kw_only=True):
    """Everything up to this delta was taken or was old."""

    number: Lot


class RangeHash(msgspec.Struct, frozen=True, array_like=True):
    """All items from `low` up to but without `high` (empty: no end), as one hash."""

    low: Name  # `node/key`
    high: Name
    count: Count
    hash: Seal


class Ranges(msgspec.Struct, frozen=True, tag="ranges", kw_only=True):
    """Compare: what differs is split, or listed when small."""

    ranges: Most[RangeHash]


class Item(msgspec.Struct, frozen=True, array_like=True):
    """What somebody has, without its value."""

    node: NodeId
    key: Key
    generation: Lot
    version: Lot
    mark: Lot = 0  # Some bits of its hash: a clone may have written another with this version.


class Have(msgspec.Struct, frozen=True, tag="have", kw_only=True):
    """What the sender has in this range; the receiver sends what is newer, and asks back once.

    An answer lists only what is asked for: what the sender has of it, or generation 0.
    """

    low: Name
    high: Name
    items: Most[Item]
    is_answer: bool = False


class Remember(msgspec.Struct, frozen=True, tag="remember", kw_only=True):
    """At connect: the highest generation of you that I have seen."""

    generation: Lot
    incarnation: Lot = 0


class Challenge(msgspec.Struct, frozen=True, tag="challenge", kw_only=True):
    """Show that you have what you claim: hash on all cores at once, fill memory, name devices."""

    number: Lot
    seed: Seal
    cores: Count
    rounds: Count
    memory_bytes: Bytes


class Proof(msgspec.Struct, frozen=True, tag="proof", kw_only=True):
    """The results, in the order of the cores, with the time each took."""

    number: Lot
    digests: Most[Body]
    elapsed_us: Most[Count]
    memory_digest: Seal = b""
    worked_us: Count = 0  # All cores together, from the first start to the last end; 0: not told.
    others_us: Count = 0  # Of processor time that others on this machine had meanwhile.
    memory_us: Count = 0
    devices: Most[tuple[Name, Bytes]] = ()  # GPU uuid and memory in bytes, as the driver says.


class CloneSeen(msgspec.Struct, frozen=True, tag="clone", kw_only=True):
    """Told to both ends: another machine uses your key."""

    machine: Name
    nonce: Name


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye", kw_only=True):
    """The sender closes this connection on purpose."""

    reason: Literal["idle", "leaving", "restarting", "full"]
    is_down: bool = False  # Its agent was told to stop: nobody starts another at once.


MeshMessage = (
    Hello | Refused | Redeem | Welcome | Renew | Renewed | Delta | DeltaTaken | Ranges | Have
    | Remember | Challenge | Proof | CloneSeen | Goodbye
)  # fmt: skip

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[MeshMessage] = msgspec.msgpack.Decoder(MeshMessage)


def encode(message: MeshMessage) -> bytes:
    """A message as bytes, without a frame."""
    return _encoder.encode(message)


def decode(body: bytes) -> MeshMessage:
    """A message from bytes that anybody may have sent; raises one of `JUNK`."""
    return _decoder.decode(body)
