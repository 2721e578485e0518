"""One machine of the small world: its clock, its disk, its keeper, and the agent's executor.

Lives here: lives and deaths of the agent and its machine, processes with deadlines, what an owner
of resources says of its leases. Never here: what a coordinator wants (`register_home`), the network
and the faults (`register_world`).
Invariant: effects are done in their order: saved, then sent, then acted on; a crash in between
takes away what was not done.
"""

import random
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from distributed_grid.kernel.across.register import PREFIX, Register
from distributed_grid.kernel.across.register_effects import (
    Effects,
    Extend,
    GaveUp,
    Lapsed,
    MayRun,
)
from distributed_grid.kernel.across.register_lease import LEASE
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    Prepare,
    Promised,
    RegisterMessage,
    Standing,
)
from tests.sim.register_home import Home

if TYPE_CHECKING:
    from tests.sim.register_world import World

TICK_US = 100_000
ENDED = "ended/"


class AskRoom(NamedTuple):
    job: JobId


class Room(NamedTuple):
    job: JobId
    lease: str


class Start(NamedTuple):
    job: JobId
    standing: Standing


class Poll(NamedTuple):
    job: JobId
    lease: str


class Runs(NamedTuple):
    job: JobId
    lease: str


class Over(NamedTuple):
    """It has ended well, or not; or it is unknown, and so nothing of it runs."""

    job: JobId
    lease: str
    has_run: bool
    is_success: bool


class Process:
    """Something that must not run twice at once."""

    def __init__(self, job: JobId, lease: str, until_us: int) -> None:
        self.job = job
        self.lease = lease
        self.until_us = until_us  # On its machine's clock.


