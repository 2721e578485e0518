"""What `grid doctor` looks at, one function a question.

Lives here: questions about this machine, and what to do about the answers. Never here: printing.
Invariant: looking changes nothing but a temporary file in the data directory, which is removed.
"""

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from distributed_grid.client import calls, mesh_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.errors import GridError
from distributed_grid.model import bytesize
from distributed_grid.model.home import Home
from distributed_grid.model.membership import DAY_MS
from distributed_grid.wire.mesh_api import Nodes, NodeView

FSYNCS: Final = 5
FSYNC_MS_SLOW: Final = 20  # A disk with a queue; a job's promise waits for one of these.
DISK_BYTES_LOW: Final = bytesize.GIB
ADMINS_MIN: Final = 2  # With one, the day it breaks is the last on which anybody is let in.
EXPIRY_MS_NEAR: Final = 14 * DAY_MS  # Renewed from thirty days on: by then it should have been.
PYTHON_MIN: Final = (3, 11)
REMOUNT: Final = "See why (dmesg: a disk with errors?), and make it writable: mount -o remount,rw"
RUNTIME_S_MAX: Final = 10  # For `podman info`; the first one after a boot makes its directories.


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line: what was looked at, how it is, what would help."""

    what: str
    state: Literal["ok", "warn", "missing"]
    detail: str
    remedy: str = ""
    is_needed: bool = False  # Grid cannot work without it.


def examine(places: Home) -> list[Finding]:
    """Every finding, the needed ones first. A question that fails is a finding too."""
    home = Path(places.data)
    questions: list[tuple[str, Callable[[], Finding]]] = [
        ("python", _python),
        ("data directory", lambda: _data_directory(home)),
        ("user", _user),
        ("disk space", lambda: _disk_space(home)),
        ("fsync", lambda: _fsync(home)),
        ("agent", lambda: _agent(places)),
        ("mesh", lambda: _mesh(places)),
        ("limits", _limits),
        ("containers", _containers),
        ("NVIDIA", _nvidia),
    ]
    return [_answer(what, question) for what, question in questions]


def _answer(what: str, question: Callable[[], Finding]) -> Finding:
    try:
        return question()
    except (OSError, GridError) as error:
        return Finding(what=what, state="warn", detail=f"could not be examined: {error}")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    is_fine = sys.version_info[:2] >= PYTHON_MIN
    return Finding(
        what="python",
        state="ok" if is_fine else "missing",
        detail=f"{version} at {sys.executable}",
        remedy="" if is_fine else "Install Python 3.11 or newer",
        is_needed=True,
    )


def _data_directory(home: Path) -> Finding:
    what = "data directory"
    if not home.exists():
        place = next(parent for parent in home.parents if parent.exists())
        if os.access(place, os.W_OK):
            return Finding(what=what, state="ok", detail=f"{home}, made by grid up", is_needed=True)
        remedy = f"Make {place} writable, or set GRID_HOME to a directory that is"
        detail = f"{home} cannot be made"
        return Finding(what=what, state="missing", detail=detail, remedy=remedy, is_needed=True)
    if _is_read_only(home):
        detail = f"{home} is on a file system that is read-only"
        return Finding(what=what, state="missing", detail=detail, remedy=REMOUNT, is_needed=True)
    if not os.access(home, os.W_OK | os.X_OK):
        remedy = (
            f"chown it to yourself, or set GRID_HOME: now it belongs to uid {home.stat().st_uid}"
        )
        detail = f"{home} is not writable"
        return Finding(what=what, state="missing", detail=detail, remedy=remedy, is_needed=True)
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        detail, remedy = f"{home} has mode {mode:04o}: others can look in", f"chmod 700 {home}"
        return Finding(what=what, state="warn", detail=detail, remedy=remedy, is_needed=True)
    return Finding(what=what, state="ok", detail=f"{home}, mode {mode:04o}", is_needed=True)


def _is_read_only(home: Path) -> bool:
    """By trying: a file system that became so after an error does not always say it."""
    try:
        with tempfile.TemporaryFile(dir=home):
            return False
    except OSError as error:
        return error.errno == errno.EROFS


def _user() -> Finding:
    if os.geteuid():
        return Finding(what="user", state="ok", detail=f"uid {os.geteuid()}")
    return Finding(
        what="user",
        state="warn",
        detail="root: what a job starts can leave its control group, and outlive the job",
        remedy="Run grid up as an ordinary user",
    )


def _disk_space(home: Path) -> Finding:
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    is_low = free < DISK_BYTES_LOW
    return Finding(
        what="disk space",
        state="warn" if is_low else "ok",
        detail=f"{bytesize.text(free)} free at {place}",
        remedy="Free some: records, outputs and scratch directories of jobs live here"
        if is_low
        else "",
    )


def _fsync(home: Path) -> Finding:
    place = next(path for path in (home, *home.parents) if path.exists())
    took_us = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(FSYNCS):
            started_ns = time.monotonic_ns()
            file.write(b"grid")
            file.flush()
            os.fsync(file.fileno())
            took_us.append((time.monotonic_ns() - started_ns) // 1_000)
    median_us = sorted(took_us)[len(took_us) // 2]
    is_slow = median_us > FSYNC_MS_SLOW * 1_000
    return Finding(
        what="fsync",
        state="warn" if is_slow else "ok",
        detail=f"{median_us / 1_000:.2f} ms (each accepted job waits for one)",
        remedy="Put GRID_HOME onto an SSD that is not busy" if is_slow else "",
    )


def _agent(places: Home) -> Finding:
    with Caller(places.socket) as agent:
        try:
            status = agent.run(calls.status())
        except GridError as error:
            return Finding(what="agent", state="warn", detail=error.message, remedy=error.remedy)
    limits = ", ".join(f"{what} by {how}" for what, how in sorted(status.limits.items()))
    detail = f"{status.name}, pid {status.pid}, Grid {status.version}; limits: {limits or 'none'}"
    if status.troubles:
        return Finding(
            what="agent", state="warn", detail=detail, remedy=" / ".join(status.troubles)
        )
    return Finding(what="agent", state="ok", detail=detail)


def _mesh(places: Home) -> Finding:
    with Caller(places.socket) as agent:
        try:
            found = agent.run(mesh_calls.nodes())
        except GridError as error:
            return Finding(what="mesh", state="warn", detail=error.message, remedy=error.remedy)
    if not found.mesh:
        return Finding(
            what="mesh", state="ok", detail="in none; grid ticket or grid join changes that"
        )
    return mesh_finding(found, now_ms=time.time_ns() // 1_000_000)


def mesh_finding(found: Nodes, *, now_ms: int) -> Finding:
    """Whether this node may stay in its mesh, and whether the mesh can let anybody in tomorrow."""
    own = found.nodes[0]
    present = [node for node in found.nodes if node.health != "left"]
    admins = [node for node in present if "admin" in node.roles]
    faulty = [node for node in present if node.faults]
    parts = [f"{found.mesh[:8]}, {len(present)} nodes, {len(admins)} admins"]
    remedies = []
    if own.note:
        parts.append(own.note)
        remedies.append(_remedy_of(own))
    if own.expires_ms and own.expires_ms - now_ms < EXPIRY_MS_NEAR:
        days = max(0, own.expires_ms - now_ms) // DAY_MS
        parts.append(f"the certificate of this node ends in {days} days")
        remedies.append("Connect it with an admin's machine, which renews it by itself")
    if faulty:
        parts += [
            f"{node.name}: {node.note or 'what it said could not be handled'}" for node in faulty
        ]
        remedies.append(
            "Bring those nodes to the version of this one; if that does not help, "
            "report it with grid events, or remove them: grid kick"
        )
    if len(admins) < ADMINS_MIN:
        parts.append(
            "if that one is lost, nobody can be let in" if admins else "nobody lets others in"
        )
        remedies.append("Make another admin: grid ticket --role admin, then grid join there")
    return Finding(
        what="mesh",
        state="warn" if remedies else "ok",
        detail="; ".join(parts),
        remedy=". ".join(remedies),
    )


def _remedy_of(own: NodeView) -> str:
    if "two machines" in own.note:
        return "On the copy: grid down, then grid up --new-identity. The original goes on"
    if "revoked" in own.note:
        return "To come back: grid leave --force, grid up --new-identity, and a new ticket"
    if "mesh-authority.key" in own.note:
        return "Copy the recovery key to mesh-authority.key beside grid.db, chmod 600, start again"
    return "Connect it with an admin's machine, which renews it by itself"


def _limits() -> Finding:
    """Where groups could be made; what a running agent really uses is in its own line."""
    writable = sorted(set(_writable_groups()))
    if writable:
        detail = f"cgroups are writable: {', '.join(writable)}"
        return Finding(what="limits", state="ok", detail=detail)
    return Finding(
        what="limits",
        state="warn",
        detail="no writable cgroup: memory by a watchdog, processes by rlimit, cores by pinning",
        remedy="With systemd: systemd-run --user --scope -p Delegate=yes grid up",
    )


def _writable_groups() -> Iterator[str]:
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            mount = Path("/sys/fs/cgroup") / controller
            # Inside a container the path is often the host's: the mount itself is then our group.
            group = next((g for g in (mount / path.lstrip("/"), mount) if g.is_dir()), None)
            if group is None or not os.access(group / "cgroup.procs", os.W_OK):
                continue
            if controller in ("cpu", "memory", "pids"):
                yield f"{controller} (v1)"
            elif not controller:
                known = (group / "cgroup.controllers").read_text(encoding="utf-8").split()
                yield from (f"{name} (v2)" for name in known if name in ("cpu", "memory", "pids"))


def _containers() -> Finding:
    from distributed_grid.edges.runner import container
    from distributed_grid.edges.runner.program import NotRun

    what = "containers"
    try:
        through = container.runtime(os.environ)
    except NotRun as problem:
        detail = problem.note.partition(";")[0]
        remedy = f"Install podman (apt, dnf or brew install podman), or set {container.RUNTIME}"
        return Finding(what=what, state="missing", detail=detail, remedy=remedy)
    words = " ".join(through.words)
    trouble = _trouble_of(through.words)
    if trouble:
        remedy = f"Try: {words} info. Start its daemon, or set {container.RUNTIME} to what works"
        return Finding(what=what, state="warn", detail=f"{words}: {trouble}", remedy=remedy)
    if not through.has_init:
        detail = f"{words}, without catatonit: jobs that ignore SIGTERM wait for the kill"
        return Finding(what=what, state="warn", detail=detail, remedy="Install catatonit")
    return Finding(what=what, state="ok", detail=words)


def _trouble_of(runtime: tuple[str, ...]) -> str:
    """What a container runtime complains about; empty if it works."""
    try:
        done = subprocess.run(  # noqa: S603
            [*runtime, "info"], capture_output=True, timeout=RUNTIME_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return f"does not answer within {RUNTIME_S_MAX} s"
    if not done.returncode:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.returncode}"


def _nvidia() -> Finding:
    from distributed_grid.edges.probe.gpu_nvidia import nvidia_gpus

    absent: dict[str, str] = {}
    gpus = nvidia_gpus(Tree("/"), absent)
    if gpus:
        models = ", ".join(gpu.model for gpu in gpus)
        return Finding(what="NVIDIA", state="ok", detail=f"{len(gpus)}: {models}")
    why = "; ".join(absent.values()) or "no NVIDIA GPU"
    has_device = any(Path("/dev").glob("nvidia[0-9]*"))
    return Finding(
        what="NVIDIA",
        state="warn" if has_device else "ok",
        detail=f"none: {why}",
        remedy="Install the driver's NVML library (libnvidia-ml.so.1)" if has_device else "",
    )
