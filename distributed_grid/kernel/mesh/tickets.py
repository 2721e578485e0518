"""The tickets that this node has issued, and who came in with them.

Lives here: the issuer's book, and the proof that somebody holds a ticket. Never here: its text
(`wire.ticket`), letting in (`trust`), the disk: whoever redeems saves the book before it answers.
Invariant: a ticket lets in as many nodes as it says, counted by node id, however often each asks;
only who proves to hold the secret learns what has become of the ticket.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from distributed_grid.errors import NotPermitted
from distributed_grid.model.bounds import Most
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import MeshId, Person, Role, TicketRecord
from distributed_grid.wire.mesh import Redeem, Refused
from distributed_grid.wire.mesh_api import TICKET_TTL_MS_MAX, TICKET_USES_MAX

RECORDS_MAX: Final = 1_000  # Years of tickets for one person.
PLACES_MAX: Final = 10_000  # Uses of all tickets together: the book stays below a megabyte.
SECRET_BYTES: Final = 16  # Nobody guesses 128 bits, and a ticket stays short enough for a QR code.
ID_DIGITS: Final = 16

TicketState = Literal["open", "used-up", "expired", "revoked"]
_decoder: Final = msgspec.msgpack.Decoder(Most[TicketRecord])


class Redeemed(msgspec.Struct, frozen=True, kw_only=True):
    """Let it in. Not new: it was let in before, and asks again."""

    record: TicketRecord
    is_new: bool


class Tickets:
    """The book of one issuer."""

    def __init__(
        self, *, mesh: MeshId, issuer: NodeId, records: Iterable[TicketRecord] = ()
    ) -> None:
        self.mesh = mesh
        self.issuer = issuer
        self._records = {record.id: record for record in records}

    @classmethod
    def from_bytes(cls, body: bytes, *, mesh: MeshId, issuer: NodeId) -> "Tickets":
        """The book as `to_bytes` wrote it; raises msgspec.DecodeError for anything else."""
        return cls(mesh=mesh, issuer=issuer, records=_decoder.decode(body))

    def to_bytes(self) -> bytes:
        """The whole book, secrets included."""
        return msgspec.msgpack.encode(self.records())

    def records(self) -> tuple[TicketRecord, ...]:
        """All that is remembered, the oldest first."""
        return tuple(self._records.values())

    def people(self) -> dict[str, Person]:
        """Whose machines they let in, by id."""
        invited = (record.person for record in self._records.values())
        return {person.id: person for person in invited if person is not None}

    def get(self, ticket: str) -> TicketRecord | None:
        """One of them, by its public id."""
        return self._records.get(ticket)

    def make(
        self,
        *,
        role: Role,
        ttl_ms: int,
        uses: int,
        secret: bytes,
        now_ms: int,
        person: Person | None = None,
    ) -> TicketRecord:
        """A new ticket. The secret is the caller's dice; the limits are checked at the door."""
        assert len(secret) == SECRET_BYTES, "whoever rolls the dice rolls enough of them"
        assert 0 < ttl_ms <= TICKET_TTL_MS_MAX, "checked at the door"
        assert 0 < uses <= TICKET_USES_MAX, "checked at the door"
        record = TicketRecord(
            id=ticket_id(secret), secret=secret, role=role, made_ms=now_ms,
            expires_ms=now_ms + ttl_ms, uses_max=uses, person=person,
        )  # fmt: skip
        self._make_room(uses, now_ms)
        self._records[record.id] = record
        return record

    def redeem(self, asked: Redeem, now_ms: int) -> Redeemed | Refused:
        """Count a newcomer, unless it was counted before. Save the book before you answer."""
        if asked.mesh != self.mesh:
            return Refused(reason="other-mesh", detail="the ticket is for another mesh")
        record = self._records.get(asked.ticket)
        if record is None or asked.issuer != self.issuer:
            return Refused(reason="ticket-unknown", detail="it was not issued here, or long ago")
        expected = mac(record.secret, self.mesh, self.issuer, asked.node)
        if not hmac.compare_digest(expected, asked.mac):
            return Refused(reason="forged", detail="whoever asks does not hold the ticket")
        if record.is_revoked:
            return Refused(reason="ticket-revoked", detail="its issuer has withdrawn it")
        if asked.node in record.used_by:
            return Redeemed(record=record, is_new=False)
        if now_ms >= record.expires_ms:
            return Refused(reason="ticket-expired", detail="ask its issuer for a new one")
        if len(record.used_by) >= record.uses_max:
            detail = f"it lets in {record.uses_max}, and they are in"
            return Refused(reason="ticket-used-up", detail=detail)
        record = msgspec.structs.replace(record, used_by=(*record.used_by, asked.node))
        self._records[record.id] = record
        return Redeemed(record=record, is_new=True)

    def revoke(self, ticket: str) -> TicketRecord | None:
        """Void a ticket; whoever is in stays in. None: there is no such ticket."""
        record = self._records.get(ticket)
        if record is None:
            return None
        record = msgspec.structs.replace(record, is_revoked=True)
        self._records[ticket] = record
        return record

    def _make_room(self, uses: int, now_ms: int) -> None:
        """Forget dead tickets, those first that nobody can ask for again."""
        dead = [record for record in self._records.values() if state_of(record, now_ms) != "open"]
        dead.sort(key=lambda record: (state_of(record, now_ms) == "used-up", record.made_ms))
        places = sum(record.uses_max for record in self._records.values())
        surplus = len(self._records) - len(dead)
        open_places = places - sum(record.uses_max for record in dead)
        if surplus >= RECORDS_MAX or open_places + uses > PLACES_MAX:
            raise NotPermitted(
                f"more than {RECORDS_MAX} open tickets, or {PLACES_MAX} uses of them together",
                remedy="Revoke some: see grid ticket list, then grid ticket revoke ID",
            )
        for record in dead:
            if len(self._records) < RECORDS_MAX and places + uses <= PLACES_MAX:
                break
            places -= record.uses_max
            del self._records[record.id]


def state_of(record: TicketRecord, now_ms: int) -> TicketState:
    """What has become of a ticket."""
    if record.is_revoked:
        return "revoked"
    if now_ms >= record.expires_ms:
        return "expired"
    return "used-up" if len(record.used_by) >= record.uses_max else "open"


def ticket_id(secret: bytes) -> str:
    """How a ticket is called in public."""
    return hashlib.sha256(b"grid ticket id" + secret).hexdigest()[:ID_DIGITS]


def mac(secret: bytes, mesh: MeshId, issuer: NodeId, node: NodeId) -> bytes:
    """The proof that this node holds the secret, for this issuer only; worthless to others."""
    message = b"grid ticket mac 1\0" + msgspec.msgpack.encode((mesh, issuer, node))
    return hmac.digest(secret, message, "sha256")
