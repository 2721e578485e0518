"""`grid top`: the nodes of the mesh and the jobs on them, live.

Lives here: both tables, together. Never here: all there is to say of a node (`nodes`) or of a job
(`job`).
"""

import sys
from typing import Any, Final, NamedTuple

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import calls, mesh_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.resting import rest
from distributed_grid.model import bytesize, milli
from distributed_grid.wire.api import Jobs, JobView
from distributed_grid.wire.mesh_api import Nodes, NodeView

REFRESH_S: Final = 1.0
JOBS_SHOWN: Final = 30  # Below the nodes; a page of a terminal.
_COLOURS: Final = {"alive": "green", "suspect": "yellow", "dead": "red", "down": "dim",
                   "left": "dim"}  # fmt: skip


class Seen(NamedTuple):
    """What there is at one moment."""

    nodes: Nodes
    running: Jobs
    waiting: Jobs


@click.command("top")
@click.option("--once", is_flag=True, help="Show it once; into a pipe that is what happens anyway.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=JOBS_SHOWN,
    show_default=True,
    help="So many jobs of each kind.",
)
@json_option
@data_dir_option
def command(*, once: bool, limit: int, as_json: bool, data_dir: str | None) -> None:
    """Show the nodes of the mesh and the jobs that run and wait, each second, until Ctrl-C."""
    with caller(data_dir) as agent:
        if as_json or once or not sys.stdout.isatty():
            _show(_look(agent, limit), as_json=as_json)
            return
        from rich.live import Live

        from distributed_grid.cli import render

        with Live(console=render.out(), screen=True, auto_refresh=False) as live:
            while True:
                live.update(_picture(_look(agent, limit)), refresh=True)
                rest(REFRESH_S)


def _look(agent: Caller, limit: int) -> Seen:
    return Seen(
        agent.run(mesh_calls.nodes()),
        agent.run(calls.jobs(state="running", limit=limit)),
        agent.run(calls.jobs(state="waiting", limit=limit)),
    )


def _show(seen: Seen, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "mesh": seen.nodes.mesh,
                "nodes": seen.nodes.nodes,
                "running": seen.running.jobs,
                "waiting": seen.waiting.jobs,
                "missing": sorted({*seen.running.missing, *seen.waiting.missing}),
            }
        )
        return
    from distributed_grid.cli import render

    render.out().print(_picture(seen))


def _picture(seen: Seen) -> Any:
    from rich.console import Group
    from rich.text import Text

    from distributed_grid.cli import render

    nodes = sorted(seen.nodes.nodes, key=lambda node: (not node.is_self, node.health == "left"))
    columns = [
        "node",
        "health",
        "busy#",
        "cores#",
        "memory#",
        "GPUs#",
        "load#",
        "running#",
        "waiting#",
    ]
    spare = ("load#", "busy#", "GPUs#", "memory#")
    table = render.table("", columns, map(_node, nodes), cut=("node",), spare=spare)
    parts: list[Any] = [Text(_headline(seen), "bold"), table]
    jobs = [*seen.running.jobs, *seen.waiting.jobs]
    if jobs:
        columns = ["id", "name", "state", "node", "user", "asks for", "ran#"]
        least = ("ran#", "user", "node")
        table = render.table("", columns, map(_job, jobs), cut=("name", "asks for"), spare=least)
        parts.append(table)
    missing = sorted({*seen.running.missing, *seen.waiting.missing})
    if missing:
        parts.append(Text(f"no answer: {', '.join(missing)}", "yellow"))
    return Group(*parts)


def _headline(seen: Seen) -> str:
    """The whole mesh in a line."""
    alive = [node for node in seen.nodes.nodes if node.health == "alive"]
    free = sum(node.cpu_milli_free for node in alive)
    total = sum(node.cpu_milli_total for node in alive)
    running = sum(node.jobs_running for node in alive)
    waiting = sum(node.jobs_waiting for node in alive)
    nodes = "1 node" if len(alive) == 1 else f"{len(alive)} nodes"
    jobs = f"{running} running, {waiting} waiting"
    return f"{nodes}; {milli.text(free)} of {milli.text(total)} cores free; {jobs}"


def _node(node: NodeView) -> list[Any]:
    from rich.text import Text

    used, total = node.cpu_milli_total - node.cpu_milli_free, node.cpu_milli_total
    gpus = f"{milli.text(node.gpus_free_milli)}/{node.gpus_total}" if node.gpus_total else ""
    return [
        text.printable(f"{node.name} *" if node.is_self else node.name),
        Text(node.health, _COLOURS[node.health]),
        f"{100 * used // total} %" if total else "",
        f"{milli.text(node.cpu_milli_free)}/{milli.text(total)}",
        f"{bytesize.text(node.memory_bytes_free)}/{bytesize.text(node.memory_bytes_total)}",
        gpus,
        milli.text(node.load_milli // 10 * 10),
        str(node.jobs_running),
        str(node.jobs_waiting),
    ]


def _job(job: JobView) -> list[Any]:
    return [
        job.id[:12],
        text.printable(job.name),
        job.state,
        text.printable(job.node or "") if job.state == "running" else "",
        text.printable(job.user),
        text.wants(job),
        text.ran_for(job) if job.state == "running" else "",
    ]
