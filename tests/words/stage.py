"""Honest machines with real kernels, and one or more members beside them that say anything.

Lives here: the machines, their people's jobs, what every single step must keep to. Never here: what
is said (`talking`). Invariant: what happens follows from the acts alone, so that a list of them can
be played again, and a shorter one too.
"""

import random
import signal
import time

import msgspec

from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Beat, Told
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import After, Array, Preempt, Where
from distributed_grid.model.lease import Lease
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Request
from distributed_grid.wire.job_lane import decode, encode
from distributed_grid.wire.keeper import ToKeeper
from distributed_grid.wire.mesh import JUNK
from tests.across_world import BEAT_MS, Neighbour, Room, rules_of
from tests.node_world import FOUR_CORES, World, a_job

STEP_S = 1.0  # Of processor time, for one step.
HONEST = 3
ROLES = {
    "guest": dict(may_lend=False),
    "worker": dict(may_submit=False),
    "member": {},
    "admin": dict(is_own=True),
}
ENDED = ("succeeded", "failed", "cancelled", "lost", "skipped")
SQLITE_MAX = 2**63  # A larger number is in no column.
_to_keeper = msgspec.msgpack.Decoder(ToKeeper)


class Slow(AssertionError):
    """A step takes more than its time."""


class Honest(Neighbour):
    """One node that says what is so."""

    def made(self, node) -> None:
        room = self.room
        node.join(self.me, senses=Senses(None, room.dice.randrange), rules_of=rules_of)

    def step(self, event) -> Ready:
        with Measured(type(event).__name__):
            ready = World.step(self, event)
        self.room.steps += 1
        self.node.check()
        for message in ready.tell:
            assert _to_keeper.decode(msgspec.msgpack.encode(message)) == message
        for job in ready.save_jobs.values():
            msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=Job)
            assert -SQLITE_MAX <= job.submitted_ms < SQLITE_MAX, "no number for a column"
        for lease in ready.save_leases:
            msgspec.msgpack.decode(msgspec.msgpack.encode(lease), type=Lease)
        for one in ready.happened:
            msgspec.json.encode(one)
        for peer, message in (*ready.ask, *ready.send):
            body = encode(message)
            assert decode(body) == message, "it is not what was said"
            self.room.says(self, peer, body)
        return ready

    def pump(self) -> None:
        if self.keeper.unacknowledged:
            super().pump()


class Liar:
    """A member that has a valid key, and no kernel."""

    def __init__(self, number: int, role: str) -> None:
        self.name = self.role = role
        self.me = NodeId(f"{number:064x}")
        self.is_alive = True
        self.peer = Peer(
            id=self.me,
            name=role,
            record=NodeRecord(
                id=self.me, name=role, total=FOUR_CORES.total, free=FOUR_CORES.total, labels={}
            ),
            **ROLES[role],
        )


