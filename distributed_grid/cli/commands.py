"""The commands of `grid`, and the options before them; each is loaded only when it is called.

Never here: what a command does (its own file), what becomes of errors (`cli.main`).
"""

from typing import Final

import click

from distributed_grid import __version__
from distributed_grid.cli import loaded

# name -> (module with a `command`, the line that `grid --help` shows without loading it)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "bootstrap": ("distributed_grid.cli.bootstrap", "Bring other machines in, over ssh"),
    "cache": ("distributed_grid.cli.cache", "The files that travelled with jobs, kept"),
    "cancel": ("distributed_grid.cli.cancel", "End jobs, or take them out of the queue"),
    "completion": ("distributed_grid.cli.completion", "Teach bash, zsh or fish our words"),
    "config": ("distributed_grid.cli.config", "What is set, and whether a file is good"),
    "demo": ("distributed_grid.cli.demo", "Show Grid at work on this machine"),
    "doctor": ("distributed_grid.cli.doctor", "What is missing on this machine, and how to get it"),
    "down": ("distributed_grid.cli.down", "Stop the agent of this machine"),
    "drain": ("distributed_grid.cli.drain", "Give a node's work away before it goes"),
    "events": ("distributed_grid.cli.events", "What happened, and what happens"),
    "explain": ("distributed_grid.cli.explain", "Why a job waits, and what would help"),
    "init": ("distributed_grid.cli.init", "Write a commented configuration"),
    "job": ("distributed_grid.cli.job", "Everything that is known of one job"),
    "jobs": ("distributed_grid.cli.jobs", "List jobs, newest first"),
    "join": ("distributed_grid.cli.join", "Join the mesh of a ticket"),
    "kick": ("distributed_grid.cli.kick", "Remove a node from the mesh, for good"),
    "leave": ("distributed_grid.cli.leave", "Leave the mesh"),
    "logs": ("distributed_grid.cli.logs", "What a job wrote"),
    "nodes": ("distributed_grid.cli.nodes", "Who is in the mesh, and how they are"),
    "offer": ("distributed_grid.cli.offer", "What this machine lends, to whom, and when"),
    "outputs": ("distributed_grid.cli.outputs", "Fetch the files that a job left behind"),
    "place": ("distributed_grid.cli.place", "What would run where, and why not elsewhere"),
    "probe": ("distributed_grid.cli.probe", "What this machine has, and what class it is"),
    "rename": ("distributed_grid.cli.rename", "Another name for this node"),
    "requeue": ("distributed_grid.cli.requeue", "Run jobs that nobody keeps track of"),
    "rerun": ("distributed_grid.cli.rerun", "Run a job again, or what failed of it"),
    "run": ("distributed_grid.cli.run", "Run a command as a job"),
    "run-shared": ("distributed_grid.cli.run_shared", "Run a command on what owners lend"),
    "service": ("distributed_grid.cli.service", "Let systemd start the agent, at boot too"),
    "shared-status": ("distributed_grid.cli.shared_status", "What is offered and borrowed"),
    "status": ("distributed_grid.cli.status", "This node, and the mesh, in one glance"),
    "ticket": ("distributed_grid.cli.ticket", "Let others into the mesh"),
    "top": ("distributed_grid.cli.top", "Nodes and jobs of the mesh, live"),
    "undrain": ("distributed_grid.cli.undrain", "Let a drained node take work again"),
    "up": ("distributed_grid.cli.up", "Start the agent of this machine"),
    "version": ("distributed_grid.cli.version", "The version of Grid and of Python"),
    "wait": ("distributed_grid.cli.wait", "Wait until jobs have ended"),
}


# What other programs call it.
MEANT: Final = {"ps": "jobs", "ls": "jobs", "list": "jobs", "queue": "jobs", "log": "logs",
                "kill": "cancel", "rm": "cancel", "stop": "down", "start": "up", "exec": "run",
                "submit": "run", "info": "status", "node": "nodes", "show": "job"}  # fmt: skip


class LazyGroup(click.Group):
    """A group whose commands are imported when somebody calls them: start-up stays short."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Every command, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command = loaded(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As ever; who mistypes a command is told the nearest."""
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            import difflib

            meant = MEANT.get(word) or next(iter(difflib.get_close_matches(word, COMMANDS, 1)), "")
            if meant:
                ctx.fail(f"No such command {word!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

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
