"""`grid undrain`: let a node take work again."""

import click

from distributed_grid.cli.agent import caller, data_dir_option, json_option
from distributed_grid.cli.drain import show
from distributed_grid.cli.nodes import node_names
from distributed_grid.client import across_calls


@click.command("undrain")
@click.argument("word", metavar="NODE", shell_complete=node_names)
@json_option
@data_dir_option
def command(*, word: str, as_json: bool, data_dir: str | None) -> None:
    """Let a node, by id, name or prefix, take work again after: grid drain."""
    with caller(data_dir) as agent:
        view = agent.run(across_calls.undrain(word))
    show(view, as_json=as_json)
