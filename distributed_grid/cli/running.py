"""A command as a job, once the words of `grid run` are understood.

Lives here: what the words mean together, from submission to the exit code. Never here: options
(`run`), copying output (`foreground`), the progress of arrays (`array_progress`), what a word means
(`client.specification`).
Nothing heavy is imported before it is needed, click neither: a test asserts it.
"""

import os
from typing import Any, TypeVar

import msgspec

from distributed_grid.cli import foreground, outcome
from distributed_grid.cli.agent import caller, print_json
from distributed_grid.cli.interrupts import Interrupts
from distributed_grid.cli.project import NONE, Project
from distributed_grid.cli.tell import lose, sentence, tell, wipe
from distributed_grid.client import calls, environment
from distributed_grid.client.blocking import Caller, Woken
from distributed_grid.client.calls import Call
from distributed_grid.client.specification import (
    SHIPPING,
    Wishes,
    resource_pair,
    specification,
)
from distributed_grid.errors import EXIT_GRID, BadInput, BadValue, GridError, NoAgent
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import JobView, Submitted

T = TypeVar("T")

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
    log: str | None = None
    shell: bool = False
    detach: bool = False
    stream: bool = False
    wait_for_capacity: bool = False
    priority: str = "medium"
    project: str = ""
    preempt_signal: str | None = None
    preempt_grace: str | None = None
    on_preempt: str | None = None
    no_preempt: bool = False
    start_at: str | None = None
    deadline: str | None = None
    booking: str = ""
    placing: dict[str, Any] = {}  # Where it runs, how it is kept: see `placing_words`.
    wait_safe: bool = False
    file: str | None = None  # Of jobs, as `grid place` has them.
    dry_run: bool = False
    defaults: Project = NONE  # Of the project, as far as nobody said otherwise.
    as_json: bool = False
    data_dir: str | None = None


def run(told: Told) -> int:
    """Run it, and give the exit code."""
    try:
        return _run(told)
    except BadValue as error:
        raise told.defaults.named(error) from None


def _run(told: Told) -> int:
    with (
        Interrupts() as interrupts,
        caller(told.data_dir, wake_fd=interrupts.fileno()) as agent,
    ):
        wishes = _wishes(told)
        specs = _specs(told, wishes)
        spec = specs[0]
        foreground.explain_wait(agent, [f"id:{spec.id}"], spec.name)
        try:
            if told.dry_run:
                from distributed_grid.cli import dry_run

                files = (told.defaults.file, *told.env_file)
                return dry_run.show(agent, spec, wishes, files=files, as_json=told.as_json)
            after = agent.run(calls.resolved(told.after))
            specs = [msgspec.structs.replace(one, after=after) for one in specs]
            specs = [with_files(agent, one, wishes) for one in specs]
            spec = specs[0]
            taken = submit(agent, calls.submit(specs), spec, interrupts)
        except foreground.Left as left:
            return left.code
        except Woken:  # Nothing was submitted yet.
            return interrupts.code
        except GridError as error:
            return refused(spec, told.defaults.named(error), as_json=told.as_json)
        try:
            if taken.bytes_left or told.wait_safe or (taken.is_only_here and told.detach):
                _keep_on(agent, spec, taken, interrupts, waits=told.wait_safe)
            codes = [_watched(agent, one, told, interrupts) for one in specs]
            _tell_unread()
            return codes[0]
        except foreground.Left as left:
            return left.code
        except (GridError, OSError) as error:
            return lost_sight(spec, error)


def _specs(told: Told, wishes: Wishes) -> list[JobSpec]:
    command = " ".join(told.words) if told.shell else told.words
    if told.file is not None:
        from distributed_grid.cli.job_file import specifications

        return specifications(told.file, command, wishes, is_detached=told.detach)
    # Of a dry run without one: whatever it is, the same files travel.
    return [specification(command or ("true",), wishes)]


def with_files(agent: Caller, spec: JobSpec, wishes: Wishes) -> JobSpec:
    """The job, with the files that travel with it."""
    if SHIPPING.isdisjoint(wishes):
        return spec
    from distributed_grid.client.shipping import shipped

    return agent.run(shipped(spec, wishes))


def submit(agent: Caller, call: Call[T], spec: JobSpec, interrupts: Interrupts) -> T:
    """Submit a job; raises Left if a signal came, and then says what may run all the same."""
    if interrupts.has_come():
        raise foreground.Left(interrupts.code)
    hint = f"Job {spec.name} may have been accepted: grid cancel {spec.id}"
    try:
        with interrupts.held():
            answer = agent.run(call)
    except Woken:  # The second signal, and no answer yet.
        tell(f"grid: {hint}")
        raise foreground.Left(interrupts.code) from None
    except GridError as error:
        if not interrupts.has_come():
            raise
        tell(f"grid: {error} {hint}" if isinstance(error, NoAgent) else f"grid: {error}")
        raise foreground.Left(interrupts.code) from None
    if interrupts.has_come():
        foreground.leave_or_go_on(agent, spec.id, spec.name, interrupts)
    return answer


