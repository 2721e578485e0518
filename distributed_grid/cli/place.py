"""`grid place`: what would run where on a snapshot of nodes, and why not elsewhere.

Lives here: flags, and the JSON and text of decisions. Never here: deciding (`kernel.placement`),
reading files (`config`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import msgspec

from distributed_grid.cli import placement_text
from distributed_grid.cli.agent import data_dir_option
from distributed_grid.config.fleet import read_fleet
from distributed_grid.config.jobs import read_jobs
from distributed_grid.config.plugins import own_filters, own_policies
from distributed_grid.errors import BadInput, BadValue, UnknownName
from distributed_grid.kernel.placement import (
    Decision,
    Reason,
    Rules,
    Snapshot,
    place,
    snapshot,
)
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.kernel.placement.skew import SkewMonitor
from distributed_grid.model import duration, milli
from distributed_grid.model.node import NodeRecord

EXIT_NOTHING_FITS = 3


class Duration(click.ParamType[int]):
    """A span of time on the command line."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Milliseconds."""
        try:
            return duration.parse(value)
        except BadValue as error:
            self.fail(str(error), param, ctx)


@click.command("place")
@click.option("--nodes", "nodes_file", metavar="FILE", help="JSON or YAML; - is stdin.")
@click.option("--live", is_flag=True, help="On the nodes of this mesh, as they are now.")
@click.option("--job", "job_file", required=True, metavar="FILE", help="One job or a list of them.")
@click.option(
    "--policy",
    metavar="P",
    help="BestFit, FirstFit, RoundRobin, PowerAware, LocalityAware, "
    "CostOptimized, Balanced, Spread, or one of your own. Without it: by rank alone.",
)
@click.option(
    "--rank",
    type=click.Choice(["even", "xor"]),
    default="even",
    show_default=True,
    help="How ties, and everything where no policy is named, are ordered.",
)
@click.option(
    "--cluster-size",
    type=click.IntRange(1, 1_000_000),
    default=3,
    show_default=True,
    help="How many nodes form the cluster of a job.",
)
@click.option(
    "--max-age",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Records older than this are refused.",
)
@click.option("--last-known", is_flag=True, help="Use older records too, and mark them.")
@click.option(
    "--fill", is_flag=True, help="Each placed job takes its resources before the next is placed."
)
@click.option(
    "--as", "me", metavar="NODE", help="Say what this node is: responsible, member or neither."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: an object, or a list for a list of jobs."
)
@data_dir_option
@click.pass_context  # fmt: skip
def command(
    ctx: click.Context,
    *,
    nodes_file: str | None,
    live: bool,
    job_file: str,
    policy: str | None,
    rank: Any,
    cluster_size: int,
    max_age: int,
    last_known: bool,
    fill: bool,
    me: str | None,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """What would run where, and why not elsewhere: on nodes of a file, or with --live on the mesh.

    Two nodes that print the same snapshot with --live come to the same answer, unless it is about
    distances, which each measures for itself.

    Exits with 0 if every job was placed, 3 if nothing fits one of them, 2 on bad input.
    """
    rules = Rules(
        policy=policy_named(policy, own_policies()) if policy else None,
        rank=rank,
        cluster_size=cluster_size,
        age_ms_max=max_age,
        last_known=last_known,
        filters=own_filters(),
    )
    _refuse_stdin_twice(nodes_file, job_file)
    seen = _seen(nodes_file, live=live, data_dir=data_dir)
    nodes = list(seen.nodes)
    if live and not as_json:
        click.echo(f"snapshot {seen.hash[:16]} of {len(nodes)} nodes")
    jobs, is_list = read_jobs(job_file)
    held, monitor, documents = snapshot(nodes), SkewMonitor(), []
    for job in jobs:
        decision = place(job, held, rules)
        monitor.record(decision)
        _log(ctx.obj, decision, held)
        document = as_document(decision, monitor) | ({"snapshot": seen.hash} if live else {})
        if me is not None:
            document["standing"] = decision.standing(_node_named(me, nodes))
        documents.append(document)
        if not as_json:
            placement_text.show(decision, monitor, standing=document.get("standing"))
        if fill and decision.best:
            held.update(after_placing(job, decision.best))
    if as_json:
        shown = documents if is_list else documents[0]
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2))
    if any(document["responsible"] is None for document in documents):
        ctx.exit(EXIT_NOTHING_FITS)


