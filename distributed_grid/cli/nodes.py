"""`grid nodes`: who is in the mesh, as this machine sees them.

Lives here: the table, watching, and names for completion. Never here: what the words mean
(`wire.mesh_api`).
"""

import sys
from typing import Any, Final, NoReturn

import click
import msgspec

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import mesh_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.resting import rest
from distributed_grid.errors import GridError
from distributed_grid.model import bytesize, milli
from distributed_grid.wire.mesh_api import Nodes, NodeView

REFRESH_S: Final = 1.0
NAMED_MAX: Final = 8  # In a line about whose machines these are.
COLUMNS: Final = ("name", "person", "roles", "class", "health", "cores#", "memory#", "GPUs", "load#", "jobs#",
                  "path", "latency#", "version", "checked", "note")  # fmt: skip
# On a narrow terminal: cut there, and then left out in this order.
CUT: Final = ("path", "health", "note", "GPUs")
SPARE: Final = ("checked", "version", "roles", "class", "load#", "latency#", "path", "person",
                "memory#")  # fmt: skip
OPTIONAL: Final = ("person", "GPUs", "note")  # Left out where nobody has any.
_COLOURS: Final = {"alive": "green", "suspect": "yellow", "dead": "red", "down": "dim",
                   "left": "dim"}  # fmt: skip


@click.command("nodes")
@click.option("--watch", is_flag=True, help="Show it again each second, until Ctrl-C.")
@json_option
@data_dir_option
def command(*, watch: bool, as_json: bool, data_dir: str | None) -> None:
    """Show every node of the mesh: what it has, how it is, how far away; this one first."""
    with caller(data_dir) as agent:
        if watch:
            _watch(agent, as_json=as_json)
        _show(agent.run(mesh_calls.nodes()), as_json=as_json)


def _watch(agent: Caller, *, as_json: bool) -> NoReturn:
    """For ever: again each second on a terminal, into a pipe only when something changed."""
    if not as_json and sys.stdout.isatty():
        from rich.live import Live

        from distributed_grid.cli import render

        with Live(console=render.out(), screen=False, auto_refresh=False) as live:
            while True:
                live.update(_table(agent.run(mesh_calls.nodes())), refresh=True)
                rest(REFRESH_S)
    before: list[NodeView] = []
    while True:
        found = agent.run(mesh_calls.nodes())
        now = [msgspec.structs.replace(n, seen_age_ms=0, record_age_ms=0) for n in found.nodes]
        if now != before:
            _show(found, as_json=as_json)
            sys.stdout.flush()
        before = now
        rest(REFRESH_S)


def _show(found: Nodes, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    from distributed_grid.cli import render

    render.out().print(_table(found))
    if not found.mesh:
        click.echo("grid: this node is alone; let others in with: grid ticket", err=True)


def _table(found: Nodes) -> Any:
    from distributed_grid.cli import render

    nodes = sorted(found.nodes, key=lambda node: not node.is_self)  # The others as they come.
    rows = [_row(node) for node in nodes]
    kept = [
        column
        for column, name in enumerate(COLUMNS)
        if name not in OPTIONAL or any(str(row[column]) for row in rows)
    ]
    shown = [[row[column] for column in kept] for row in rows]
    return render.table("", [COLUMNS[column] for column in kept], shown, cut=CUT, spare=SPARE)


def ownership(found: Nodes) -> str:
    """Who uses this machine as its own, and who borrows, in a line; empty: it is alone."""
    if not found.mesh:
        return ""
    here = [node for node in found.nodes if node.health != "left"]
    whose = next(node for node in here if node.is_self)
    own = [node.name for node in here if node.person_id == whose.person_id]
    people = dict.fromkeys(node.person for node in here if node.person_id != whose.person_id)
    own.sort(key=lambda name: name != whose.name)
    others = f"others ({_some(list(people))}) borrow" if people else "others would borrow"
    return (
        f"Your machines ({whose.person}: {_some(own)}) use all that is free here;"
        f" {others} what the terms below allow."
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return text.printable(", ".join(names[:NAMED_MAX]) + more)


def _row(node: NodeView) -> list[Any]:
    from rich.text import Text

    free, total = node.memory_bytes_free, node.memory_bytes_total
    cells = [
        f"{node.name} *" if node.is_self else node.name,
        node.person,
        ", ".join(node.roles),
        node.node_class,
        _health(node),
        f"{milli.text(node.cpu_milli_free)}/{milli.text(node.cpu_milli_total)}",
        f"{bytesize.text(free)}/{bytesize.text(total)}",
        _gpus(node),
        milli.text(node.load_milli // 10 * 10),
        f"{node.jobs_running}+{node.jobs_waiting}" if node.jobs_waiting else str(node.jobs_running),
        f"{node.path} {node.address}".rstrip(),
        _latency(node),
        node.version,
        node.verification,
        _note(node),
    ]
    colours = {COLUMNS.index("health"): _COLOURS[node.health]}
    return [
        Text(text.printable(cell), colours.get(column, "")) for column, cell in enumerate(cells)
    ]


def _health(node: NodeView) -> str:
    """How it is; if not well, since when and why."""
    if node.health == "alive":
        return node.health
    since = f" since {text.moment(node.since_ms)}" if node.since_ms else ""
    return f"{node.health}{since}{f': {node.why}' if node.why else ''}"


def _note(node: NodeView) -> str:
    """What is wrong with it, if anything is."""
    failed = node.verification_why if node.verification == "failed" else ""
    return "; ".join(filter(None, (node.note, failed)))


def _gpus(node: NodeView) -> str:
    if not node.gpus_total:
        return ""
    models = ", ".join(dict.fromkeys(node.gpu_models))
    return f"{milli.text(node.gpus_free_milli)}/{node.gpus_total} {models}".rstrip()


def _latency(node: NodeView) -> str:
    """Measured; with a tilde estimated from coordinates; empty: neither, or itself."""
    if node.is_self:
        return ""
    if node.latency_us is not None:
        return f"{node.latency_us / 1_000:.1f} ms"
    return "" if node.estimated_us is None else f"~{node.estimated_us / 1_000:.1f} ms"


def node_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names and short ids of nodes, for completion in a shell; none if nobody answers."""
    del param
    try:
        with caller(ctx.params.get("data_dir")) as agent:
            found = agent.run(mesh_calls.nodes()).nodes
    except GridError:
        return []
    words = {word for node in found for word in (node.name, node.id[:12])}
    return sorted(word for word in words if word and word.startswith(incomplete))
