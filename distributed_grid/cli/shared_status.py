"""`grid shared-status`: what is offered, what is not and why, what is borrowed (seed 003).

Lives here: the tables, also for `grid offer`. Never here: the dicts (`client.status_dicts`).
"""

from typing import Any

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.nodes import node_names
from distributed_grid.client import across_calls, mesh_calls
from distributed_grid.client.borrowing import SIZES, not_joined
from distributed_grid.client.status_dicts import shared_everywhere
from distributed_grid.model import bytesize, milli
from distributed_grid.model.lending import Offer, Withheld
from distributed_grid.wire.across_api import SharingEverywhere
from distributed_grid.wire.sharing import AllocationView, SharingStatus


@click.command("shared-status")
@click.option("--config", "-c", metavar="FILE", help="Its nodes are shown too.")
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=node_names,
    help="Of this node only.",
)
@json_option
@data_dir_option
def command(*, config: str | None, node: str | None, as_json: bool, data_dir: str | None) -> None:
    """Show what is offered, what is not and why, and what is borrowed, on all nodes of the mesh."""
    listed = _listed(config)
    with caller(data_dir) as agent:
        if node:
            found = SharingEverywhere(nodes=(agent.run(across_calls.sharing_of(node)),))
        else:
            found = agent.run(across_calls.sharing_everywhere())
        mesh = agent.run(mesh_calls.nodes()).nodes if node is None else ()
    others = {one.name: one.offers for one in mesh if not one.is_self and one.health == "alive"}
    said = {one.node for one in found.nodes}
    absent = sorted({*found.nodes[0].not_joined, *listed} - {*said, *others})
    if as_json:
        print_json({**shared_everywhere(found), "elsewhere": others, "not_joined": absent})
        return
    show_offers(*found.nodes)
    show_allocations(*found.nodes)
    for name, offers in sorted(others.items()):  # What they told everyone, if not us.
        lines = ", ".join(map(text.printable, offers)) or "nothing"
        if name not in said:
            click.echo(f"{text.printable(name)}: offers {lines}")
    for name in absent:
        click.echo(f"{name}: {not_joined(name)}")


def show_offers(*nodes: SharingStatus) -> None:
    """The table of offers, or which thresholds stand in the way."""
    rows = [_offer_row(offer, status.node) for status in nodes for offer in status.offers]
    if rows:
        _print("Resource Offers", ["Node", "Type", "Available/Total", "Expires"], rows)
    else:
        click.echo("No resource offers available")
    for status in nodes:
        name = text.printable(status.node)
        if not status.is_enabled:
            click.echo(f"  {name}: lending is switched off (resource_sharing.enabled)")
        for one in status.withheld:
            click.echo(f"  {name}: {text.printable(_withheld(one))}")


def _withheld(one: Withheld) -> str:
    """What stands in the way, with both numbers."""
    if one.threshold == "paused":
        return one.measured
    what = "" if one.kind == "all" else f"{one.kind} {one.device}".rstrip() + ": "
    measured = f", measured {one.measured}" if one.measured else ""
    return f"{what}{one.threshold} is {one.limit}{measured}"


def show_allocations(*nodes: SharingStatus) -> None:
    """The table of what is borrowed."""
    rows = [_allocation_row(one, status.node) for status in nodes for one in status.allocations]
    if not rows:
        click.echo("No active allocations")
        return
    _print("Active Allocations", ["Request ID", "Node", "Type", "Amount", "Expires"], rows)


def amount(kind: str, value: int) -> str:
    """An amount of a kind, with the unit people use."""
    if kind in SIZES:
        return bytesize.text(value)
    many = "" if value == milli.WHOLE else "s"
    unit = {"cpu": f" core{many}", "gpu": f" GPU{many}"}.get(kind, "")
    return f"{milli.text(value)}{unit}"


def _offer_row(offer: Offer, node: str) -> list[str]:
    available = f"{amount(offer.kind, offer.amount)} / {amount(offer.kind, offer.total)}"
    if offer.device:
        available = f"{amount(offer.kind, offer.amount)} {offer.device}"
        if offer.memory_total_bytes:  # Not every driver tells it.
            free, total = offer.memory_free_bytes, offer.memory_total_bytes
            available += f" (VRAM {bytesize.text(free)}/{bytesize.text(total)})"
    return [node, offer.kind, available, text.moment(offer.expires_ms)]


def _allocation_row(one: AllocationView, node: str) -> list[str]:
    devices = f" ({', '.join(one.devices)})" if one.devices else ""
    expires = text.moment(one.expires_ms) if one.expires_ms else "when it ends"
    held = f"{amount(one.kind, one.amount)}{devices}{', suspended' if one.is_suspended else ''}"
    return [f"{one.name} {one.request_id[:12]}", node, one.kind, held, expires]


def _print(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from distributed_grid.cli import render

    cut, spare = ("Available/Total", "Amount", "Request ID"), ("Expires",)
    table: Any = render.table(title, columns, rows, cut=cut, spare=spare)
    render.out().print(table)


def _listed(config: str | None) -> set[str]:
    if config is None:
        return set()
    from distributed_grid.config.cluster_config import ClusterConfig

    return {node.name for node in ClusterConfig.from_yaml(config).nodes}
