"""`grid shared-status`: what is offered, what is not and why, what is borrowed (seed 003).

Lives here: the tables, also for `grid offer`. Never here: the dicts (`client.status_dicts`).
"""

from typing import Any

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import sharing_calls
from distributed_grid.client.borrowing import SIZES, not_joined
from distributed_grid.client.status_dicts import shared_status
from distributed_grid.model import bytesize, milli
from distributed_grid.model.lending import Offer, Withheld
from distributed_grid.wire.sharing import AllocationView, SharingStatus


@click.command("shared-status")
@click.option("--config", "-c", metavar="FILE", help="Its nodes are shown too.")
@json_option
@data_dir_option
def command(*, config: str | None, as_json: bool, data_dir: str | None) -> None:
    """Show what is offered, what is not and why, and what is borrowed."""
    listed = _listed(config)
    with caller(data_dir) as agent:
        status = agent.run(sharing_calls.sharing())
    absent = sorted({*status.not_joined, *listed} - {status.node})
    if as_json:
        print_json({**shared_status(status), "not_joined": absent})
        return
    show_offers(status)
    show_allocations(status)
    for name in absent:
        click.echo(f"{name}: {not_joined(name)}")


def show_offers(status: SharingStatus) -> None:
    """The table of offers, or which thresholds stand in the way."""
    if status.offers:
        rows = [_offer_row(offer, status.node) for offer in status.offers]
        _print("Resource Offers", ["Node", "Type", "Available/Total", "Expires"], rows)
    else:
        click.echo("No resource offers available")
    if not status.is_enabled:
        click.echo(f"  {status.node}: lending is switched off (resource_sharing.enabled)")
    for one in status.withheld:
        click.echo(f"  {status.node}: {_withheld(one)}")


def _withheld(one: Withheld) -> str:
    """What stands in the way, with both numbers."""
    if one.threshold == "paused":
        return one.measured
    what = "" if one.kind == "all" else f"{one.kind} {one.device}".rstrip() + ": "
    measured = f", measured {one.measured}" if one.measured else ""
    return f"{what}{one.threshold} is {one.limit}{measured}"


def show_allocations(status: SharingStatus) -> None:
    """The table of what is borrowed."""
    if not status.allocations:
        click.echo("No active allocations")
        return
    rows = [_allocation_row(one, status.node) for one in status.allocations]
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

    table: Any = render.table(title, columns, rows)
    render.out().print(table)


def _listed(config: str | None) -> set[str]:
    if config is None:
        return set()
    from distributed_grid.config.cluster_config import ClusterConfig

    return {node.name for node in ClusterConfig.from_yaml(config).nodes}
