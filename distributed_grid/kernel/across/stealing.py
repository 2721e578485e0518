"""An idle node looks for work: it asks the loaded who waits there, and offers its room to them.

Lives here: whom to ask and when, the answer, what is offered then. Never here: what a coordinator
does with an offer (`asking`), what a lease is (`kernel.ledger`).
Invariant: stealing moves no reservation. What is offered was reserved in the own ledger, for some
seconds as every offer; the coordinator of the job decides, and gives back what it does not want.
"""

from itertools import islice
from typing import Final
from zlib import crc32

import msgspec

from distributed_grid.kernel.across.asking import Asking
from distributed_grid.kernel.across.guests import entry_name, entry_of, guest_spec, obstacles
from distributed_grid.kernel.across.hosting import Hosting, Wait
from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.across.travelling import offered
from distributed_grid.kernel.host import OVERTAKING_MS_MAX, Host
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.obstacles import survey_of
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.model.priority import RANKS
from distributed_grid.model.resources import Request, Resources
from distributed_grid.wire.across import STOLEN_MAX, Idle, Line

ASK_MS: Final = 2_000  # Between two questions: jobs worth moving take longer.
AGAIN_MS: Final = 200  # After one that brought something: there may be more, for what is free next.
LOOK_MS: Final = 200  # Between two looks at what is free, if nothing has changed here.
ASKED_MAX: Final = 2  # Peers at a time: of two the better is most of the gain.
ANSWER_MS: Final = 2_000  # A later answer is about a line that has changed.
TOLD_MS: Final = 500  # So long another idle node is told of other jobs first: each needs one.
DRY_MS: Final = 10_000  # Whoever had nothing for this node is not asked again before.
NOTHING: Final = Resources()
OVERTAKEN_MS: Final = OVERTAKING_MS_MAX // 2  # Whoever has waited longer is soon the next.
LOOKED_MAX: Final = 256  # Of those who wait, so many are looked at for one answer.

Wanted = tuple[NodeId, JobId, Epoch, JobSpec]


