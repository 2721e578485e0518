"""Jobs of other nodes that jobs of this one come after: how they ended is asked until it is known.

Lives here: whom to ask, how often. Never here: what follows (`kernel.coordinator`), records
(`guarding`).
Invariant: each is decided once, on the first word that it has ended. How many are asked does not
depend on how many there are: the home once it is known, else whoever holds the record, else some.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.guarding import Guarding
from distributed_grid.kernel.across.peers import Peers
from distributed_grid.kernel.across.record import JobRecord, has_ended, state_of
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.returning import inquire
from distributed_grid.kernel.coordinator import Coordinator, Ending, ending_of
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId

LOOK_MS: Final = 1_000  # At first, and between two looks at what is held here: a chain goes on then
KNOWN_MS: Final = 8_000  # so soon; after a while so late, which is little for a job that runs on.
UNKNOWN_MS: Final = 60_000  # If nobody knows it, who does may be away for hours.
HOLDERS_ASKED: Final = 3  # As many as a record has guardians.
STRANGERS_ASKED: Final = 16  # Of those who may know; others the next time.


class Search(msgspec.Struct):
    """One job that others look after."""

    pause_ms: int = LOOK_MS
    next_ms: int = 0
    home: NodeId = NodeId("")  # Empty: nobody has told yet.
    holders: tuple[NodeId, ...] = ()
    turn: int = 0  # Of all who live: whom to begin with.


class Abroad:
    """What this node's jobs wait for, and others look after."""

    def __init__(self, coordinator: Coordinator, guarding: Guarding) -> None:
        self._coordinator = coordinator
        self._guarding = guarding
        self._looked_ms = 0
        self._searches: dict[JobId, Search] = {}

    def tick(self, peers: Peers, now_ms: int, ready: Ready) -> None:
        """Look at what is held here, and ask a few for the rest."""
        if now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        self._tell_of_known(now_ms, ready)
        questions: dict[NodeId, list[JobId]] = {}
        awaited = self._awaited()
        self._searches = {job: self._searches.get(job) or Search() for job in awaited}
        for job, search in self._searches.items():
            record = self._guarding.find(job)
            if record is not None:
                self.learn(record, now_ms, ready)
            if (record is None or not has_ended(record)) and now_ms >= search.next_ms:
                for node in self._asked(search, peers):
                    questions.setdefault(node, []).append(job)
                search.next_ms = now_ms + search.pause_ms
                most_ms = KNOWN_MS if search.home else UNKNOWN_MS
                search.pause_ms = min(2 * search.pause_ms, most_ms)
        inquire(questions, ready)

    def _tell_of_known(self, now_ms: int, ready: Ready) -> None:
        """Its own too: one may have ended here before the job that waits for it was taken over."""
        known = self._coordinator.jobs
        for other in [known[job] for job in sorted(self._coordinator.dependents) if job in known]:
            if other.has_ended:
                self._coordinator.tell_dependents(ending_of(other), now_ms, ready)

    def _asked(self, search: Search, peers: Peers) -> list[NodeId]:
        live = {node for node, peer in peers.items() if peer.is_alive}
        if search.home in live:
            return [search.home]
        holders = [node for node in search.holders if node in live]
        if holders:
            return holders[:HOLDERS_ASKED]
        strangers = sorted(live)
        first = search.turn % len(strangers) if strangers else 0
        search.turn = first + STRANGERS_ASKED
        return (strangers[first:] + strangers[:first])[:STRANGERS_ASKED]

    def learn(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Somebody knows a job; if it has ended, whoever waits for it goes on."""
        search = self._searches.get(record.job)
        if search is not None and not search.home:
            search.pause_ms, search.next_ms = LOOK_MS, now_ms + LOOK_MS
        if search is not None:
            search.home, search.holders = record.home, record.holders
        if record.job in self._coordinator.dependents and has_ended(record):
            name = standing_of(record.standing).name
            ending = Ending(record.job, name, state_of(record))
            self._coordinator.tell_dependents(ending, now_ms, ready)

    def unknown(self, job: JobId, node: NodeId) -> None:
        """A node knows nothing of a job: if it was said to be its home, others are asked again."""
        search = self._searches.get(job)
        if search is not None and node == search.home:
            search.home, search.holders = NodeId(""), ()

    def _awaited(self) -> list[JobId]:
        known = self._coordinator.jobs
        return sorted(job for job in self._coordinator.dependents if job not in known)
