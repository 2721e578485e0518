"""Some nodes that keep copies of each other's records, with disks, a clock and a bad network."""

from collections.abc import Callable

import msgspec

from distributed_grid.kernel.across.guarding import Guarding
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.jobs import Job, Progress
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId, job_id_of
from distributed_grid.wire.job_lane import decode, encode
from tests.node_world import a_job

BEGINNING_MS = 1_000_000


def node(number: int) -> NodeId:
    """An id that differs from others early, as keys do."""
    return NodeId(f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}{number:048x}")


class Machine:
    """One node: its kernel part, its disk, and the jobs that it looks after."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.is_up = True
        self.disk_jobs: dict[JobId, bytes] = {}
        self.disk_held: dict[JobId, bytes] = {}
        self.disk_senders: dict[JobId, NodeId] = {}
        self.start()

    def start(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.guarding = Guarding(self.me, self)
        self.guarding.shelf.read = self.disk_held.get
        self.happened: list = []
        self.consequences: list[tuple[str, JobId]] = []
        self.takes_over = True
        self.learns = True

    def names(self, kind: str) -> list[JobId]:
        return [job for what, job in self.consequences if what == kind]

    # Consequences

    def taken_over(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        self.consequences.append(("taken over", record.job))
        if self.takes_over:
            self.jobs[record.job] = job = job_of(record)
            job.tell(now_ms, "taken over", self.me[:4])
            job.is_foreign = True
            self.guarding.changed(job, now_ms, ready)

    def abdicated(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        self.consequences.append(("abdicated", record.job))
        self.jobs.pop(record.job, None)
        ready.save_jobs.pop(record.job, None)
        ready.drop_jobs.append(record.job)

    def merged(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        self.consequences.append(("merged", record.job))
        if not self.learns:
            return
        self.jobs[record.job] = job = job_of(record)
        self.guarding.changed(job, now_ms, ready)

    def cleared(self, job: JobId, now_ms: int, ready: Ready) -> None:
        self.consequences.append(("cleared", job))

    def save(self, ready: Ready) -> None:
        for job_id, job in ready.save_jobs.items():
            self.disk_jobs[job_id] = msgspec.msgpack.encode(job)
        for job_id in ready.drop_jobs:
            self.disk_jobs.pop(job_id, None)
        for job_id, body in ready.save_held.items():
            if body is None:
                self.disk_held.pop(job_id, None)
            else:
                self.disk_held[job_id] = body
                kept = self.guarding.shelf.kept(job_id)
                self.disk_senders[job_id] = kept.sender if kept else NodeId("")
        self.guarding.shelf.saved(ready.save_held)
        self.happened += ready.happened


class Mesh:
    """The machines and what is between them."""

    def __init__(self, count: int = 5, **peers: dict) -> None:
        self.now_ms = BEGINNING_MS
        self.machines = {node(number): Machine(node(number)) for number in range(1, count + 1)}
        self.facts = {node(int(name[1:])): facts for name, facts in peers.items()}
        self.cuts: set[frozenset[NodeId]] = set()
        self.mail: list[tuple[NodeId, NodeId, bytes]] = []
        self.lost: Callable[[NodeId, NodeId, object], bool] = lambda *_: False
        self.look()
        self.pass_ms(6_000)  # Everybody has been up for a while.

    def __getitem__(self, number: int) -> Machine:
        return self.machines[node(number)]

    # Time, messages, verdicts

    def act(self, machine: Machine, do: Callable[[Ready], object]) -> Ready:
        ready = Ready()
        do(ready)
        machine.save(ready)
        self.mail += [(machine.me, to, encode(message)) for to, message in ready.send]
        return ready

    def tell(self, sender: NodeId, to: NodeId, message) -> Ready:
        machine = self.machines[to]
        return self.act(
            machine, lambda ready: machine.guarding.told(sender, message, self.now_ms, ready)
        )

    def deliver(self, at: int = 0, *, keep: bool = False) -> None:
        sender, to, body = self.mail[at] if keep else self.mail.pop(at)
        message = decode(body)
        if self.is_linked(sender, to) and not self.lost(sender, to, message):
            self.tell(sender, to, message)

    def is_linked(self, one: NodeId, other: NodeId) -> bool:
        both = self.machines[one].is_up and self.machines[other].is_up
        return both and frozenset((one, other)) not in self.cuts

    def settle(self) -> None:
        for _ in range(5_000):
            if not self.mail:
                return
            self.deliver()
        raise AssertionError("they never stop talking")

    def look(self) -> None:
        """Everybody sees who is alive; a verdict comes at once here."""
        for machine in self.machines.values():
            if machine.is_up:
                self.look_from(machine)

    def look_from(self, machine: Machine) -> None:
        peers = {
            other: self.peer(other, is_alive=self.is_linked(machine.me, other))
            for other in self.machines
            if other != machine.me
        }
        self.act(machine, lambda ready: machine.guarding.view(peers, self.now_ms, ready))

    def peer(self, other: NodeId, *, is_alive: bool) -> Peer:
        return Peer(id=other, name=other[:4], is_alive=is_alive, **self.facts.get(other, {}))

    def tick(self) -> None:
        for machine in self.machines.values():
            if machine.is_up:
                self.act(
                    machine,
                    lambda ready, machine=machine: machine.guarding.tick(self.now_ms, ready),
                )

    def pass_ms(self, ms: int, *, step_ms: int = 100) -> None:
        for _ in range(ms // step_ms):
            self.now_ms += step_ms
            self.tick()
            self.settle()

    # What happens to machines

    def crash(self, number: int, *, with_disk: bool = False) -> Machine:
        machine = self[number]
        machine.is_up = False
        if with_disk:
            machine.disk_jobs.clear()
            machine.disk_held.clear()
        return machine

    def start(self, number: int, *, away_ms: int = 0) -> Machine:
        machine = self[number]
        machine.start()
        machine.is_up = True
        jobs = [msgspec.msgpack.decode(body, type=Job) for body in machine.disk_jobs.values()]
        held = {job: machine.disk_senders.get(job, "") for job in machine.disk_held}
        machine.guarding.restore(jobs, held, now_ms=self.now_ms, away_ms=away_ms)
        for job in jobs:
            record = machine.guarding.find(job.spec.id)
            if record is not None and record.home == machine.me:
                machine.jobs[job.spec.id] = job
        return machine

    def cut(self, *numbers: int) -> None:
        """These on one side, the rest on the other."""
        side = {node(number) for number in numbers}
        self.cuts = {
            frozenset((one, other)) for one in side for other in self.machines if other not in side
        }
        self.look()

    def heal(self) -> None:
        self.cuts = set()
        self.look()

    # What happens to jobs

    def submit(self, number: int, name: str = "job", **facts) -> JobId:
        machine, spec = self[number], a_job(name, **facts)
        progress = Progress.of(spec.array) if spec.array else None
        epoch = Epoch(0, machine.guarding.me)
        job = Job(spec=spec, submitted_ms=self.now_ms, progress=progress, epoch=epoch)
        job.tell(self.now_ms, "submitted")
        machine.jobs[spec.id] = job
        self.change(number, spec.id)
        return spec.id

    def change(self, number: int, job: JobId) -> Ready:
        machine = self[number]
        return self.act(
            machine,
            lambda ready: machine.guarding.changed(machine.jobs[job], self.now_ms, ready),
        )

    def end(self, number: int, job_id: JobId, state: str, *, code: int | None = None) -> None:
        job = self[number].jobs[job_id]
        if job.state == "waiting" and state == "succeeded":
            job.move("running", self.now_ms)
        job.exit_code = code
        job.move(state, self.now_ms)
        self.change(number, job_id)

    def record(self, number: int, job: JobId) -> JobRecord | None:
        return self[number].guarding.find(job)

    def holders(self, job: JobId) -> set[int]:
        """Who has it on disk, besides whoever looks after it."""
        return {
            number for number in range(1, len(self.machines) + 1) if job in self[number].disk_held
        }

    def homes(self, job: JobId) -> set[int]:
        """Who thinks that it looks after the job."""
        return {
            number
            for number in range(1, len(self.machines) + 1)
            if self[number].is_up and job in self[number].guarding.holders.own
        }


JOB = job_id_of("job")


def listed(mesh: Mesh, number: int = 1) -> list[int]:
    """The guardians of the job, by number."""
    names = mesh[number].jobs[JOB].guardians
    return [number for name in names for number in range(1, 100) if node(number) == name]


def a_mesh(count: int = 5, **facts) -> tuple[Mesh, list[int]]:
    """A job of node 1, copied to all its guardians."""
    mesh = Mesh(count)
    mesh.submit(1, **facts)
    mesh.settle()
    return mesh, listed(mesh)


def partitioned() -> tuple[Mesh, int]:
    """Node 1 alone on its side; on the other somebody has taken its job over."""
    mesh, (first, *_) = a_mesh()
    mesh.cut(1)
    mesh.pass_ms(500)
    assert mesh.homes(JOB) == {1, first}
    return mesh, first


def event_names(mesh: Mesh) -> list[str]:
    return [event.name for machine in mesh.machines.values() for event in machine.happened]