class Stage(Room):
    """All of them, and the people who want jobs to end."""

    def __init__(self, seed: int | str, roles: tuple[str, ...]) -> None:
        self.dice = random.Random(f"{seed}/dice")
        self.steps = 0
        self.liars = [Liar(100 + at, role) for at, role in enumerate(roles)]
        self.overheard: list[bytes] = []  # Since it was looked at: what the honest have said,
        self.ears: list[bytes] = []  # and what of it was said to a liar.
        self.jobs: dict[str, tuple[Honest, object]] = {}
        self.post, self.cut, self.dead, self.nodes = _Post(), set(), set(), []
        for number in range(1, HONEST + 1):
            self.nodes.append(Honest(self, number, FOUR_CORES))
            self.nodes[-1].lease_prefix = f"{number:032x}-"
        self._open()

    # The honest

    def _open(self) -> None:
        first, second, third = self.nodes
        self.look()
        self.submit(first, a_job("plain"))
        self.submit(first, a_job("elsewhere", avoid=Where(nodes=("node-1",))))
        self.submit(first, a_job("array", array=Array(start=0, stop=9, width=4), retries=1))
        self.submit(first, a_job("once", at_most_once=True, avoid=Where(nodes=("node-1",))))
        self.submit(second, a_job("gang", gang=2, cpus=3_000))
        self.submit(first, a_job("after", after=(After(job=a_job("plain").id),)))
        self.submit(second, a_job("own once", at_most_once=True))
        self.submit(third, a_job("large", cpus=4_000, preempt=Preempt(grace_ms=1_000)))
        self.submit(third, a_job("parts", array=Array(parts=((0, 3, 1), (10, 20, 5)))))
        self.submit(third, a_job("small", request=Request(cpu_milli=100, memory_bytes=1 << 20)))
        self.settle()

    def submit(self, node: Honest, spec) -> None:
        self.jobs[spec.id] = (node, spec)
        node.submit(spec)

    def says(self, who: Honest, peer: NodeId, body: bytes) -> None:
        self.overheard.append(body)
        if any(peer == liar.me for liar in self.liars):
            self.ears.append(body)
        if any(peer == node.me for node in self.nodes):
            self.post.append((who.me, peer, body))

    @property
    def others(self) -> dict[NodeId, Peer]:
        return {
            liar.me: msgspec.structs.replace(liar.peer, is_alive=liar.is_alive)
            for liar in self.liars
        }

    def look(self) -> None:
        """Everyone sees everyone."""
        if not hasattr(self, "nodes") or len(self.nodes) < HONEST:
            return
        for node in self.nodes:
            node.look()
        self.settle()

    def settle(self) -> None:
        for _ in range(20_000):
            for node in self.nodes:
                node.pump()
            if not self.post:
                return
            while self.post:
                source, target, body = self.post.popleft()
                node = self.by_id(target)
                node.step(Told(now_ms=node.now_ms, peer=source, message=decode(body)))
        raise AssertionError("they never stop talking")

    def pass_time(self, by_ms: int) -> None:
        for node in self.nodes:
            node.now_ms += by_ms
            node.step(Beat(now_ms=node.now_ms))
            if self.nodes[0].now_ms // 1_000 % 2:
                World.pass_time(node, 0)

    # Acts

    def play(self, act: tuple) -> None:
        """One thing happens."""
        what, *more = act
        getattr(self, f"_{what}")(*more)

    def _say(self, liar: int, target: int, *bodies: bytes) -> None:
        node, who = self.nodes[target], self.liars[liar]
        messages = [decode(body) for body in bodies]
        first, *rest = messages
        more = tuple((who.me, one) for one in rest)
        node.step(Told(now_ms=node.now_ms, peer=who.me, message=first, more=more))

    def _settle(self) -> None:
        self.settle()

    def _pass(self, by_ms: int) -> None:
        self.pass_time(by_ms)

    def _look(self) -> None:
        self.look()

    def _turn(self, liar: int, is_alive: bool) -> None:
        self.liars[liar].is_alive = is_alive
        self.look()

    def _end(self, target: int, place: int, code: int) -> None:
        keeper = self.nodes[target].keeper
        running = keeper.started
        if running:
            keeper.end_one(running[place % len(running)], code)

    def _restart(self, target: int) -> None:
        node = self.nodes[target]
        node.start_agent()
        node.look()

    def _submit(self, target: int, number: int) -> None:
        self.submit(self.nodes[target], a_job(f"more {number}"))

    # The end

    def finish(self, within_ms: int, *, all_of_them: bool, spoilt: int = 0) -> None:
        """The liars have gone: what honest people wanted comes to its end.

        But for at-most-once jobs, if a liar knew what only voters know, or several lied together.
        """
        self.liars.clear()
        self.look()
        for _ in range(0, within_ms, BEAT_MS):
            self.pass_time(BEAT_MS)
            for node in self.nodes:
                for attempt in node.keeper.started:
                    node.keeper.end_one(attempt, 0)
            self.settle()
            if len(self.unfinished(all_of_them)) <= spoilt:
                return
            if self.nodes[0].now_ms % 5_000 < BEAT_MS:
                self.look()
        raise AssertionError(f"they have not ended: {self.unfinished(all_of_them)}")

    def unfinished(self, all_of_them: bool) -> list[str]:
        found = []
        for node, spec in self.jobs.values():
            if spec.at_most_once and not all_of_them:
                continue
            state = node.knows(spec)
            if state not in ENDED:
                why = node.node.coordinator.jobs.get(spec.id)
                found.append(f"{spec.name} {state or 'unknown'}: {why.reason if why else ''}")
        return found

    def restart_all(self) -> None:
        """What was saved can be loaded, as often as anybody likes."""
        for node in self.nodes:
            for _ in range(2):
                node.start_agent()


class _Post(list):
    def popleft(self):
        return self.pop(0)


def is_heard(body: bytes) -> bool:
    """Whether a receiver would make anything of these bytes."""
    try:
        decode(body)
    except JUNK:
        return False
    return True


class Watch:
    """Breaks off what does not end: after so much processor time, wherever it is."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGVTALRM, self._over)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)

    def __exit__(self, *_) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._before)

    def _over(self, *_) -> None:
        raise Slow(f"no end after {self.seconds} s")


class Measured:
    """One step under a watch. Processor time is asked for only of what was long by the clock."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self._began = time.perf_counter()
        self._left_s, _ = signal.getitimer(signal.ITIMER_VIRTUAL)

    def __exit__(self, *_) -> None:
        if time.perf_counter() - self._began > STEP_S:
            left_s, _ = signal.getitimer(signal.ITIMER_VIRTUAL)
            if self._left_s - left_s > STEP_S:
                raise Slow(f"{self._left_s - left_s:.1f} s for {self.what}")
