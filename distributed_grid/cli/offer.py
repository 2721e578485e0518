"""`grid offer`: the owner's word on lending, and bookings.

Lives here: options, and what is shown. Never here: what a term may be (`config`), whether two
bookings conflict (`kernel.bookings`).
"""

import re
from typing import Any

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.nodes import ownership
from distributed_grid.cli.shared_status import amount, show_allocations, show_offers
from distributed_grid.client import importance, mesh_calls, sharing_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import Wishes, request_of, resource_pair
from distributed_grid.model import duration
from distributed_grid.model.booking import Booking
from distributed_grid.model.resources import Request
from distributed_grid.wire.sharing import ChangeOffers, SharingStatus


@click.group("offer", invoke_without_command=True)
@json_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, data_dir: str | None) -> None:
    """What this machine lends: show it, pause it, change it, keep some for somebody."""
    if ctx.invoked_subcommand is None:
        _show(data_dir, as_json=as_json)


@command.command("show")
@json_option
@data_dir_option
def show(*, as_json: bool, data_dir: str | None) -> None:
    """Show what is offered, what is borrowed, what is booked, and what the owner uses."""
    _show(data_dir, as_json=as_json)


@command.command("pause")
@click.option("--for", "span", metavar="SPAN", help="2h; else until `grid offer resume`.")
@json_option
@data_dir_option
def pause(*, span: str | None, as_json: bool, data_dir: str | None) -> None:
    """Lend nothing for a while; borrowed work gives way."""
    for_ms = 0 if span is None else duration.parse(span)
    _change(ChangeOffers(action="pause", for_ms=for_ms), data_dir, as_json=as_json)


@command.command("resume")
@json_option
@data_dir_option
def resume(*, as_json: bool, data_dir: str | None) -> None:
    """Lend again."""
    _change(ChangeOffers(action="resume"), data_dir, as_json=as_json)


@command.command("set")
@click.argument("key")
@click.argument("value")
@json_option
@data_dir_option
def set_term(*, key: str, value: str, as_json: bool, data_dir: str | None) -> None:
    """Set one term, as below `resource_sharing` in the file, until `grid offer reset`.

    For example: grid offer set thresholds.cpu_percent_max 50
    """
    change = ChangeOffers(action="set", key=key.removeprefix("resource_sharing."), value=value)
    _change(change, data_dir, as_json=as_json)


@command.command("reset")
@json_option
@data_dir_option
def reset(*, as_json: bool, data_dir: str | None) -> None:
    """Forget every preset and term that was set here: as the configuration says again."""
    _change(ChangeOffers(action="reset"), data_dir, as_json=as_json)


def _preset(name: str, help_text: str) -> None:
    @command.command(name, help=help_text)
    @json_option
    @data_dir_option
    def preset(*, as_json: bool, data_dir: str | None) -> None:
        change = ChangeOffers(action="set", key="preset", value=name)
        _change(change, data_dir, as_json=as_json)


_preset("mine", "Lend nothing to others: only my own machines use this one.")
_preset("idle", "Lend what is idle, by the default thresholds; borrowed work gives way to me.")
_preset("all", "Lend all that is free, whatever the load: for a machine that nobody sits at.")
_preset("nothing", "Lend nothing.")


