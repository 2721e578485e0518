"""One member lies about every job while things fail: none that must not run twice does.

Lives here: the liar, and what it says. Never here: the rule (`sim.across.checkers.processes`).
Others may cancel what is theirs, so whether each job ends is not asked here, but what runs.
"""

import random

import pytest

from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId
from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.keeper import LOOK_US, Truth
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.moods import Mood
from distributed_grid.sim.across.world import World
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.across import (
    Begun,
    Confirmed,
    Copied,
    Granted,
    Halt,
    Holding,
    NotTaken,
    Poll,
    Report,
    Taken,
    Withdrawn,
)
from distributed_grid.wire.gangs import Go
from distributed_grid.wire.keeper import Ended, Usage
from distributed_grid.wire.register import (
    Accepted,
    LeasesRenewed,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
    Recollected,
    Renewal,
    RenewLeases,
)

LIE_US = SECOND_US // 4


class NeverTwiceAmongHonest(Checker):
    """At most one process of such a job on machines that do not lie: what a liar runs, it runs."""

    def __init__(self, liar: int) -> None:
        self.liar = liar

    def began(self, world: World, machine: Machine, truth: Truth) -> None:
        if not world.wishes[truth.job].spec.at_most_once:
            return
        running = [
            one
            for one in world.machines
            if one.number != self.liar and world.timeline.now_us - one.woke_us >= 2 * LOOK_US
            for other in one.keeper.truths
            if other.job == truth.job
        ]
        if len(running) > 1:
            raise Violation(f"{world.name_of(truth.job)} runs on {running}")


class Liar:
    """One machine whose agent works as any other, and says more than is so."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.rng = random.Random(f"{world.mood.seed}/liar")
        self.said = 0

    @property
    def machine(self) -> Machine:
        return self.world.machines[self.number]

    def go_on(self) -> None:
        self.world.timeline.after(LIE_US, self.go_on)
        if not self.world.is_rough or not self.machine.is_awake:
            return
        known = [
            (job, attempt)
            for one in self.world.machines
            if one.is_up
            for job in one.kernel.coordinator.jobs.values()
            if not job.is_guest
            for attempt in job.attempts
        ]
        if not known:
            return
        job, attempt = self.rng.choice(known)
        for other in self.world.machines:
            if other is not self.machine and other.is_member:
                for word in self.lies(job, attempt):
                    if self.rng.random() < 0.3:
                        self.said += 1
                        self.world.network.send(self.machine, other.id, word)

    def lies(self, job, attempt) -> list:
        """Of an attempt: as everybody may know it."""
        me, lease, job_id = self.machine.id, attempt.lease, JobId(job.spec.id)
        epoch = Epoch(job.epoch.counter + self.rng.choice((0, 1, 1_000)), me)
        lot = self.rng.getrandbits(40)
        store = self.machine.kernel.across.once.register.voter.me.store
        end = Ended(
            number=1, attempt=lease, how=self.rng.choice(("lost", "stopped", "exited")), code=1,
            started_ms=1, ended_ms=2, usage=Usage(),
        )  # fmt: skip
        renewal = Renewal(job_id, lease, Fence(epoch, 9), Fence(epoch, 9))
        words = [
            NotTaken(job=job_id, lease=lease, why="a lie"),
            Report(job=job_id, lease=lease, first=0, ends=(end,)),
            Begun(job=job_id, lease=lease, pid=1, at_ms=1),
            Taken(job=job_id, lease=lease),
            Granted(job=job_id, epoch=job.epoch, number=1, lease=f"{lot:032x}"),
            Withdrawn(job=job_id, epoch=epoch, number=1 << 50),
            Poll(job=job_id, epoch=epoch, lease=lease),
            Go(job=job_id, epoch=epoch, lease=lease),
            Confirmed(job=job_id, lease=lease, ends=1),
            Copied(job=job_id, version=Fence(job.epoch, job.seq)),
            Holding(job=job_id),
            RenewLeases(life=lot, sent_us=1, renewals=(renewal,), over=(lease,)),
            LeasesRenewed(life=lot, sent_us=1, store=store, renewed=(lease,)),
            Recollected(life=lot, store=store, count=1 << 40, by=store),
            Promised(job=job_id, epoch=epoch, ask=lot, store=store),
            NotPromised(job=job_id, epoch=epoch, ask=lot, store=store, promised=epoch),
            Accepted(job=job_id, ask=lot, version=Fence(epoch, 1), store=store),
            NotAccepted(job=job_id, ask=lot, version=Fence(epoch, 1), store=store, promised=epoch),
        ]
        if self.rng.random() < 0.1:
            words.append(Halt(job=job_id, epoch=epoch, lease=lease))
        if self.rng.random() < 0.1 and job.votes is not None:
            words.append(Prepare(job=job_id, epoch=epoch, ask=lot, sets=job.votes.sets))
        record = self.machine.kernel.across.guarding.find(job_id)
        if record is not None and self.rng.random() < 0.1:
            words.append(Holding(job=job_id, record=encode(record)))
        return words


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_must_not_run_twice_does_though_a_member_lies_and_machines_are_cut_off(seed):
    mood = Mood(
        seed=seed, nodes=4 + seed % 3, span_us=40 * SECOND_US, jobs=16, once_milli=700,
        lone_every_us=12 * SECOND_US, link_every_us=15 * SECOND_US, cores=2,
    )  # fmt: skip
    world = World(mood, [NeverTwiceAmongHonest(seed % mood.nodes)])
    liar = Liar(world, seed % mood.nodes)
    world.begin()
    liar.go_on()
    world.endure()

    assert liar.said > 100
    assert world.starts
