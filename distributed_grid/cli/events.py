"""`grid events`: what happened, and what happens, one line each."""

from typing import Any, Final

import click
import msgspec

from distributed_grid.cli import text
from distributed_grid.cli.agent import caller, data_dir_option
from distributed_grid.client.streams import Events
from distributed_grid.errors import NoAgent
from distributed_grid.model.ids import ID_DIGITS
from distributed_grid.wire.api import Event

OVER: Final = "grid: no more events: the agent was stopped, or this was read too slowly"
ID_SHOWN: Final = 12  # Digits: enough to name it in another command.


@click.command("events")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, *, follow: bool, as_json: bool, data_dir: str | None) -> None:
    """Show what happened since the agent started: to jobs, to this node, in the mesh.

    With --follow it goes on over a crash of the agent, and ends with exit code 4 when the agent is
    stopped.
    """
    with caller(data_dir) as agent:
        for event in agent.stream(Events(after=0, follow=follow)):
            click.echo(msgspec.json.encode(event) if as_json else in_a_line(event))
    if follow:  # Nobody asked it to end.
        click.echo(OVER, err=True)
        ctx.exit(NoAgent.exit_code)


def in_a_line(event: Event) -> str:
    """When, what, to whom, and the rest as NAME=VALUE."""
    fields = dict(event.fields)
    whom = [fields.pop("name", ""), fields.pop("node", ""), event.job]
    rest = [f"{key}={_plain(value)}" for key, value in fields.items() if value not in (None, "")]
    words = [
        text.moment(event.at_ms),
        event.name.ljust(17),
        *(_plain(one) for one in whom if one),
        *rest,
    ]
    return "  ".join(words).rstrip()


def _plain(value: Any) -> str:
    """A value in one piece; what would not print, or would look like two, is quoted."""
    if isinstance(value, str):
        if len(value) == ID_DIGITS and value.isalnum():
            return value[:ID_SHOWN]
        is_one = value.isprintable() and " " not in value
        return value if is_one else msgspec.json.encode(text.printable(value)).decode()
    return text.printable(msgspec.json.encode(value).decode())
