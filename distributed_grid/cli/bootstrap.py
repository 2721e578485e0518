"""`grid bootstrap`: bring other machines into the mesh, over ssh.

Lives here: the command, and its steps as lines. Never here: the steps (`bootstrap`).
"""

from contextlib import closing
from functools import partial

import click

from distributed_grid.bootstrap.bringing import Brought, bring
from distributed_grid.bootstrap.connection import Target
from distributed_grid.bootstrap.packing import Supply
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.tell import tell
from distributed_grid.errors import GridError


@click.command("bootstrap")
@click.argument("hosts", nargs=-1, required=True, metavar="[USER@]HOST...")
@click.option("--name", default="", metavar="NAME", help="Of the node; else the host's.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of its sshd.")
@click.option("--key", default="", metavar="FILE", help="The private key for ssh.")
@json_option
@data_dir_option
def command(
    *,
    hosts: tuple[str, ...],
    name: str,
    port: int | None,
    key: str,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Install Grid on other machines over ssh, start it, and let them join the mesh of this one.

    Needs Python 3.11 there, neither root nor a network beyond ssh. Once more changes nothing, or
    repairs. ssh is the system's, with its configuration, keys and jump hosts.
    """
    if name and len(hosts) > 1:
        raise click.UsageError("one --name for several machines: bring them in one by one")
    targets = [Target(host=host, name=name, port=port or 0, key=key) for host in hosts]
    brought: list[Brought] = []
    failed: list[GridError] = []
    with caller(data_dir) as agent, closing(Supply()) as supply:
        for target in targets:
            try:
                brought.append(bring(target, agent, supply, say=partial(_say, target.host)))
            except GridError as error:
                if len(hosts) > 1:
                    tell(f"grid: {error}")
                failed.append(error)
    if as_json:
        print_json(brought)
    else:
        for one in brought:
            click.echo(f"{one.name} {'is' if one.was_member else 'is now'} in the mesh")
    if failed:
        raise failed[0]


def _say(host: str, what: str) -> None:
    tell(f"grid: {host}: {what}")
