"""A node kernel with a keeper that does what the test says: for tests of jobs without processes."""

import itertools

import msgspec

from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import Cancel, Met, Node, Reports, Submit, Tick
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.job import JobSpec, Work
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request
from distributed_grid.wire.keeper import (
    Acknowledge,
    Deadline,
    Ended,
    Hello,
    Run,
    Started,
    Stop,
    Usage,
    Withdraw,
)

FOUR_CORES = Inventory(
    cores=tuple((core, core // 2) for core in range(4)), cpu_milli=4_000, memory_bytes=1 << 30
)
_NUMBERS = itertools.count(1)
# The clock of the events, and dice that never show the same twice.
SENSES = Senses(
    None, lambda most: next(_NUMBERS) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % most
)  # fmt: skip
PATHS = Paths(output_root="/out", scratch_root="/scratch", checkpoint_root="/saved")


def a_job(name: str, *, cpus: int = 1_000, **what_matters) -> JobSpec:
    return JobSpec(
        id=job_id_of(name),
        name=name,
        request=what_matters.pop("request", Request(cpu_milli=cpus)),
        work=what_matters.pop("work", Work(argv=("true",), cwd="/")),
        **what_matters,
    )


class Keeper:
    """A stand-in for the keeper: holds what it was told, ends it when the test says so."""

    def __init__(self) -> None:
        self.runs: dict[str, list[int]] = {}
        self.rows: dict[str, list[str]] = {}  # By lease: its attempts, the first of them runs.
        self.told: list = []
        self.stopped: set[str] = set()
        self.unacknowledged: list = []
        self.until_us: dict[str, int] = {}  # Deadlines of leases; the test ends what is over.
        self._numbers = itertools.count(1)

    def hear(self, message) -> None:
        self.told.append(message)
        match message:
            case Run():
                assert message.attempt not in self.runs, "an attempt was started twice"
                self.runs[message.attempt] = list(message.indices) or [-1]
                if message.until_boot_us:
                    self.until_us[message.attempt] = message.until_boot_us
                row = self.rows.setdefault(message.lease, [])
                row.append(message.attempt)
                if len(row) == 1:
                    self._start(message.attempt)
            case Deadline():
                self.until_us[message.attempt] = message.until_boot_us
            case Stop():
                self.stopped.add(message.attempt)
                if message.attempt in self.queued:
                    self.end_one(message.attempt, 0)
            case Withdraw() if message.attempt in self.queued:
                self._report(message.attempt, -1, "stopped", 125, is_last=True)
                self._leave(message.attempt)
            case Acknowledge():
                self.unacknowledged = [r for r in self.unacknowledged if r.number > message.upto]

    @property
    def queued(self) -> list[str]:
        return [attempt for row in self.rows.values() for attempt in row[1:]]

    @property
    def started(self) -> list[str]:
        return sorted(row[0] for row in self.rows.values())

    def _start(self, attempt: str) -> None:
        number = next(self._numbers)
        self.unacknowledged.append(Started(number=number, attempt=attempt, pid=7, at_ms=1))

    def _leave(self, attempt: str) -> None:
        del self.runs[attempt]
        for lease, row in list(self.rows.items()):
            was_first = row[0] == attempt
            if attempt in row:
                row.remove(attempt)
            if not row:
                del self.rows[lease]
            elif was_first:
                self._start(row[0])

    def end_one(self, attempt: str, code: int) -> None:
        left = self.runs[attempt]
        index = left.pop(0)
        how, last = ("exited", not left)
        if attempt in self.stopped:
            how, code, last = "stopped", 143, True
        self._report(attempt, index, how, code, is_last=last)
        if last:
            self._leave(attempt)

    def preempt(self, attempt: str, *, saved: str = "") -> None:
        """It has given way, as it was asked to; with its state as files, if it saved any."""
        self._report(attempt, self.runs[attempt][0], "preempted", 143, is_last=True, saved=saved)
        self._leave(attempt)

    def die(self) -> None:
        queued = self.queued
        for attempt in sorted(self.runs):
            how = "stopped" if attempt in queued else "lost"
            self._report(attempt, -1, how, 125, is_last=True)
        self.runs.clear()
        self.rows.clear()

    def _report(
        self, attempt: str, index: int, how, code: int, *, is_last: bool, saved: str = ""
    ) -> None:
        self.unacknowledged.append(
            Ended(
                number=next(self._numbers),
                attempt=attempt,
                index=index,
                how=how,
                code=code,
                started_ms=1,
                ended_ms=2,
                usage=Usage(user_us=1, memory_bytes_peak=5),
                is_last=is_last,
                saved=saved,
            )
        )


class World:
    """The agent, its store and its keeper in one thread; only what was saved survives a crash."""

    node_name = "here"
    lease_prefix = ""

    def __init__(self, inventory: Inventory = FOUR_CORES) -> None:
        self.inventory = inventory
        self.now_ms = 1_000
        self.keeper = Keeper()
        self.saved_jobs: dict[str, bytes] = {}
        self.saved_leases: dict[str, bytes] = {}
        self.saved_meta: dict[str, bytes] = {}
        self.saved_held: dict[str, bytes] = {}
        self.began: dict[str, int] = {}  # What the keeper says of those that run.
        self._lease_ids = (f"{self.lease_prefix}lease-{number:05d}" for number in itertools.count())
        self.start_agent()

    def start_agent(self) -> None:
        self.node = Node(
            name=self.node_name,
            ledger=Ledger(self.inventory),
            paths=PATHS,
            new_lease_id=lambda: next(self._lease_ids),
        )
        self.made(self.node)
        jobs = [msgspec.msgpack.decode(data, type=Job) for data in self.saved_jobs.values()]
        leases = {
            key: msgspec.msgpack.decode(data, type=Lease) for key, data in self.saved_leases.items()
        }
        self.node.restore(
            jobs,
            leases,
            self.saved_meta,
            held=dict.fromkeys(self.saved_held, ""),
            now_ms=self.now_ms,
        )
        running = tuple(sorted(self.keeper.runs))
        queued = tuple(self.keeper.queued)
        hello = Hello(
            keeper_id="k",
            boot_id="b",
            pid=1,
            limits={},
            running=running,
            queued=queued,
            began=self.began,
            deadlines={one: us for one, us in self.keeper.until_us.items() if one in running},
        )
        repeated = tuple(self.keeper.unacknowledged)
        self.step(Met(now_ms=self.now_ms, hello=hello, reports=repeated))

    def made(self, node: Node) -> None:
        """A node that is about to remember."""

    def step(self, event) -> Ready:
        ready = self.node.step(event)
        self.save(ready)
        for message in ready.tell:
            self.keeper.hear(message)
        return ready

    def save(self, ready: Ready) -> None:
        for job_id in ready.drop_jobs:
            self.saved_jobs.pop(job_id, None)
        for held, record in ready.save_held.items():
            self.saved_held.pop(held, None)
            if record is not None:
                self.saved_held[held] = record
        for job in ready.save_jobs.values():
            self.saved_jobs[job.spec.id] = msgspec.msgpack.encode(job)
        for lease in ready.save_leases:
            self.saved_leases[lease.id] = msgspec.msgpack.encode(lease)
        for name, value in self.node.newest(ready.save_meta).items():
            self.saved_meta.pop(name, None)
            if value is not None:
                self.saved_meta[name] = value
        for lease_id in ready.drop_leases:
            self.saved_leases.pop(lease_id, None)

    def submit(self, *specs: JobSpec) -> Ready:
        return self.step(Submit(now_ms=self.now_ms, jobs=specs))

    def cancel(self, spec: JobSpec, index: int | None = None) -> Ready:
        return self.step(Cancel(now_ms=self.now_ms, job=spec.id, index=index))

    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.step(Tick(now_ms=self.now_ms))

    def pump(self) -> None:
        """Deliver reports until nothing new comes of it."""
        told: list = []
        while self.keeper.unacknowledged and told != self.keeper.unacknowledged:
            told = list(self.keeper.unacknowledged)
            self.pump_once()

    def pump_once(self) -> None:
        """Deliver everything that is not acknowledged, as to a new agent."""
        reports = tuple(self.keeper.unacknowledged)
        self.step(Reports(now_ms=self.now_ms, reports=reports))

    def end(self, spec: JobSpec, code: int = 0) -> None:
        """End one process of a job, and deliver the report."""
        self.pump()
        attempt = self.job(spec).live_attempts[0].id
        self.keeper.end_one(attempt, code)
        self.pump()

    def drain(self) -> None:
        """Let everything that runs end well, until nothing runs."""
        self.pump()
        while self.keeper.runs:
            self.keeper.end_one(self.keeper.started[0], 0)
            self.pump()

    def job(self, spec: JobSpec) -> Job:
        return self.node.coordinator.jobs[spec.id]

    def state(self, spec: JobSpec) -> str:
        return self.job(spec).state


def told(world: World, kind: type) -> list:
    """What the keeper was told, of one kind."""
    return [message for message in world.keeper.told if isinstance(message, kind)]


def fill(world: World, count: int = 4, **what_matters) -> list:
    """Jobs of one core each, running."""
    jobs = [a_job(f"filler-{number}", **what_matters) for number in range(count)]
    world.submit(*jobs)
    world.pump()
    return jobs
