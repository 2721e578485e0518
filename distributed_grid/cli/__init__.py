"""The `grid` command: one file per noun, loaded only when it is called.

Lives here: the list of commands, the way errors become one line and an exit code.
Never here: what a command does (its own file), how tables look (`render`).
"""

import gc
import importlib
import os
import sys
from typing import Final

import click

from distributed_grid import __version__
from distributed_grid.errors import GridError

# name -> (module with a `command`, the line that `grid --help` shows without loading it)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "cancel": ("distributed_grid.cli.cancel", "End jobs, or take them out of the queue"),
    "completion": ("distributed_grid.cli.completion", "Teach bash, zsh or fish our words"),
    "config": ("distributed_grid.cli.config", "What is set, and whether a file is good"),
    "demo": ("distributed_grid.cli.demo", "Show Grid at work on this machine"),
    "doctor": ("distributed_grid.cli.doctor", "What is missing on this machine, and how to get it"),
    "down": ("distributed_grid.cli.down", "Stop the agent of this machine"),
    "explain": ("distributed_grid.cli.explain", "Why a job waits, and what would help"),
    "init": ("distributed_grid.cli.init", "Write a commented configuration"),
    "job": ("distributed_grid.cli.job", "Everything that is known of one job"),
    "jobs": ("distributed_grid.cli.jobs", "List jobs, newest first"),
    "logs": ("distributed_grid.cli.logs", "What a job wrote"),
    "place": ("distributed_grid.cli.place", "What would run where, and why not elsewhere"),
    "probe": ("distributed_grid.cli.probe", "What this machine has, and what class it is"),
    "run": ("distributed_grid.cli.run", "Run a command as a job"),
    "status": ("distributed_grid.cli.status", "This node in one glance"),
    "up": ("distributed_grid.cli.up", "Start the agent of this machine"),
    "version": ("distributed_grid.cli.version", "The version of Grid and of Python"),
    "wait": ("distributed_grid.cli.wait", "Wait until jobs have ended"),
}
EXIT_INTERRUPTED: Final = 130  # Ctrl-C, as in a shell.


class LazyGroup(click.Group):
    """A group whose commands are imported when somebody calls them: start-up stays short."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Every command, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        was_enabled = gc.isenabled()
        gc.disable()  # Nothing dies while modules load; looking for it would cost milliseconds.
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        if was_enabled:
            gc.enable()
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
    _open_standard_streams()
    try:
        code = _exit_code()
        sys.stdout.flush()
    except OSError as error:
        # The reader has gone (`grid place … | head`), or its disk is full: no traceback, and none
        # at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            click.echo(
                f"grid: cannot write: {error.strerror}. Make room, or write elsewhere.", err=True
            )
        code = 1
    gc.freeze()  # The memory goes back with the process: no need to look through it first.
    sys.exit(code)


def _open_standard_streams() -> None:
    """What was closed (`>&-`) leads nowhere: else the next socket would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115  (Python made it None)
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115


def _exit_code() -> int:
    try:
        code = grid(prog_name="grid", standalone_mode=False)
    except GridError as error:
        click.echo(f"grid: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0
