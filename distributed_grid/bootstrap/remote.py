"""The programme that runs on the machine to be brought in; its text goes there, alone, over ssh.

    PYTHON < its own text, then orders, a JSON object a line > answers, a line each after `GRID:`

Lives here: installing beside what is there, starting, joining, looking. Never here: what is to be
done (`bringing`), anything but the standard library.
Invariant: one at a time on a machine and account; a directory under its final name is whole.
"""

import fcntl
import json
import platform
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path.home() / ".local/opt/grid"
GRID: Final = str(ROOT / "current/bin/grid")
COMMAND_S: Final = 100
INDEX_S: Final = 900
PIECE_BYTES: Final = 1 << 20
STARTED: Final = ROOT / "started"  # Which installation the agent was started from.
UNIT: Final = Path.home() / ".config/systemd/user/grid.service"


class Failed(Exception):
    """Something that a person must hear of: why, and the remedy."""


def tell(**answer: Any) -> None:
    """One line for the other side."""
    sys.stdout.write(f"GRID:{json.dumps(answer)}\n")
    sys.stdout.flush()


def main() -> None:
    """Carry out orders until there are no more."""
    ROOT.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (ROOT / "lock").open("w", encoding="ascii") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                tell(say="waits for another bootstrap of this machine")
                time.sleep(2)
        version = ".".join(map(str, sys.version_info[:2]))
        libc, glibc = platform.libc_ver()
        tell(
            system=platform.system(),
            machine=platform.machine(),
            python=version,
            glibc=glibc if libc == "glibc" else "",
        )
        for line in sys.stdin.buffer:
            order = json.loads(line)
            try:
                tell(**ORDERS[order.pop("do")](**order))
            except Failed as failed:
                tell(why=failed.args[0], remedy=failed.args[1])
            except OSError as error:
                tell(
                    why=f"{error.filename or ROOT}: {error.strerror}",
                    remedy="Make room or rights there",
                )


def look(*, wanted: str) -> dict[str, Any]:
    """Whether this very installation is there and whole, and which is."""
    current = (ROOT / "current").resolve()
    whole = current.name if _works(current) else ""
    return {"is_installed": whole == wanted, "installed": whole}


