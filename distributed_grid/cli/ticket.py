"""`grid ticket`: let others in, see who was let in, take it back.

Lives here: the one line on stdout, the picture of it and the words beside it. Never here: what is
in a ticket (`wire.ticket`).
Invariant: stdout holds the ticket and nothing else, so that it can be piped; the ticket is on
stderr only as a picture, and only if a person looks at it.
"""

import os
import sys
from typing import Any, Final

import click

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import mesh_calls
from distributed_grid.errors import GridError
from distributed_grid.model.membership import ROLES
from distributed_grid.wire.mesh_api import TICKET_USES_MAX, TicketMade, TicketView

COLUMNS_USUAL: Final = 80
QUIET_MODULES: Final = 2  # Around a QR code: four in the norm, two for every reader of today.


def _open_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For completion in a shell; none if nobody answers."""
    del param
    try:
        with caller(ctx.params.get("data_dir")) as agent:
            found = agent.run(mesh_calls.tickets()).tickets
    except GridError:
        return []
    return [one.id for one in found if one.state == "open" and one.id.startswith(incomplete)]


@click.group("ticket", invoke_without_command=True)
@click.option(
    "--role", type=click.Choice(ROLES), default="member", show_default=True, help="Of who joins."
)
@click.option(
    "--ttl", default="24h", show_default=True, metavar="SPAN", help="How long it is good."
)
@click.option(
    "--uses",
    type=click.IntRange(1, TICKET_USES_MAX),
    default=1,
    show_default=True,
    help="How many may join with it.",
)
@click.option(
    "--for",
    "person",
    default="",
    metavar="NAME",
    help="Whose machine it will be: somebody else's, by a new name or id:DIGITS; else yours.",
)
@json_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, /, *, data_dir: str | None, as_json: bool, **wanted: Any) -> None:
    """Print a ticket, one line, for another machine of yours to join with; keep it secret.

    Your machines use each other as one; with --for NAME the machine is somebody else's, and both
    sides only lend (see grid offer). The first one founds the mesh. member: submit and lend;
    worker: lend only; guest: submit only; admin: also issue tickets and revoke nodes.
    """
    if ctx.invoked_subcommand is not None:
        return
    with caller(data_dir) as agent:
        made = agent.run(mesh_calls.ticket(**wanted))
    if as_json:
        print_json(made)
        return
    click.echo(made.text)
    if made.recovery_file:
        click.echo(
            f"grid: founded a mesh; keep a copy of {made.recovery_file} elsewhere: with it alone"
            " the mesh can be recovered",
            err=True,
        )
    if sys.stderr.isatty():
        _show(made)


@command.command("list")
@json_option
@data_dir_option
def listing(*, as_json: bool, data_dir: str | None) -> None:
    """List the tickets that this node issued, without their secrets."""
    with caller(data_dir) as agent:
        found = agent.run(mesh_calls.tickets()).tickets
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("grid: no tickets; make one with: grid ticket", err=True)
        return
    from distributed_grid.cli import render

    columns = ["id", "for", "role", "state", "uses#", "made", "expires", "used by"]
    rows = [_row(ticket) for ticket in found]
    spare = ("made", "role", "used by")
    render.out().print(render.table("", columns, rows, cut=("used by", "for"), spare=spare))


@command.command("revoke")
@click.argument("ticket_id", metavar="ID", shell_complete=_open_ids)
@json_option
@data_dir_option
def revoke(*, ticket_id: str, as_json: bool, data_dir: str | None) -> None:
    """Void a ticket; whoever joined with it stays (see grid kick)."""
    with caller(data_dir) as agent:
        ticket = agent.run(mesh_calls.revoke_ticket(ticket_id))
    if as_json:
        print_json(ticket)
    else:
        used = f", {len(ticket.used_by)} joined with it" if ticket.used_by else ""
        click.echo(f"ticket {ticket.id} is {ticket.state}{used}")


def _row(ticket: TicketView) -> list[str]:
    return [
        ticket.id,
        ticket.person,
        ticket.role,
        ticket.state,
        f"{len(ticket.used_by)}/{ticket.uses_max}",
        text.moment(ticket.made_ms),
        text.moment(ticket.expires_ms),
        ", ".join(ticket.used_by),
    ]


def _show(made: TicketMade) -> None:
    """A picture for cameras, and what to do next."""
    code = _picture(made.text)
    if code is not None:
        click.echo(code, err=True, nl=False)
    whose = "yours" if made.is_own else f"{made.person}'s"
    many = f"{made.uses} machines of {whose}" if made.uses > 1 else f"one machine of {whose}"
    click.echo(
        f"\ngrid: on the other machine: grid join, then the line above; or grid up --join -\n"
        f"grid: {many} can join as {made.role} until {text.moment(made.expires_ms)};"
        f" take it back with: grid ticket revoke {made.id}",
        err=True,
    )


def _picture(line: str) -> str | None:
    """The ticket as a QR code; None where the terminal cannot show it."""
    encoding = (getattr(sys.stderr, "encoding", None) or "").lower()
    if os.environ.get("TERM") == "dumb" or not encoding.startswith("utf"):
        return None
    import io

    import segno

    try:
        # In capitals, which mean the same and take a third less: what phones read, and 80 columns.
        code = segno.make(line.upper(), error="l", micro=False)
    except segno.DataOverflowError:
        return None
    width, _ = code.symbol_size(border=QUIET_MODULES)
    columns = os.get_terminal_size(sys.stderr.fileno()).columns
    if width > (columns or COLUMNS_USUAL):  # 0: it does not say.
        return None
    drawn = io.StringIO()
    code.terminal(drawn, border=QUIET_MODULES, compact=True)
    return drawn.getvalue()
