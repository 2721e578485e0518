"""One node's copy of what all nodes say of themselves, kept equal to its neighbours' copies.

Lives here: publishing, taking, what to tell which neighbour when. Never here: verifying signatures
(the edge does, before), who belongs (`roster`), which neighbours there are (`topology`).
Invariant: nothing that a node said is ever replaced by what it said before, here or at others; each
node is the only writer of its entries, and starts over under a higher generation whenever somebody
knows more of it than it does itself.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from distributed_grid.kernel.mesh import replica_store
from distributed_grid.kernel.mesh.ranges import LIST_MAX, name_of
from distributed_grid.kernel.mesh.replica_links import Link
from distributed_grid.kernel.mesh.replica_maps import Maps
from distributed_grid.kernel.mesh.replica_reconciling import answer, compare
from distributed_grid.kernel.mesh.replica_voice import Voice
from distributed_grid.kernel.mesh.signing import Signer
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import CERTIFICATE_MS, RENEW_MS, MeshId
from distributed_grid.wire.mesh import (
    GENERATION_FINAL,
    Delta,
    DeltaTaken,
    Entry,
    Have,
    Key,
    MeshMessage,
    RangeHash,
    Ranges,
    Remember,
)

MINUTE_US: Final = 60_000_000
JITTER_US: Final = 10_000_000  # So that 50 neighbours do not compare at the same moment.
SETTLE_US: Final = 2_000_000  # If the neighbour that should begin has not; see `link_up`.
LESSON_US: Final = 1_000_000  # A newcomer's first source may pause for so long...
LESSONS_US: Final = 10_000_000  # ...and take so long in all, before others are asked as well.
OVERDUE_US: Final = 10_000_000  # Something is always under way: compare nevertheless.
REVOKED_US: Final = (CERTIFICATE_MS + RENEW_MS) * 1_000  # Then no certificate of it is valid.

Gossip = Delta | DeltaTaken | Ranges | Have | Remember


class Replica:
    """What all nodes said, as far as it came here."""

    def __init__(
        self, *, me: NodeId, mesh: MeshId, signer: Signer, generation: int, now_us: int
    ) -> None:
        self.me = me
        self.mesh = mesh
        self.deltas_sent = self.entries_sent = self.entries_taken = self.ranges_sent = 0
        self.staleness_us = 0  # How long the stalest entry has been waiting for a neighbour.
        self._maps = Maps()
        self._voice = Voice(
            me=me, mesh=mesh, signer=signer, generation=generation, maps=self._maps, now_us=now_us
        )
        self._links: dict[NodeId, Link] = {}
        self._numbers = 0  # Of deltas.
        self._now_us = now_us
        self._teacher: NodeId | None = None  # Who is telling us much; others wait meanwhile.
        self._lesson_us = 0  # Until when, if nothing more comes.
        self._lessons_us = 0  # Until when at most.

    @property
    def generation(self) -> int:
        """Of this node. It has to be durable before anything is sent under it."""
        return self._voice.generation

    @property
    def refused(self) -> int:
        """Entries that were malformed, or of one node too many."""
        return self._maps.refused

    # Reading

    def entry(self, node: NodeId, key: Key) -> Entry | None:
        """What a node said, signed."""
        state = self._maps.nodes.get(node)
        held = state.held.get(key) if state is not None else None
        return held.entry if held is not None else None

    def value(self, node: NodeId, key: Key) -> bytes:
        """What a node said; empty: nothing, or it was withdrawn."""
        entry = self.entry(node, key)
        return entry.value if entry is not None else b""

    def nodes(self) -> list[NodeId]:
        """All of which anything is known, this one included."""
        return sorted(self._maps.nodes)

    def generation_of(self, node: NodeId) -> int:
        """The highest that was seen; 0: none. Of this node: under which it speaks."""
        return self.generation if node == self.me else self._maps.remembered(node)

    def unaware(self, key: Key) -> list[NodeId]:
        """Neighbours that did not acknowledge what this node last said of it."""
        held = self._maps.items.get(name_of(self.me, key))
        knows = held.knows if held is not None else 0
        return [peer for peer, link in self._links.items() if not knows & link.bit]

    def is_news(self, entry: Entry) -> bool:
        """Whether it would change something, if it turns out to be genuine."""
        return self._maps.is_news(entry) or self._voice.is_outlived(entry)

    def has(self, entry: Entry) -> bool:
        """Whether exactly this is here: then it is genuine, and tells what a neighbour has."""
        return self.entry(entry.node, entry.key) == entry

    # Writing

    def publish(self, key: Key, value: bytes, now_us: int) -> Entry | None:
        """Say something about this node; None: there is nothing new in it."""
        return self._voice.say(key, value, now_us)

    def begin_generation(self, now_us: int) -> int:
        """Start over; what is not published again by the next round is said again as it was."""
        self._voice.begin(now_us)
        return self.generation

    def take(self, entries: Iterable[Entry], *, source: NodeId | None, now_us: int) -> list[Entry]:
        """Merge verified entries; returns what changed, own entries under a new generation too."""
        self._now_us = max(self._now_us, now_us)
        link = self._links.get(source) if source is not None else None
        bit = link.bit if link is not None else 0
        changed: list[Entry] = []
        maps = self._maps
        for entry in entries:
            if self.has(entry):  # As most of what comes; the neighbour has it, too.
                maps.nodes[entry.node].held[entry.key].knows |= bit
                continue
            is_own = entry.node == self.me and entry.generation < GENERATION_FINAL
            if is_own and maps.is_news(entry):
                changed += self._voice.echoed(entry, now_us)
            if is_own and self._voice.is_outlived(entry):
                changed.append(self._voice.withdraw(entry.key, now_us))
            held = None if is_own else maps.take(entry, now_us)
            if held is not None:
                held.knows = bit
                changed.append(entry)
        self.entries_taken += len(changed)
        return changed

    # Neighbours

    def link_up(self, peer: NodeId, now_us: int) -> list[MeshMessage]:
        """There is a link. One of the two begins to compare; the other does if nothing comes."""
        self.link_down(peer)
        used = 0
        for link in self._links.values():
            used |= link.bit
        is_first = self.me < peer
        self._links[peer] = link = Link(
            peer,
            bit=~used & (used + 1),
            reconcile_us=now_us + SETTLE_US,
        )
        if is_first:
            link.compared(self._maps, now_us + self._minute_us(peer))
        remember = Remember(generation=self._maps.remembered(peer))
        return [remember, self._everything()] if is_first else [remember]

    def link_down(self, peer: NodeId) -> None:
        """The link is gone, and what is known of the neighbour with it."""
        link = self._links.pop(peer, None)
        if peer == self._teacher:
            self._teacher = None
        if link is not None:
            for held in self._maps.items.values():
                held.knows &= ~link.bit

    def receive(
        self, peer: NodeId, message: Gossip, now_us: int
    ) -> tuple[list[MeshMessage], list[Entry]]:
        """What a neighbour says: the answers, and what changed here."""
        link = self._links.get(peer)
        if link is None:
            return [], []
        self._now_us = max(self._now_us, now_us)
        match message:
            case Delta(number=number, entries=entries):
                changed = self.take(entries, source=peer, now_us=now_us)
                if changed and peer == self._teacher:
                    self._lesson_us = min(now_us + LESSON_US, self._lessons_us)
                return [DeltaTaken(number=number)], changed
            case DeltaTaken(number=number):
                return self._taken(link, number, now_us), []
            case Ranges(ranges=ranges):
                if self._is_postponed(link, ranges, now_us):
                    return [], []
                answers = compare(ranges, link, self._maps)
                self.ranges_sent += sum(isinstance(each, Ranges) for each in answers)
                return answers, []
            case Have():
                return answer(message, link, self._maps), []
        return [], self._voice.remembered(message.generation, now_us)

    def round(self, peers: Sequence[NodeId], now_us: int) -> list[tuple[NodeId, MeshMessage]]:
        """What these neighbours should hear now; the others hear only what they lack."""
        self._now_us = max(self._now_us, now_us)
        self._voice.say_again(now_us)
        self.staleness_us = 0
        partners = frozenset(peers)
        messages: list[tuple[NodeId, MeshMessage]] = []
        for peer, link in self._links.items():
            is_partner = peer in partners
            if not is_partner and link.is_settled:
                continue  # As most of thirty, five times a second.
            if is_partner and link.is_compared:
                waiting_us = self._maps.arrivals.waiting_us(link.cursor, now_us)
                self.staleness_us = max(self.staleness_us, waiting_us)
            messages += [(peer, delta) for delta in self._delta(link, now_us, is_partner)]
            if is_partner or not link.is_compared:
                late_us = now_us - link.reconcile_us
                is_first = not link.is_compared
                if late_us >= (0 if is_first or link.is_idle(self._maps) else OVERDUE_US):
                    link.compared(self._maps, now_us + self._minute_us(peer))
                    messages.append((peer, self._everything()))
        return messages

    def _delta(self, link: Link, now_us: int, is_partner: bool) -> list[MeshMessage]:
        delta = link.delta(self._maps, self._numbers + 1, now_us, is_partner=is_partner)
        if delta is None:
            return []
        self._numbers += 1
        self.deltas_sent += 1
        self.entries_sent += len(delta.entries)
        return [delta]

    def _taken(self, link: Link, number: int, now_us: int) -> list[MeshMessage]:
        self._voice.heard(link.taken(number, self._maps))
        # Who lacks much is not kept waiting for the next round.
        return self._delta(link, now_us, is_partner=False)

    def _is_postponed(self, link: Link, ranges: tuple[RangeHash, ...], now_us: int) -> bool:
        """Whether to compare later: a newcomer learns everything from one, not from each."""
        if not ranges or ranges[0].low or ranges[0].high:
            return False
        link.compared(self._maps, now_us + self._minute_us(link.peer))
        if ranges[0].count <= len(self._maps.items) + LIST_MAX:
            return False
        if self._teacher not in {None, link.peer} and now_us < self._lesson_us:
            link.put_off(now_us + LESSON_US)
            return True
        if not link.has_taught:  # Claiming much again and again must not keep others away.
            link.has_taught = True
            self._teacher, self._lesson_us = link.peer, now_us + LESSON_US
            self._lessons_us = now_us + LESSONS_US
        return False

    def _everything(self) -> Ranges:
        self.ranges_sent += 1
        return Ranges(ranges=(self._maps.ranges.range(),))

    def _minute_us(self, peer: NodeId) -> int:
        chance = int.from_bytes(blake2b(f"{self.me}{peer}".encode(), digest_size=4).digest(), "big")
        return MINUTE_US + chance % JITTER_US

    # Forgetting and keeping

    def forget(self, node: NodeId, *, may_return: bool = False) -> None:
        """A node is of no interest any more; what it said so far does not come back.

        Unless it may return, with what it last said too: then others judge that.
        """
        assert node != self.me, "not this one"
        self._maps.drop(node, may_return=may_return)

    def drop_old(self, now_us: int, grace_us: int, *, revoked_us: int = REVOKED_US) -> list[NodeId]:
        """Forget who left, or withdrew everything, so long ago; and who was revoked, later."""
        self._now_us = max(self._now_us, now_us)
        out = self._maps.outdated(now_us, grace_us=grace_us, revoked_us=revoked_us)
        others = [node for node in out if node != self.me]
        for node in others:
            self.forget(node)
        return others

    def dump(self) -> bytes:
        """All of it, for the disk."""
        return replica_store.encoded(
            self._maps,
            me=self.me,
            mesh=self.mesh,
            now_us=self._now_us,
        )

    def recall(self, dump: bytes, *, away_us: int) -> list[tuple[Entry, int]] | None:
        """What a dump holds of others, with the age of each; whoever asks takes what still counts.

        Whom this node has forgotten stays so. None: the dump is damaged, or another's.
        """
        stored = replica_store.decoded(dump)
        if stored is None or (stored.me, stored.mesh) != (self.me, self.mesh):
            return None
        self._maps.gone |= stored.gone
        return stored.others(away_us)
