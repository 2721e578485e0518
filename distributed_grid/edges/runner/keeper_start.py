"""From a command line to a keeper: arguments, lock, pid file, sentinel.

Lives here: what happens once, at the start and at the end. Never here: the loop (`keeper`).
Invariant: the lock of the data directory is held by the keeper alone, for as long as it lives.
"""

import contextlib
import fcntl
import os
import sys
from typing import Final, NamedTuple

from distributed_grid.edges.runner import LOCK_FILE, PID_FILE, sentinel
from distributed_grid.edges.runner.agent_process import AgentProcess
from distributed_grid.edges.runner.keeper import Keeper
from distributed_grid.errors import GridError

USAGE: Final = (
    "usage: python -m distributed_grid.edges.runner.keeper --data-dir D"
    " [--boot-id-file F] [--cgroup-root D] -- AGENT ARGV…"
)
EXIT_USAGE: Final = 2
EXIT_BUSY: Final = 1


class Arguments(NamedTuple):
    """What a keeper is told when it is started."""

    data_dir: str
    agent: tuple[str, ...]
    boot_id_file: str = "/proc/sys/kernel/random/boot_id"
    cgroup_root: str = "/sys/fs/cgroup"


class KeeperRuns(GridError):
    """Another keeper holds the data directory."""

    def __init__(self, data_dir: str, pid: str) -> None:
        self.data_dir, self.pid = data_dir, pid
        super().__init__(
            f"a keeper runs already in {data_dir}, as process {pid or 'unknown'}",
            remedy="Talk to it, or end it first",
        )


def main(words: list[str]) -> int:
    """Keep, until told to end."""
    arguments = parse(words)
    if arguments is None:
        sys.stderr.write(USAGE + "\n")
        return EXIT_USAGE
    _close_on_exec_all()
    pipes = sentinel.part_from_sentinels()
    code = EXIT_BUSY
    try:
        code = _keep(arguments, pipes)
    except GridError as problem:
        sys.stderr.write(f"{problem}\n")
    except OSError as problem:
        sys.stderr.write(f"the keeper cannot work in {arguments.data_dir}: {problem}\n")
    finally:
        sentinel.dismiss(pipes, code)
    return code


def parse(words: list[str]) -> Arguments | None:
    """By hand: argparse costs two megabytes for as long as the keeper lives."""
    if "--" not in words:
        return None
    cut = words.index("--")
    options, agent = words[:cut], tuple(words[cut + 1 :])
    names = {
        "--data-dir": "data_dir",
        "--boot-id-file": "boot_id_file",
        "--cgroup-root": "cgroup_root",
    }
    values = dict(zip(options[::2], options[1::2], strict=False))
    if len(options) % 2 or not agent or not set(values) <= set(names) or "--data-dir" not in values:
        return None
    return Arguments(agent=agent, **{names[name]: value for name, value in values.items()})


def _keep(arguments: Arguments, pipes: list[int]) -> int:
    data_dir = os.path.abspath(arguments.data_dir)
    os.makedirs(data_dir, 0o700, exist_ok=True)
    lock = _lock(data_dir)
    cwd = os.getcwd()
    os.chdir("/")
    pid_file = f"{data_dir}/{PID_FILE}"
    with open(pid_file, "w", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    keeper = Keeper(
        data_dir,
        AgentProcess(arguments.agent, dict(os.environ), cwd),
        keeper_id=os.urandom(16).hex(),
        boot_id=_boot_id(arguments.boot_id_file),
        cgroup_root=arguments.cgroup_root.rstrip("/"),
    )
    sentinel.tell_groups(pipes, keeper.pool.paths)
    code = keeper.run()
    with contextlib.suppress(OSError):
        os.unlink(pid_file)
    os.close(lock)
    return code


def _lock(data_dir: str) -> int:
    lock = os.open(f"{data_dir}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise KeeperRuns(data_dir, _text(f"{data_dir}/{PID_FILE}")) from None
    return lock


def _boot_id(path: str) -> str:
    return _text(path)


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(200).strip()
    except OSError:
        return ""


def _close_on_exec_all() -> None:
    """Whatever whoever started us left open must not reach a job."""
    directory = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(directory):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)
