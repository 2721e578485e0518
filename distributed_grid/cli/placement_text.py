"""Decisions as people read them: who runs it, who else could, what stands in the way.

Lives here: tables of decisions. Never here: the decisions, or their JSON (`place`).
"""

from collections import Counter
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from distributed_grid.cli import render
from distributed_grid.kernel.placement import Decision, Ranked, Reason, Refusal
from distributed_grid.kernel.placement.skew import SkewMonitor
from distributed_grid.kernel.placement.wishes import WISH_UNIT
from distributed_grid.model import bytesize, duration, milli

ROWS_MAX = 12  # A screen; `--json` has them all.

_KIND_HELP = {
    "capability": "never fits there: other machines, or a smaller job",
    "capacity": "does not fit now: wait, or ask for less",
    "policy": "forbidden by a rule: the job's own words, battery, heat or a filter",
    "stale": "not heard from: raise --max-age, or see whether it is on",
}


def show(decision: Decision, monitor: SkewMonitor, *, standing: str | None = None) -> None:
    """Print a decision."""
    console = render.out()
    console.print(headline(decision))
    if standing:
        console.print(f"  this node is [bold]{standing}[/]")
    if decision.ranked:
        console.print(ranked_table(decision))
    if decision.refused:
        _show_refused(console, decision.refused)
    skewed = [
        (node, share)
        for node, share in monitor.shares().items()
        if share.observed_ppm > 2 * share.expected_ppm
        and monitor.decisions > 10 * len(decision.ranked)
    ]
    if skewed:
        console.print(Text(f"  {len(skewed)} nodes got more than twice their share", "yellow"))


def headline(decision: Decision) -> Text:
    """One line: the job and where it goes."""
    policy = decision.rules.policy.name if decision.rules.policy else "by rank alone"
    fitting, refused = len(decision.ranked), len(decision.refused)
    line = Text(decision.job.name, "bold")
    if decision.best is None:
        line.append(f" fits on none of {refused} nodes", "bold red")
    else:
        line.append(" → ", "dim").append(decision.best.name, "bold green")
        line.append(f"  {fitting} of {fitting + refused} nodes fit", "dim")
    return line.append(f" · {policy} · rank {decision.rules.rank}", "dim")


def ranked_table(decision: Decision) -> Any:
    """The first nodes in order, with what their score is made of."""
    cluster = set(decision.cluster)
    rows = [
        (
            str(place),
            r.name + (" (stale)" if r.is_stale else ""),
            "responsible" if r.id == decision.responsible else "member" if r.id in cluster else "",
            _score(r.score),
            _parts(r),
            r.rank_key[:8],
        )
        for place, r in enumerate(decision.ranked[:ROWS_MAX], 1)
    ]
    left = len(decision.ranked) - len(rows)
    table = render.table("", ("##", "node", "role", "score#", "parts", "rank key"), rows)
    return Group(table, Text(f"  … and {left} more that fit", "dim")) if left > 0 else table


def _score(score: int) -> str:
    """Unmet wishes outweigh everything else: they are told apart from the rest."""
    wishes, rest = divmod(score, WISH_UNIT)
    return f"{rest:,} + {wishes} unmet" if wishes else f"{rest:,}"


def _parts(ranked: Ranked) -> str:
    """Only what costs something; unmet wishes by name, since their weight says nothing."""
    shown = [
        name if value % WISH_UNIT == 0 else f"{name} {value:,}"
        for name, value in ranked.parts.items()
        if value
    ]
    return ", ".join(shown) or "-"


def _show_refused(console: Console, refused: list[Refusal]) -> None:
    rows = [
        (r.name if index == 0 else "", *reason_row(reason))
        for r in refused[:ROWS_MAX]
        for index, reason in enumerate(r.reasons)
    ]
    console.print(render.table("refused", ("node", "what", "wanted#", "has#", "kind"), rows))
    if len(refused) > ROWS_MAX:
        console.print(Text(f"  … and {len(refused) - ROWS_MAX} more that do not fit", "dim"))
    kinds = Counter(kind for r in refused for kind in {reason.kind for reason in r.reasons})
    for kind, count in sorted(kinds.items()):
        nodes = "1 node" if count == 1 else f"{count} nodes"
        console.print(Text(f"  {kind}: {nodes} · {_KIND_HELP[kind]}", "dim"))


def reason_row(reason: Reason) -> tuple[str, str, str, str]:
    """A reason in human units."""
    name, _, rest = reason.what.partition(".")
    label = {"cpu_milli": "cpus", "gpu_milli": "gpus", "memory_bytes": "memory",
             "storage_bytes": "storage", "temperature_centi": "temperature", "latency_us": "latency",
             "age_ms": "age", "battery_percent": "battery"}.get(name, name)  # fmt: skip
    what = f"{label} {rest}" if rest else label
    return what, _amount(name, reason.wanted), _amount(name, reason.has), reason.kind


def _amount(name: str, value: Any) -> str:
    if value is None:
        return "-" if name == "filter" else "unknown"
    match name:
        case "cpu_milli" | "gpu_milli" | "custom":
            return milli.text(value)
        case "memory_bytes" | "storage_bytes":
            return bytesize.text(value)
        case "temperature_centi":
            return f"{value / 100:g} °C"
        case "latency_us":
            return f"{value / 1_000:g} ms"
        case "age_ms":
            return duration.text(value)
        case "battery_percent":
            return f"{value} %"
    if isinstance(value, dict):
        return "not " + _amount(name, value["not"])
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
