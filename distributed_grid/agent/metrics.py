"""Figures for Prometheus.

Lives here: what is counted. They are read from the kernel when somebody asks, not kept beside it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from distributed_grid.kernel.node import Node


def metrics_text(node: Node, *, ended: Counter[str], more: Iterable[str] = ()) -> bytes:
    """The text format of Prometheus, version 0.0.4."""
    return "".join(f"{line}\n" for line in (*_lines(node, ended), *more)).encode()


def _lines(node: Node, ended: Counter[str]) -> Iterator[str]:
    total, free = node.ledger.total, node.ledger.free()
    states = Counter(job.state for job in node.coordinator.jobs.values() if not job.has_ended)
    yield from _gauge("grid_jobs", "Unfinished jobs by state", {
        f'state="{state}"': states[state] for state in ("waiting", "running")
    })  # fmt: skip
    yield from _gauge("grid_queue_length", "Jobs that wait for resources", {
        "": len(node.coordinator.host.line)
    })  # fmt: skip
    yield from _gauge("grid_leases", "Leases that hold something", {"": len(node.ledger.leases)})
    for what in ("cpu_milli", "memory_bytes"):
        yield from _gauge(f"grid_{what}", f"{what} of this node", {
            'kind="total"': getattr(total, what), 'kind="free"': getattr(free, what)
        })  # fmt: skip
    yield from _gauge("grid_gpu_milli", "GPU shares of this node", {
        'kind="total"': sum(gpu.share_milli for gpu in total.gpus),
        'kind="free"': sum(gpu.share_milli for gpu in free.gpus),
    })  # fmt: skip
    yield "# HELP grid_jobs_ended_total Jobs that ended since the agent started"
    yield "# TYPE grid_jobs_ended_total counter"
    for state in sorted(ended):
        yield f'grid_jobs_ended_total{{state="{state}"}} {ended[state]}'


def _gauge(name: str, help_text: str, values: dict[str, int]) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} gauge"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