def _keep_on(
    agent: Caller, spec: JobSpec, taken: Submitted, interrupts: Interrupts, *, waits: bool
) -> None:
    """Say that the job is on this machine only; if wanted, wait until it is not."""
    from distributed_grid.client import across_calls
    from distributed_grid.model import bytesize

    if taken.bytes_left:
        left = bytesize.text(taken.bytes_left)
        tell(f"grid: keep this machine on: {left} of job {spec.name} left to copy")
    elif taken.is_only_here and not waits:
        tell(f"grid: keep this machine on: the directory of job {spec.name} is only here so far")
    found = None
    while waits and found is None:
        try:
            found = agent.run(across_calls.safe(f"id:{spec.id}", timeout_ms=None))
        except Woken:
            foreground.leave_or_go_on(agent, spec.id, spec.name, interrupts)
    if found is not None and not found.is_safe:
        tell(f"grid: job {spec.name} is not safe: {found.why}; keep this machine on")
    elif found is not None and found.copies:  # None: it has ended, and nobody has to keep it.
        copies = "1 machine" if found.copies == 1 else f"{found.copies} machines"
        tell(f"grid: job {spec.name} is safe: {copies} have it")


def lost_sight(spec: JobSpec, error: GridError | OSError) -> int:
    """The job is safe with the agent; only our view of it is gone."""
    why = str(error) if isinstance(error, GridError) else sentence(error)
    tell(f"grid: {why} The job goes on: grid wait {spec.id}")
    return EXIT_GRID


def print_all(value: Any) -> None:
    """An id, or a value as JSON, on stdout and out of our hands; an OSError if it cannot be."""
    wipe()
    try:
        if isinstance(value, str):
            print(value, flush=True)  # noqa: T201  (what the command gives)
        else:
            print_json(value)
    except OSError:
        lose(foreground.STDOUT)
        raise


def ended_as_json(view: JobView) -> int:
    """Print a job that has ended, and give its exit code; 125 if nobody could read it."""
    try:
        print_all(view)
    except OSError as error:
        tell(f"grid: {sentence(error)}")
        return EXIT_GRID
    return foreground.finish(view)


def _watched(agent: Caller, spec: JobSpec, told: Told, interrupts: Interrupts) -> int:
    """Whatever was asked for between submitting and the exit code."""
    if told.detach:
        print_all(agent.run(calls.job(f"id:{spec.id}")) if told.as_json else spec.id)
        return 0
    if told.as_json:
        view = foreground.wait(agent, spec.id, spec.name, interrupts)
        return _hinted(agent, view, told, ended_as_json(view))
    if spec.array is not None:
        from distributed_grid.cli import array_progress

        view = array_progress.watch(agent, spec, interrupts, stream=told.stream)
    else:
        view = foreground.watch(agent, spec.id, spec.name, interrupts)
    return _hinted(agent, view, told, foreground.finish(view))


def _tell_unread() -> None:
    """Say that nobody has read what was sent to our stdin; asked at the end, when it has come."""
    import fcntl
    import termios

    try:
        left = fcntl.ioctl(0, termios.FIONREAD, bytes(4))  # Of a file, too; /dev/null has none.
    except OSError:
        return
    if any(left) and not os.isatty(0):
        tell(
            "grid: stdin was not passed on: a job has none. Write it to a file that the job reads."
        )


def _hinted(agent: Caller, view: JobView, told: Told, code: int) -> int:
    """The exit code; after a word about what the job lacked where it ran, if anything."""
    if code or "python" in view.argv[0]:
        from distributed_grid.cli import hints

        if word := hints.missing(agent, view):
            tell(f"grid: {word}")
        elif hints.is_python(view) and "python_env" not in told.placing:
            hints.environment(agent, view, told.data_dir)
    return code


def refused(spec: JobSpec, error: GridError, *, as_json: bool) -> int:
    """Tell of a job that was not accepted: 125, unless the request itself was wrong."""
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
    placing = Wishes()
    if told.placing:
        from distributed_grid.cli.placing_words import placing_wishes

        placing = placing_wishes(told.placing)
    return Wishes(
        **placing,
        name=told.name,
        cpus=told.cpus,
        memory=told.memory,
        storage=told.storage,
        gpus=told.gpus,
        resources=dict(resource_pair(word) for word in told.resources),
        env=env,
        cwd=told.cwd,
        array=told.array,
        retries=told.retries,
        max_losses=told.max_losses,
        timeout=told.timeout,
        image=told.image,
        log=told.log,
        wait_for_capacity=told.wait_for_capacity,
        priority=told.priority,
        project=told.project,
        preempt_signal=told.preempt_signal,
        preempt_grace=told.preempt_grace,
        on_preempt=told.on_preempt,
        no_preempt=told.no_preempt,
        start_at=told.start_at,
        deadline=told.deadline,
        booking=told.booking,
    )


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
