"""Many nodes that run each other's jobs: real kernels, virtual time, no faults.

Lives here: time, a network that delays, disks that take a moment, keepers that run nothing, views
that are as old as gossip makes them. Never here: what is measured (`cluster_kernel`), what is asked
for (`cluster_trace`), faults (`distributed_grid.sim.across`).
Invariant: every node runs `kernel.node.Node` whole; it knows of others only what they said, a
second late on average. Records are shared between the nodes' views: they are the same for all.
"""

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

from benchmarks.cluster_trace import Coming, Use
from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import (
    Beat,
    Met,
    Node,
    NodeEvent,
    Reports,
    Rules,
    Sampled,
    Submit,
    Tick,
    Told,
    View,
)
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.lending import Sample, Terms, Thresholds
from distributed_grid.model.node import NodeRecord
from distributed_grid.wire.job_lane import JobMessage, encode
from distributed_grid.wire.keeper import Ended, Hello, Preempt, Run, Started, Stop, ToKeeper, Usage

SECOND_US: Final = 1_000_000
START_MS: Final = 60_000  # Not 0, which means "never" in many places.
DELAY_US: Final = (500, 2_000)  # One way; the same for all that one node says to another.
SYNC_US: Final = 1_000  # A disk.
SPAWN_US: Final = 2_000  # From the keeper's order to its report.
BEAT_US: Final = 500_000
LOOK_US: Final = SECOND_US  # Nodes tell what changed of them that often, and look at the others.
DRIFT_US: Final = 5 * SECOND_US  # As `agent.mesh_values` does.
SAMPLE_US: Final = 60 * SECOND_US
_TERMS: Final = Terms(
    policy="aggressive",
    thresholds=Thresholds(cpu_min_milli=0),
    reserved_memory_bytes=0,
    quiet_ms=0,
)
_PATHS: Final = Paths(output_root="/out", scratch_root="/scratch", checkpoint_root="/saved")


class Machine:
    """One node, its disk and its keeper."""

    def __init__(self, crowd: "Crowd", number: int, cores: int) -> None:
        self.crowd, self.number, self.name = crowd, number, f"n{number}"
        self.id = NodeId(hashlib.blake2b(f"node {number}".encode(), digest_size=32).hexdigest())
        inventory = Inventory(
            cores=tuple((core, 0) for core in range(cores)),
            cpu_milli=cores * 1_000,
            memory_bytes=cores * 4 * GIB,
            storage_bytes=100 * GIB,
        )
        leases = count()
        prefix = random.Random(f"leases of {number}").getrandbits(88)
        self.node = Node(
            name=self.name,
            ledger=Ledger(inventory),
            paths=_PATHS,
            new_lease_id=lambda: f"{prefix:022x}{next(leases):010x}",
            rules=Rules(terms=_TERMS),
        )
        dice = random.Random(f"dice of {number}")
        self.node.join(self.id, senses=Senses(None, dice.randrange))
        self.synced_us = 0
        self.reported = 0
        self.rows: dict[str, list[Run]] = {}  # By lease; the first of each runs.
        self.began_us: dict[str, int] = {}  # By attempt.
        self.told: tuple[Any, ...] = ()
        self.drifts_us = 0
        self.usage: tuple[int, tuple[tuple[str, int], ...]] = (0, ())

    @property
    def sample(self) -> Sample:
        """An owner who is away."""
        total = self.node.ledger.total
        return Sample(
            at_ms=self.crowd.now_ms,
            local_minute=12 * 60,
            cpu_total_milli=total.cpu_milli,
            cpu_used_milli=0,
            memory_total_bytes=total.memory_bytes,
            memory_used_bytes=0,
            storage_free_bytes=total.storage_bytes,
        )


