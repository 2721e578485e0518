"""A run in a container, as the command line of podman or docker.

Lives here: the words, and which variables go where. Never here: starting them (`spawn`), when the
container is removed (`attempts`).
Invariant: a container is named after its attempt, so that whoever knows the attempt can remove it,
and no value of a job's variables stands in the process list.

The runtime's own client runs outside of the keeper's groups: it needs more memory than many jobs.
`GRID_CONTAINER_RUNTIME` is the command in front of `run`, `GRID_CONTAINER_OPTIONS` more options of
`run`; both are words as in a shell.
"""

import os
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from distributed_grid.edges.runner.program import DEFAULT_PATH, NotRun, find
from distributed_grid.errors import EXIT_GRID
from distributed_grid.wire.keeper import Limits, Run, Slot

RUNTIME: Final = "GRID_CONTAINER_RUNTIME"
OPTIONS: Final = "GRID_CONTAINER_OPTIONS"
RUNTIMES: Final = ("podman", "docker")  # The first on PATH: podman needs no daemon and no root.
INITS: Final = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/bin/catatonit")
UNLIMITED: Final = Limits(processes_max=0)  # The client: the container has the limits.
REMEDY: Final = "grid doctor tells what containers need"

# What the client itself needs to work. A job's own values of these are told as words.
_CLIENT_NAMES: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "USER")
_CLIENT_PREFIXES: Final = ("CONTAINER", "DOCKER_", "PODMAN_", "REGISTRY_", "XDG_", "DBUS_")
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy")


class Runtime(NamedTuple):
    """How containers are run here."""

    words: tuple[str, ...]  # The command in front of `run` and `rm`.
    options: tuple[str, ...] = ()  # More options of `run`.
    env: Mapping[str, str] = {}  # What the client needs.
    user: tuple[int, int] = (0, 0)  # Whose files are in the working directory.
    has_init: bool = True

    @property
    def is_docker(self) -> bool:
        """Docker's words differ from podman's in a few places."""
        return any(os.path.basename(word) == "docker" for word in self.words)


def runtime(environ: Mapping[str, str]) -> Runtime:
    """The one that is told, or else the first that is there; raises `NotRun` if there is none."""
    env = {name: value for name, value in environ.items() if _is_for_client(name)}
    try:
        words = tuple(shlex.split(environ.get(RUNTIME, "")))
        options = tuple(shlex.split(environ.get(OPTIONS, "")))
    except ValueError as problem:
        raise NotRun("failed", EXIT_GRID, f"{RUNTIME}, {OPTIONS}: {problem}") from None
    for name in words[:1] or RUNTIMES:
        try:
            find((name,), {"PATH": env.get("PATH", DEFAULT_PATH)})
        except NotRun:
            continue
        has_init = any(os.path.exists(path) for path in INITS)
        found = Runtime(words or (name,), options, env, (os.getuid(), os.getgid()))
        return found._replace(has_init=has_init or found.is_docker)
    wanted = words[0] if words else "podman or docker"
    note = f"no containers here: {wanted} was not found; {REMEDY}"
    raise NotRun("failed", EXIT_GRID, note)


def has_runtime(environ: Mapping[str, str]) -> bool:
    """Whether containers are run here at all, as far as can be seen without running one."""
    try:
        return bool(runtime(environ))
    except NotRun:
        return False


def name_of(attempt: str) -> str:
    """What the container of an attempt is called."""
    return f"grid-{attempt}"


def in_container(run: Run, through: Runtime) -> Run:
    """The run of the client that runs this in a container."""
    if run.cwd == "/":
        raise NotRun("failed", EXIT_GRID, "/ cannot be mounted into a container: give --cwd")
    job_env = {**run.env, "GRID_WORKDIR": run.scratch_dir}
    hidden = {name: value for name, value in job_env.items() if not _is_for_client(name)}
    words = (
        *through.words,
        "run",
        *_identity(run, through),
        *_limits(run),
        *_mounts(run),
        *_devices(run, through),
        *_variables(job_env),
        *through.options,
        "--",
        run.image,
        *run.argv,
    )
    return msgspec.structs.replace(run, argv=words, env={**through.env, **hidden}, image="")


