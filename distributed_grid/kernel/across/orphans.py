"""Guests whose home does not care for them any more: who does, and what if nobody does.

Lives here: finding the home of a job from the owner's side. Never here: the guests (`hosting`),
records (`guarding`).
Invariant: no attempt is told for ever to who does not want to hear of it. Its home is dead, or says
that it is not its home: then everyone is asked, and whoever looks after the job is told from then
on. If nobody has known the job for a minute, what runs of it is ended, and what ended forgotten.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.hosting import Hosting
from distributed_grid.kernel.across.peers import NOBODY, Peers
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Inquiry

AGAIN_MS: Final = 5_000  # Everyone is asked again: somebody may take the job over meanwhile.
UNKNOWN_MS: Final = 60_000  # For so long nobody has known it: nobody will.
ASKED_MAX: Final = 64  # Nodes at a time; of more, others each time.


class Orphan(msgspec.Struct):
    """A guest that looks for its home."""

    since_ms: int
    asked_ms: int | None = None


class Orphans:
    """The guests of this node that nobody looks after."""

    def __init__(self, hosting: Hosting, *, me: NodeId) -> None:
        self._hosting = hosting
        self._me = me
        self._peers: Peers = NOBODY
        self._orphans: dict[JobId, Orphan] = {}  # By guest.
        self._turn = 0

    def see(self, peers: Peers) -> None:
        """The other nodes, as they are now."""
        self._peers = peers

    def disowned(self, job: JobId, peer: NodeId, now_ms: int) -> None:
        """A node says that it knows nothing of a job."""
        for guest in self._hosting.guests_of(job):
            if self._hosting.home_of(guest) == peer:
                self._orphans.setdefault(guest.spec.id, Orphan(since_ms=now_ms))

    def found(self, record: JobRecord, now_ms: int) -> None:
        """Somebody knows the job: its home is told of what runs here."""
        for guest in self._hosting.guests_of(record.job):
            if record.version.epoch >= guest.epoch and self._is_there(record.home):
                self._orphans.pop(guest.spec.id, None)
                if self._hosting.home_of(guest) != record.home:
                    self._hosting.report_to(guest, record.home, record.version.epoch)
                    self._hosting.tell_again(guest, now_ms)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """Look for homes; give up those that have none."""
        for guest in self._hosting.untold():
            if not self._is_there(self._hosting.home_of(guest)):
                self._orphans.setdefault(guest.spec.id, Orphan(since_ms=now_ms))
        for guest_id, orphan in list(self._orphans.items()):
            lost = self._hosting.guest(guest_id)
            if lost is None:
                del self._orphans[guest_id]
            elif now_ms - orphan.since_ms >= UNKNOWN_MS:
                del self._orphans[guest_id]
                self._hosting.give_up(lost, now_ms, ready)
            elif orphan.asked_ms is None or now_ms - orphan.asked_ms >= AGAIN_MS:
                orphan.asked_ms = now_ms
                self._ask(lost, ready)

    def _is_there(self, node: NodeId) -> bool:
        peer = self._peers.get(node)
        return node == self._me or (peer is not None and peer.is_alive)

    def _ask(self, guest: Job, ready: Ready) -> None:
        assert guest.spec.origin is not None, "a guest"
        live = [node for node, peer in sorted(self._peers.items()) if peer.is_alive]
        first = self._turn % len(live) if live else 0
        self._turn += ASKED_MAX
        for node in (live[first:] + live[:first])[:ASKED_MAX]:
            ready.send.append((node, Inquiry(jobs=(guest.spec.origin.job,))))