@command.command("reserve")
@click.argument("name")
@click.option("--from", "begin", required=True, metavar="TIME", help="14:00, +2h, tomorrow 8:00.")
@click.option("--until", "end", required=True, metavar="TIME", help="When it ends.")
@click.option("--cpus", default="0", metavar="N", help="Cores.")
@click.option("--memory", default="0", metavar="SIZE", help="16GiB.")
@click.option("--storage", default="0", metavar="SIZE", help="Disk space.")
@click.option("--gpus", metavar="N|MODEL:N", help="2, or H100:2.")
@click.option("--resource", "resources", multiple=True, metavar="KIND=N", help="A custom kind.")
@click.option("--user", default="", metavar="NAME", help="For this person's jobs.")
@click.option("--project", default="", metavar="NAME", help="For the jobs of this project.")
@json_option
@data_dir_option
def reserve(**told: Any) -> None:
    """Keep resources for somebody, or for whoever names them: grid run --booking NAME."""
    request = request_of(
        Wishes(
            cpus=told["cpus"],
            memory=told["memory"],
            storage=told["storage"],
            gpus=told["gpus"],
            resources=dict(resource_pair(word) for word in told["resources"]),
        )
    )
    if request == Request():
        raise click.UsageError("say what to keep: --cpus, --memory, --gpus or --resource")
    from_ms = importance.moment_ms(told["begin"])
    booking = Booking(
        name=importance.word(told["name"], "booking"),
        request=request,
        from_ms=from_ms,
        until_ms=_end_ms(told["end"], from_ms),
        user=importance.word(told["user"], "user"),
        project=importance.word(told["project"], "project"),
    )
    with caller(told["data_dir"]) as agent:
        agent.run(sharing_calls.book(booking))
    if told["as_json"]:
        print_json(booking)
    else:
        click.echo(_booking_line(booking))


@command.command("release")
@click.argument("name")
@data_dir_option
def release(*, name: str, data_dir: str | None) -> None:
    """Give a booking back."""
    with caller(data_dir) as agent:
        agent.run(sharing_calls.cancel_booking(name))
    click.echo(f"{name} is released", err=True)


def _end_ms(told: str, from_ms: int) -> int:
    """When a booking ends: a time of the day is the next one after it begins."""
    until_ms = importance.moment_ms(told)
    if until_ms <= from_ms and re.fullmatch(r"\s*[0-9:]+\s*", told):
        return importance.moment_ms(told, after_ms=from_ms)
    return until_ms


def _change(change: ChangeOffers, data_dir: str | None, *, as_json: bool) -> None:
    with caller(data_dir) as agent:
        status = agent.run(sharing_calls.change_offers(change))
        _print(status, agent, as_json=as_json)


def _show(data_dir: str | None, *, as_json: bool) -> None:
    with caller(data_dir) as agent:
        status = agent.run(sharing_calls.sharing())
        _print(status, agent, as_json=as_json)


def _print(status: SharingStatus, agent: Caller, *, as_json: bool) -> None:
    if as_json:
        print_json(status)
        return
    if whose := ownership(agent.run(mesh_calls.nodes())):
        click.echo(whose)
    until = status.paused_until_ms
    text.pairs(
        [
            ("node", status.node),
            ("lending", status.state + (f" until {text.moment(until)}" if until else "")),
            ("mode", status.mode),
            ("policy", status.policy),
            *([("set here", _words(status))] if status.words else []),
            ("owner uses", _owner(status)),
        ]
    )
    show_offers(status)
    show_allocations(status)
    for booking in status.bookings:
        click.echo(_booking_line(booking))


def _words(status: SharingStatus) -> str:
    told = ", ".join(f"{key} {value}" for key, value in status.words)
    return f"{told}; back to the configuration: grid offer reset"


def _owner(status: SharingStatus) -> str:
    use = status.owner
    if use is None:
        return "nothing was measured yet"
    parts = [f"{use.cpu_used_milli // 10} % of the cores"]
    parts.append(f"{use.memory_used_milli // 10} % of the memory")
    parts += [f"{share // 10} % of {device}" for device, share in use.gpu_used_milli]
    if use.idle_ms is not None:
        parts.append(f"last touched {duration.text(use.idle_ms)} ago")
    return ", ".join(parts)


def _booking_line(booking: Booking) -> str:
    request = booking.request
    parts = [amount("cpu", request.cpu_milli)] if request.cpu_milli else []
    parts += [amount("memory", request.memory_bytes)] if request.memory_bytes else []
    parts += [amount("storage", request.storage_bytes)] if request.storage_bytes else []
    parts += [amount("gpu", request.gpus.milli)] if request.gpus else []
    parts += [f"{amount(kind, count)} {kind}" for kind, count in request.custom]
    whom = booking.user or booking.project or f"--booking {booking.name}"
    when = f"{text.moment(booking.from_ms)} to {text.moment(booking.until_ms)}"
    return f"{booking.name}: {', '.join(parts)} for {whom}, {when}"
