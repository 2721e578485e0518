"""`grid status`: this node in one glance, and what runs and waits on the others."""

from typing import Any

import click
import msgspec

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.nodes import node_names
from distributed_grid.client import across_calls, calls, mesh_calls, sharing_calls
from distributed_grid.client.borrowing import not_joined
from distributed_grid.model import bytesize, milli
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.mesh_api import Nodes, NodeView
from distributed_grid.wire.sharing import SharingStatus


@click.command("status")
@click.option(
    "--node", metavar="NODE", shell_complete=node_names, help="Another node, instead of this one."
)
@json_option
@data_dir_option
def command(*, node: str | None, as_json: bool, data_dir: str | None) -> None:
    """Show this node (what it has, what is free, what runs) and the others of its mesh."""
    with caller(data_dir) as agent:
        if node is not None:
            _show_other(agent.run(across_calls.status_of(node)), as_json=as_json)
            return
        status = agent.run(calls.status())
        sharing = agent.run(sharing_calls.sharing())
        mesh = agent.run(mesh_calls.nodes())
    others = tuple(one for one in mesh.nodes if not one.is_self)
    if as_json:
        print_json(_whole(status, sharing, others))
        return
    _show(status)
    if others:
        _show_mesh(mesh)
    for name in sharing.not_joined:
        click.echo(f"{name}: {not_joined(name)}")


def _show_other(status: NodeStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(status)
    else:
        _show(status)


def _whole(
    status: NodeStatus, sharing: SharingStatus, others: tuple[NodeView, ...]
) -> dict[str, Any]:
    """This node, and beside it the fields of a cluster that programs of seed 003 read."""
    from distributed_grid.client.status_dicts import cluster_status

    cluster = cluster_status(status, sharing, now_ms=text.now_ms(), others=others)
    return {**cluster, **msgspec.to_builtins(status)}


def _show_mesh(mesh: Nodes) -> None:
    """What runs and waits on each node."""
    from distributed_grid.cli import render

    rows = [
        [
            text.printable(f"{node.name} *" if node.is_self else node.name),
            node.health,
            str(node.jobs_running),
            str(node.jobs_waiting),
            f"{milli.text(node.cpu_milli_free)}/{milli.text(node.cpu_milli_total)}",
            text.printable(node.note),
        ]
        for node in mesh.nodes
    ]
    columns = ["node", "health", "running#", "waiting#", "cores free#", "note"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    click.echo()
    render.out().print(render.table("", columns, rows, cut=("node", "note")))


def _show(status: NodeStatus) -> None:
    limits = ", ".join(f"{what} by {how}" for what, how in sorted(status.limits.items()))
    up_for = text.span(status.since_ms, text.now_ms())
    gpus = _free_of(status.gpus_free_milli, status.gpus_total * milli.WHOLE)
    free, total = status.memory_bytes_free, status.memory_bytes_total
    text.pairs(
        [
            ("node", f"{status.name}  {status.id[:12]}  {status.node_class}"),
            ("up since", f"{text.moment(status.since_ms)} ({up_for})"),
            ("agent", f"pid {status.pid}, keeper pid {status.keeper_pid}, Grid {status.version}"),
            ("data", status.data_dir),
            ("cores", _free_of(status.cpu_milli_free, status.cpu_milli_total)),
            ("memory", f"{bytesize.text(free)} of {bytesize.text(total)} free"),
            ("GPUs", gpus if status.gpus_total else ""),
            ("jobs", f"{status.jobs_running} running, {status.jobs_waiting} waiting"),
            ("limits", limits),
            ("pretended", ", ".join(status.pretended)),
            *(("trouble", trouble) for trouble in status.troubles),
        ]
    )


def _free_of(free_milli: int, total_milli: int) -> str:
    return f"{milli.text(free_milli)} of {milli.text(total_milli)} free"


def in_a_line(status: NodeStatus) -> str:
    """The node in one line, for `grid up`."""
    cores = _free_of(status.cpu_milli_free, status.cpu_milli_total)
    memory = bytesize.text(status.memory_bytes_free)
    jobs = f"{status.jobs_running} running, {status.jobs_waiting} waiting"
    return f"{status.name}: {jobs}; {cores} cores, {memory} memory free"
