"""The data directory: made, checked, locked; the pid files in it, and the name of its node.

Lives here: what touches it. Never here: where it is (`model.home`), what the store writes.
Invariant: one agent at most holds a data directory, and only its owner can look inside.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from distributed_grid.errors import AgentRuns, GridError
from distributed_grid.model.home import Home
from distributed_grid.model.membership import is_node_name

PID_CHARACTERS_MAX: Final = 20  # Of a pid file; more is no number of ours.
NAME_BYTES_MAX: Final = 1_024  # More than a name has.

_REMEDIES: Final = {
    errno.EROFS: "Its file system is read-only: set GRID_HOME to a directory that can be written",
    errno.EACCES: "Give yourself the right to write there, or set GRID_HOME to another directory",
    errno.EPERM: "Give yourself the right to write there, or set GRID_HOME to another directory",
    errno.ENOSPC: "Make space on that file system",
    errno.EDQUOT: "Your quota there is used up: make space",
    errno.ENOTDIR: "A file stands in the way: move it, or set GRID_HOME to another directory",
    errno.ENOLCK: "Its file system has no locks (some network ones): set GRID_HOME to a local one",
}


class HomeUnusable(GridError):
    """The data directory cannot be used."""

    def __init__(self, path: str, *, why: str, remedy: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}", remedy=remedy)


def prepare(home: Home) -> None:
    """Make the directories that an agent needs; only their owner gets in."""
    for path in (Path(home.data), Path(home.jobs), Path(home.socket).parent):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = path.stat()
            if found.st_uid != os.geteuid():
                raise HomeUnusable(
                    str(path),
                    why=f"belongs to another user (uid {found.st_uid})",
                    remedy="Run as that user, or set GRID_HOME to a directory of your own",
                )
            if stat.S_IMODE(found.st_mode) & 0o077:
                path.chmod(0o700)
            _try_writing(path)
        except OSError as error:
            raise _unusable(str(path), error) from error


@contextlib.contextmanager
def locked(home: Home) -> Iterator[None]:
    """Hold the data directory; raises AgentRuns, with the pid, if another agent does.

    The lock ends with the process, however it ends. The file stays: removing it would let two
    agents lock two different files of the same name.
    """
    try:
        descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(home.lock, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AgentRuns(home.data, pid=read_pid(home.lock) or 0) from None
        except OSError as error:
            raise _unusable(home.lock, error) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def pid_file(path: str, pid: int | None = None) -> Iterator[None]:
    """A file with a process id in it (ours unless told), for as long as this lasts."""
    write_pid(path, pid)
    try:
        yield
    finally:
        remove_pid(path, pid)


def write_pid(path: str, pid: int | None = None) -> None:
    """Write a process id, whole at once: nobody reads half a number."""
    draft = Path(f"{path}.new")
    try:
        draft.write_text(f"{pid or os.getpid()}\n", encoding="ascii")
        draft.replace(path)
    except OSError as error:
        raise _unusable(path, error) from error


def remove_pid(path: str, pid: int | None = None) -> None:
    """Remove a pid file, unless it names somebody else by now."""
    if read_pid(path) == (pid or os.getpid()):
        with contextlib.suppress(OSError):
            Path(path).unlink()


def read_pid(path: str) -> int | None:
    """The process id in a file; None if there is none to read. It need not be alive."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(PID_CHARACTERS_MAX + 1).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text) <= PID_CHARACTERS_MAX else None


def remember_name(home: Home, name: str) -> None:
    """Keep the name of this node for starts at which nobody names it."""
    if remembered_name(home) == name:
        return
    draft = Path(f"{home.name}.new")
    try:
        draft.write_text(f"{name}\n", encoding="utf-8")
        draft.replace(home.name)
    except OSError as error:
        raise _unusable(home.name, error) from error


def remembered_name(home: Home) -> str:
    """The name that was given once; empty if there is none, or none that a node can have."""
    try:
        with Path(home.name).open("rb") as file:
            name = file.read(NAME_BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return name if is_node_name(name) else ""


def _try_writing(path: Path) -> None:
    """Rights and mount options do not tell everything; a file does."""
    probe = path / f".probe-{os.getpid()}"
    try:
        probe.write_bytes(b"x")
    finally:
        probe.unlink(missing_ok=True)


def _unusable(path: str, error: OSError) -> HomeUnusable:
    why = f"cannot be used: {error.strerror or error}"
    default = "Check its owner and rights, or set GRID_HOME to another directory"
    return HomeUnusable(path, why=why, remedy=_REMEDIES.get(error.errno or 0, default))
