"""Who is alive: ages carried by heartbeats, suspicion, probes, verdicts.

Lives here: what each heartbeat and each moment changes. Never here: bytes (`wire.heartbeat`), who
is linked to whom (`topology`), what follows from a death (`machine`).
Invariant: a node that spoke, to us or to anybody who tells us, within `suspect_us` is alive; nobody
is given up before it was probed; time in which we did not run is held against nobody.

A verdict is local, up to a hundred nodes. In a larger mesh each node is watched by a few, and the
others believe the latest that reaches them: the later stamp wins, and of two equal ones the death.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from distributed_grid.kernel.mesh.liveness_news import News, packed
from distributed_grid.kernel.mesh.liveness_roster import NEWLY_KNOWN, UNHEARD, Deck, Peer, Roster
from distributed_grid.kernel.mesh.liveness_rules import (
    GOODBYE,
    LAN,
    WAN,
    Change,
    Health,
    LivenessRules,
    Vital,
    seconds,
    why_dead,
    why_suspect,
)
from distributed_grid.kernel.mesh.round_trips import RoundTrips
from distributed_grid.model.ids import NodeId
from distributed_grid.wire import heartbeat as wire
from distributed_grid.wire.heartbeat import (
    AGE_UNIT_US,
    AGE_UNITS_MAX,
    STAMP_HALF,
    STAMP_MASK,
    Heartbeat,
    is_later,
)
from distributed_grid.wire.mesh import SPOKEN

__all__ = ["LAN", "WAN", "Change", "Health", "Liveness", "LivenessRules", "Vital"]

PROBES_MAX: Final = 64  # Datagrams in one tick, when half of a mesh is gone at once.
WANTED_MAX: Final = 16  # Links at once, as above.
_QUARTER_OF: Final = 4  # A quarter of fewer peers is less than one of them, and says nothing.

Sent = list[tuple[NodeId, bytes]]


class Liveness:
    """Watches the other members of a mesh."""

    def __init__(
        self,
        *,
        me: NodeId,
        rules: LivenessRules,
        chance: Callable[[int], int],
        now_us: int,
    ) -> None:
        self._rules, self._chance = rules, chance
        self._short = wire.short_id(me)
        self._stamp = 0
        self._roster = Roster(me, rules)
        self._ids: frozenset[NodeId] = frozenset()
        self._linked: frozenset[NodeId] = frozenset()
        self._watched: frozenset[NodeId] | None = None  # As we were told.
        self._linked_peers: list[Peer] | None = None  # None: to be looked up.
        self._quiet_us = UNHEARD  # Until then nobody can become late, whatever is heard.
        self._near, self._all, self._lost = Deck(chance), Deck(chance), Deck(chance)
        self._news = News()
        self._round_trips = RoundTrips()
        self._asking: list[Peer] = []
        self._changes: list[Change] = []
        self._next_beat_us = now_us + chance(
            rules.period_us
        )  # Machines started as one drift apart.
        self._ran_us = now_us
        self._is_weak_until_us = now_us
        self.sent = self.received = self.junk = 0
        self.suspicions = self.false_alarms = self.deaths = self.returns = 0

    # --- What is known ---------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """Of this node; worth saving, though the others would remember it."""
        return self._stamp >> 16

    def incarnation_of(self, node: NodeId) -> int:
        """The latest that is known of a member; 0 if nothing is."""
        peer = self._roster.peers.get(node)
        return 0 if peer is None or peer.stamp == UNHEARD else peer.stamp >> 16

    def health(self, node: NodeId) -> Vital:
        """What is believed of a member; of one that we were not told of yet, the best."""
        peer = self._roster.peers.get(node)
        if peer is None:
            return Vital("alive", self._ran_us, NEWLY_KNOWN, 0)
        age_us = max(self._ran_us - peer.spoke_us, 0)
        return Vital(peer.health, peer.since_us, peer.why, age_us)

    def changes(self) -> list[Change]:
        """What changed since this was last asked."""
        if not self._changes:
            return []
        drained, self._changes = self._changes, []
        return drained

    def wanted_links(self) -> list[NodeId]:
        """Suspects to be dialled, so that they can be probed directly."""
        lost = (p.id for p in self._roster.watched if p.health == "suspect")
        return [node for node in lost if node not in self._linked][:WANTED_MAX]

    def rtt_us(self, peer: NodeId) -> int | None:
        """The smoothed round-trip time; None: not measured yet."""
        known = self._roster.peers.get(peer)
        return None if known is None else known.rtt_us

    def take_rtts(self) -> list[tuple[NodeId, int]]:
        """The samples since this was last asked, for coordinates."""
        return self._round_trips.take()

    # --- What is told ----------------------------------------------------------------------------

    def set_members(
        self, ids: Iterable[NodeId], now_us: int, watched: Collection[NodeId] | None = None
    ) -> None:
        """These are the members. `watched`: by this node, if they are too many for all to watch."""
        ids = frozenset(ids)
        chosen = None if watched is None else frozenset(watched)
        if (ids, chosen) != (self._ids, self._watched):
            self._ids, self._watched = ids, chosen
            self._roster.set(ids, now_us, chosen)
            self._linked_peers, self._quiet_us = None, UNHEARD

    def has_member(self, node: NodeId) -> bool:
        """Whether it is one of the others that we were told of."""
        return node in self._roster.peers

    def speaks(self, peer: NodeId, version: int) -> None:
        """The version agreed on with a peer; without a word it is the one it last used."""
        if version in SPOKEN and peer in self._roster.peers:
            self._roster.peers[peer].version = version

    @property
    def is_calm(self) -> bool:
        """Whether nobody is suspected."""
        return not self._asking

    def remember(self, incarnation: int) -> None:
        """A peer knew us in this incarnation: ours is a later one."""
        self._outlive(((incarnation << 16) & STAMP_MASK) | 0xFFFF)

    def spoke(self, peer: NodeId, now_us: int) -> None:
        """Something came from this peer itself, by whatever way."""
        self._notice_gap(now_us)
        if known := self._roster.peers.get(peer):
            self._first_hand(known, now_us)

    def goes(self, node: NodeId, now_us: int) -> None:
        """It says that it stops: nobody waits until its silence shows that."""
        if (peer := self._roster.peers.get(node)) is not None and peer.health != "dead":
            # What others heard of it until then is no sign of life; what it says later itself is.
            peer.spoke_us, peer.called_us = now_us + self._rules.period_us, None
            self._turn(peer, "dead", now_us, GOODBYE)

    def is_down(self, node: NodeId) -> bool:
        """Whether it said that it stops, and nothing was heard of it since."""
        peer = self._roster.peers.get(node)
        return peer is not None and (peer.health, peer.why) == ("dead", GOODBYE)

    def tick(self, now_us: int, linked: Collection[NodeId]) -> Sent:
        """Time passes: verdicts fall; the datagrams that are due, to linked peers."""
        self._notice_gap(now_us)
        now_linked = frozenset(linked)
        if now_linked != self._linked:
            self._linked, self._linked_peers, self._quiet_us = now_linked, None, UNHEARD
        if now_us > self._quiet_us:
            self._judge(now_us)
        sent: Sent = []
        if now_us >= self._next_beat_us:
            self._beat(now_us, sent)
        if self._asking:
            self._probe(now_us, sent)
        self.sent += len(sent)
        return sent

    def heard(self, peer: NodeId, datagram: bytes, now_us: int, waited_us: int = 0) -> Sent:
        """A datagram of a linked peer; what is to be answered. Raises ValueError for junk."""
        try:
            beat = wire.decode(datagram)
        except ValueError:
            self.junk += 1
            raise
        speaker = self._roster.peers.get(peer)
        if speaker is None:
            return []
        self.received += 1
        self._notice_gap(now_us)
        speaker.version = beat.version
        self._round_trips.heard(speaker, beat, now_us - waited_us)
        if speaker.stamp == UNHEARD or is_later(beat.stamp, speaker.stamp):
            speaker.stamp = beat.stamp
        self._first_hand(speaker, now_us)
        self._second_hand(beat.members, now_us)
        sent = self._answers(speaker, beat, now_us)
        self.sent += len(sent)
        return sent

    # --- Evidence --------------------------------------------------------------------------------

    def _notice_gap(self, now_us: int) -> None:
        gap_us, self._ran_us = now_us - self._ran_us, now_us
        if gap_us > 2 * self._rules.period_us:
            for peer in self._roster.peers.values():
                peer.shift(gap_us, now_us)

    def _first_hand(self, peer: Peer, now_us: int) -> None:
        peer.spoke_us = peer.answered_us = now_us
        if peer.relays:
            peer.relays = frozenset()
        if peer.health != "alive":
            self._live(peer, now_us)

    def _second_hand(self, members: bytes, now_us: int) -> None:
        find, rules = self._roster.by_short.get, self._rules
        for short, incarnation, beat, word in wire.members_of(members):
            peer, stamp = find(short), incarnation << 16 | beat
            if peer is None:
                if short == self._short and self._roster.is_me_unique:
                    self._of_me(stamp, word >> 14)
                continue
            if not peer.is_watched:
                self._rumoured(peer, stamp, word, now_us)
                continue
            # As `is_later`, which would cost as much as the rest of this loop.
            if not 0 < (stamp - peer.stamp) & STAMP_MASK < STAMP_HALF and peer.stamp != UNHEARD:
                continue
            if now_us - peer.answered_us > rules.trust_us:
                peer.called_us = now_us
                continue
            peer.stamp = stamp
            age_us = (word & AGE_UNITS_MAX) * AGE_UNIT_US
            if now_us - age_us > peer.spoke_us:
                peer.spoke_us = now_us - age_us
                if peer.health != "alive" and age_us <= rules.suspect_us:
                    self._live(peer, now_us)

    def _of_me(self, stamp: int, health: int) -> None:
        """Whoever suspects this node, or knows an earlier life of it, hears of a later one."""
        if health != wire.ALIVE and stamp >> 16 == self._stamp >> 16:
            self._outlive(self._stamp | 0xFFFF)
        else:
            self._outlive(stamp)

    def _outlive(self, stamp: int) -> None:
        if is_later(stamp, self._stamp):
            self._stamp = ((stamp >> 16) + 1 << 16) & STAMP_MASK

    def _rumoured(self, peer: Peer, stamp: int, word: int, now_us: int) -> None:
        """What is said of a node that others watch."""
        is_dead = word >> 14 == wire.DEAD
        if peer.stamp == UNHEARD or is_later(stamp, peer.stamp):
            peer.stamp = stamp
            age_us = (word & AGE_UNITS_MAX) * AGE_UNIT_US
            peer.spoke_us = max(peer.spoke_us, now_us - age_us)
            if peer.health != "alive" and not is_dead:
                self._live(peer, now_us)
        if is_dead and stamp == peer.stamp and peer.health != "dead":
            self._turn(peer, "dead", now_us, "those who watch it found it silent")

    # --- Verdicts --------------------------------------------------------------------------------

    def _judge(self, now_us: int) -> None:
        rules, linked = self._rules, self._linked
        asking: list[Peer] = []
        late: list[tuple[Peer, int, bool]] = []
        living = 0
        for peer in self._roster.watched:
            is_linked = peer.id in linked
            if not is_linked and peer.health != "suspect":
                peer.answered_us = now_us  # Nobody asks it; what others say is what there is.
            if peer.health == "dead":
                if peer.called_us is not None:
                    asking.append(peer)
                continue
            living += 1
            unanswered_us = now_us - peer.answered_us
            is_doubted = unanswered_us > rules.trust_us
            age_us = unanswered_us if is_doubted else now_us - peer.spoke_us
            if age_us > rules.suspect_us:
                late.append((peer, age_us, is_doubted))
            if peer.health == "suspect" or unanswered_us > rules.confirm_us:
                asking.append(peer)
        self._asking = asking
        self._quiet_us = UNHEARD if asking or late else self._until_us()
        if late:
            self._sentence(late, living, now_us)

    def _until_us(self) -> int:
        """Until when nobody can become late, if all are well; signs of life only make it later."""
        rules, watched, linked = self._rules, self._roster.watched, self._linked
        if not all(peer.health == "alive" and peer.id in linked for peer in watched):
            return UNHEARD
        spoke_us = min((peer.spoke_us for peer in watched), default=UNHEARD)
        answered_us = min((peer.answered_us for peer in watched), default=UNHEARD)
        return min(spoke_us + rules.suspect_us, answered_us + rules.confirm_us)

    def _sentence(self, late: list[tuple[Peer, int, bool]], living: int, now_us: int) -> None:
        rules = self._rules
        if living >= _QUARTER_OF and (living - len(late)) * _QUARTER_OF < living:
            self._is_weak_until_us = now_us + rules.dead_us  # It may well be us.
        limits = 2 if now_us < self._is_weak_until_us else 1
        probed_us = rules.dead_us - rules.suspect_us - rules.probe_us
        for peer, age_us, is_doubted in late:
            if peer.health == "alive":
                if age_us > rules.suspect_us * limits:
                    self.suspicions += 1
                    peer.probed_us = now_us - rules.probe_us
                    why = why_suspect(age_us, is_doubted=is_doubted)
                    self._turn(peer, "suspect", now_us, why)
                    self._asking.append(peer)
            elif age_us > rules.dead_us * limits and now_us - peer.since_us >= probed_us:
                self.deaths += 1
                peer.called_us = None
                why = why_dead(age_us, len(peer.relays), is_doubted=is_doubted)
                self._turn(peer, "dead", now_us, why)

    def _live(self, peer: Peer, now_us: int) -> None:
        if peer.health == "suspect":
            self.false_alarms += 1
        else:
            self.returns += 1
        self._turn(peer, "alive", now_us, f"heard again after {seconds(now_us - peer.since_us)}")

    def _turn(self, peer: Peer, health: Health, now_us: int, why: str) -> None:
        self._changes.append(Change(peer.id, health, why, now_us, peer.health))
        peer.health, peer.since_us, peer.why = health, now_us, why
        if self._roster.is_large and health != "suspect":
            self._news.spread(peer, len(self._ids))

    # --- What is said ----------------------------------------------------------------------------

    def _beat(self, now_us: int, sent: Sent) -> None:
        rules, peers, linked = self._rules, self._roster.peers, self._linked_peers
        if linked is None:
            linked = [peers[node] for node in sorted(self._linked) if node in peers]
            self._linked_peers = linked
        period_us = rules.period_us * min(len(linked) or rules.fanout, rules.fanout) // rules.fanout
        self._next_beat_us += period_us
        if self._next_beat_us <= now_us:
            self._next_beat_us = now_us + period_us
        if not linked:
            return
        self._stamp = (self._stamp + 1) & STAMP_MASK
        body = self._news.body(self._roster, now_us)
        for peer in self._dealt(linked):
            sent.append((peer.id, self._said(peer, wire.BEAT, self._short, now_us, body)))

    def _dealt(self, linked: list[Peer]) -> list[Peer]:
        """Those who hear of us now. Every other round one of them is somebody given up.

        Or two halves of a mesh would never meet again. In a large mesh it is those who watch us;
        but one goes far, every other round, or while there are rumours.
        """
        count, is_odd = self._rules.fanout, bool(self._stamp & 1)
        living = [peer for peer in linked if peer.health != "dead"]
        lost = [peer for peer in linked if peer.health == "dead"]
        dealt: list[Peer] = []
        if lost and (is_odd or not living):
            dealt = self._lost.deal(lost, 1 if living else count)
        if self._roster.is_large:
            near = [peer for peer in living if peer.is_watched]
            far = int(not dealt and (is_odd or self._news.is_stirred))
            dealt += self._near.deal(near, count - len(dealt) - far)
            living = [peer for peer in living if peer not in dealt]
        return dealt + self._all.deal(living, count - len(dealt))

    def _probe(self, now_us: int, sent: Sent) -> None:
        rules = self._rules
        for peer in sorted(self._asking, key=lambda peer: peer.probed_us):
            pause_us = rules.probe_us if peer.health != "dead" else rules.dead_us - rules.suspect_us
            if now_us - peer.probed_us < pause_us or len(sent) >= PROBES_MAX:
                continue
            peer.probed_us = now_us
            peer.called_us = None
            if peer.id in self._linked:
                sent.append((peer.id, self._said(peer, wire.PROBE, self._short, now_us)))
            is_quiet = now_us - peer.answered_us > rules.relay_us
            if peer.is_unique and (is_quiet or peer.health != "alive"):
                for relay in self._relays(peer):
                    peer.relays |= {relay.id}
                    sent.append((relay.id, self._said(relay, wire.REQUEST, peer.short, now_us)))

    def _relays(self, target: Peer) -> list[Peer]:
        known = self._roster.peers
        others = [known[node] for node in sorted(self._linked) if node in known]
        able = [peer for peer in others if peer.health == "alive" and peer is not target]
        count = min(self._rules.relays, len(able))
        return [able.pop(self._chance(len(able))) for _ in range(count)]

    def _answers(self, speaker: Peer, beat: Heartbeat, now_us: int) -> Sent:
        """What one kind of heartbeat or another asks for: one datagram at most."""
        if beat.kind == wire.BEAT or (beat.kind == wire.ANSWER and beat.about == self._short):
            return []
        if beat.kind == wire.PROBE:
            return [(speaker.id, self._said(speaker, wire.ANSWER, beat.about, now_us))]
        other = self._roster.by_short.get(beat.about)
        if other is None:
            return []
        if beat.kind == wire.RELAYED:
            if other.relays:  # We asked.
                self._first_hand(other, now_us)
            return []
        if other.id not in self._linked:
            return []
        if beat.kind == wire.REQUEST:
            return [(other.id, self._said(other, wire.PROBE, speaker.short, now_us))]
        if not speaker.is_unique:
            return []
        member = packed([speaker], now_us)
        return [(other.id, self._said(other, wire.RELAYED, speaker.short, now_us, member))]

    def _said(self, to: Peer, kind: int, about: int, now_us: int, members: bytes = b"") -> bytes:
        clocks = self._round_trips.clocks(to, now_us)
        return wire.encode(Heartbeat(kind, self._stamp, about, members, *clocks, to.version))
