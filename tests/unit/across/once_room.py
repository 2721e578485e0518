"""A room whose keepers hold the deadlines of leases, for jobs that never run twice at once.

Lives here: the clock of leases, what runs where. Never here: expectations, but one: whenever a
process of such a job starts, no other runs.
"""

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Told
from distributed_grid.model.job import Where
from distributed_grid.wire.job_lane import decode
from distributed_grid.wire.keeper import Run
from tests.across_world import BEAT_MS, Neighbour, Room
from tests.node_world import FOUR_CORES, a_job


def once(name: str = "job", **what):
    return a_job(name, at_most_once=True, **what)


def away(name: str = "job", **what):
    """One that does not run on the first node."""
    return once(name, avoid=Where(nodes=("node-1",)), **what)


class OnceRoom(Room):
    """Nodes that vote."""

    def __init__(self, count: int = 3, first: Inventory = FOUR_CORES) -> None:
        self.losing: tuple[type, ...] = ()  # Messages of these kinds never arrive.
        self.starts: list[tuple[str, str, int]] = []  # Job, node, when.
        super().__init__(count, first)
        for node in self.nodes:
            self.watch(node)

    def watch(self, node: Neighbour) -> None:
        hear = node.keeper.hear

        def heard(message) -> None:
            if isinstance(message, Run) and message.until_boot_us:
                job = message.env["GRID_JOB_ID"]
                assert self.running(job) == [], "it runs already"
                self.starts.append((job, node.name, node.now_ms))
            hear(message)

        node.keeper.hear = heard

    def running(self, job: str) -> list[str]:
        """Who runs it, whatever anybody believes."""
        return [
            node.name
            for node in self.nodes
            for run in node.keeper.told
            if isinstance(run, Run)
            and run.attempt in node.keeper.runs
            and run.env["GRID_JOB_ID"] == job
        ]

    def runs(self, job) -> Run:
        """The one that runs."""
        found = [
            run
            for node in self.nodes
            for run in node.keeper.told
            if isinstance(run, Run)
            and run.attempt in node.keeper.runs
            and run.env["GRID_JOB_ID"] == job.id
        ]
        assert len(found) == 1
        return found[0]

    def host(self, job) -> Neighbour:
        """Who runs it."""
        (name,) = self.running(job.id)
        return next(node for node in self.nodes if node.name == name)

    def pass_time(self, by_ms: int) -> None:
        """As an agent does; keepers end what is over its deadline."""
        for _ in range(max(1, by_ms // BEAT_MS)):
            super().pass_time(min(by_ms, BEAT_MS))
            self.keep_deadlines()

    def settle(self) -> None:
        """The same, but for what is lost on its way."""
        for _ in range(10_000):
            for node in self.nodes:
                if node.is_up:
                    node.pump()
            if not self.post:
                return
            source, target, body = self.post.popleft()
            node, message = self.by_id(target), decode(body)
            is_lost = (source, target) in self.cut or isinstance(message, self.losing)
            if node.is_up and not is_lost:
                node.step(Told(now_ms=node.now_ms, peer=source, message=message))
        raise AssertionError("they never stop talking")

    def keep_deadlines(self) -> None:
        for node in self.nodes:
            keeper = node.keeper
            for attempt, until_us in list(keeper.until_us.items()):
                if attempt not in keeper.runs:
                    del keeper.until_us[attempt]
                elif node.now_ms * 1_000 >= until_us:
                    keeper._report(attempt, -1, "lost", 125, is_last=True)
                    keeper._leave(attempt)
        self.settle()

    def isolate(self, who: Neighbour, *, is_noticed: bool = True) -> None:
        """Nobody hears it, and it hears nobody; all notice."""
        for other in self.nodes:
            if other is not who:
                self.cut |= {(who.me, other.me), (other.me, who.me)}
                if is_noticed:
                    self.dead |= {(who.me, other.me), (other.me, who.me)}
        self.look()

    def heal(self) -> None:
        self.cut.clear()
        self.dead.clear()
        self.look()

    def deliver_until(self, kind: type) -> None:
        """Until somebody has said such a thing."""
        while not any(node.said(kind) for node in self.nodes):
            for node in self.nodes:
                node.pump()
            source, target, body = self.post.popleft()
            node = self.by_id(target)
            node.step(Told(now_ms=node.now_ms, peer=source, message=decode(body)))

    def finish(self, job, code: int = 0) -> None:
        """Its process ends by itself."""
        run = self.runs(job)
        self.host(job).keeper.end_one(run.attempt, code)
        self.settle()

    def votes(self, job) -> list[str]:
        """Who has votes on it."""
        return [
            node.name
            for node in self.nodes
            if node.is_up and job.id in node.node.across.once.register.voter.jobs
        ]
