"""What of the cache is needed: the files of jobs that are not over, here or at another home.

Lives here: which manifests are pinned for whom, and copies of inputs on a second machine. Never
here: making room (`edges.artifacts`).
Invariant: pins follow what is known of jobs, also after a start; nothing stays pinned for a job
that has ended, nor for a machine that is gone.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

from distributed_grid.agent.housing import outputs_of
from distributed_grid.agent.pace import Rest
from distributed_grid.agent.setting_out import SettingOut, manifests_of, pin_of
from distributed_grid.agent.shipping import Shipping
from distributed_grid.agent.shipping_out import Shipment as Transfer
from distributed_grid.edges.artifacts import CacheError
from distributed_grid.kernel.accounts import LIMITS, ByteAccounts
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_bytes import spec_of
from distributed_grid.kernel.across.record_parts import note_of, standing_of
from distributed_grid.kernel.across.shelf import Kept
from distributed_grid.kernel.jobs import SAVED_KEPT, Job
from distributed_grid.kernel.node import Node
from distributed_grid.kernel.resuming import saved_by
from distributed_grid.model.artifact import ManifestId, is_id
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import Shipment
from distributed_grid.wire.mesh import JUNK

LOOK_S: Final = 5.0  # What came stays for five minutes anyway, and what is over can wait.
SMALL_BYTES: Final = 8 << 20  # Such inputs are copied before a submission is acknowledged,
SMALL_S: Final = 1.0  # if that takes no longer.
SAVED: Final = b"saved"  # In the bytes of a note: the name of a field.
TURN: Final = 100  # Jobs that are looked at in one go: a millisecond, then others have their turn.
GONE_LOOKS: Final = 12  # Who was not there for a minute is not waited for; it can ask again.

Pin = tuple[ManifestId, str]


class Pinning:
    """What this node keeps, and what others are to keep of it."""

    def __init__(
        self,
        node: Node,
        shipping: Shipping,
        setting_out: SettingOut,
        *,
        reach: Callable[[NodeId], None],
    ) -> None:
        self._node, self._shipping, self._setting_out = node, shipping, setting_out
        self._reach = reach
        self._pinned: set[Pin] = set()
        self.rest: Rest = asyncio.sleep  # Between two looks.
        self._accounts = ByteAccounts(LIMITS["chunks"])
        self._senders: dict[Pin, NodeId] = {}  # Of records that are held for others.
        self._charged: dict[Pin, tuple[NodeId, int]] = {}
        self._bytes: dict[ManifestId, int] = {}  # Of what is in their manifests.
        self._held: dict[JobId, tuple[Kept, tuple[ManifestId, ...]]] = {}
        self._packed: dict[JobId, ManifestId] = {}  # Copied before the job's record names it.
        self._away: dict[NodeId, int] = {}  # Who is sent something and not there: looks since then.

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await self.rest(LOOK_S)

    async def look(self) -> None:
        """Pin what is needed, let go what is not, copy what is on this machine only."""
        wanted = set(self._wanted())
        self._pinned |= self._setting_out.pinned
        self._setting_out.pinned.clear()
        if wanted != self._pinned:
            self._pinned = await asyncio.to_thread(self._repin, self._pinned, wanted)
        jobs = self._node.coordinator.jobs
        for job_id in [one for one in self._setting_out.bare if is_over(jobs.get(one))]:
            self._setting_out.forget(job_id)
        for job_id in [one for one in self._packed if is_over(jobs.get(one))]:
            del self._packed[job_id]
        await self._look_at_copies()

    async def _look_at_copies(self) -> None:
        """Begin those that are lacking, one of each at a time; end those that nobody needs."""
        transfers = self._shipping.under_way()
        under_way = {one.manifest_id for one in transfers if self._is_alive(one.peer)}
        needless = {(one.manifest_id, one.peer) for one in transfers if not one.is_asked}
        for number, job in enumerate(list(self._node.coordinator.jobs.values())):
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)
            if job.is_guest or job.has_ended:
                continue
            if needless:
                needless.difference_update(self._places(job))
            ship = job.spec.ship
            if ship is not None and ship.manifest not in under_way and await self.copy(job):
                under_way.add(ManifestId(ship.manifest))
            await self._copy_state(job, under_way)
        self._give_up(transfers, needless)

    def _places(self, job: Job) -> Iterator[tuple[ManifestId, NodeId]]:
        """What of a job is to be where."""
        packed = self._packed.get(job.spec.id)
        named = {*manifests_of(job.spec), *_states(job), *([packed] if packed else [])}
        return product(named, job.guardians)

    def _give_up(self, transfers: list[Transfer], needless: set[tuple[ManifestId, NodeId]]) -> None:
        """Withdraw copies that nobody needs, and whatever is for a machine that is gone for good.

        Who is away for a moment is sent the rest when it is back.
        """
        gone = {one.peer for one in transfers if not self._is_there(one.peer)}
        self._away = {peer: self._away.get(peer, 0) + 1 for peer in gone}
        for one in transfers:
            is_needless = (one.manifest_id, one.peer) in needless and not one.is_asked
            is_lost = self._away.get(one.peer, 0) >= GONE_LOOKS
            if (is_needless or is_lost) and not one.over.is_set():
                self._shipping.withdraw(one.peer, one.manifest_id)

    def _repin(self, before: set[Pin], wanted: set[Pin]) -> set[Pin]:
        chunks = self._shipping.chunks
        for one in before - wanted:
            chunks.unpin(*one)
        for one in self._charged.keys() - wanted:
            sender, size = self._charged.pop(one)
            self._accounts.add(sender, -size)
        pinned = set()
        for one in wanted:
            with contextlib.suppress(CacheError):  # A disk in trouble: the next look tries again.
                if self._has_room(one) and chunks.pin(*one):
                    pinned.add(one)
        return pinned

    def _has_room(self, one: Pin) -> bool:
        """Whether files are kept for who sent the record; else they stay until others come."""
        sender = self._senders.get(one)
        if sender is None or one in self._charged:
            return True
        if one[0] not in self._bytes:
            found = self._shipping.chunks.manifest(one[0])
            if found is None:
                return False
            self._bytes[one[0]] = found.content_bytes
        size = self._bytes[one[0]]
        has_room = self._accounts.has_room(sender, self._node.rank_of(sender), size)
        if has_room:
            self._charged[one] = (sender, size)
            self._accounts.add(sender, size)
        return has_room

    def _wanted(self) -> Iterator[Pin]:
        for job in self._node.coordinator.jobs.values():
            if job.is_guest:
                if job.is_untold:  # Its home may still want them.
                    for end in job.ends:
                        for name in filter(is_id, (end.outputs, end.saved)):
                            yield ManifestId(name), outputs_of(job.spec.id)
            elif not job.has_ended:
                for manifest in (*manifests_of(job.spec), *_states(job)):
                    yield manifest, pin_of(job.spec.id)
        yield from self._of_others()

    def _of_others(self) -> Iterator[Pin]:
        """The files of jobs whose records are held here: this node may have to look after them."""
        shelf = self._node.across.guarding.shelf if self._node.across is not None else None
        kept = shelf.unfinished if shelf is not None else {}
        for gone in [job for job in self._held if job not in kept]:
            for manifest in self._held.pop(gone)[1]:
                self._senders.pop((manifest, pin_of(gone)), None)
                self._bytes.pop(manifest, None)
        for job, one in kept.items():
            known = self._held.get(job)
            if known is None or known[0] is not one:
                known = self._held[job] = (one, _named(shelf.find(job) if shelf else None))
            for manifest in known[1]:
                self._senders[manifest, pin_of(job)] = one.sender
                yield manifest, pin_of(job)

    # Copies

    async def copy(self, job: Job, packed: Shipment | None = None) -> bool:
        """See to it that a second machine has the files of a job; those that were packed for it.

        False: nothing is sent, because they are there or because there is nobody to have them.
        """
        ship = job.spec.ship or packed
        guardian = self._guardian(job, ship) if ship is not None else None
        if ship is None or guardian is None:
            return False
        if self._shipping.is_safe(ManifestId(ship.manifest), guardian):
            return False
        self._reach(guardian)
        if job.spec.ship is None:
            self._packed[job.spec.id] = ManifestId(ship.manifest)
        for manifest in _all_of(job, ship):
            await self._shipping.ship(guardian, manifest)
        return True

    async def _copy_state(self, job: Job, under_way: set[ManifestId]) -> None:
        """The same for the last state that it saved, while that is here."""
        for manifest in _states(job)[:1]:
            state = Shipment(manifest=manifest, size_bytes=0, files=0)
            guardian = self._guardian(job, state)
            if guardian is None or manifest in under_way or self.is_copied(job, state):
                continue
            if (manifest, pin_of(job.spec.id)) in self._pinned:
                self._reach(guardian)
                await self._shipping.ship(guardian, manifest)
                under_way.add(manifest)

    async def copied(self, jobs: list[Job]) -> int:
        """Copy the files of new jobs, if they are small; how much is left for `look`.

        Large ones come after those who need them to begin: a copy is synced, and takes longer.
        """
        small = [job for job in jobs if job.spec.ship and job.spec.ship.size_bytes <= SMALL_BYTES]
        for job in small:
            await self.copy(job)
        waiting = [
            asyncio.ensure_future(self.arrived(job, job.spec.ship))
            for job in small
            if job.spec.ship
        ]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=SMALL_S)
            for one in late:
                one.cancel()
        return sum(self.bytes_left(job) for job in jobs)

    async def arrived(self, job: Job, ship: Shipment) -> None:
        """Once who is to keep these files has them, or does not take them."""
        guardian = self._guardian(job, ship)
        if guardian is None:
            return
        for manifest in _all_of(job, ship):
            if shipment := self._shipping.shipment(manifest, guardian):
                await shipment.over.wait()

    def is_copied(self, job: Job, ship: Shipment) -> bool:
        """Whether one that keeps its record keeps these files of it."""
        name = ManifestId(ship.manifest)
        return any(self._shipping.is_safe(name, one) for one in job.guardians)

    def bytes_to_spread(self, job: Job) -> int:
        """The same, not counting where it runs: that machine may be lost with this one."""
        hosts = {attempt.host for attempt in job.live_attempts}
        ship = job.spec.ship
        if ship is None or self.bytes_left(job) or self._guardian(job, ship) in {None, *hosts}:
            return self.bytes_left(job)
        name = ManifestId(ship.manifest)
        kept = any(self._shipping.is_safe(name, one) for one in job.guardians if one not in hosts)
        return 0 if kept else ship.size_bytes

    def bytes_left(self, job: Job) -> int:
        """How much of its files is on this machine only."""
        ship = job.spec.ship
        if ship is None or job.is_guest or not job.guardians:
            return 0
        manifest = ManifestId(ship.manifest)
        if self.is_copied(job, ship):
            return 0
        under_way = [self._shipping.shipment(manifest, one) for one in job.guardians]
        left = [one.progress().bytes_left for one in under_way if one and not one.over.is_set()]
        return max(1, min(left, default=ship.size_bytes))

    def _guardian(self, job: Job, ship: Shipment | None) -> NodeId | None:
        """The first that is to have a copy and is there; one that refused is passed over.

        Where it runs it has its files anyway: another one keeps them, should both machines be lost.
        """
        willing = [node for node in job.guardians if self._is_willing(node, ship)]
        hosts = {attempt.host for attempt in job.live_attempts}
        return next((node for node in willing if node not in hosts), next(iter(willing), None))

    def _is_willing(self, node: NodeId, ship: Shipment | None) -> bool:
        shipment = self._shipping.shipment(ManifestId(ship.manifest), node) if ship else None
        # What it asked for itself, and did not want after all, tells nothing about copies.
        is_refused = shipment is not None and shipment.state == "refused" and not shipment.is_asked
        return self._is_alive(node) and not is_refused

    def _is_alive(self, node: NodeId) -> bool:
        across = self._node.across
        peer = across.peers.get(node) if across is not None else None
        return peer is not None and peer.is_alive

    def _is_there(self, node: NodeId) -> bool:
        """Alive; or there is a link, whatever is thought of it."""
        return self._is_alive(node) or self._shipping.is_linked(node)


def _all_of(job: Job, ship: Shipment) -> set[ManifestId]:
    """What was packed for a job, and whatever else it names."""
    return {ManifestId(ship.manifest), *manifests_of(job.spec)}


def is_over(job: Job | None) -> bool:
    """Whether nobody needs its files any more."""
    return job is None or job.has_ended


def _states(job: Job) -> tuple[ManifestId, ...]:
    """What it may go on from, the newest first."""
    return tuple(ManifestId(one.manifest) for one in saved_by(job) if is_id(one.manifest))


def _states_in(record: JobRecord) -> tuple[ManifestId, ...]:
    """The same of a job that another node looks after; of most notes nothing is read."""
    notes = [note_of(body) for body in record.attempts.values() if SAVED in body]
    kept = sorted((one.epoch, one.number, one.saved) for one in notes if is_id(one.saved))
    return tuple(ManifestId(saved) for _, _, saved in kept[-SAVED_KEPT:])


def _named(record: JobRecord | None) -> tuple[ManifestId, ...]:
    if record is None:
        return ()
    try:
        named = manifests_of(spec_of(record)) if record.spec else ()
        ship = standing_of(record.standing).ship
        shipped = () if ship is None else (ManifestId(ship.manifest),)
        return tuple({*named, *shipped, *_states_in(record)})
    except JUNK:
        return ()  # Of a newer version: whoever understands it keeps its files.
