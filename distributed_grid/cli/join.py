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
        click.echo(f"grid: {whose(joined)}", err=True)
    if not joined.was_member and set(joined.roles) - {"guest"}:
        click.echo(
            "grid: its members may run jobs here now, as you, as far as you lend;"
            " to lend nothing: grid offer nothing",
            err=True,
        )


def whose(joined: Joined) -> str:
    """What it means to whom the machine belongs."""
    name = printable(joined.person)
    if not joined.own:
        return f"this is the first machine of {name}: other people's use what it lends, no more"
    others = ", ".join(printable(one) for one in joined.own)
    return f"this machine is {name}'s, as is {others}: they use all that is free here, and it there"


def in_a_line(joined: Joined) -> str:
    """What became of it."""
    how = "was in" if joined.was_member else "joined"
    nodes = f"{joined.nodes} node{'' if joined.nodes == 1 else 's'}"
    more = "" if joined.is_all else ", and more"
    roles = ", ".join(joined.roles)
    return f"{joined.name} {how} mesh {joined.mesh[:12]} as {roles}: {nodes}{more}"