def install(*, wanted: str, size: int, from_index: bool, wheel: str) -> dict[str, Any]:
    """Take what follows on stdin, unpack it beside what is there, try it, and make it the one."""
    final = ROOT / "versions" / wanted
    draft = final.with_name(f"{wanted}.part")
    shutil.rmtree(draft, ignore_errors=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = draft / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    try:
        sent = draft / Path(wheel).name
        _receive(sent, size)
        if from_index:
            _from_index(sent, packages)
        else:
            _unpack(sent, packages)
        sent.unlink()
        _make_environment(draft, final)
        _check(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    shutil.rmtree(final, ignore_errors=True)
    draft.rename(final)
    before = (ROOT / "current").resolve()
    _point(ROOT / "current", final)
    for other in final.parent.iterdir():
        if other not in (final, before):  # The keeper of running jobs is still the one before.
            shutil.rmtree(other, ignore_errors=True)
    shown = Path.home() / ".local/bin/grid"
    shown.parent.mkdir(parents=True, exist_ok=True)
    if not shown.exists():
        _point(shown, Path(GRID))
    return {"place": str(final)}


def start(*, wanted: str, name: str) -> dict[str, Any]:
    """See to it that the agent runs, and from this installation; jobs go on meanwhile."""
    is_up = _ran([GRID, "status"])[0] == 0
    is_ours = _text(STARTED) == wanted
    if is_up and is_ours:
        return {"was": "runs already", **nodes()}
    if UNIT.exists() and _ran(["systemctl", "--user", "restart", "grid.service"])[0] == 0:
        is_up = True  # It was started there as well.
    else:
        _needed([GRID, "up", "--detach", "--replace", *(["--name", name] if name else [])])
    draft = STARTED.with_suffix(".new")
    draft.write_text(wanted, encoding="utf-8")
    draft.replace(STARTED)
    return {"was": "was restarted" if is_up else "was started", **nodes()}


def nodes() -> dict[str, Any]:
    """The mesh that this machine is in, who it is, and who is alive for it."""
    seen = json.loads(_needed([GRID, "nodes", "--json"]))
    own = next(node for node in seen["nodes"] if node["is_self"])
    alive = [node["id"] for node in seen["nodes"] if node["health"] == "alive"]
    return {"mesh": seen["mesh"], "id": own["id"], "name": own["name"], "alive": alive}


def join(*, ticket: str) -> dict[str, Any]:
    """Become one of the mesh; the ticket is in no argument and no file."""
    _needed([GRID, "join", "-"], given=ticket)
    return nodes()


def rename(*, name: str) -> dict[str, Any]:
    """Be called so, unless another is; the mesh may know it by an older name."""
    _ran([GRID, "rename", name])
    return nodes()


ORDERS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "look": look,
    "install": install,
    "start": start,
    "nodes": nodes,
    "join": join,
    "rename": rename,
}
PROBE: Final = "import distributed_grid.app, distributed_grid.cli.commands, iroh, sqlite3"


def _receive(path: Path, size: int) -> None:
    free = shutil.disk_usage(ROOT).free
    if free < size * 5:  # Unpacked it is three to four times as large.
        why = f"{free >> 20} MiB are free in {ROOT}, {size * 5 >> 20} MiB are needed"
        _forget(size)
        raise Failed(why, "Make room there")
    with path.open("wb") as file:
        while size:
            piece = sys.stdin.buffer.read(min(size, PIECE_BYTES))
            if not piece:
                raise SystemExit(1)  # The other side has gone.
            file.write(piece)
            size -= len(piece)


def _forget(size: int) -> None:
    while size and (piece := sys.stdin.buffer.read(min(size, PIECE_BYTES))):
        size -= len(piece)


def _unpack(bundle: Path, packages: Path) -> None:
    with zipfile.ZipFile(bundle) as wheels:
        for name in wheels.namelist():
            with wheels.open(name) as file, zipfile.ZipFile(file) as wheel:
                wheel.extractall(packages)


def _from_index(wheel: Path, packages: Path) -> None:
    words = ["-m", "pip", "install", "--no-input", "--quiet", "--target", str(packages), str(wheel)]
    code, said = _ran([sys.executable, *words], limit_s=INDEX_S)
    if code and "No module named pip" in said:
        raise Failed("its Python has no pip", "Install it there: sudo apt install python3-pip")
    if code:
        raise Failed(
            f"what runs here does not fit there, and pip there failed: {said}",
            "Give that machine a package index (PIP_INDEX_URL, a proxy), and try again",
        )


def _make_environment(draft: Path, final: Path) -> None:
    """A virtual environment by hand: not every Python there has what makes one."""
    base = Path(sys.executable).resolve()
    (draft / "bin").mkdir(exist_ok=True)
    version = ".".join(map(str, sys.version_info[:3]))
    (draft / "pyvenv.cfg").write_text(
        f"home = {base.parent}\nversion = {version}\ninclude-system-site-packages = false\n",
        encoding="utf-8",
    )
    brought = base.with_name(f"{base.name}.bin")  # From another machine, libraries too.
    if brought.exists():
        (draft / "bin/python.bin").symlink_to(brought)
        wrapper = base.read_text(encoding="utf-8")
        _script(draft / "bin/python", wrapper.replace("${0%/*}/..", str(base.parents[1])))
    else:
        (draft / "bin/python").symlink_to(base)
    words = f'"{final}/bin/python" -P -m distributed_grid "$@"'
    _script(draft / "bin/grid", f"#!/bin/sh\nexec {words}\n")


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)


def _check(place: Path) -> None:
    code, said = _ran([str(place / "bin/python"), "-I", "-c", PROBE])
    if code:
        raise Failed(f"what was sent does not run there: {said}", "Try another Python there")


def _works(place: Path) -> bool:
    return _ran([str(place / "bin/python"), "-I", "-c", PROBE])[0] == 0


def _point(link: Path, target: Path) -> None:
    draft = link.with_name(f"{link.name}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(1_000)
    except OSError:
        return ""


def _ran(words: list[str], *, given: str = "", limit_s: int = COMMAND_S) -> tuple[int, str]:
    """The exit code, and what was said: data if all is well, else the last words."""
    try:
        done = subprocess.run(  # noqa: S603  (our own words)
            words,
            input=given.encode(),
            capture_output=True,
            timeout=limit_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return 1, f"{' '.join(words[:2])} took longer than {limit_s} s"
    except OSError as error:
        return 127, f"{words[0]}: {error.strerror}"
    said = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    text = said.decode(errors="replace").strip()
    return done.returncode, text if done.returncode == 0 else " / ".join(text.splitlines()[-3:])


def _needed(words: list[str], *, given: str = "") -> str:
    code, said = _ran(words, given=given)
    if code:
        doing = f"grid {words[1]}"
        raise Failed(
            f"{doing} failed: {said.removeprefix('grid: ')}", f"Look there with: {GRID} doctor"
        )
    return said


if __name__ == "__main__":
    main()
