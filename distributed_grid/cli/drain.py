"""`grid drain`: give a node's work to the others before it goes."""

import click

from distributed_grid.cli.agent import caller, data_dir_option, json_option, print_json
from distributed_grid.cli.nodes import node_names
from distributed_grid.cli.text import printable
from distributed_grid.client import across_calls
from distributed_grid.wire.across_api import DrainView


@click.command("drain")
@click.argument("word", metavar="NODE", shell_complete=node_names)
@click.option("--now", is_flag=True, help="Let nothing run to its end that can be started again.")
@click.option("--wait", is_flag=True, help="Until nothing is left there.")
@json_option
@data_dir_option
def command(*, word: str, now: bool, wait: bool, as_json: bool, data_dir: str | None) -> None:
    """Let a node, by id, name or prefix, take no more work, and give away what it has.

    What waits there goes to other nodes at once. Of what runs, all that can save its state leaves,
    and what other nodes began there less than a minute ago; the rest ends there. With --now it is
    started again elsewhere, from its beginning, unless it may run at most once or refuses to give
    way. The node stays drained, also after a restart, until: grid undrain. Its owner's machines and
    admins may do that.
    """
    with caller(data_dir) as agent:
        view = agent.run(across_calls.drain(word, timeout_ms=None if wait else 0, now=now))
    show(view, as_json=as_json)


def show(view: DrainView, *, as_json: bool) -> None:
    """How far it is, in a line."""
    if as_json:
        print_json(view)
        return
    name = printable(view.name)
    match view.state:
        case "drained":
            click.echo(f"{name} is drained: it has no work, and takes none")
        case "draining":
            left = f"{view.jobs_running} running, {view.jobs_waiting} waiting"
            if view.jobs_leaving:  # Whoever turns it off now loses them.
                left += f", {view.jobs_leaving} ended and not all brought home yet"
            click.echo(f"{name} is being drained: {left}")
        case "open":
            click.echo(f"{name} takes work")
