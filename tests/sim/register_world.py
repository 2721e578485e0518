"""A small world of at-most-once jobs: a few machines, virtual time, and everything that fails.

    python -m tests.sim.register_world --seed 7 --seeds 1 --trace

Lives here: time, the network, the faults, the rule that is checked, one run from its seed. Never
here: machines (`register_host`), what coordinators want (`register_home`).
Invariant: never two live processes of one job, up to one tick after a wake; and after healing every
acknowledged job ends well, unless a majority of its voters can never vote again.
"""

import argparse
import hashlib
import heapq
import random
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from distributed_grid.kernel.across.register_sets import is_majority, is_recollected
from distributed_grid.kernel.across.register_voter import JOB, Kept
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import Member
from tests.sim.register_home import DONE
from tests.sim.register_host import TICK_US, Host, Process
from tests.sim.register_moods import RATES, SECOND_US, Mood, mood_of

LOST_US = 15 * SECOND_US  # A job that was not acknowledged by then died with its submitter.
DEATHS = ("crash", "agent_crash", "amnesia", "old_disk")
HEALING_US = 150 * SECOND_US  # Some takeovers, each with a wait of a TTL, and the longest work.


class Violation(AssertionError):
    """The rule is broken."""


class World:
    """All of it."""

    def __init__(self, mood: Mood) -> None:
        self.mood = mood
        self.now_us = 0
        self.trace: list[str] = []
        self.rng = random.Random(f"register {mood.seed}")
        self._queue: list[tuple[int, int, Callable, tuple]] = []
        self._count = 0
        self.names = [NodeId(f"n{number}") for number in range(mood.nodes)]
        self.hosts = {name: Host(self, name) for name in self.names}
        self._cut: set[tuple[NodeId, NodeId]] = set()  # From, to.
        self._seen_us: dict[tuple[NodeId, NodeId], int] = {}
        self._is_healing = False
        self.acknowledged_jobs: dict[JobId, bytes] = {}  # With the newest durable value.
        self.finished_jobs: dict[JobId, None] = {}
        self.starts = 0
        self.faults = 0
        self._sets: set[tuple[Member, ...]] = set()  # That anybody ever wrote down.
        self._damaged: set[Member] = set()

    # Time

    def at(self, delay_us: int, what: Callable, *arguments: object) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_us + delay_us, self._count, what, arguments))

    def _run_until(self, until_us: int, is_enough: Callable[[], bool] = lambda: False) -> None:
        while self._queue and self._queue[0][0] <= until_us and not is_enough():
            self.now_us, _, what, arguments = heapq.heappop(self._queue)
            what(*arguments)
        if not is_enough():
            self.now_us = until_us

    def say(self, host: Host, words: str) -> None:
        self.trace.append(f"{self.now_us / SECOND_US:.3f} {host.name} {words}")

    def run(self) -> None:
        for host in self.hosts.values():
            host.boot()
        self.at(0, self._look_around)
        for name in RATES:
            if getattr(self.mood, name) and hasattr(self, f"_{name}"):
                self._schedule(name)
        for number in range(self.mood.jobs):
            self.at(5 * SECOND_US + number, self._submit, number, 0)
        self._run_until(self.mood.span_us)
        self._heal()
        self._run_until(self.mood.span_us + HEALING_US, self._is_done)
        stuck = [job for job in self.acknowledged_jobs if not self._is_finished(job)]
        for job in stuck:
            if not self.is_hopeless(job):
                raise Violation(f"{job} has not ended")
            self.trace.append(f"{job} is stuck for good")

    def _is_done(self) -> bool:
        return all(map(self._is_finished, self.acknowledged_jobs))

    def _is_finished(self, job: JobId) -> bool:
        """Whether somebody knows; its coordinator may have died before it did."""
        if job not in self.finished_jobs:
            held = [host.home.written(job) for host in self.hosts.values() if host.has_agent]
            if any(written and written.value.endswith(DONE) for written in held):
                self.finished_jobs[job] = None
        return job in self.finished_jobs

    def _submit(self, slot: int, number: int, since_us: int = 0) -> None:
        """One job after the other, as long as there are faults."""
        job = JobId(f"job{slot}.{number}")
        host = self.rng.choice([*self.hosts.values()])
        is_lost = job not in self.acknowledged_jobs and self.now_us - since_us > LOST_US
        is_next = not since_us or is_lost or self._is_finished(job)
        is_awake = host.has_agent and not host.is_paused and not host.is_stalled
        if is_next and is_awake and not self._is_healing:
            number, since_us = number + 1, self.now_us
            host.home.submit(JobId(f"job{slot}.{number}"))
            self.say(host, f"submits job{slot}.{number}")
        self.at(SECOND_US, self._submit, slot, number, since_us)

    # The network

    def send(self, host: Host, to: NodeId, message: object) -> None:
        if to == host.name:
            self.at(self.rng.randrange(200), self._arrive, host.name, to, message)
            return
        mood, rng = self.mood, self.rng
        copies = 1 + (rng.randrange(1_000) < mood.twice_milli and not self._is_healing)
        for _ in range(copies):
            if rng.randrange(1_000) < mood.loss_milli and not self._is_healing:
                continue
            delay_us = 200 + rng.randrange(20_000 if self._is_healing else mood.delay_us)
            if rng.randrange(1_000) < mood.late_milli:
                delay_us = rng.randrange(20 * SECOND_US)
            self.at(delay_us, self._arrive, host.name, to, message)

    def _arrive(self, sender: NodeId, to: NodeId, message: object) -> None:
        if (sender, to) not in self._cut:
            self.hosts[to].arrive(sender, message)

    def _look_around(self) -> None:
        """Who has heard of whom: heartbeats, without the datagrams."""
        self.at(SECOND_US // 4, self._look_around)
        awake = [one.name for one in self.hosts.values() if one.has_agent and not one.is_paused]
        for name in self.names:
            for other in awake:
                if (other, name) not in self._cut:
                    self._seen_us[name, other] = self.now_us

    def silent_us(self, name: NodeId, other: NodeId) -> int:
        return 0 if name == other else self.now_us - self._seen_us.get((name, other), 0)

    def pursues(self, name: NodeId, job: JobId) -> bool:
        """Whether a node that can be asked coordinates a job; of others nobody can tell."""
        host = self.hosts[name]
        writer = host.register.writer
        is_silent = not host.has_agent or host.is_paused or host.is_stalled
        return is_silent or writer.is_asking(job) or writer.chair(job) is not None

    # What is checked

    def started(self, host: Host, process: Process) -> None:
        self.starts += 1
        self.say(host, f"started {process.lease}")
        self._check(process.job)
        self.moment()

    def look_at(self, host: Host) -> None:
        """A tick after its wake: what should have ended then has."""
        for process in list(host.processes.values()):
            self._check(process.job)

    def _check(self, job: JobId) -> None:
        live = [
            process.lease
            for host in self.hosts.values()
            for process in host.processes.values()
            if process.job == job and not host.is_paused and self.now_us - host.woke_us > TICK_US
        ]
        if len(live) > 1:
            raise Violation(f"{job} runs twice at once: {' and '.join(live)}")

    def stored(self, job: JobId, value: bytes) -> None:
        """A write is with a majority: it tells of all that ever were, or is told of by one."""
        longest = self.acknowledged_jobs.setdefault(job, value)
        if value.startswith(longest):
            self.acknowledged_jobs[job] = value
        elif not longest.startswith(value):
            raise Violation(f"{job}: a durable write was lost, {longest} or {value}")

    def finished(self, job: JobId) -> None:
        self.finished_jobs.setdefault(job)

    def saved(self, key: str, body: bytes) -> None:
        if key.startswith(JOB):
            written = _decode(body).written
            if written:
                self._sets.update(written.standing.sets)

    def is_hopeless(self, job: JobId) -> bool:
        """Whether so many voters lost their stores that no majority can vote."""
        held = [host.home.written(job) for host in self.hosts.values()]
        newest = max(filter(None, held), key=lambda one: one.standing.version)
        return any(
            not is_majority(members, {one for one in members if self._can_vote(one, members)})
            for members in newest.standing.sets
        )

    def _can_vote(self, member: Member, members: tuple[Member, ...]) -> bool:
        voter = self.hosts[member.node].register.voter
        there = {one for one in members if self.hosts[one.node].register.voter.me == one}
        return voter.me == member and (
            voter.is_new
            or is_recollected((members,), member, voter.answered)
            or is_recollected((members,), member, there)
        )

    # What goes wrong

    def happens(self, name: str, host: Host) -> bool:
        """Whether something that a coordinator decides about five times a second happens now."""
        if self._is_healing:
            return False
        return host.rng.randrange(500) < getattr(self.mood, name)

    def _schedule(self, name: str) -> None:
        mean_us = 100 * SECOND_US // getattr(self.mood, name)
        self.at(self.rng.randrange(2 * mean_us), self._fault, name)

    def _fault(self, name: str) -> None:
        if self._is_healing:
            return
        self._schedule(name)
        self.faults += 1
        getattr(self, f"_{name}")(self._victim())

    def moment(self) -> None:
        """An attempt has started or ended: trouble likes to come then."""
        kinds = [name for name in RATES if getattr(self.mood, name) and hasattr(self, f"_{name}")]
        if kinds and not self._is_healing and self.rng.random() < 0.15:
            self.at(self.rng.randrange(3 * SECOND_US // 2), self._trouble, self.rng.choice(kinds))

    def _trouble(self, name: str, host: Host | None = None) -> None:
        if not self._is_healing:
            self.faults += 1
            getattr(self, f"_{name}")(host or self._victim())

    def voted(self, host: Host) -> None:
        """A vote was told: who breaks its word does so soon."""
        self._soon(host, DEATHS)

    def asked(self, host: Host) -> None:
        """Somebody asked for votes: it may not be there for the answers, or only much later."""
        self._soon(host, ("stall", "pause", "split", "crash"))

    def _soon(self, host: Host, names: tuple[str, ...]) -> None:
        kinds = [name for name in names if getattr(self.mood, name)]
        if kinds and self.rng.randrange(1_000) < self.mood.spite_milli:
            self.at(self.rng.randrange(SECOND_US // 5), self._trouble, self.rng.choice(kinds), host)

    def _victim(self) -> Host:
        """Anybody, but rather one that runs something or coordinates."""
        hosts = [*self.hosts.values()]
        busy = [host for host in hosts if host.processes or host.home.errands]
        return self.rng.choice(busy if busy and self.rng.random() < 0.7 else hosts)

    def failing_milli(self) -> int:
        return 0 if self._is_healing else self.mood.fail_milli

    def _takeover(self, host: Host) -> None:
        """Some believe at once that a coordinator is dead."""
        jobs = [job for job in self.acknowledged_jobs if job not in self.finished_jobs]
        spread_us = self.rng.choice((1_000, SECOND_US // 5))
        for other in dict.fromkeys((host, *self.rng.sample([*self.hosts.values()], 2))):
            for job in jobs:
                self.at(self.rng.randrange(spread_us), self._take_over, other, job)

    def _take_over(self, host: Host, job: JobId) -> None:
        if host.is_up and host.has_agent and not host.is_paused and not host.is_stalled:
            host.home.take_over(job)

    def _while(self) -> int:
        return int(SECOND_US * self.rng.choice(self.mood.spells_s) * self.rng.uniform(0.5, 1.5))

    def _crash(self, host: Host) -> None:
        if host.is_up:
            self.say(host, "crash")
            host.snapshots.append(dict(host.disk))
            host.crash()
            self.at(self._while(), self._boot, host)

    def _boot(self, host: Host) -> None:
        if not host.is_up:
            self.say(host, "boot")
            host.boot()

    def _agent_crash(self, host: Host) -> None:
        if host.has_agent and not host.is_paused:
            self.say(host, "agent crash")
            host.snapshots.append(dict(host.disk))
            host.stop_agent()
            self.at(self._while() // 4, self._agent_start, host)

    def _agent_start(self, host: Host) -> None:
        if host.is_up and not host.has_agent:
            if host.is_paused:
                self.at(TICK_US, self._agent_start, host)
            else:
                host.start_agent()

    def _may_damage(self, host: Host) -> bool:
        """Only a minority of any set that anybody may remember."""
        stores = {Member(host.name, store) for store in self._stores_of(host)}
        damaged = self._damaged | stores
        if any(is_majority(members, damaged) for members in self._sets):
            return False
        self._damaged = damaged
        return True

    def _stores_of(self, host: Host) -> set[str]:
        return {
            member.store for members in self._sets for member in members if member.node == host.name
        }

    def _amnesia(self, host: Host) -> None:
        if host.is_up and self._may_damage(host):
            self._crash(host)
            self.say(host, "loses its disk")
            host.disk.clear()

    def _old_disk(self, host: Host) -> None:
        if host.is_up and self._may_damage(host):
            self._crash(host)
            self.say(host, "gets an old disk")
            host.disk = dict(self.rng.choice(host.snapshots[:-1]))

    def _pause(self, host: Host) -> None:
        if host.is_up and not host.is_paused:
            self.say(host, "sleeps")
            host.pause()
            self.at(self._while(), self._wake, host, host.booted_us)

    def _wake(self, host: Host, booted_us: int) -> None:
        if host.is_paused and host.booted_us == booted_us:
            self.say(host, "wakes")
            host.wake()

    def _stall(self, host: Host) -> None:
        if host.has_agent and not host.is_stalled:
            self.say(host, "agent stands still")
            host.stall()
            self.at(self._while(), self._go_on, host, host.life)

    def _go_on(self, host: Host, life: int) -> None:
        if host.is_stalled and host.life == life:
            host.go_on()

    def _split(self, host: Host) -> None:
        some = set(self.rng.sample(self.names, self.rng.randrange(1, len(self.names))))
        some = {host.name} if self.rng.random() < 0.3 else some
        ways = [(a, b) for a in self.names for b in self.names if (a in some) != (b in some)]
        if self.rng.random() < 0.3:
            ways = [(a, b) for a, b in ways if a in some]
        self.say(host, f"split {sorted(some)} {len(ways)}")
        self._cut = set(ways)
        self.at(self._while(), self._mend, self._cut)

    def _mend(self, cut: set[tuple[NodeId, NodeId]]) -> None:
        if self._cut is cut:
            self._cut = set()

    def _heal(self) -> None:
        self._is_healing = True
        self._cut = set()
        self.trace.append(f"{self.now_us / SECOND_US:.3f} healed")
        for host in self.hosts.values():
            self._boot(host)
            if host.is_paused:
                host.wake()
            if host.is_stalled:
                host.go_on()
            self._agent_start(host)


class Outcome(NamedTuple):
    """What became of a seed."""

    seed: int
    problem: str
    trace: tuple[str, ...]
    starts: int
    jobs: int
    stuck: int
    faults: int

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


def outcome_of(seed: int | Mood) -> Outcome:
    """Run a seed to its end, or to the first rule that is broken."""
    world = World(mood_of(seed) if isinstance(seed, int) else seed)
    problem = ""
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  (whatever the kernel raises is a finding)
        problem = f"{type(error).__name__}: {error}"
    stuck = sum("stuck for good" in line for line in world.trace)
    return Outcome(
        world.mood.seed, problem, tuple(world.trace), world.starts,
        len(world.acknowledged_jobs), stuck, world.faults,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Print what happened; 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="tests.sim.register_world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args(arguments)
    bad = 0
    for seed in range(options.seed, options.seed + options.seeds):
        found = outcome_of(seed)
        if options.trace or found.problem:
            print(mood_of(seed), *found.trace[-(10**6) if options.trace else -40 :], sep="\n")
        print(
            f"seed {seed}: {found.jobs} jobs, {found.starts} starts, {found.faults} faults, "
            f"{found.stuck} stuck, story {found.digest}"
        )
        if found.problem:
            bad += 1
            print(f"seed {seed} FAILED: {found.problem}")
    return 1 if bad else 0


_decode = msgspec.msgpack.Decoder(Kept).decode

if __name__ == "__main__":
    raise SystemExit(main())
