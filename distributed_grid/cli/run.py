"""`grid run`: a command as a job, in the foreground unless told otherwise.

Lives here: options, and what they mean together. Never here: copying output (`foreground`), the
progress of arrays (`array_progress`), what the words mean (`client.specification`).
Nothing heavy is imported before it is needed: a test asserts it.
"""

import os
from typing import Any

import click
import msgspec

from distributed_grid.cli import foreground, outcome
from distributed_grid.cli.agent import caller, data_dir_option, job_names, json_option, print_json
from distributed_grid.client import calls, environment
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import Wishes, specification
from distributed_grid.errors import BadInput, BadValue, GridError
from distributed_grid.model.job import JobSpec

ENV_FILE_BYTES_MAX = 1 << 20  # Linux itself takes 2 MiB of environment and arguments.


@click.command("run", context_settings={"allow_interspersed_args": False})
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
@click.option("--array", metavar="A-B[:S][%W]", help="0-999%50: a thousand, 50 at once.")
@click.option(
    "--after",
    multiple=True,
    metavar="JOB[:ok|:any|:failed]",
    shell_complete=job_names,
    help="Wait for another job to end (well, unless told).",
)
@click.option("--image", default="", metavar="IMAGE", help="In a container, by podman or docker.")
@click.option("--shell", is_flag=True, help="Run the words under /bin/sh -c.")
@click.option("--detach", "-d", is_flag=True, help="Print the id, and do not wait.")
@click.option("--stream", is_flag=True, help="Of an array: its lines, each after its index.")
@click.option("--wait-for-capacity", is_flag=True, help="Accept more than there is, and wait.")
@json_option
@data_dir_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
@click.pass_context  # fmt: skip
def command(ctx: click.Context, /, **told: Any) -> None:
    """Run a command as a job, here and now, with what it asks for.

    Options end at the first word of the command. Its output is yours, and so is its exit code:
    124 after a timeout, 125 if Grid refused, cancelled, lost or skipped it, 126 and 127 if it
    could not be started, 128+n after a signal, 130 after Ctrl-C.
    """
    words = told["words"]
    wanted = " ".join(words) if told["shell"] else words
    with caller(told["data_dir"]) as agent:
        spec = specification(wanted, _wishes(told))
        try:
            spec = _submitted(agent, spec, told["after"])
        except GridError as error:
            ctx.exit(_refused(spec, error, as_json=told["as_json"]))
        try:
            code = _watched(agent, spec, told)
        except foreground.Left as left:
            code = left.code
        except GridError as error:
            # The job is safe with the agent; only our view of it is gone.
            click.echo(f"grid: {error} The job goes on: grid wait {spec.id}", err=True)
            code = outcome.EXIT_GRID
    ctx.exit(code)


def _submitted(agent: Caller, spec: JobSpec, after: tuple[str, ...]) -> JobSpec:
    waits_for = agent.run(calls.resolved(after))
    spec = msgspec.structs.replace(spec, after=waits_for)
    agent.run(calls.submit([spec]))
    return spec


def _watched(agent: Caller, spec: JobSpec, told: dict[str, Any]) -> int:
    """Whatever was asked for between submitting and the exit code."""
    as_json = told["as_json"]
    if told["detach"]:
        if as_json:
            print_json(agent.run(calls.job(f"id:{spec.id}")))
        else:
            click.echo(spec.id)
        return 0
    if as_json:
        view = foreground.wait(agent, spec.id, spec.name)
        print_json(view)
    elif spec.array is not None:
        from distributed_grid.cli import array_progress

        view = array_progress.watch(agent, spec, stream=told["stream"])
    else:
        view = foreground.watch(agent, spec.id, spec.name)
    return foreground.finish(view)


def _refused(spec: JobSpec, error: GridError, *, as_json: bool) -> int:
    """A job that was not accepted: 125, unless the request itself was wrong or nobody answered."""
    click.echo(f"grid: {error}", err=True)
    code = error.exit_code if error.exit_code in (2, 4) else outcome.EXIT_GRID
    if as_json:
        refusal = {"id": spec.id, "name": spec.name, "state": "refused", "exit_code": code,
                   "node": None, "attempts": [], "reason": str(error)}  # fmt: skip
        print_json({**refusal, "error": type(error).__name__})
    return code


def _wishes(told: dict[str, Any]) -> Wishes:
    env: dict[str, str] = {}
    for file in told["env_file"]:
        env |= environment.from_file(_text(file), file=file)
    env |= environment.from_words(told["env"], os.environ)
    return Wishes(
        name=told["name"],
        cpus=told["cpus"],
        memory=told["memory"],
        storage=told["storage"],
        gpus=told["gpus"],
        resources=dict(_pair(word) for word in told["resources"]),
        env=env,
        cwd=told["cwd"],
        array=told["array"],
        retries=told["retries"],
        max_losses=told["max_losses"],
        timeout=told["timeout"],
        image=told["image"],
        wait_for_capacity=told["wait_for_capacity"],
    )


def _pair(word: str) -> tuple[str, str]:
    kind, equals, amount = word.partition("=")
    if not equals:
        raise BadValue(word, expected="KIND=N", remedy="Write --resource tpu=4")
    return kind, amount


def _text(file: str) -> str:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123  (pathlib costs a start milliseconds)
            data = opened.read(ENV_FILE_BYTES_MAX + 1)
        if len(data) <= ENV_FILE_BYTES_MAX:
            return data.decode()
        problem = f"is longer than {ENV_FILE_BYTES_MAX} bytes"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    raise BadInput(file, path="--env-file", problem=problem, remedy="Give lines of NAME=value")
