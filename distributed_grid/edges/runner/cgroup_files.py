"""The files of control groups: where ours may be made, and how one is written and entered.

Lives here: mounts, directories, file names of both versions. Never here: when to do what
(`cgroups`).
Invariant: nothing above our own group in the hierarchy is changed, except that v2 controllers are
switched on for our children where the kernel lets us.
"""

import contextlib
import fcntl
import os
import select
import signal
from typing import Final

from distributed_grid.edges.runner import reap

HELD_OPEN_MAX: Final = 512  # Files of all groups; half of the usual limit of 1,024 for a process.
ENDING_ROUNDS_MAX: Final = 100  # Of two milliseconds, at the start: most end in the first.
LENT: Final = "-lent"  # At the end of the directory whose groups yield to everybody else.
_held_open: set[int] = set()


class Place:
    """A directory of ours in one hierarchy, and the group that the keeper came from."""

    def __init__(self, home: str, name: str, *, is_v2: bool) -> None:
        self.home = home
        self.path = f"{home}/{name}"
        self.is_v2 = is_v2
        self.inside = ""  # The group of ours that the keeper is in; empty: none.
        self.is_lent = name.endswith(LENT)
        self._is_idle = False
        self._lock: int | None = None

    def make(self) -> None:
        """Make the directory, and lock it: as long as we live, no other keeper removes it."""
        os.mkdir(self.path)
        self._lock = _locked(self.path)
        while self._lock is None:  # Somebody took it for a dead keeper's before it was locked.
            os.mkdir(self.path)
            self._lock = _locked(self.path)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def enter_file(self, directory: str) -> str:
        """The file that takes `0` for the writer itself."""
        return f"{directory}/{'cgroup.procs' if self.is_v2 else 'tasks'}"

    def go_home(self) -> None:
        """Move the keeper back to where it came from; v2: to a leaf of ours."""
        if self.inside:
            _write(self.enter_file(f"{self.path}/home" if self.is_v2 else self.home), "0")
            self.inside = ""

    def yield_cpu(self, *, is_idle: bool) -> None:
        """Let everybody outside go first, or no longer. Version 1 only."""
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            yield_cpu(self.path, is_v2=False, is_idle=is_idle)

    def remove(self) -> None:
        """Take the directory away, if it is empty."""
        with contextlib.suppress(OSError):
            if self.is_v2:
                _write(self.enter_file(self.home), "0")
                os.rmdir(f"{self.path}/home")
        with contextlib.suppress(OSError):
            os.rmdir(self.path)
        self._unlock()

    def remove_leftovers(self, prefix: str, of_predecessor: str) -> None:
        """Directories of dead keepers beside ours; what runs in the predecessor's is ended.

        A process id says nothing about a keeper in another container that shares the hierarchy:
        only who holds the lock is known to be alive.
        """
        for entry in os.listdir(self.home):
            path = f"{self.home}/{entry}"
            pid = entry.removeprefix(prefix).partition("-")[0]
            if not entry.startswith(prefix) or not pid.isdigit() or path == self.path:
                continue
            if entry.removesuffix(LENT) == of_predecessor:
                _end_members(path)
            elif os.path.exists(f"/proc/{pid}"):
                continue
            if (lock := _locked(path, or_leave=True)) is not None:
                _remove_tree(path)
                os.close(lock)


