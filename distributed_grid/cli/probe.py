"""`grid probe`: what this machine has, what class it is and why, and what is not known.

Lives here: options, JSON. Never here: how it looks (`probe_text`), what is read (`edges.probe`).
"""

import os
import time

import click
import msgspec

from distributed_grid.errors import BadInput
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.node_class import AnyNodeClass
from distributed_grid.model.resources import Resources


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True, rename={"node_class": "class"}):
    """What `grid probe --json` prints, beside the fields of the profile itself."""

    node_class: AnyNodeClass
    class_reason: str
    elapsed_ms: int
    total: Resources
    free: Resources


@click.command("probe")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--full", is_flag=True, help="Measure the compute score for a second, on all cores.")
@click.option(
    "--root", default="/", metavar="DIR", help="Read the machine whose files are below DIR."
)
@click.option("--pretend", metavar="FILE", help="Lay the hardware pretended in FILE over it.")
@click.option("--nvml", metavar="LIBRARY", hidden=True, help="Ask the NVML at this path.")
def command(*, as_json: bool, full: bool, root: str, pretend: str | None, nvml: str | None) -> None:
    """Show what this machine has, and what class it is."""
    started_ns = time.monotonic_ns()
    _check_root(root)
    # Imported here, so that the elapsed time honestly counts it and `--help` does not pay for it.
    from distributed_grid.config.pretend import find_pretend
    from distributed_grid.edges.probe.machine import profile
    from distributed_grid.kernel.classification import classify_with_reason

    # The configuration of this directory is about this machine, not about a tree of files.
    told = find_pretend(pretend) if pretend is not None or os.path.realpath(root) == "/" else None
    hardware = profile(root, full=full, pretend=told, nvml_library=nvml)
    node_class, reason = classify_with_reason(hardware)
    report = ProbeReport(
        node_class=node_class,
        class_reason=reason,
        total=hardware.total(),
        free=hardware.free(),
        elapsed_ms=(time.monotonic_ns() - started_ns) // 1_000_000,
    )
    if as_json:
        click.echo(msgspec.json.encode(as_one_object(report, hardware)))
    else:
        from distributed_grid.cli import probe_text, render

        probe_text.show(render.out(), hardware, report)


def as_one_object(report: ProbeReport, hardware: HardwareProfile) -> dict[str, object]:
    """The report and the profile in one flat object."""
    return {**msgspec.to_builtins(report), **msgspec.to_builtins(hardware)}


def _check_root(root: str) -> None:
    if os.path.isdir(root):  # noqa: PTH112  (pathlib costs 10 ms of start)
        return
    problem = "is not a directory" if os.path.lexists(root) else "does not exist"
    raise BadInput(
        root, path="--root", problem=problem, remedy="Give the directory that holds proc and sys"
    )
