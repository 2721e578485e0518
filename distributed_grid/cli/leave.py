"""`grid leave`: this machine alone again."""

import sys

import click

from distributed_grid.cli.agent import caller, data_dir_option
from distributed_grid.client import mesh_calls
from distributed_grid.errors import NotInMesh


@click.command("leave")
@click.option("--force", is_flag=True, help="Without asking; also if no admin is left behind.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, *, force: bool, data_dir: str | None) -> None:
    """Leave the mesh, and say goodbye to the others. It takes a ticket to come back."""
    with caller(data_dir) as agent:
        here = agent.run(mesh_calls.nodes())
        if not here.mesh:
            raise NotInMesh
        name = here.nodes[0].name
        if not force and sys.stdin.isatty() and not _is_meant(name, len(here.nodes) - 1):
            click.echo(f"grid: {name} stays", err=True)
            ctx.exit(1)
        parted = agent.run(mesh_calls.leave(force=force))
    click.echo(f"{name} has left mesh {here.mesh[:12]}")
    if not parted.is_heard:
        click.echo("grid: nobody heard the goodbye: to the others it looks dead", err=True)


def _is_meant(name: str, others: int) -> bool:
    question = f"{name} leaves {others} other node{'' if others == 1 else 's'}. Leave?"
    return click.confirm(question, err=True)
