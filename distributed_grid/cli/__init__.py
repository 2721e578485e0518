"""The `grid` command: one file per noun, loaded only when it is called.

Lives here: the list of commands, the way errors become one line and an exit code.
Never here: what a command does (its own file), how tables look (`render`).
"""

import importlib
import os
import sys
from typing import Final

import click

from distributed_grid import __version__
from distributed_grid.errors import GridError

# name -> (module with a `command`, the line that `grid --help` shows without loading it)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("distributed_grid.cli.demo", "Show Grid at work on this machine"),
    "place": ("distributed_grid.cli.place", "What would run where, and why not elsewhere"),
    "probe": ("distributed_grid.cli.probe", "What this machine has, and what class it is"),
    "version": ("distributed_grid.cli.version", "The version of Grid and of Python"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when somebody calls them: start-up stays short."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Every command, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list in `grid --help`, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="grid", message="%(prog)s %(version)s")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="warning",
    show_default=True,
    envvar="GRID_LOG_LEVEL",
    help="How much is told on stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    show_default=True,
    envvar="GRID_LOG_FORMAT",
    help="Whether it is told to people or to programs.",
)
@click.pass_context
def grid(ctx: click.Context, log_level: str, log_format: str) -> None:
    """One computer out of many."""
    ctx.obj = {"log_level": log_level, "log_format": log_format}


def main() -> None:
    """Run `grid`; every error of ours is one line on stderr and an exit code."""
    try:
        grid(prog_name="grid")
    except GridError as error:
        click.echo(f"grid: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader has gone (`grid place … | head`): no traceback, and none at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
