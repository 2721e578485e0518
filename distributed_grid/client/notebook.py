"""What a notebook shows of jobs, nodes and a cluster: tables.

Lives here: their columns, and the HTML. Never here: asking for them (`cluster`).
Invariant: whatever a job or a node calls itself, no markup of it reaches the page.
"""

import html
from collections.abc import Iterable
from typing import Any, TypeVar

from distributed_grid.model import bytesize, milli
from distributed_grid.wire.api import JobView
from distributed_grid.wire.mesh_api import NodeView

T = TypeVar("T", JobView, NodeView)


class Table(tuple[T, ...]):
    """What was asked for, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [_job(one) if isinstance(one, JobView) else _node(one) for one in self]
        heads = _cells("th", rows[0]) if rows else ""
        lines = "".join(f"<tr>{_cells('td', row.values())}</tr>" for row in rows)
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _cells(tag: str, words: Iterable[Any]) -> str:
    return "".join(f"<{tag}>{html.escape(str(word))}</{tag}>" for word in words)


def _job(job: JobView) -> dict[str, Any]:
    done = (
        "" if job.array is None else f" {job.array.succeeded + job.array.failed}/{job.array.total}"
    )
    return {
        "id": job.id[:12],
        "name": job.name,
        "state": f"{job.state}{done}",
        "node": job.node or "",
        "exit": "" if job.exit_code is None else job.exit_code,
        "reason": job.reason,
    }


def _node(node: NodeView) -> dict[str, Any]:
    return {
        "name": f"{node.name} *" if node.is_self else node.name,
        "health": node.health,
        "cores free": f"{milli.text(node.cpu_milli_free)}/{milli.text(node.cpu_milli_total)}",
        "memory free": f"{bytesize.text(node.memory_bytes_free)}/"
        f"{bytesize.text(node.memory_bytes_total)}",
        "GPUs": f"{node.gpus_total} {' '.join(node.gpu_models)}".strip(),
        "jobs": node.jobs_running,
        "note": node.note or node.why,
    }
