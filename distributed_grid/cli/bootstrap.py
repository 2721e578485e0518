"""`grid bootstrap`: bring other machines into the mesh, over ssh.

Lives here: the command, and its steps as lines. Never here: the steps (`bootstrap`).
"""

import os
from contextlib import closing
from functools import partial

import click
from msgspec.structs import replace

from distributed_grid.bootstrap.bringing import Brought, bring
from distributed_grid.bootstrap.connection import HERE, Target
from distributed_grid.bootstrap.packing import Supply
from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.tell import tell
from distributed_grid.client import calls, door
from distributed_grid.config import variables
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.config.settings import find_file
from distributed_grid.errors import GridError


@click.command("bootstrap")
@click.argument("hosts", nargs=-1, metavar="[[USER@]HOST|NAME...]")
@click.option("--name", default="", metavar="NAME", help="Of the node; else the host's.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of its sshd.")
@click.option("--key", default="", metavar="FILE", help="The private key for ssh.")
@click.option("--config", metavar="FILE", help="Whose nodes are meant by their names.")
@json_option
@data_dir_option
def command(
    *,
    hosts: tuple[str, ...],
    name: str,
    port: int | None,
    key: str,
    config: str | None,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Install Grid on other machines over ssh, start it, and let them join the mesh of this one.

    Needs neither root there nor a network beyond ssh, which is the system's, with its
    configuration, keys and jump hosts. Once more changes nothing, or repairs. Names of `nodes` in
    the configuration stand for what it says of them; without any, all of them are brought in.
    """
    brought: list[Brought] = []
    failed: list[GridError] = []
    with caller(data_dir) as agent, closing(Supply()) as supply:
        listed = _listed(config, here=agent.run(calls.status()).name)
        words = hosts or tuple(listed)
        if not words:
            raise click.UsageError("which machine? Name it, or list it under nodes: in a --config")
        if name and len(words) > 1:
            raise click.UsageError("one --name for several machines: bring them in one by one")
        over = {k: v for k, v in (("name", name), ("port", port), ("key", key)) if v}
        targets = [replace(listed.get(word) or Target(host=word), **over) for word in words]
        for target in targets:
            try:
                brought.append(bring(target, agent, supply, say=partial(_say, target.host)))
            except GridError as error:
                if len(words) > 1:
                    tell(f"grid: {error}")
                failed.append(error)
    if as_json:
        print_json(brought)
    else:
        for one in brought:
            click.echo(f"{one.name} {'is' if one.was_member else 'is now'} in the mesh")
    if failed:
        raise failed[0]


def _listed(config: str | None, *, here: str) -> dict[str, Target]:
    """The machines of the configuration beside this one, by name."""
    file = config or os.environ.get(variables.CONFIG) or find_file(".", door.home_of(None).config)
    if file is None:
        return {}
    cluster = ClusterConfig.from_yaml(file)
    others = (node for node in cluster.nodes if node.name != here and node.host not in HERE)
    return {node.name: Target.listed(node, cluster.ssh) for node in others}


def _say(host: str, what: str) -> None:
    tell(f"grid: {host}: {what}")
