"""Who is told to give way: only whom the rules allow, and never in place of nobody.

Lives here: the legality of each eviction and the books over it. Never here: how soon (`prompt`).
"""

from distributed_grid.kernel.node import Met, Node, NodeEvent, Reports
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.sim.checkers.precedence import rank_of, ready_ms_of, standing
from distributed_grid.sim.world import Checker, Violation, World
from distributed_grid.wire.keeper import Ended, Preempt


class OnlyLessImportantGiveWay(Checker):
    """The owner's work gives way to the owner's urgent work only, and only if it is not urgent."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at everybody who is told to go."""
        for message in ready.tell:
            process = world.keeper.attempts.get(getattr(message, "attempt", ""))
            if isinstance(message, Preempt) and process is not None:
                self._judge(world, node, process.run.job, process.run.lease)

    def _judge(self, world: World, node: Node, job: JobId, lease: str) -> None:
        spec, held = world.spec(job), node.ledger.leases[lease]
        whom = node.coordinator.giving_way.leaving[lease]
        is_for_job = whom.startswith("job ")
        if spec.preempt.is_forbidden and (is_for_job or not spec.is_shared):
            raise Violation(f"{spec.name} must not be stopped, and gives way to {whom}")
        if spec.is_shared or not is_for_job:
            return  # Borrowers give way to everybody of the owner's; to windows everybody does.
        urgent = [
            one
            for one in node.host.line
            if world.spec(one).priority == "urgent" and not world.spec(one).is_shared
        ]
        submitted_ms = ready_ms_of(node, job)
        if not urgent or rank_of(world, job, submitted_ms, held.granted_ms) == 0:
            raise Violation(f"{spec.name} is as important as {whom}, and gives way to it")


class NobodyIsEvictedInVain(Checker):
    """While others give way for a job, neither they nor those who come after it take the room."""

    def __init__(self) -> None:
        self._leaving: dict[str, tuple[JobId, JobId]] = {}  # Lease -> victim, and for whom.

    def crashed(self, world: World) -> None:
        """The next agent asks again, if it must."""
        self._leaving.clear()

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at who got something while somebody was awaited."""
        waiting = list(node.host.line)
        new = {lease.job for lease in ready.save_leases}
        for victim, whom in self._leaving.values() if not len(node.host.bookings) else ():
            if whom not in waiting:
                continue
            passed = [
                job for job in new if standing(world, node, job) > standing(world, node, whom)
            ]
            for job in passed + [job for job in new if job == victim]:
                names = world.spec(job).name, world.spec(whom).name
                raise Violation(f"{names[0]} took what others give up for {names[1]}")
        self._leaving = {
            lease: (node.ledger.leases[lease].job, whom)
            for lease, told in node.coordinator.giving_way.leaving.items()
            for whom in waiting
            if told == f"job {whom[:12]}"
        }


class VictimsAreQueuedAgain(Checker):
    """Whoever gave way waits again, and it counts neither as a failure nor as a loss."""

    def __init__(self) -> None:
        self._counts: dict[JobId, tuple[int, int]] = {}
        self._jobs: dict[str, JobId] = {}  # By attempt.

    def crashed(self, world: World) -> None:
        """What was counted and not saved is forgotten."""
        self._counts.clear()

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Compare the books before and after each report of a victim."""
        for attempt, process in world.keeper.attempts.items():
            self._jobs[attempt] = process.run.job
        if isinstance(event, Reports | Met):
            ended = [one for one in event.reports if isinstance(one, Ended) and one.is_last]
            others = {self._jobs.get(one.attempt) for one in ended if one.how != "preempted"}
            for report in ended:
                job = self._jobs.get(report.attempt)
                if report.how == "preempted" and job is not None and job not in others:
                    self._judge(world, node, job)
        for job, known in ready.save_jobs.items():
            self._counts[job] = (known.failures, known.losses)

    def _judge(self, world: World, node: Node, job: JobId) -> None:
        known = node.coordinator.jobs[job]
        name = world.spec(job).name
        before = self._counts.get(job)
        if before is not None and (known.failures, known.losses) != before:
            raise Violation(f"{name} gave way, and that was counted against it")
        if known.has_ended and not known.is_stopping:
            raise Violation(f"{name} gave way, and ended {known.state}")
        if not known.has_ended and not known.live_attempts and job not in node.host.line:
            raise Violation(f"{name} gave way, and waits for nothing")
