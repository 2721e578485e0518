"""Acknowledged records outlive machines, disks, partitions and lost messages; one home is left."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributed_grid.kernel.across.record import has_ended, joined, state_of
from distributed_grid.kernel.across.record_bytes import decode
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.across import Fence
from tests.unit.across.guard_lab import Mesh, node

COUNT = 5
numbers = st.integers(1, COUNT)


class Guards(RuleBasedStateMachine):
    """Five nodes hold records for each other; nobody is told the truth in time."""

    def __init__(self):
        super().__init__()
        self.mesh = Mesh(COUNT)
        self.acknowledged: dict = {}  # Job -> copies.
        self.lost: dict = {}  # Job -> who has lost a disk since it was submitted.
        self.submitted = 0

    # Jobs

    @initialize(number=numbers)
    def begin(self, number):
        self.submit(number)
        self.mesh.settle()
        self.acknowledge(number)

    @rule(number=numbers)
    def submit(self, number):
        if self.mesh[number].is_up and self.submitted < 3:
            self.submitted += 1
            self.lost[self.mesh.submit(number, f"job-{self.submitted}")] = set()

    @rule(number=numbers, end=st.sampled_from(["", "", "failed", "succeeded", "cancelled"]))
    def change(self, number, end):
        machine = self.mesh[number]
        for job_id, job in sorted(machine.jobs.items()) if machine.is_up else ():
            if machine.guarding.is_cleared(job_id) and not job.has_ended:
                if end:
                    self.mesh.end(number, job_id, end, code=int(end == "failed"))
                else:
                    job.failures += 1
                    self.mesh.change(number, job_id)

    @rule(number=numbers)
    def cancel(self, number):
        machine = self.mesh[number]
        for job in sorted(machine.guarding.shelf.unfinished) if machine.is_up else ():
            self.mesh.act(
                machine,
                lambda ready, job=job: machine.guarding.cancel(job, self.mesh.now_ms, ready),
            )

    @rule(number=numbers)
    def acknowledge(self, number):
        """A client is told how many copies there are."""
        guarding = self.mesh[number].guarding
        for job in guarding.holders.own if self.mesh[number].is_up else ():
            if guarding.is_cleared(job):
                copies = self.acknowledged.get(job, 0)
                self.acknowledged[job] = max(copies, guarding.copies(job))

    # Messages

    @precondition(lambda self: self.mesh.mail)
    @rule(data=st.data(), fate=st.sampled_from(["come", "come", "lost", "twice"]))
    def travel(self, data, fate):
        at = data.draw(st.integers(0, min(len(self.mesh.mail) - 1, 20)))
        if fate == "lost":
            del self.mesh.mail[at]
        else:
            self.mesh.deliver(at, keep=fate == "twice")

    @rule()
    def everything_travels(self):
        self.mesh.settle()

    # Time and verdicts

    @rule(ms=st.sampled_from([300, 1_200, 4_000]))
    def live(self, ms):
        self.mesh.pass_ms(ms)

    @rule(ms=st.sampled_from([300, 1_200, 4_000]))
    def wait_for_the_mail(self, ms):
        for _ in range(ms // 100):
            self.mesh.now_ms += 100
            self.mesh.tick()

    @rule(number=numbers, other=numbers)
    def misjudge(self, number, other):
        """A verdict may be wrong."""
        if number != other and self.mesh[number].is_up:
            was = set(self.mesh.cuts)
            self.mesh.cuts.add(frozenset((node(number), node(other))))
            self.mesh.look_from(self.mesh[number])
            self.mesh.cuts = was

    # Faults

    @rule(side=st.sets(numbers, min_size=1, max_size=4), ms=st.sampled_from([0, 400, 4_000]))
    def cut(self, side, ms):
        self.mesh.cut(*side)
        self.mesh.pass_ms(ms)

    @rule(ms=st.sampled_from([0, 400]))
    def heal(self, ms):
        self.mesh.heal()
        self.mesh.pass_ms(ms)

    @rule(number=numbers, with_disk=st.booleans(), ms=st.sampled_from([-1, 0, 400, 4_000]))
    def crash(self, number, with_disk, ms):
        if not self.mesh[number].is_up:
            return
        self.mesh.crash(number, with_disk=with_disk)
        if with_disk:
            for lost in self.lost.values():
                lost.add(number)
        if ms >= 0:  # Else nobody sees it: it may be back before.
            self.mesh.look()
            self.mesh.pass_ms(ms)

    @rule(number=numbers, seen=st.booleans())
    def start(self, number, seen):
        if not self.mesh[number].is_up:
            self.mesh.start(number)
            self.mesh.look_from(self.mesh[number])
            if seen:
                self.mesh.look()

    # What must hold

    def on_disk(self, number, job):
        """The record of a job as a disk has it."""
        machine, found = self.mesh[number], []
        if job in machine.disk_held:
            found.append(decode(machine.disk_held[job]))
        if job in machine.disk_jobs:
            own = msgspec.msgpack.decode(machine.disk_jobs[job], type=Job)
            if own.epoch.node == machine.me:
                found.append(record_of(own, Fence(own.epoch, own.seq)))
        return found

    def jobs(self):
        return {
            job
            for n in range(1, COUNT + 1)
            for job in {*self.mesh[n].disk_held, *self.mesh[n].disk_jobs}
        }

    @invariant()
    def acknowledged_records_survive_as_promised(self):
        for job, copies in self.acknowledged.items():
            if len(self.lost[job]) < copies:
                assert any(self.on_disk(number, job) for number in range(1, COUNT + 1))

    @invariant()
    def what_is_known_is_on_disk(self):
        for machine in self.mesh.machines.values():
            if machine.is_up:
                for job, kept in machine.guarding.shelf.unfinished.items():
                    assert decode(machine.disk_held[job]) == machine.guarding.shelf.find(kept.job)
                for job in machine.guarding.holders.own:
                    assert job in machine.disk_jobs

    @invariant()
    def a_node_looks_after_a_job_or_holds_it_but_not_both(self):
        for machine in self.mesh.machines.values():
            guarding = machine.guarding
            assert not guarding.holders.own.keys() & guarding.shelf.unfinished.keys()
            for own in guarding.holders.own.values():
                assert own.record.home == machine.me
                assert own.id in guarding.holders._by_name.get(next(iter(own.names), ""), {own.id})

    def teardown(self):
        """Everything comes back, and all agree soon."""
        mesh = self.mesh
        mesh.mail.clear()
        for number in range(1, COUNT + 1):
            if not mesh[number].is_up:
                mesh.start(number)
        mesh.heal()
        known = {
            job
            for job in self.jobs()
            if any(self.on_disk(number, job) for number in range(1, COUNT + 1))
        }
        mesh.pass_ms(12_000, step_ms=200)  # A start, and a takeover by whoever comes last.
        mesh.pass_ms(70_000, step_ms=500)  # Everybody has asked everybody.
        for job in known:
            self.all_agree(job)

    def all_agree(self, job):
        mesh = self.mesh
        records = {
            number: mesh.record(number, job)
            for number in range(1, COUNT + 1)
            if mesh.record(number, job) is not None
        }
        whole = None
        for record in records.values():
            whole = record if whole is None else joined(whole, record)
        assert whole is not None, "a record was lost"
        assert {state_of(record) for record in records.values()} == {state_of(whole)}
        if has_ended(whole):
            assert {record.results for record in records.values()} == {whole.results}
            return
        assert all(record == whole for record in records.values())
        assert mesh.homes(job) == {n for n in records if node(n) == whole.home}
        (home,) = mesh.homes(job)
        listed = mesh[home].jobs[job].guardians
        assert {node(number) for number in records} == {whole.home, *listed}
        assert len(listed) == 3


Guards.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestGuards = Guards.TestCase
