"""Who is watched, and what was last known of each.

Lives here: one record a member, found by node id or by short id; whom this node watches; dealing
peers from a shuffled deck. Never here: verdicts (`liveness`).
Invariant: a short id that two members share finds neither of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from distributed_grid.kernel.mesh.liveness_rules import Health, LivenessRules
from distributed_grid.kernel.mesh.ring import vicinity
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.heartbeat import short_id
from distributed_grid.wire.mesh import PROTOCOL

Chance = Callable[[int], int]
UNHEARD: Final = -1  # No stamp yet.
NEWLY_KNOWN: Final = "newly known"


class Peer:
    """What is known of one member."""

    __slots__ = (
        *("id", "short", "is_unique", "is_watched", "stamp", "health", "since_us", "why"),
        *("spoke_us", "answered_us", "probed_us", "called_us", "relays", "rumour_rounds"),
        *("version", "their_clock", "their_clock_us", "rtt_us"),
    )

    def __init__(self, node: NodeId, now_us: int) -> None:
        self.id = node
        self.short = short_id(node)
        self.is_unique = True  # No other member has this short id.
        self.is_watched = True
        self.stamp = UNHEARD
        self.health: Health = "alive"
        self.since_us = now_us
        self.why = NEWLY_KNOWN
        self.spoke_us = now_us  # When it last spoke, to anybody.
        self.answered_us = now_us  # When it last spoke to us, or answered through another.
        self.probed_us = now_us  # When we last asked.
        self.called_us: int | None = None  # Given up, when others said that they hear it.
        # Through whom it was probed since it was suspected.
        self.relays: frozenset[NodeId] = frozenset()
        self.rumour_rounds = 0  # For how many rounds its verdict is still passed on.
        self.version = PROTOCOL
        self.their_clock: int | None = None  # Its last stamp of time, to be echoed,
        self.their_clock_us = 0  # and when it came.
        self.rtt_us: int | None = None

    def shift(self, gap_us: int, now_us: int) -> None:
        """We were not running for so long: nothing of that time is held against it."""
        self.spoke_us = min(self.spoke_us + gap_us, now_us)
        self.answered_us = min(self.answered_us + gap_us, now_us)
        if self.health == "suspect":
            self.since_us = min(self.since_us + gap_us, now_us)


class Roster:
    """All members but this node, by id and by short id."""

    def __init__(self, me: NodeId, rules: LivenessRules) -> None:
        self.me = me
        self._rules = rules
        self.peers: dict[NodeId, Peer] = {}  # In the order of their ids, for the same story twice.
        self.by_short: dict[int, Peer] = {}
        self.all: list[Peer] = []
        self.watched: list[Peer] = []
        self.around: list[
            Peer
        ] = []  # The watched, and twice as many: what we pass on of a large mesh.
        self.is_me_unique = True  # No member has our short id.
        self.is_large = False  # More nodes than everyone can watch.

    def set(self, ids: Iterable[NodeId], now_us: int, watched: Collection[NodeId] | None) -> None:
        """These are the others now. Newcomers start as heard just now."""
        wanted = sorted(set(ids) - {self.me})
        self.peers = {node: self.peers.get(node) or Peer(node, now_us) for node in wanted}
        self.is_large = len(wanted) >= self._rules.everyone
        if not self.is_large:
            watched = wanted
        elif watched is None:
            watched = vicinity(self.me, wanted, self._rules.observers)
        chosen = set(watched)
        self.by_short = {}
        shared = {short_id(self.me)}
        for peer in self.peers.values():
            if not peer.is_watched and peer.id in chosen:  # It starts as heard just now.
                peer.spoke_us = peer.answered_us = now_us
            peer.is_watched = peer.id in chosen
            if peer.short in self.by_short:
                shared.add(peer.short)
            self.by_short[peer.short] = peer
        for peer in self.peers.values():
            peer.is_unique = peer.short not in shared
        self.is_me_unique = short_id(self.me) not in self.by_short
        for short in shared:
            self.by_short.pop(short, None)
        self.all = list(self.peers.values())
        self.watched = [peer for peer in self.all if peer.is_watched]
        wider = vicinity(self.me, wanted, 2 * self._rules.observers) if self.is_large else ()
        self.around = [*self.watched, *(self.peers[node] for node in wider if node not in chosen)]


class Deck:
    """Deals peers at random, but nobody twice before everybody once (or nearly so).

    Dealt so, two full meshed machines out of 30 speak every 1.5 s, which mere dice would not give.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._cards: list[Peer] = []

    def deal(self, among: Sequence[Peer], count: int) -> list[Peer]:
        """So many of these, or all."""
        if count >= len(among):
            return list(among)
        dealt: list[Peer] = []
        allowed = set(among)
        while len(dealt) < count:
            if not self._cards:
                self._cards = list(among)
                for left in range(len(among), 1, -1):
                    taken = self._chance(left)
                    cards = self._cards
                    cards[left - 1], cards[taken] = cards[taken], cards[left - 1]
            card = self._cards.pop()
            if card in allowed:
                allowed.discard(card)
                dealt.append(card)
        return dealt
