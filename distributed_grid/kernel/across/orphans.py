"""Guests whose home does not care for them any more: who does, and what if nobody does.

Lives here: finding the home of a job from the owner's side. Never here: what a home is told
(`reporting`), records (`guarding`).
Invariant: no attempt is told for ever to who does not want to hear of it. Its home is dead, or says
that it is not its home: then everyone is asked, and whoever looks after the job is told from then
on. If nobody has looked after it for a minute, what runs of it is ended, and what ended forgotten.
Who is its home now its home tells, as long as it lives and looks after the job; then those of whom
the last one told, as long as one of them lives.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.reporting import Reporting
from distributed_grid.kernel.across.verdicts import Verdicts
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Inquiry

AGAIN_MS: Final = 5_000  # Everyone is asked again: somebody may take the job over meanwhile.
UNKNOWN_MS: Final = 60_000  # For so long nobody has known it: nobody will.
ASKED_MAX: Final = 64  # Nodes at a time; of more, others each time.
DOUBT_MS: Final = 1_000  # Who speaks of a guest and may not is asked after again.

Find = Callable[[JobId], JobRecord | None]


class Orphan(msgspec.Struct):
    """A guest that looks for its home."""

    since_ms: int
    asked_ms: int | None = None
    asked: int = 0  # How many nodes were asked, one after the other.
    disowned_by: NodeId | None = None  # Who was told of it, and is not its home.


class Orphans:
    """The guests of this node that nobody looks after."""

    def __init__(self, reporting: Reporting, verdicts: Verdicts, find: Find) -> None:
        self._reporting, self._verdicts, self._find = reporting, verdicts, find
        self._orphans: dict[JobId, Orphan] = {}  # By guest.
        # By guest and who spoke of it: when others were asked whether that one looks after it.
        self._doubts: dict[tuple[JobId, NodeId], int] = {}

    def may_lead(self, node: NodeId, guest: Job) -> bool:
        """Whether a node may look after a guest: its home, or without it who has the job."""
        home = self._reporting.home_of(guest)
        return node == home or (not self._is_home_there(guest) and node in self._names_of(guest))

    def _is_home_there(self, guest: Job) -> bool:
        home, orphan = self._reporting.home_of(guest), self._orphans.get(guest.spec.id)
        is_left = orphan is not None and orphan.disowned_by == home
        return not is_left and (home == self._verdicts.me or self._verdicts.sees(home))

    def _names_of(self, guest: Job) -> set[NodeId]:
        origin = guest.spec.origin
        assert origin is not None, "a guest"
        names = {self._verdicts.me, self._reporting.home_of(guest), origin.home, *origin.holders}
        record = self._find(origin.job)
        return names if record is None else names | {record.home, *record.holders}

    def _witnesses(self, guest: Job) -> list[NodeId]:
        """Whose word on its home counts; nobody: anybody's does."""
        if self._is_home_there(guest):
            return [self._reporting.home_of(guest)]
        return sorted(node for node in self._names_of(guest) if self._verdicts.sees(node))

    def doubt(self, guest: Job, node: NodeId, now_ms: int, ready: Ready) -> None:
        """A node speaks of a guest as its home, and is not known as such: is it by now?"""
        assert guest.spec.origin is not None, "a guest"
        key = (guest.spec.id, node)
        if now_ms >= self._doubts.get(key, now_ms):
            self._doubts[key] = now_ms + DOUBT_MS
            question = Inquiry(jobs=(guest.spec.origin.job,))
            ready.send += [(name, question) for name in self._witnesses(guest) or [node]]

    def disowned(self, job: JobId, peer: NodeId, now_ms: int) -> None:
        """A node says that it does not look after a job."""
        for guest in self._reporting.guests_of(job):
            if self._reporting.home_of(guest) == peer:
                orphan = self._orphans.setdefault(guest.spec.id, Orphan(since_ms=now_ms))
                orphan.disowned_by = peer

    def found(self, record: JobRecord, peer: NodeId, now_ms: int) -> None:
        """A node knows the job: its home is told of what runs here."""
        if record.home != peer:
            self.disowned(record.job, peer, now_ms)  # Should it be told of that: it is not home.
        for guest in self._reporting.guests_of(record.job):
            if (witnesses := self._witnesses(guest)) and peer not in witnesses:
                continue
            orphan = self._orphans.get(guest.spec.id)
            # It is over, and who was its home has lost it: nobody takes it up again.
            is_left = orphan is not None and orphan.disowned_by == record.home
            is_lost = has_ended(record) and is_left
            is_there = record.home == self._verdicts.me or self._verdicts.sees(record.home)
            if record.version.epoch >= guest.epoch and is_there and not is_lost:
                self._orphans.pop(guest.spec.id, None)
                origin = guest.spec.origin
                if origin is not None and self._reporting.home_of(guest) != record.home:
                    origin = msgspec.structs.replace(origin, holders=record.holders)
                    guest.spec = msgspec.structs.replace(guest.spec, origin=origin)
                    self._reporting.report_to(guest, record.home, record.version.epoch)
                    self._reporting.tell_again(guest, now_ms)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """Look for homes; give up those that have none."""
        untold = {guest.spec.id: guest for guest in self._reporting.untold()}
        self._doubts = {key: at for key, at in self._doubts.items() if key[0] in untold}
        for guest in untold.values():
            if self._verdicts.is_gone(self._reporting.home_of(guest), now_ms):
                self._orphans.setdefault(guest.spec.id, Orphan(since_ms=now_ms))
        for guest_id, orphan in list(self._orphans.items()):
            lost = untold.get(guest_id)
            if lost is None or self._is_cared_for(lost, orphan, now_ms):
                del self._orphans[guest_id]
            elif now_ms - orphan.since_ms >= UNKNOWN_MS:
                del self._orphans[guest_id]
                self._reporting.give_up(lost, now_ms, ready)
            elif orphan.asked_ms is None or now_ms - orphan.asked_ms >= AGAIN_MS:
                orphan.asked_ms = now_ms
                self._ask(lost, orphan, ready)

    def _is_cared_for(self, guest: Job, orphan: Orphan, now_ms: int) -> bool:
        """Whether its home is back, or another one has asked after it."""
        home = self._reporting.home_of(guest)
        return home != orphan.disowned_by and not self._verdicts.is_gone(home, now_ms)

    def _ask(self, guest: Job, orphan: Orphan, ready: Ready) -> None:
        assert guest.spec.origin is not None, "a guest"
        live = [node for node, peer in sorted(self._verdicts.peers.items()) if peer.is_alive]
        first = orphan.asked % len(live) if live else 0
        orphan.asked += ASKED_MAX
        for node in (live[first:] + live[:first])[:ASKED_MAX]:
            ready.send.append((node, Inquiry(jobs=(guest.spec.origin.job,))))
