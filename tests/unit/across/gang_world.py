"""A room in which gangs contend: messages overtake each other and are lost, nodes die and return.

Lives here: chance from a seed, and what must hold whenever a process starts. Never here: the rules.
"""

import random

import msgspec

from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Beat, Told
from distributed_grid.wire.job_lane import decode
from distributed_grid.wire.keeper import Run
from tests.across_world import BEAT_MS, Room
from tests.node_world import a_job

NODES = 4


class Wild(Room):
    """Everything that happens follows from a seed."""

    def __init__(self, seed: int, nodes: int = NODES) -> None:
        self.rng = random.Random(f"{seed}/gangs")
        super().__init__(nodes)
        self.gangs: dict[str, int] = {}  # Ranks, by job.
        self.loss = 0.0
        for node in self.nodes:
            self._watch(node)

    def _watch(self, node) -> None:
        hear = node.keeper.hear

        def heard(message) -> None:
            if isinstance(message, Run):
                self._begins(message)
            hear(message)

        node.keeper.hear = heard

    def _begins(self, run: Run) -> None:
        job = run.env["GRID_JOB_ID"]
        if job not in self.gangs:
            return
        attempt = run.env["GRID_ATTEMPT"]
        assert self.ranks_ready(job, attempt) == set(range(self.gangs[job])), "not all were ready"
        others = {other for other in self.living(job) if other != attempt}
        assert not others, f"attempt {attempt} beside {others}"

    def ranks_ready(self, job: str, attempt: str) -> set[int]:
        """Of an attempt: the ranks that are on the disk of some node, with what they run."""
        found = set()
        for node in self.nodes:
            for body in node.saved_jobs.values():
                guest = msgspec.msgpack.decode(body, type=Job)
                origin = guest.spec.origin
                is_it = origin and (origin.job, str(origin.number)) == (job, attempt)
                if is_it and guest.spec.work is not None:
                    found.add(origin.rank)
        return found

    def living(self, job: str) -> list[str]:
        """The attempts of which a process runs."""
        return [
            run.env["GRID_ATTEMPT"]
            for node in self.nodes
            for run in node.keeper.told
            if isinstance(run, Run)
            and run.attempt in node.keeper.runs
            and run.env["GRID_JOB_ID"] == job
        ]

    def submit_gang(self, name: str, home: int, ranks: int, **what):
        spec = a_job(name, gang=ranks, **what)
        self.gangs[spec.id] = ranks
        self.nodes[home].submit(spec)
        return spec

    # Time

    def round(self, *, ends: float = 0.0, fails: float = 0.0) -> None:
        """A beat for everyone; some messages arrive, in any order; some processes end."""
        for node in self.nodes:
            node.now_ms += BEAT_MS
            if node.is_up:
                node.step(Beat(now_ms=node.now_ms))
        if self.rng.random() < 0.5:
            for node in self.nodes:
                if node.is_up:
                    node.look()
        self.mix(self.rng.randrange(20, 400))
        for node in self.nodes:
            for attempt in node.keeper.started if node.is_up else ():
                is_stopped = attempt in node.keeper.stopped
                if is_stopped or self.rng.random() < ends:
                    node.keeper.end_one(attempt, int(self.rng.random() < fails))

    def mix(self, steps: int) -> None:
        """Deliver so many messages, in order between two nodes only; some are lost."""
        for _ in range(steps):
            for node in self.nodes:
                if node.is_up:
                    node.pump()
            firsts: dict[tuple[str, str], int] = {}
            for place, (source, target, _) in enumerate(self.post):
                firsts.setdefault((source, target), place)
            if not firsts:
                return
            place = firsts[self.rng.choice(sorted(firsts))]
            source, target, body = self.post[place]
            del self.post[place]
            node = self.by_id(target)
            is_lost = self.rng.random() < self.loss or (source, target) in self.cut
            if node.is_up and not is_lost:
                node.step(Told(now_ms=node.now_ms, peer=source, message=decode(body)))

    # Faults

    def fall(self, who) -> None:
        """Agent and keeper are gone, and all see it."""
        who.is_up = False
        who.keeper.die()
        self.dead |= {(other.me, who.me) for other in self.nodes if other is not who}

    def rise(self, who) -> None:
        """It starts again from its disk."""
        who.is_up = True
        self.dead = {pair for pair in self.dead if who.me not in pair}
        who.start_agent()

    def states(self) -> dict[str, set[str]]:
        """Of every gang: what those say who have it."""
        return {
            job: {
                node.node.coordinator.jobs[job].state
                for node in self.nodes
                if node.is_up and job in node.node.coordinator.jobs
            }
            for job in self.gangs
        }

    def are_done(self) -> bool:
        done = {"succeeded", "failed", "lost"}
        return all(states and states <= done for states in self.states().values())
