"""`grid rename`: another name for this machine."""

import click

from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.client import mesh_calls


@click.command("rename")
@click.argument("name")
@json_option
@data_dir_option
def command(*, name: str, as_json: bool, data_dir: str | None) -> None:
    """Call this node NAME, here and in the mesh; its id and its place in the mesh stay."""
    with caller(data_dir) as agent:
        node = agent.run(mesh_calls.rename(name))
    if as_json:
        print_json(node)
    else:
        click.echo(f"{node.id[:12]} is called {node.name}" if node.id else f"it is {node.name} now")
