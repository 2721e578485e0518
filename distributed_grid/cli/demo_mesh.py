"""The middle of the tour: five unlike machines, a mixed batch, and one machine that dies.

Lives here: what is run on them, how it is shown while it runs, what is told in the end. Never here:
starting and ending the machines (`demo_machines`).
Invariant: whoever watches sees what agents say, never what the tour expects.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from distributed_grid.cli import render
from distributed_grid.cli.demo_machines import Machine, machines
from distributed_grid.client.cluster import Cluster, JobHandle
from distributed_grid.client.resting import rest
from distributed_grid.wire.api import ENDED, JobView
from distributed_grid.wire.mesh_api import NodeView

DEADLINE_S: Final = 90.0
LOOK_S: Final = 0.2


def show_mesh(console: Console) -> None:
    """Run the workload, kill a machine in the middle, and tell what became of it."""
    with machines() as five:
        desk = next(machine for machine in five if machine.name == "laptop")
        console.print(f"{len(five)} agents, each a machine of its own; all is asked at the laptop")
        (desk.files / "scene.txt").write_text("a red ball\n")
        jobs = _submitted(desk.cluster, str(desk.files))
        tour = _Tour(console, desk.cluster, jobs)
        tour.until(_all_began)
        victim = tour.owner_of("render", five)
        killed_s = time.monotonic()
        victim.kill()
        console.print(Text(f"{victim.name} is gone: its keeper and agent were killed", "yellow"))
        tour.until(lambda _: tour.health_of(victim.name) == "dead")
        known_s = time.monotonic() - killed_s
        tour.until(lambda views: _has_moved(views, victim.name))
        moved_s = time.monotonic() - killed_s
        told = f"known to be dead after {known_s:.1f} s; render runs again after {moved_s:.1f} s"
        console.print(Text(told, "green"))
        tour.until(_all_ended)
        console.print(tour.nodes())
        console.print(tour.table())
        _sum_up(console, tour.views, victim.name)
    console.print(Text("all agents are down, their directories removed", "dim"))


def _submitted(cluster: Cluster, cwd: str) -> list[JobHandle]:
    """Long enough to be looked at; none of them needs the hardware that is pretended."""
    train = cluster.submit("sleep 8; echo trained", name="train", gpus="H100:2", cwd=cwd)
    render_job = cluster.submit("sleep 6; cat scene.txt", name="render", gpus="1", cwd=cwd)
    sense = cluster.submit("sleep 1; echo 21 C", name="sense", on_class=["edge"], cwd=cwd)
    sweep = cluster.submit("sleep 0.5", name="sweep", array=range(100), cwd=cwd)
    team = cluster.submit("echo $GRID_RANK; sleep 1", name="team", gang=3, cwd=cwd)
    publish = cluster.submit("echo done", name="publish", after=[train, render_job], cwd=cwd)
    return [train, render_job, sense, sweep, team, publish]


class _Tour:
    """What is looked at, again and again."""

    def __init__(self, console: Console, cluster: Cluster, jobs: list[JobHandle]) -> None:
        self._console, self._cluster, self._jobs = console, cluster, jobs
        self.views: list[JobView] = []
        self._nodes: tuple[NodeView, ...] = ()

    def until(self, is_so: Callable[[list[JobView]], bool]) -> None:
        """Look until it is so; on a terminal both tables are redrawn meanwhile."""
        deadline = time.monotonic() + DEADLINE_S
        with Live(console=self._console, transient=True, refresh_per_second=5) as live:
            while True:
                self._look()
                if self._console.is_terminal:
                    live.update(Group(self.nodes(), self.table()))
                if is_so(self.views):
                    return
                assert time.monotonic() < deadline, "the jobs did not come to their end"
                rest(LOOK_S)

    def _look(self) -> None:
        self.views = [self._cluster.job(job) for job in self._jobs]
        self._nodes = self._cluster.nodes()

    def owner_of(self, name: str, five: list[Machine]) -> Machine:
        """The machine that runs a job."""
        at = next(view.node for view in self.views if view.name == name)
        return next(machine for machine in five if machine.name == at)

    def health_of(self, name: str) -> str:
        """How a machine is doing, as the others see it."""
        return next((node.health for node in self._nodes if node.name == name), "unknown")

    def nodes(self) -> Table:
        """The five."""
        rows = [
            (
                node.name,
                node.node_class,
                node.health,
                f"{node.cpu_milli_total // 1_000}",
                ", ".join(f"{node.gpu_models.count(m)}x {m}" for m in sorted({*node.gpu_models})),
                str(node.jobs_running),
                "" if node.health == "alive" else node.why,
            )
            for node in sorted(self._nodes, key=lambda node: node.name)
        ]
        columns = ("machine", "class", "health", "cores#", "GPUs", "running#", "why")
        return render.table("", columns, rows)

    def table(self) -> Table:
        """The jobs."""
        rows = [(view.name, view.state, _progress(view), _where(view)) for view in self.views]
        return render.table("", ("job", "state", "progress#", "attempts on"), rows)


def _progress(view: JobView) -> str:
    if view.array is None:
        return "" if view.exit_code is None else f"exit {view.exit_code}"
    return f"{view.array.succeeded}/{view.array.total}"


def _where(view: JobView) -> str:
    counts = Counter(attempt.node for attempt in view.attempts if attempt.node)
    return ", ".join(f"{node} x{n}" if n > 1 else node for node, n in sorted(counts.items()))


def _all_began(views: list[JobView]) -> bool:
    states = {view.name: view.state for view in views}
    sweep = next(view.array for view in views if view.name == "sweep")
    begun = ("running", *ENDED)
    return (
        states["render"] == "running"
        and states["train"] in begun
        and sweep is not None
        and sweep.succeeded > 0
    )


def _has_moved(views: list[JobView], victim: str) -> bool:
    moved = next(view for view in views if view.name == "render")
    return moved.state in ("running", *ENDED) and moved.node not in ("", victim)


def _all_ended(views: list[JobView]) -> bool:
    return all(view.state in ENDED for view in views)


def _sum_up(console: Console, views: list[JobView], victim: str) -> None:
    done = sum(view.state == "succeeded" for view in views)
    console.print(
        f"{done} of {len(views)} jobs succeeded; what {victim} ran was run again elsewhere"
    )