class Files:
    """One group in one hierarchy. Files that are used for each job stay open."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        self.path = self._path = f"{place.path}/{name}"
        self._enter: int | None = None
        self._count: int | None = None
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._path)

    def enter(self) -> None:
        """Move the keeper in here."""
        if self._place.inside == self._path:
            return
        if self._enter is None:
            self._enter = _held(self._place.enter_file(self._path), os.O_WRONLY)
        if self._enter is None:
            _write(self._place.enter_file(self._path), "0")
        else:
            os.write(self._enter, b"0")
        self._place.inside = self._path

    def go_home(self) -> None:
        """Move the keeper out."""
        self._place.go_home()

    def write(self, name: str, value: str) -> None:
        """Set a limit."""
        _write(f"{self._path}/{name}", value)

    def read(self, name: str) -> str:
        """The text of a file; empty if it is not there."""
        return _read(f"{self._path}/{name}")

    def is_keeper_inside(self) -> bool:
        """Whether the keeper is one of the members."""
        return self._place.inside == self._path

    def count(self) -> int:
        """Threads inside, zombies included: a quick look before a thorough one."""
        if self._count is None:
            self._count = _held(f"{self._path}/pids.current", os.O_RDONLY)
        if self._count is None:
            return int(self.read("pids.current") or 1 << 20)
        return int(os.pread(self._count, 32, 0))

    def members(self) -> list[int]:
        """The processes inside."""
        return [int(word) for word in self.read("cgroup.procs").split()]

    def remove(self) -> None:
        """Take the directory away; nobody may be inside."""
        for handle in (self._enter, self._count):
            if handle is not None:
                os.close(handle)
                _held_open.discard(handle)
        self._enter = self._count = None
        with contextlib.suppress(OSError):
            os.rmdir(self._path)


def places(root: str, name: str, controllers: tuple[str, ...]) -> tuple[dict[str, Place], bool]:
    """Where groups can be made, by controller, and whether that is version 2."""
    groups = _own_groups(root)
    if "" in groups and (place := _v2_place(groups[""], name, controllers)):
        return dict.fromkeys(controllers, place), True
    found = {}
    for controller in controllers:
        if controller in groups:
            place = Place(groups[controller], name, is_v2=False)
            with contextlib.suppress(OSError):
                place.make()
                found[controller] = place
    return found, False


def lent_place(place: Place) -> Place | None:
    """Beside a place of version 1, one whose weight is its own; None if it cannot be made."""
    lent = Place(place.home, os.path.basename(place.path) + LENT, is_v2=False)
    try:
        lent.make()
    except OSError:
        return None
    return lent


def yield_cpu(directory: str, *, is_v2: bool, is_idle: bool) -> None:
    """Let a group have only what its siblings leave, or its usual share."""
    try:
        _write(f"{directory}/cpu.idle", str(int(is_idle)))
    except OSError:  # Before Linux 5.15: the least weight that there is, or the usual one.
        weights = ("100", "1") if is_v2 else ("1024", "2")
        _write(f"{directory}/{'cpu.weight' if is_v2 else 'cpu.shares'}", weights[is_idle])


def _v2_place(home: str, name: str, controllers: tuple[str, ...]) -> Place | None:
    """A v2 group has processes or limited children, never both: the keeper moves to a leaf."""
    if not set(controllers) <= set(_read(f"{home}/cgroup.controllers").split()):
        return None
    place = Place(home, name, is_v2=True)
    wanted = " ".join(f"+{controller}" for controller in controllers)
    try:
        place.make()
        os.mkdir(f"{place.path}/home")
        _write(f"{place.path}/home/cgroup.procs", "0")
        if not set(controllers) <= set(_read(f"{home}/cgroup.subtree_control").split()):
            _write(f"{home}/cgroup.subtree_control", wanted)  # Refused while others live beside us.
        _write(f"{place.path}/cgroup.subtree_control", wanted)
    except OSError:
        place.remove()
        return None
    return place


def _own_groups(root: str) -> dict[str, str]:
    """Controller (`` for v2) to the directory of the group that we are in, below `root`."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        where, kinds = left.split(), right.split()
        if len(where) > 4 and len(kinds) > 2 and f"{where[4]}/".startswith(f"{root}/"):
            if kinds[0] == "cgroup2":
                mounts.setdefault("", (where[4], where[3]))
            elif kinds[0] == "cgroup":
                for option in kinds[2].split(","):
                    mounts.setdefault(option, (where[4], where[3]))
    found = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):
            if name in mounts:
                mount, mount_root = mounts[name]
                below = path.removeprefix(mount_root.rstrip("/")).strip("/")
                directory = f"{mount}/{below}" if below else mount
                found[name] = directory if os.path.isdir(directory) else mount
    return found


def _end_members(path: str) -> None:
    for _ in range(ENDING_ROUNDS_MAX):
        members = [
            int(word)
            for directory, _, _ in os.walk(path)
            for word in _read(f"{directory}/cgroup.procs").split()
        ]
        if not members:
            return
        for pid in members:
            reap.send_signal(pid, signal.SIGKILL)
        select.select((), (), (), 0.002)  # `time.sleep` fails under some libfaketime.


def _remove_tree(path: str) -> None:
    for directory, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)  # Somebody still inside: the next keeper tries again.


def _locked(path: str, *, or_leave: bool = False) -> int | None:
    """The directory, open and locked; None if it is gone, or another's that is to be left."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if or_leave else 0))
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


def _held(path: str, flags: int) -> int | None:
    if len(_held_open) >= HELD_OPEN_MAX:
        return None
    try:
        handle = os.open(path, flags | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    _held_open.add(handle)
    return handle


def _write(path: str, value: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