def as_document(decision: Decision, monitor: SkewMonitor) -> dict[str, Any]:
    """A decision as `--json` prints it, in the words of the files."""
    return {
        "job": {"id": decision.job.id, "name": decision.job.name},
        "responsible": decision.responsible,
        "cluster": list(decision.cluster),
        "ranked": [
            {"id": r.id, "name": r.name, "score": r.score, "parts": r.parts, "rank_key": r.rank_key}
            | ({"stale": True} if r.is_stale else {})
            for r in decision.ranked
        ],
        "refused": [
            {"id": r.id, "name": r.name, "reasons": [in_file_words(why) for why in r.reasons]}
            for r in decision.refused
        ],
        "policy": decision.rules.policy.name if decision.rules.policy else None,
        "rank": decision.rules.rank,
        "filters": sorted(decision.rules.filters),
        "skew": {
            node: {
                "observed": share.observed_ppm / 1_000_000,
                "expected": share.expected_ppm / 1_000_000,
            }
            for node, share in monitor.shares().items()
        },
    }


# What the kernel counts in its own units, as people write it in files.
_FILE_WORDS = {
    "cpu_milli": ("cpus", milli.WHOLE),
    "gpu_milli": ("gpus", milli.WHOLE),
    "memory_bytes": ("memory", 1),
    "storage_bytes": ("storage", 1),
    "temperature_centi": ("temperature_c", 100),
    "latency_us": ("max_latency_ms", 1_000),
    "age_ms": ("age_seconds", 1_000),
    "custom": ("custom", milli.WHOLE),
}


def in_file_words(reason: Reason) -> dict[str, Any]:
    """A reason with the names and units of the files: cores, bytes, seconds."""
    first, _, rest = reason.what.partition(".")
    word, unit = _FILE_WORDS.get(first, (first, 0))
    return {
        "what": f"{word}.{rest}" if rest else word,
        "wanted": _in_unit(reason.wanted, unit),
        "has": _in_unit(reason.has, unit),
        "kind": reason.kind,
    }


def _in_unit(value: Any, unit: int) -> Any:
    if not unit or value is None:
        return value
    return value // unit if value % unit == 0 else value / unit


def _refuse_stdin_twice(nodes_file: str | None, job_file: str) -> None:
    if nodes_file == job_file == "-":
        raise BadInput(
            "-",
            path="$",
            problem="is read once, not twice",
            remedy="Put one of the two into a file",
        )


class _Seen(NamedTuple):
    nodes: Sequence[NodeRecord]
    hash: str = ""


def _seen(file: str | None, *, live: bool, data_dir: str | None) -> _Seen:
    """The nodes that the question is about."""
    if live == (file is not None):
        raise click.UsageError("Give either --nodes FILE or --live.")
    if file is not None:
        return _Seen(read_fleet(file))
    from distributed_grid.cli.agent import caller
    from distributed_grid.client import across_calls

    with caller(data_dir) as agent:
        found = agent.run(across_calls.snapshot())
    return _Seen(found.nodes, found.hash)


def _log(options: dict[str, str], decision: Decision, held: Snapshot) -> None:
    if options["log_level"] not in ("debug", "info"):
        return  # And structlog is not even loaded.
    from distributed_grid.cli.eventlog import write_events
    from distributed_grid.kernel.placement.events import events

    as_json = options["log_format"] == "json"
    write_events(events(decision, held.records()), level=options["log_level"], as_json=as_json)


def _node_named(name: str, nodes: list[NodeRecord]) -> Any:
    found = [node.id for node in nodes if name in (node.id, node.name)]
    if not found:
        raise UnknownName("node", name, known=[node.name for node in nodes[:10]])
    if len(found) > 1:
        raise BadValue(name, expected="the name of one node", remedy="Several have it: use the id")
    return found[0]
