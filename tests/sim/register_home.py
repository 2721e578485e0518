"""What a coordinator of the small world wants: attempts until one ends well, other sets, and jobs
of coordinators that it believes dead.

Lives here: the wishes, as plain and as rash as the rules allow. Never here: the rules.
"""

from typing import TYPE_CHECKING

import msgspec

from distributed_grid.kernel.across.register_effects import (
    Deposed,
    Happening,
    MayStart,
    Outbid,
    Ruling,
    Stored,
)
from distributed_grid.kernel.across.register_sets import due_set, first_set
from distributed_grid.kernel.across.register_voter import JOB
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import Member, Standing, Written

if TYPE_CHECKING:
    from tests.sim.register_host import Host

DONE = b" done"
HOME = "home/"
DEAD_US = 3_000_000
GONE_US = 8_000_000  # Ten minutes in the world outside.
AGAIN_US = 400_000
STAGGER_US = 1_000_000


class Errand:
    """One job of which this node is the coordinator."""

    def __init__(self, standing: Standing) -> None:
        self.node = standing.node
        self.lease = standing.lease
        self.let: Standing | None = None  # It may start: say so until it is answered.
        self.runs = False
        self.is_over = not standing.lease
        self.is_replacing = False
        self.said_us = -AGAIN_US


class Home:
    """The coordinator in one life of an agent."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.errands: dict[JobId, Errand] = {}
        self._looked_us = 0

    @property
    def writer(self):
        return self.host.register.writer

    def submit(self, job: JobId) -> None:
        world = self.host.world
        known = self._members()
        voters = first_set(self.host.register.voter.me, known, world.mood.size)
        new = Written(standing=Standing(voters=voters), value=b"new")
        self.host.do(self.writer.take_over(job, new, self.host.boot_us()))

    def written(self, job: JobId) -> Written | None:
        """The newest that this node holds, as voter or as coordinator."""
        held = [self.host.register.voter.written(job)]
        if HOME + job in self.host.disk:
            held.append(_decode(self.host.disk[HOME + job]))
        return max(filter(None, held), key=lambda one: one.standing.version, default=None)

    def take_over(self, job: JobId) -> None:
        written = self.written(job)
        if written is not None and not written.value.endswith(DONE):
            voter = self.host.register.voter
            self.errands.pop(job, None)
            self.host.do(
                self.writer.take_over(job, written, self.host.boot_us(), seen=voter.promised(job))
            )

    def hear(self, sender: NodeId, message: tuple) -> None:
        kind, job, *rest = type(message).__name__, *message
        errand, chair = self.errands.get(job), self.writer.chair(job)
        if errand is None or chair is None:
            return
        now_us, effects = self.host.boot_us(), _effects()
        lease = rest[0]
        is_busy = chair._flight is not None
        if kind == "Room":
            if (errand.is_over or errand.is_replacing) and not is_busy:
                value = chair.written.value + b" " + lease[-8:].encode()
                chair.name(sender, lease, value, now_us, effects)
                errand.__init__(Standing(node=sender, lease=lease))
                errand.said_us = now_us
        elif kind == "Runs" and lease == errand.lease:
            errand.runs, errand.let = True, None
            chair.runs(lease, effects)
        elif kind == "Over":
            has_run, is_success = rest[1:]
            chair.ended(lease, effects, has_run=has_run)
            if is_success and not is_busy:
                chair.store(chair.written.value + DONE, now_us, effects)
            elif not is_success and lease == errand.lease and not errand.is_over:
                errand.is_over, errand.let = True, None
                self._say(job, errand)
        self.host.do(effects)

    def happened(self, happening: Happening) -> None:
        match happening:
            case Ruling(job=job, written=written):
                self.errands[job] = Errand(written.standing)
                self._say(job, self.errands[job])
            case Stored(job=job, written=written):
                self.host.disk[HOME + job] = _encode(written)
                self.host.world.stored(job, written.value)
                if written.value.endswith(DONE):
                    self.host.world.finished(job)
                    self.writer.drop(job)
                    self.errands.pop(job, None)
            case MayStart(job=job, standing=standing):
                errand = self.errands.get(job)
                if errand and errand.lease == standing.lease:
                    errand.let = standing
                    self._say(job, errand)
            case Outbid(job=job, by=by):
                is_stubborn = self.host.world.mood.is_stubborn and self.host.rng.random() < 0.8
                if by.node != self.host.name and self._is_alive(by.node) and not is_stubborn:
                    self.writer.drop(job)
            case Deposed(job=job):
                self.errands.pop(job, None)
            case _:
                pass

    # Looking after them

    def tick(self) -> None:
        now_us = self.host.boot_us()
        if now_us - self._looked_us < AGAIN_US // 2:
            return
        self._looked_us = now_us
        for job, errand in list(self.errands.items()):
            if self.writer.chair(job) is None:
                del self.errands[job]
            else:
                self._look_after(job, errand, now_us)
        self._look_for_orphans()
        for name in self.host.world.names:
            if name != self.host.name and self.host.rng.random() < 0.1:
                self.host.do(self.host.register.voter.meet(name, now_us))

    def _look_after(self, job: JobId, errand: Errand, now_us: int) -> None:
        world, rng = self.host.world, self.host.rng
        if world.happens("replace", self.host):
            errand.is_replacing = True
        if errand.lease and not self._is_alive(errand.node):
            errand.is_replacing = True
        if now_us - errand.said_us >= AGAIN_US:
            self._say(job, errand)
        chair = self.writer.chair(job)
        effects = _effects()
        voters = chair.written.standing.voters
        known = self._members()
        if world.happens("set_change", self.host):
            some = rng.sample(known, len(known))
            size = rng.choice((1, 3, 3, 3, 5))
            chair.change_set(first_set(rng.choice(known), some, size), now_us, effects)
        else:
            gone = {
                member
                for member in voters
                if self._silent_us(member.node) > GONE_US
                or self.host.register.voter.stores.get(member.node, member.store) != member.store
            } - {self.host.register.voter.me}
            due = due_set(voters, known, gone, 3)
            if due and not chair.written.standing.next:
                chair.change_set(due, now_us, effects)
        self.host.do(effects)

    def _say(self, job: JobId, errand: Errand) -> None:
        """Ask for room, start, or ask how it is."""
        from tests.sim.register_host import AskRoom, Poll, Start

        errand.said_us = self.host.boot_us()
        if errand.is_over or errand.is_replacing:
            alive = [name for name in self.host.world.names if self._is_alive(name)]
            self.host.tell(self.host.rng.choice(alive), AskRoom(job))
        if errand.let:
            self.host.tell(errand.node, Start(job, errand.let))
        elif errand.lease:
            self.host.tell(errand.node, Poll(job, errand.lease))

    def _look_for_orphans(self) -> None:
        """Jobs whose coordinator is dead, as far as this node knows; or which nobody pursues."""
        world = self.host.world
        jobs = [key.removeprefix(JOB) for key in self.host.disk if key.startswith(JOB)]
        jobs += [key.removeprefix(HOME) for key in self.host.disk if key.startswith(HOME)]
        for job in dict.fromkeys(jobs):
            if self.writer.chair(job) or self.writer.is_asking(job):
                continue
            written = self.written(job)
            if written is None or written.value.endswith(DONE):
                continue
            coordinator = written.standing.version.epoch.node
            place = world.names.index(self.host.name)
            is_orphan = self._silent_us(coordinator) > DEAD_US + place * STAGGER_US
            if self.host.rng.random() < 0.05 and not world.pursues(coordinator, job):
                is_orphan = True  # It was asked: it has lost its disk, or was outbid by nobody.
            is_own = coordinator == self.host.name and self.host.rng.random() < 0.3
            if is_orphan or is_own:
                self.take_over(job)

    def _silent_us(self, node: NodeId) -> int:
        return self.host.world.silent_us(self.host.name, node)

    def _is_alive(self, node: NodeId) -> bool:
        return self._silent_us(node) <= DEAD_US

    def _members(self) -> list[Member]:
        """Who could be a voter, in an order of this node's own."""
        voter = self.host.register.voter
        known = [Member(name, store) for name, store in voter.stores.items()]
        alive = [one for one in known if self._is_alive(one.node) and one.node != voter.me.node]
        return [voter.me, *sorted(alive)]


def _effects():
    from distributed_grid.kernel.across.register_effects import Effects

    return Effects()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Written).decode