class Stealing:
    """One node's part in it, idle or loaded."""

    def __init__(self, host: Host, asking: Asking, hosting: Hosting, *, me: NodeId) -> None:
        self._host, self._asking, self._hosting, self._me = host, asking, hosting, me
        self._salt = crc32(me.encode())
        self._peers: Peers = NOBODY
        self._loaded: list[NodeId] | None = None  # Where jobs wait, the longest line first.
        self._looked_at: tuple[int, int] | None = None  # The state in which nobody was to be asked,
        self._looked_ms = 0  # and when that was.
        self._next_ms = 0  # When somebody is asked again, at the earliest.
        self._told: dict[JobId, int] = {}  # Which of those who wait here an idle node knows, until.
        self._asked: dict[NodeId, int] = {}  # Who was asked, until when the answer counts.
        self._dry: dict[NodeId, int] = {}  # Who had nothing, until when it is not asked.

    def see(self, peers: Peers) -> None:
        """The other nodes, as they are now."""
        self._peers, self._loaded, self._looked_at = peers, None, None
        self._dry = {node: until for node, until in self._dry.items() if node in peers}

    def tick(self, now_ms: int, ready: Ready) -> None:
        """There is room that nobody here can use: ask those with the longest lines."""
        state = (self._host.ledger.version, self._host.line.version)
        is_same = state == self._looked_at and now_ms < self._looked_ms + LOOK_MS
        if is_same or now_ms < self._next_ms or not self._peers:
            return
        self._looked_at, self._looked_ms = state, now_ms
        if not self._may_take_more(now_ms):
            return
        likely = self._likely(now_ms) if self._host.ledger.free().cpu_milli else []
        lent = survey_of(self._host, now_ms).lent if likely else NOTHING
        rooms = [(n, self._host.ledger.free() if self._peers[n].is_own else lent) for n in likely]
        rooms = [(node, room) for node, room in rooms if room.cpu_milli]
        if not rooms:
            return
        self._next_ms = now_ms + ASK_MS
        self._asked = {node: now_ms + ANSWER_MS for node, _ in rooms}
        ready.send += [
            (node, Idle(cpu_milli=room.cpu_milli, memory_bytes=room.memory_bytes))
            for node, room in rooms
        ]

    def _may_take_more(self, now_ms: int) -> bool:
        """Whether nobody waits here, or only those who do not fit now and may be overtaken."""
        if self._host.is_draining or self._host.awaited:
            return False
        first = self._host.first(now_ms)
        return first is None or now_ms - first.submitted_ms < OVERTAKEN_MS

    def _likely(self, now_ms: int) -> list[NodeId]:
        """A few of those where jobs wait; they are sought once in every view."""
        if self._loaded is None:
            loaded = [peer for peer in self._peers.values() if peer.jobs_waiting and peer.is_alive]
            loaded.sort(key=self._order)
            self._loaded = [peer.id for peer in loaded]
        found = (node for node in self._loaded if self._dry.get(node, 0) <= now_ms)
        return list(islice(found, ASKED_MAX))

    def _order(self, peer: Peer) -> tuple[int, int]:
        """The longest lines first; of those that are about as long each idle node asks others."""
        # About: a view is a second old.
        return -peer.jobs_waiting.bit_length(), crc32(peer.id.encode(), self._salt)

    # The loaded

    def idle(self, asker: Peer, word: Idle, now_ms: int, ready: Ready) -> None:
        """Somebody has room: tell the most important of those who wait here and would fit."""
        peer = asker.id
        if not asker.may_lend:  # It cannot run them: whose they are is none of its business.
            ready.send.append((peer, Line(waiting=())))
            return
        own = (self._own(job, now_ms) for job in self._asking.everyone())
        others = ((RANKS[one[3].priority], now_ms, one) for one in self._hosting.waiting())
        found: list[tuple[int, int, Wanted]] = []
        for some in (own, others):
            found += (
                wanted
                for wanted in islice(some, LOOKED_MAX)
                if _fits(wanted[2][3].request, word) and wanted[2][0] != peer
            )
        self._told = {job: until for job, until in self._told.items() if until > now_ms}
        found.sort(
            key=lambda wanted: (wanted[2][1] in self._told, wanted[0], wanted[1], wanted[2][1])
        )
        line = tuple(one for *_, one in found[:STOLEN_MAX])
        self._told |= dict.fromkeys((job for _, job, *_ in line), now_ms + TOLD_MS)
        ready.send.append((peer, Line(waiting=line)))

    def _own(self, job: Job, now_ms: int) -> tuple[int, int, Wanted]:
        spec = offered(msgspec.structs.replace(job.spec, work=None))
        since_ms = job.ready_ms if job.ready_ms is not None else now_ms
        return RANKS[spec.priority], since_ms, (self._me, spec.id, job.epoch, spec)

    # The idle

    def line(self, peer: NodeId, word: Line, now_ms: int, ready: Ready) -> None:
        """Those who wait elsewhere: offer what is free to the first of them."""
        if self._asked.pop(peer, 0) < now_ms or self._host.is_draining:
            return  # Nobody asked: what is free is not reserved on anybody's word.
        offered = 0
        for wanted in word.waiting[:STOLEN_MAX]:
            offered += self._offer(wanted, now_ms, ready)
        if offered:
            self._next_ms = min(self._next_ms, now_ms + AGAIN_MS)
        else:
            self._dry[peer] = now_ms + DRY_MS

    def _offer(self, wanted: Wanted, now_ms: int, ready: Ready) -> bool:
        home, job, epoch, spec = wanted
        peer = self._peers.get(home)
        if peer is None or not (peer.is_alive and peer.may_submit):
            return False
        guest = guest_spec(spec, peer)
        if obstacles(self._host, guest) or not self._asking.may_run_here(spec):
            return False
        lease = self._host.try_reserve(entry_of(entry_name(job, home), guest, now_ms), now_ms)
        if not isinstance(lease, Lease):
            return False
        waits = Wait(
            home=home,
            job=job,
            epoch=epoch,
            number=0,
            spec=guest,
            asked=spec,
            leases=1,
            until_ms=now_ms,
        )
        self._hosting.offer(waits, lease, now_ms, ready)
        return True


def _fits(request: Request, room: Idle) -> bool:
    """As far as the question tells."""
    return request.cpu_milli <= room.cpu_milli and request.memory_bytes <= room.memory_bytes
