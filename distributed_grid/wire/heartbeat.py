"""Heartbeats: datagrams in which members tell each other who spoke when.

Lives here: the bytes, fixed and small, of this version and the one before. Never here: what follows
from them (`kernel.mesh.liveness`).
Invariant: whatever anybody sends, `decode` gives a heartbeat or raises ValueError; none is larger
than a datagram that every network carries whole.

    version u8 · kind u8 · incarnation u8 · beat u16 · about u32 · count u8
    from version 2 on: sent u32 · echo u32 · held u32          (microseconds)
    count times: short id u32 · incarnation u8 · beat u16 · health 2 bits and age 14 bits

The beats of a node are counted, and its incarnation is what the count carries into; both together
are one number of 24 bits, the stamp. An age is news only together with a later stamp. So no two
machines can keep the memory of a third one young by telling each other, which transit times would
otherwise do.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import PREVIOUS, PROTOCOL, SPOKEN

DATAGRAM_BYTES_MAX: Final = 1_150  # QUIC promises 1,200 on any path, less its own header.
MEMBER_BYTES: Final = 9

BEAT: Final = 0  # Nothing is asked.
PROBE: Final = 1  # Answer at once; `about` is who wants to know.
ANSWER: Final = 2  # I am here; `about` is who wanted to know.
REQUEST: Final = 3  # Please probe `about` for me.
RELAYED: Final = 4  # I probed `about` for you, and it answered.
_KINDS: Final = RELAYED + 1

ALIVE: Final = 0
SUSPECT: Final = 1
DEAD: Final = 2

AGE_UNIT_US: Final = 10_000
AGE_UNITS_MAX: Final = 0x3FFF  # 164 s; what is older is all the same.
STAMP_MASK: Final = 0xFF_FFFF
STAMP_HALF: Final = 0x80_0000  # 19 days of beats: two stamps of a node are never further apart.
NO_ECHO: Final = 0xFFFF_FFFF
CLOCK_MASK: Final = 0xFFFF_FFFF

_HEAD: Final = struct.Struct("<BBBHIB")
_CLOCKS: Final = struct.Struct("<III")
_MEMBER: Final = struct.Struct("<IBHH")
MEMBERS_MAX: Final = (DATAGRAM_BYTES_MAX - _HEAD.size - _CLOCKS.size) // MEMBER_BYTES

Kind = Literal[0, 1, 2, 3, 4]


class Heartbeat(NamedTuple):
    """One datagram."""

    kind: int
    stamp: int  # Of the sender: incarnation and beat.
    about: int  # A short id; what for depends on the kind.
    members: bytes = b""  # See `members_of`.
    sent_us: int = 0  # The sender's clock, its lower 32 bits.
    echo_us: int = 0  # The last `sent_us` of the receiver,
    held_us: int = NO_ECHO  # and how long ago it came. NO_ECHO: none, or none of late.
    version: int = PROTOCOL

    @property
    def has_clocks(self) -> bool:
        """Whether it can measure a round trip."""
        return self.version != PREVIOUS


def short_id(node: NodeId) -> int:
    """The first four bytes of a node id."""
    return int(node[:8], 16)


def is_later(stamp: int, known: int) -> bool:
    """Whether a node said the first after the second; the numbers wrap."""
    return 0 < (stamp - known) & STAMP_MASK < STAMP_HALF


def packed_member(short: int, stamp: int, health: int, age_us: int) -> bytes:
    """What is known of one member. Ages are rounded up: no hop makes anybody younger."""
    units = 0 if age_us <= 0 else min(-(-age_us // AGE_UNIT_US), AGE_UNITS_MAX)
    return _MEMBER.pack(short, stamp >> 16, stamp & 0xFFFF, health << 14 | units)


def members_of(packed: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(short id, incarnation, beat, health << 14 | age in units): raw, as 600 come every second."""
    return _MEMBER.iter_unpack(packed)


def joined(members: Iterable[bytes]) -> bytes:
    """Packed members as one piece, as many as fit into a datagram."""
    return b"".join(members)[: MEMBERS_MAX * MEMBER_BYTES]


def encode(beat: Heartbeat) -> bytes:
    """A heartbeat as a datagram of its version."""
    head = _HEAD.pack(
        beat.version,
        beat.kind,
        beat.stamp >> 16,
        beat.stamp & 0xFFFF,
        beat.about,
        len(beat.members) // MEMBER_BYTES,
    )
    if beat.version == PREVIOUS:
        return head + beat.members
    return head + _CLOCKS.pack(beat.sent_us, beat.echo_us, beat.held_us) + beat.members


def decode(datagram: bytes) -> Heartbeat:
    """A heartbeat from bytes that anybody may have sent; raises ValueError if they are none."""
    if not _HEAD.size <= len(datagram) <= DATAGRAM_BYTES_MAX:
        raise ValueError(f"a heartbeat of {len(datagram)} bytes")
    version, kind, incarnation, beat, about, count = _HEAD.unpack_from(datagram)
    if version not in SPOKEN:
        raise ValueError(f"a heartbeat of version {version}")
    if kind >= _KINDS:
        raise ValueError(f"a heartbeat of kind {kind}")
    start = _HEAD.size + (0 if version == PREVIOUS else _CLOCKS.size)
    if len(datagram) != start + count * MEMBER_BYTES:
        raise ValueError(f"a heartbeat of {len(datagram)} bytes with {count} members")
    stamp, members = incarnation << 16 | beat, datagram[start:]
    if version == PREVIOUS:
        return Heartbeat(kind, stamp, about, members, version=version)
    sent_us, echo_us, held_us = _CLOCKS.unpack_from(datagram, _HEAD.size)
    return Heartbeat(kind, stamp, about, members, sent_us, echo_us, held_us, version)