def removal(attempt: str, through: Runtime) -> tuple[str, ...]:
    """The command that ends and removes the container of an attempt, if there still is one."""
    at_once = () if through.is_docker else ("--ignore", "--time", "0")
    return (*through.words, "rm", "--force", "--volumes", *at_once, name_of(attempt))


def beside(run: Run, command: tuple[str, ...], through: Runtime) -> Run:
    """The run of the client that runs a command in the container of a run, beside its program."""
    words = (*through.words, "exec", name_of(run.attempt), *command)
    return msgspec.structs.replace(
        run, argv=words, env=dict(through.env), image="", slot=Slot(), limits=UNLIMITED, niceness=0
    )


def pausing(attempt: str, through: Runtime, *, is_over: bool) -> tuple[str, ...]:
    """The command that stops all processes of a container, or lets them go on."""
    return (*through.words, "unpause" if is_over else "pause", name_of(attempt))


def id_file(run: Run) -> str:
    """Where the runtime writes the id of a container once it has made one."""
    return f"{run.scratch_dir}.cid"


def _identity(run: Run, through: Runtime) -> list[str]:
    words = ["--rm", "--name", name_of(run.attempt), "--cidfile", id_file(run)]
    words += ["--label", "grid.attempt=" + run.attempt, "--security-opt", "label=disable"]
    if through.has_init:
        words.append("--init")  # Else the first process would ignore SIGTERM.
    if not through.is_docker:
        words += ["--replace", "--quiet"]
    if not any(word.startswith("--net") for word in through.options):
        words += ["--network", "host"]  # As every other job.
    uid, gid = through.user
    if uid:
        words += ["--user", f"{uid}:{gid}"] if through.is_docker else ["--userns", "keep-id"]
    return words


def _limits(run: Run) -> list[str]:
    limits, words = run.limits, []
    if limits.cpu_milli:
        words += ["--cpus", f"{limits.cpu_milli // 1_000}.{limits.cpu_milli % 1_000:03}"]
    if limits.memory_bytes:
        words += ["--memory", f"{limits.memory_bytes}b", "--memory-swap", f"{limits.memory_bytes}b"]
    if limits.processes_max:
        words += ["--pids-limit", str(limits.processes_max)]
    if run.slot.cores:
        words += ["--cpuset-cpus", ",".join(map(str, run.slot.cores))]
    return words


def _mounts(run: Run) -> list[str]:
    words = []
    shown = (run.cwd, run.scratch_dir, run.checkpoint_dir)
    for path in dict.fromkeys(path for path in shown if path):
        fields = ("type=bind", f"source={path}", f"destination={path}")
        words += ["--mount", ",".join(map(_quoted, fields))]
    return [*words, "--workdir", run.cwd]


def _devices(run: Run, through: Runtime) -> list[str]:
    """Granted GPUs: NVIDIA's by uuid, through the runtime's own support; others by their files."""
    nvidia = [name for name in run.devices if name.startswith(("GPU-", "MIG-"))]
    words = []
    if nvidia and through.is_docker:
        words += ["--gpus", f'"device={",".join(nvidia)}"']
    elif nvidia:
        words += [word for name in nvidia for word in ("--device", f"nvidia.com/gpu={name}")]
    if len(nvidia) < len(run.devices):
        nodes = [node for node in ("/dev/kfd", "/dev/dri") if os.path.exists(node)]
        words += [word for node in nodes for word in ("--device", node)]
    return words


def _variables(env: Mapping[str, str]) -> list[str]:
    """By name, so that the value comes from the client's environment and is seen by nobody."""
    words = []
    for name, value in sorted(env.items()):
        words += ["--env", f"{name}={value}" if _is_for_client(name) else name]
    if "GRID_ARRAY_INDEX" not in env:
        words += ["--env", "GRID_ARRAY_INDEX"]  # Set for each index when it starts; else left out.
    return words


def _is_for_client(name: str) -> bool:
    return (
        name in _CLIENT_NAMES
        or name.startswith(_CLIENT_PREFIXES)
        or name.lower() in _PROXIES
        or name in (RUNTIME, OPTIONS)
    )


def _quoted(field: str) -> str:
    """A field of the comma-separated value of --mount."""
    return '"' + field.replace('"', '""') + '"' if "," in field or '"' in field else field
