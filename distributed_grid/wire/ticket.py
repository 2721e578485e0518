"""A ticket as one line of text that people copy, scan or read aloud.

Lives here: `grid1` and base32 of version, length, body and checksum. Never here: what a ticket is
worth (`kernel.mesh.tickets`).
Invariant: a text that was cut, or changed in any one place, is refused; no message repeats any of
it, because it holds a secret.
"""

import base64
import binascii
from typing import Annotated, Final, NoReturn

import msgspec

from distributed_grid.errors import BadTicket
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import ADDRESSES_MAX, Contact, MeshId, Ticket
from distributed_grid.refusals import TicketFault

PREFIX: Final = "grid1"
VERSION: Final = 1
TEXT_CHARACTERS_MAX: Final = 4_096  # What a QR code holds, and more than we write.
OTHERS_MAX: Final = 3  # Members that forward; more would not fit a QR code that phones can read.
ADDRESS_CHARACTERS_MAX: Final = 255  # Of a host name, with its port.
HEAD_BYTES: Final = 3
CHECKSUM_BYTES: Final = 4

_Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Word = Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARACTERS_MAX, pattern=r"^[!-~]*$")]


class _Way(msgspec.Struct, frozen=True, array_like=True):
    """A contact in few bytes."""

    node: _Key
    addresses: Annotated[tuple[_Word, ...], msgspec.Meta(max_length=ADDRESSES_MAX)]
    relay: _Word


class _Body(msgspec.Struct, frozen=True, array_like=True):
    mesh: _Key
    issuer: _Way
    others: Annotated[tuple[_Way, ...], msgspec.Meta(max_length=OTHERS_MAX)]
    secret: Annotated[bytes, msgspec.Meta(min_length=16, max_length=64)]
    expires_ms: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


_decoder: Final = msgspec.msgpack.Decoder(_Body)


def ticket_text(ticket: Ticket) -> str:
    """One line, to be carried over. What does not fit is left out, the least promising first."""
    text = _text(ticket)
    while len(text) > TEXT_CHARACTERS_MAX:
        addresses = ticket.issuer.addresses
        ticket = msgspec.structs.replace(
            ticket,
            issuer=msgspec.structs.replace(ticket.issuer, addresses=addresses[:-1])
            if not ticket.others
            else ticket.issuer,
            others=ticket.others[:-1],
        )
        text = _text(ticket)
    return text


def _text(ticket: Ticket) -> str:
    body = msgspec.msgpack.encode(
        _Body(
            mesh=bytes.fromhex(ticket.mesh),
            issuer=_way(ticket.issuer),
            others=tuple(_way(contact) for contact in ticket.others[:OTHERS_MAX]),
            secret=ticket.secret,
            expires_ms=ticket.expires_ms,
        )
    )
    data = bytes([VERSION]) + len(body).to_bytes(2, "big") + body
    return PREFIX + _letters(data + _checksum(data))


def read_ticket(text: str) -> Ticket:
    """The ticket in a text, whatever white space and case it came with; raises BadTicket."""
    letters = "".join(text[: 4 * TEXT_CHARACTERS_MAX].split()).lower()
    if not letters.startswith(PREFIX) or len(letters) > TEXT_CHARACTERS_MAX:
        _refuse("no-ticket")
    data = _bytes(letters[len(PREFIX) :])
    if len(data) < HEAD_BYTES:
        _refuse("cut-off")
    size = HEAD_BYTES + int.from_bytes(data[1:HEAD_BYTES], "big") + CHECKSUM_BYTES
    if len(data) < size:
        _refuse("cut-off")
    whole = data[: size - CHECKSUM_BYTES]
    # Written again: bits that no byte needs, and letters after the end, would go unnoticed.
    if letters != PREFIX + _letters(whole + _checksum(whole)):
        _refuse("mistyped")
    if whole[0] != VERSION:
        _refuse("newer")
    return _ticket(whole[HEAD_BYTES:])


def _ticket(body: bytes) -> Ticket:
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _refuse("no-ticket")
    return Ticket(
        mesh=MeshId(found.mesh.hex()),
        issuer=_contact(found.issuer),
        others=tuple(_contact(way) for way in found.others),
        secret=found.secret,
        expires_ms=found.expires_ms,
    )


def _refuse(fault: TicketFault) -> NoReturn:
    # From None: the text that could not be read is a secret, and tracebacks are printed.
    raise BadTicket(fault) from None


def _letters(data: bytes) -> str:
    return base64.b32encode(data).decode("ascii").rstrip("=").lower()


def _bytes(letters: str) -> bytes:
    """As many whole bytes as the letters make."""
    count = len(letters) * 5 // 8
    padded = letters.upper() + "A" * (-len(letters) % 8)
    try:
        return base64.b32decode(padded)[:count]
    except ValueError:
        _refuse("mistyped")


def _checksum(data: bytes) -> bytes:
    """CRC-32 notices every error within 32 bits, which is six letters; a hash only most."""
    return binascii.crc32(data).to_bytes(CHECKSUM_BYTES, "big")


def _way(contact: Contact) -> _Way:
    return _Way(
        node=bytes.fromhex(contact.node),
        addresses=contact.addresses[:ADDRESSES_MAX],
        relay=contact.relay,
    )


def _contact(way: _Way) -> Contact:
    return Contact(node=NodeId(way.node.hex()), addresses=way.addresses, relay=way.relay)