class Crowd:
    """So many nodes."""

    def __init__(self, cores: list[int], *, seed: int = 0) -> None:
        self.dice = random.Random(f"crowd {seed}")
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self.machines = [Machine(self, number, some) for number, some in enumerate(cores)]
        self._by_id = {machine.id: machine for machine in self.machines}
        self._board: dict[NodeId, Peer] = {}
        self._takes_ms: dict[JobId, int] = {}
        self.messages: Counter[str] = Counter()
        self.message_bytes: Counter[str] = Counter()
        self.used: list[Use] = []
        self.waited_ms: list[int] = []
        self.left = 0  # Jobs that have not ended.
        self.steps = 0
        self.runs: Counter[JobId] = Counter()  # Processes.
        self.away = 0  # Of those, not where they were submitted.
        self.submitted_ms: dict[JobId, int] = {}
        self.on_end: Callable[[JobId], None] = lambda _: None
        for machine in self.machines:
            self._tell(machine)
        hello = Hello(keeper_id="keeper", boot_id="boot", pid=1, limits={}, running=())
        for machine in self.machines:
            self.step(machine, Met(now_ms=self.now_ms, hello=hello))
            self.after(0, self._sample, machine)
            # Machines that started at any time; all know each other from the first moment on.
            self.after(1_000, self._view, machine)
            self.after(self.dice.randrange(LOOK_US), self._look, machine)
            self.after(self.dice.randrange(BEAT_US), self._beat, machine)
            self.after(self.dice.randrange(SECOND_US), self._tick, machine)

    # Time

    @property
    def now_ms(self) -> int:
        """By everyone's clock."""
        return START_MS + self.now_us // 1_000

    def after(self, wait_us: int, action: Callable[..., None], *words: Any) -> None:
        """Later."""
        heapq.heappush(self._heap, (self.now_us + wait_us, next(self._numbers), action, words))

    def run(self, until: Callable[[], bool], limit_us: int) -> None:
        """Let it happen until something is so; what takes longer has got lost."""
        heap = self._heap
        while not until():
            assert self.now_us < limit_us, f"{self.left} jobs have not ended in time"
            for _ in range(1_000):
                self.now_us, _, action, words = heapq.heappop(heap)
                action(*words)

    def submit(self, coming: Coming) -> None:
        """At its time, at its node."""
        self._takes_ms[coming.spec.id] = coming.takes_ms
        self.left += 1
        wait_us = max(0, coming.at_ms * 1_000 - self.now_us)
        self.after(wait_us, self._submit, self.machines[coming.node], coming)

    def _submit(self, machine: Machine, coming: Coming) -> None:
        self.submitted_ms[coming.spec.id] = self.now_ms
        self.step(machine, Submit(now_ms=self.now_ms, jobs=(coming.spec,)))

    def _beat(self, machine: Machine) -> None:
        self.step(machine, Beat(now_ms=self.now_ms))
        self.after(BEAT_US, self._beat, machine)

    def _tick(self, machine: Machine) -> None:
        self.step(machine, Tick(now_ms=self.now_ms))
        self.after(SECOND_US, self._tick, machine)

    def _sample(self, machine: Machine) -> None:
        self.step(machine, Sampled(now_ms=self.now_ms, sample=machine.sample))
        self.after(SAMPLE_US, self._sample, machine)

    # Views

    def _look(self, machine: Machine) -> None:
        self._tell(machine)
        self._view(machine)
        self.after(LOOK_US, self._look, machine)

    def _tell(self, machine: Machine) -> None:
        """What a node says of itself, if it is something new."""
        node, across = machine.node, machine.node.across
        assert across is not None, "one of several"
        coordinator, free = node.coordinator, node.ledger.free()
        running = sum(1 for job in coordinator.jobs.values() if job.state == "running")
        if self.now_us >= machine.drifts_us:  # What only drifts is told less often.
            machine.drifts_us = self.now_us + DRIFT_US
            machine.usage = across.shares.told()
        told = (free, running, coordinator.unfinished - running, machine.usage)
        if told == machine.told:
            return
        machine.told = told
        step, usage = told[3]
        self._board[machine.id] = Peer(
            id=machine.id,
            name=machine.name,
            record=NodeRecord(
                id=machine.id,
                name=machine.name,
                total=node.ledger.total,
                free=free,
                jobs=running,
            ),
            jobs_waiting=told[2],
            usage=usage,
            usage_step=step,
        )

    def _view(self, machine: Machine) -> None:
        peers = self._board.copy()
        own = peers.pop(machine.id).record
        self.step(machine, View(now_ms=self.now_ms, peers=peers, own=own))

    # Steps

    def step(self, machine: Machine, event: NodeEvent) -> None:
        """Tell a kernel what happened, and do what it wants, once that is on its disk."""
        self.steps += 1
        ready = machine.node.step(event)
        at_us = self.now_us
        if ready.save_jobs or ready.save_leases or ready.save_held or ready.drop_leases:
            at_us = machine.synced_us = max(at_us, machine.synced_us) + SYNC_US
        self._send(machine, ready.ask, self.now_us)
        self._send(machine, ready.send, at_us)
        for told in ready.tell:
            self._order(machine, told, at_us - self.now_us)
        for one in ready.happened:
            if one.name == "job.ended" and one.job in self._takes_ms:
                assert one.fields["state"] == "succeeded", f"{one.job} {one.fields}"
                self.left -= 1
                self.on_end(one.job)

    def _send(
        self, machine: Machine, words: Sequence[tuple[NodeId, JobMessage]], at_us: int
    ) -> None:
        for peer, message in words:
            other = self._by_id[peer]
            name = type(message).__name__
            self.messages[name] += 1
            self.message_bytes[name] += len(encode(message))
            low, high = DELAY_US
            late_us = low + (machine.number * 7_919 + other.number * 104_729) % (high - low)
            wait_us = at_us - self.now_us + late_us
            self.after(wait_us, self._told, other, machine.id, message)

    def _told(self, machine: Machine, peer: NodeId, message: JobMessage) -> None:
        self.step(machine, Told(now_ms=self.now_ms, peer=peer, message=message))

    # Keepers

    def _order(self, machine: Machine, told: ToKeeper, wait_us: int) -> None:
        if isinstance(told, Run):
            self.after(wait_us + SPAWN_US, self._run, machine, told)
        elif isinstance(told, Stop | Preempt):
            how = "stopped" if isinstance(told, Stop) else "preempted"
            self.after(wait_us, self._end, machine, told.attempt, how)

    def _run(self, machine: Machine, run: Run) -> None:
        row = machine.rows.setdefault(run.lease, [])
        row.append(run)
        if len(row) == 1:
            self._begin(machine, run)

    def _begin(self, machine: Machine, run: Run) -> None:
        job = self._job(machine, run)
        self.runs[job] += 1
        self.away += job != run.job
        self.waited_ms.append(self.now_ms - self.submitted_ms[job])
        machine.began_us[run.attempt] = self.now_us
        machine.reported += 1
        started = Started(number=machine.reported, attempt=run.attempt, pid=7, at_ms=self.now_ms)
        self.step(machine, Reports(now_ms=self.now_ms, reports=(started,)))
        self.after(self._takes_ms[job] * 1_000, self._end, machine, run.attempt, "exited")

    def _end(self, machine: Machine, attempt: str, how: Any) -> None:
        began_us = machine.began_us.pop(attempt, None)
        row = next((row for row in machine.rows.values() if row[0].attempt == attempt), None)
        if began_us is None or row is None:
            return  # It was stopped before.
        run = row.pop(0)
        job = machine.node.coordinator.jobs[run.job]
        cores = job.spec.request.cpu_milli // 1_000
        self.used.append(
            Use(began_us // 1_000, self.now_us // 1_000, cores, job.spec.user.partition("@")[0])
        )
        machine.reported += 1
        ended = Ended(
            number=machine.reported,
            attempt=attempt,
            how=how,
            code=0 if how == "exited" else 143,
            started_ms=START_MS + began_us // 1_000,
            ended_ms=self.now_ms,
            usage=Usage(user_us=1),
        )
        if not row:
            del machine.rows[run.lease]
        self.step(machine, Reports(now_ms=self.now_ms, reports=(ended,)))
        if row:
            self._begin(machine, row[0])

    def _job(self, machine: Machine, run: Run) -> JobId:
        """As whoever submitted it calls it."""
        origin = machine.node.coordinator.jobs[run.job].spec.origin
        return origin.job if origin else run.job
