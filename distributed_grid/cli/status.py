"""`grid status`: this node in one glance."""

from typing import Any

import click
import msgspec

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import calls, sharing_calls
from distributed_grid.client.borrowing import not_joined
from distributed_grid.model import bytesize, milli
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.sharing import SharingStatus


@click.command("status")
@json_option
@data_dir_option
def command(*, as_json: bool, data_dir: str | None) -> None:
    """Show this node: what it has, what is free, what runs."""
    with caller(data_dir) as agent:
        status = agent.run(calls.status())
        sharing = agent.run(sharing_calls.sharing())
    if as_json:
        print_json(_whole(status, sharing))
    else:
        _show(status)
        for name in sharing.not_joined:
            click.echo(f"{name}: {not_joined(name)}")


def _whole(status: NodeStatus, sharing: SharingStatus) -> dict[str, Any]:
    """This node, and beside it the fields of a cluster that programs of seed 003 read."""
    from distributed_grid.client.status_dicts import cluster_status

    cluster = cluster_status(status, sharing, now_ms=text.now_ms())
    return {**cluster, **msgspec.to_builtins(status)}


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
