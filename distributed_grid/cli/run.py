"""`grid run`: a command as a job, in the foreground unless told otherwise.

Lives here: options. Never here: what they do (`running`). Without any, `cli.main` does not come
through here.
"""

from typing import Any, Final

import click
from click.core import ParameterSource

from distributed_grid.cli import project, running
from distributed_grid.cli.agent import data_dir_option, job_names, json_option
from distributed_grid.cli.importance_options import importance_options, priority_option
from distributed_grid.cli.placing_options import placing_options
from distributed_grid.cli.placing_words import told_of
from distributed_grid.errors import BadInput

# What a file of jobs says: on the command line it would be said twice.
IN_FILE: Final = ("cpus", "memory", "storage", "gpus", "resources", "name", "node", "on_class",
                  "label", "avoid", "max_latency", "no_battery")  # fmt: skip


class RunCommand(click.Command):
    """`grid run`, with the defaults of a project."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As ever; what nobody tells is what the project says."""
        try:
            if (found := project.found()) is not None:
                ctx.meta["project"] = found
                ctx.default_map = project.defaults(found, ctx)
        except BadInput:
            super().parse_args(ctx, args)  # Whoever asks for help gets it all the same.
            raise
        return super().parse_args(ctx, args)


@click.command("run", cls=RunCommand, context_settings={"allow_interspersed_args": False})
@click.option("--cpus", default="1", show_default=True, metavar="N", help="Cores; 0.5 is a share.")
@click.option("--memory", default="0", metavar="SIZE", help="16GiB; enforced where it can be.")
@click.option("--storage", default="0", metavar="SIZE", help="Disk space, as --memory.")
@click.option("--gpus", metavar="N|MODEL:N", help="2, 0.5 or H100:2.")
@click.option("--resource", "resources", multiple=True, metavar="KIND=N", help="A custom kind.")
@click.option("--name", metavar="NAME", help="What to call it; else its first word.")
@click.option("--env", "env", multiple=True, metavar="K=V", help="K alone passes yours on.")
@click.option("--env-file", multiple=True, metavar="FILE", help="Lines of K=V.")
@click.option("--cwd", metavar="DIR", help="Where it starts; else here.")
@click.option("--timeout", metavar="SPAN", help="5m; then it is ended, and counts as failed.")
@click.option(
    "--retries",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    help="How often its own failures are tried again.",
)
@click.option(
    "--max-losses",
    type=click.IntRange(0, 1_000_000),
    default=3,
    show_default=True,
    help="How often machines may fail it.",
)
@click.option(
    "--array", metavar="A-B[:S],…[%W]", help="0-999%50: a thousand, 50 at once; 27,47,60-69."
)
@click.option(
    "--after",
    multiple=True,
    metavar="JOB[:ok|:any|:failed]",
    shell_complete=job_names,
    help="Wait for another job to end (well, unless told).",
)
@click.option("--image", default="", metavar="IMAGE", help="In a container, by podman or docker.")
@click.option("--file", metavar="FILE", help="A job, or a list of them, as grid place reads it.")
@click.option(
    "-o", "--log", metavar="FILE", help="What it wrote, here; %a is an array's index, %j the id."
)
@click.option("--dry-run", is_flag=True, help="List the files that would travel; run nothing.")
@click.option("--shell", is_flag=True, help="Run the words under /bin/sh -c.")
@click.option("--detach", "-d", is_flag=True, help="Print the id, and do not wait.")
@click.option("--stream", is_flag=True, help="Of an array: its lines, each after its index.")
@click.option("--wait-for-capacity", is_flag=True, help="Accept more than there is, and wait.")
@priority_option("--priority")
@importance_options
@placing_options
@json_option
@data_dir_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="CMD...")
@click.pass_context  # fmt: skip
def command(ctx: click.Context, /, **told: Any) -> None:
    """Run a command as a job, here or on another node, with what it asks for.

    Options end at the first word of the command. Its output is yours, and so is its exit code:
    124 after a timeout, 125 if Grid failed, refused, cancelled, lost or skipped it, or no agent
    answers; 126 and 127 if it could not be started, 128+n after a signal, 130 after Ctrl-C.
    It has nothing to read on stdin: what it needs comes in files.
    """
    if told["file"] is not None:
        _leave_to_file(ctx, told)
    elif not told["words"] and not told["dry_run"]:
        raise click.MissingParameter(ctx=ctx, param=ctx.command.params[-1])
    placing, mine = told_of(told), ctx.meta.get("project", project.NONE)
    ctx.exit(running.run(running.Told(placing=placing, defaults=mine.in_use(ctx), **told)))


def _leave_to_file(ctx: click.Context, told: dict[str, Any]) -> None:
    """What a file of jobs says is said there: neither here nor by the project."""
    for option in [one for one in ctx.command.params if one.name in IN_FILE]:
        if ctx.get_parameter_source(str(option.name)) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} is for the file to say: leave one out")
        del told[str(option.name)]