class Host:
    """A machine."""

    def __init__(self, world: "World", name: NodeId) -> None:
        self.world = world
        self.name = name
        self.disk: dict[str, bytes] = {}
        self.snapshots: list[dict[str, bytes]] = [{}]
        self.rng = random.Random(f"{world.mood.seed}/{name}")
        drift = world.mood.drift_milli
        self.rate_milli = 1_000 + self.rng.choice((-drift, 0, drift))
        self.booted_us = -self.rng.randrange(10**9)
        self.is_up = False
        self.has_agent = False
        self.is_paused = False
        self.is_stalled = False
        self.woke_us = -TICK_US
        self.slept_us = 0  # CLOCK_MONOTONIC does not count these.
        self._fell_asleep_us = 0
        self.life = 0
        self.processes: dict[str, Process] = {}
        self.journal: list[Over] = []  # Ends that no agent has heard of.
        self._waiting: deque[tuple[int, NodeId, object]] = deque()
        self._effects: deque[Effects] = deque()
        self._is_syncing = False

    # Lives

    def boot_us(self) -> int:
        """CLOCK_BOOTTIME: it goes on while the machine sleeps."""
        return (self.world.now_us - self.booted_us) * self.rate_milli // 1_000

    def boot(self) -> None:
        self.is_up, self.is_paused, self.slept_us = True, False, 0
        self.booted_us = self.world.now_us - self.rng.randrange(10**9)
        self.start_agent()
        self.world.at(self.rng.randrange(TICK_US), self._tick, self._machine())

    def start_agent(self) -> None:
        self.life += 1
        self.has_agent, self.is_stalled = True, False
        self.granted: set[str] = set()
        self.pending: set[str] = set()
        self.callers: dict[str, dict[NodeId, None]] = {}  # Who asked about which lease.
        self._waiting.clear()
        self._effects.clear()
        self._is_syncing = False
        chance = random.Random(f"{self.world.mood.seed}/{self.name}/{self.life}").randrange
        self.register = Register(self.name, chance)
        self.home = Home(self)
        saved = {key: body for key, body in self.disk.items() if key.startswith(PREFIX)}
        # What the keeper does not run any more is over, and whoever asks is told so.
        for key in saved:
            lease = key.removeprefix(LEASE)
            if key.startswith(LEASE) and lease not in self.processes:
                self.disk.setdefault(ENDED + lease, b"fail")
        for over in self.journal:
            self.disk[ENDED + over.lease] = b"ok" if over.is_success else b"fail"
        self.journal.clear()
        running = {lease: one.until_us for lease, one in self.processes.items()}
        self.do(self.register.start(saved, running, self.boot_us()))

    def stop_agent(self) -> None:
        self.has_agent = False
        self.life += 1

    def crash(self) -> None:
        """The machine: agent, keeper and all processes."""
        self.stop_agent()
        self.is_up = False
        self.processes.clear()
        self.journal.clear()

    def pause(self) -> None:
        self.is_paused = True
        self._fell_asleep_us = self.world.now_us

    def wake(self) -> None:
        self.is_paused = False
        self.woke_us = self.world.now_us
        self.slept_us += self.woke_us - self._fell_asleep_us
        self.world.at(TICK_US + TICK_US // 20, self.world.look_at, self)
        self._catch_up()

    def stall(self) -> None:
        self.is_stalled = True

    def go_on(self) -> None:
        self.is_stalled = False
        self._catch_up()

    def _machine(self) -> tuple[int, int]:
        return self.booted_us, 0

    def _is_awake(self) -> bool:
        return self.is_up and self.has_agent and not self.is_paused and not self.is_stalled

    def _catch_up(self) -> None:
        if self._is_awake():
            self._carry_out()
            while self._waiting and self._is_awake():
                life, sender, message = self._waiting.popleft()
                if life == self.life:
                    self._hear(sender, message)

    def _tick(self, machine: tuple[int, int]) -> None:
        if not self.is_up or machine != self._machine():
            return
        self.world.at(TICK_US, self._tick, machine)
        if self.is_paused:
            return
        self._keep_deadlines()
        if self._is_awake():
            self.do(self.register.tick(self.boot_us()))
            self.home.tick()

    # The keeper

    def _keep_deadlines(self) -> None:
        now_us = self.boot_us()
        for process in list(self.processes.values()):
            if now_us >= process.until_us:
                self._ended(process, is_success=False)

    def _run(self, job: JobId, lease: str, until_us: int) -> None:
        if self.boot_us() >= until_us:  # The agent slept between its decision and this.
            self._told(Over(job, lease, has_run=True, is_success=False))
            return
        work_us = self.world.mood.work_us
        is_success = self.rng.randrange(1_000) >= self.world.failing_milli()
        takes_us = work_us // 2 + self.rng.randrange(work_us)
        if not is_success:
            takes_us = self.rng.choice((50_000, 400_000, 2_000_000))
        process = Process(job, lease, until_us)
        self.processes[lease] = process
        self.world.started(self, process)
        self.world.at(takes_us, self._finish, process, is_success)

    def _finish(self, process: Process, is_success: bool) -> None:
        if self.processes.get(process.lease) is not process:
            return
        if self.is_paused:  # It makes no progress.
            self.world.at(TICK_US, self._finish, process, is_success)
            return
        self._ended(process, is_success=is_success)

    def _ended(self, process: Process, *, is_success: bool) -> None:
        del self.processes[process.lease]
        self.world.say(self, f"ended {process.lease} {is_success}")
        self.world.moment()
        over = Over(process.job, process.lease, has_run=True, is_success=is_success)
        if self.has_agent and not self.is_stalled:
            self._told(over)
        else:
            self.journal.append(over)

    def _told(self, over: Over) -> None:
        self.disk[ENDED + over.lease] = b"ok" if over.is_success else b"fail"
        self.do(self.register.leases.over(over.lease, self.boot_us()))
        for caller in self.callers.get(over.lease, ()):
            self.tell(caller, over)

    # The agent

    def arrive(self, sender: NodeId, message: object) -> None:
        """From the network; while it sleeps, in a buffer."""
        if not self.is_up or not self.has_agent:
            return
        if self._is_awake():
            self._hear(sender, message)
        else:
            self._waiting.append((self.life, sender, message))

    def _hear(self, sender: NodeId, message: object) -> None:
        for over in self.journal:
            self._told(over)
        self.journal.clear()
        match message:
            case bytes():
                self.do(self.register.hear(sender, _decode(message), self.boot_us()))
            case AskRoom(job):
                lease = f"{job}.{self.name}.{self.rng.randrange(1 << 32):08x}"
                self.granted.add(lease)
                self.tell(sender, Room(job, lease))
            case Start(job, standing):
                self._start(sender, job, standing)
            case Poll(job, lease):
                self._say_how(sender, job, lease)
            case _:
                self.home.hear(sender, message)

    def _start(self, sender: NodeId, job: JobId, standing: Standing) -> None:
        lease = standing.lease
        if lease in self.granted:
            self.granted.discard(lease)
            self.pending.add(lease)
        if lease in self.pending or lease in self.processes:
            self.do(self.register.leases.begin(job, standing, self.boot_us()))
        self._say_how(sender, job, lease)

    def _say_how(self, sender: NodeId, job: JobId, lease: str) -> None:
        self.callers.setdefault(lease, {})[sender] = None
        if lease in self.processes:
            self.tell(sender, Runs(job, lease))
        elif ENDED + lease in self.disk:
            word = self.disk[ENDED + lease]
            self.tell(sender, Over(job, lease, word != b"never", word == b"ok"))
        elif lease not in self.pending and lease not in self.granted:
            self.tell(sender, Over(job, lease, has_run=False, is_success=False))

    def tell(self, node: NodeId, message: object) -> None:
        self.world.send(self, node, message)

    # Effects

    def do(self, effects: Effects) -> None:
        """In order; a sync takes its time."""
        if effects.save or effects.send or effects.happened:
            self._effects.append(effects)
            self._carry_out()

    def _carry_out(self) -> None:
        while self._effects and not self._is_syncing and self._is_awake():
            if self._effects[0].save:
                self._is_syncing = True
                delay_us = self.rng.randrange(self.world.mood.sync_us)
                self.world.at(delay_us, self._synced, self.life, len(self._effects))
                return
            self._act(self._effects.popleft())

    def _synced(self, life: int, count: int) -> None:
        """All that waited when the sync began is durable."""
        if life != self.life or not self.is_up:
            return
        if self.is_paused:
            self.world.at(TICK_US, self._synced, life, count)
            return
        for effects in list(self._effects)[:count]:
            for key, body in effects.save.items():
                if body is None:
                    self.disk.pop(key, None)
                else:
                    self.disk[key] = body
                    self.world.saved(key, body)
            effects.save.clear()
        self._is_syncing = False
        self._carry_out()

    def _act(self, effects: Effects) -> None:
        for node, message in effects.send:
            self.world.send(self, node, _encode(message))
            if isinstance(message, Promised | Accepted):
                self.world.voted(self)
            elif isinstance(message, Prepare | Accept):
                self.world.asked(self)
        for happening in effects.happened:
            match happening:
                case MayRun(job=job, lease=lease, until_boot_us=until_us):
                    self.pending.discard(lease)
                    self._run(job, lease, until_us)
                case Extend(lease=lease, until_boot_us=until_us):
                    if lease in self.processes:
                        process = self.processes[lease]
                        process.until_us = max(process.until_us, until_us)
                case GaveUp(lease=lease):
                    self.pending.discard(lease)
                    self.disk[ENDED + lease] = b"never"
                case Lapsed():
                    pass  # The keeper knows.
                case _:
                    self.home.happened(happening)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RegisterMessage).decode
