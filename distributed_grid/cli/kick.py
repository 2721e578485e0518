"""`grid kick`: a machine out of the mesh, for good."""

import click

from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.nodes import node_names
from distributed_grid.cli.text import printable
from distributed_grid.client import mesh_calls


@click.command("kick")
@click.argument("word", metavar="NODE", shell_complete=node_names)
@json_option
@data_dir_option
def command(*, word: str, as_json: bool, data_dir: str | None) -> None:
    """Revoke a node, by id, name or prefix: nobody talks to it any more, and it stays out.

    Admins may; and of a machine of yours, such as a stolen one, any other of yours. It can come
    back only with another identity (grid up --new-identity) and a ticket.
    """
    with caller(data_dir) as agent:
        node = agent.run(mesh_calls.kick(word))
    if as_json:
        print_json(node)
    else:
        click.echo(
            f"{printable(node.name)} ({node.id[:12]}) is revoked; the others learn of it as they hear"
        )
