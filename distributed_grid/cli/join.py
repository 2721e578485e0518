"""`grid join`: become one of the machines of a mesh.

Lives here: the command, and what `grid up --join` says too. Never here: where the text of a ticket
comes from (`ticket_text`).
"""

import click

from distributed_grid.cli import ticket_text
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.text import printable
from distributed_grid.client import mesh_calls
from distributed_grid.wire.mesh_api import Joined


@click.command("join")
@click.argument("ticket", required=False, metavar="[TICKET|-|@FILE]")
@json_option
@data_dir_option
def command(*, ticket: str | None, as_json: bool, data_dir: str | None) -> None:
    """Join the mesh of a ticket; joining twice is harmless.

    The ticket is an argument, a line of stdin (-), in a file (@FILE), or in GRID_TICKET.
    """
    text = ticket_text.taken(ticket)
    if text is None:
        raise click.UsageError("which ticket? Give it, - for stdin, @FILE, or set GRID_TICKET")
    with caller(data_dir) as agent:
        joined = agent.run(mesh_calls.join(text))
    if as_json:
        print_json(joined)
    else:
        tell(joined)


def tell(joined: Joined, *, is_data: bool = True) -> None:
    """Say what became of it; to whoever has just let others in, what that means."""
    click.echo(in_a_line(joined), err=not is_data)
    if not joined.was_member:
        click.echo(f"grid: {_meaning(joined)}", err=True)


def _meaning(joined: Joined) -> str:
    """What follows for whom, by whose machine this is now."""
    name, others = printable(joined.person), ", ".join(printable(one) for one in joined.own)
    if set(joined.roles) <= {"guest"}:
        return f"this machine is {name}'s; it lends nothing"
    may = "its members may run jobs here now, as you"
    if not others:
        return f"{may}, on what you lend (grid offer); it is the first machine of {name}"
    return f"{may}: {name}'s {others} on all that is free, others on what you lend (grid offer)"


def in_a_line(joined: Joined) -> str:
    """What became of it."""
    how = "was in" if joined.was_member else "joined"
    nodes = f"{joined.nodes} node{'' if joined.nodes == 1 else 's'}"
    more = "" if joined.is_all else ", and more"
    roles = ", ".join(joined.roles)
    return f"{joined.name} {how} mesh {joined.mesh[:12]} as {roles}: {nodes}{more}"
