"""Any order of submissions, cancels, reports, losses and agent crashes leaves the node in order."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distributed_grid.kernel.node import Reports
from distributed_grid.model.job import After, Array, JobSpec
from distributed_grid.model.resources import Request
from tests.node_world import World, a_job


class NodeMachine(RuleBasedStateMachine):
    """The agent, its store and its keeper in one thread; only what was saved survives a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.names = (f"job-{number}" for number in itertools.count())
        self.accepted: list[JobSpec] = []

    @rule(
        cpus=st.sampled_from([500, 1_000, 2_000, 4_000]),
        memory=st.sampled_from([0, 1 << 28, 1 << 30]),
        size=st.sampled_from([0, 0, 0, 1, 2, 9]),
        width=st.integers(0, 2),
        retries=st.integers(0, 2),
        losses=st.integers(0, 2),
        after=st.sampled_from(["", "ok", "any", "failed"]),
        data=st.data(),
    )
    def submit(self, *, cpus, memory, size, width, retries, losses, after, data) -> None:
        name = next(self.names)
        others = [spec for spec in self.accepted if spec.id in self.world.node.coordinator.jobs]
        comes_after = ()
        if after and others:
            other = data.draw(st.sampled_from(others))
            comes_after = (After(job=other.id, when=after),)
        spec = a_job(
            name,
            request=Request(cpu_milli=cpus, memory_bytes=memory),
            array=Array(start=0, stop=size, width=width) if size else None,
            after=comes_after,
            retries=retries,
            losses_max=losses,
        )
        self.world.submit(spec)
        self.accepted.append(spec)
        assert not self.world.submit(spec).tell, "the same again changes nothing"

    @precondition(lambda self: self.world.keeper.runs)
    @rule(data=st.data(), code=st.sampled_from([0, 0, 0, 1, 3]))
    def process_ends(self, data, code) -> None:
        attempt = data.draw(st.sampled_from(self.world.keeper.started))
        self.world.keeper.end_one(attempt, code)

    @rule()
    def reports_arrive(self) -> None:
        self.world.pump()

    @precondition(lambda self: self.world.keeper.unacknowledged)
    @rule()
    def reports_arrive_and_the_answer_is_lost_with_the_agent(self) -> None:
        reports = tuple(self.world.keeper.unacknowledged)
        self.world.save(self.world.node.step(Reports(now_ms=self.world.now_ms, reports=reports)))
        self.world.start_agent()

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def cancel(self, data) -> None:
        spec = data.draw(st.sampled_from(self.accepted))
        if spec.id in self.world.node.coordinator.jobs:
            self.world.cancel(spec)

    @rule()
    def agent_crashes(self) -> None:
        self.world.start_agent()

    @rule()
    def keeper_dies(self) -> None:
        self.world.keeper.die()
        self.world.start_agent()

    @rule(by_ms=st.sampled_from([10, 70_000]))
    def time_passes(self, by_ms) -> None:
        self.world.pass_time(by_ms)

    @invariant()
    def nothing_is_oversold_and_nothing_is_forgotten(self) -> None:
        self.world.node.check()
        assert {spec.id for spec in self.accepted} <= set(self.world.saved_jobs)

    def teardown(self) -> None:
        self.world.drain()
        jobs = self.world.node.coordinator.jobs
        assert all(jobs[spec.id].has_ended for spec in self.accepted if spec.id in jobs)
        assert not self.world.node.ledger.leases
        assert not self.world.saved_leases
        assert self.world.node.coordinator.unfinished == 0


TestNode = NodeMachine.TestCase
TestNode.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
