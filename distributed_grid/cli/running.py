"""A command as a job, once the words of `grid run` are understood.

Lives here: what the words mean together, from submission to the exit code. Never here: options
(`run`), copying output (`foreground`), the progress of arrays (`array_progress`), what a word means
(`client.specification`).
Nothing heavy is imported before it is needed, click neither: a test asserts it.
"""

import os

import msgspec

from distributed_grid.cli import foreground, outcome
from distributed_grid.cli.agent import caller, print_json
from distributed_grid.cli.tell import tell
from distributed_grid.client import calls, environment
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import Wishes, specification
from distributed_grid.errors import EXIT_GRID, BadInput, BadValue, GridError
from distributed_grid.model.job import JobSpec

ENV_FILE_BYTES_MAX = 1 << 20  # Linux itself takes 2 MiB of environment and arguments.


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody told `grid run`, as it was written."""

    words: tuple[str, ...]
    cpus: str = "1"
    memory: str = "0"
    storage: str = "0"
    gpus: str | None = None
    resources: tuple[str, ...] = ()
    name: str | None = None
    env: tuple[str, ...] = ()
    env_file: tuple[str, ...] = ()
    cwd: str | None = None
    timeout: str | None = None
    retries: int = 0
    max_losses: int = 3
    array: str | None = None
    after: tuple[str, ...] = ()
    image: str = ""
    shell: bool = False
    detach: bool = False
    stream: bool = False
    wait_for_capacity: bool = False
    as_json: bool = False
    data_dir: str | None = None


def run(told: Told) -> int:
    """Run it, and give the exit code."""
    with caller(told.data_dir) as agent:
        spec = specification(" ".join(told.words) if told.shell else told.words, _wishes(told))
        try:
            spec = _submitted(agent, spec, told.after)
        except GridError as error:
            return _refused(spec, error, as_json=told.as_json)
        try:
            return _watched(agent, spec, told)
        except foreground.Left as left:
            return left.code
        except GridError as error:
            # The job is safe with the agent; only our view of it is gone.
            tell(f"grid: {error} The job goes on: grid wait {spec.id}")
            return EXIT_GRID


def _submitted(agent: Caller, spec: JobSpec, after: tuple[str, ...]) -> JobSpec:
    waits_for = agent.run(calls.resolved(after))
    spec = msgspec.structs.replace(spec, after=waits_for)
    agent.run(calls.submit([spec]))
    return spec


def _watched(agent: Caller, spec: JobSpec, told: Told) -> int:
    """Whatever was asked for between submitting and the exit code."""
    if told.detach:
        if told.as_json:
            print_json(agent.run(calls.job(f"id:{spec.id}")))
        else:
            print(spec.id)  # noqa: T201  (what the command gives)
        return 0
    if told.as_json:
        view = foreground.wait(agent, spec.id, spec.name)
        print_json(view)
    elif spec.array is not None:
        from distributed_grid.cli import array_progress

        view = array_progress.watch(agent, spec, stream=told.stream)
    else:
        view = foreground.watch(agent, spec.id, spec.name)
    return foreground.finish(view)


def _refused(spec: JobSpec, error: GridError, *, as_json: bool) -> int:
    """A job that was not accepted: 125, unless the request itself was wrong."""
    tell(f"grid: {error}")
    code = outcome.code_of(error)
    if as_json:
        refusal = {"id": spec.id, "name": spec.name, "state": "refused", "exit_code": code,
                   "node": None, "attempts": [], "reason": str(error)}  # fmt: skip
        print_json({**refusal, "error": type(error).__name__})
    return code


def _wishes(told: Told) -> Wishes:
    env: dict[str, str] = {}
    for file in told.env_file:
        env |= environment.from_file(_text(file), file=file)
    env |= environment.from_words(told.env, os.environ)
    return Wishes(
        name=told.name,
        cpus=told.cpus,
        memory=told.memory,
        storage=told.storage,
        gpus=told.gpus,
        resources=dict(_pair(word) for word in told.resources),
        env=env,
        cwd=told.cwd,
        array=told.array,
        retries=told.retries,
        max_losses=told.max_losses,
        timeout=told.timeout,
        image=told.image,
        wait_for_capacity=told.wait_for_capacity,
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
