"""The keeper's parent and grandparent, sleeping shells that end what a dead keeper leaves behind.

Lives here: becoming three processes, and what the older ones do. Never here: ending jobs while the
keeper lives (`reap`).
Invariant: only the keeper holds the write ends of their pipes: end of file means that it is gone.

Why a parent and not a list of process ids in a file: a subreaper is handed every orphan below it
by the kernel, also those that left their session. There is no moment between a spawn and a note of
it, and no id to be mistaken for another's. The setting survives `exec`, so a shell of one megabyte
can do the waiting.

Why two: whoever kills the keeper may kill its parent with it, and there must be one left that is
handed what they leave. Each of the three is in a process group of its own, so that a signal to one
group spares the others. (A parent-death signal would have to be set by each job between its fork
and its exec, where `posix_spawn` runs nothing of ours; and a job's own children do not inherit it.)
"""

import contextlib
import ctypes
import os
import sys
from typing import Final, NoReturn

PR_SET_CHILD_SUBREAPER: Final = 36
SENTINELS: Final = 2

# $1: the read end of the pipe. A line on it is a control group to be removed after a bad end, or
# an exit status: an end in order.
SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM
pipe=$1
shift
while read -r line <&"$pipe"; do
    case "$line" in
        /*) set -- "$@" "$line" ;;
        *) exit "$line" ;;
    esac
done
cd /
rounds=0
while [ "$rounds" -lt 500 ]; do
    rounds=$((rounds + 1))
    children=
    read -r children <"/proc/$$/task/$$/children"
    alive=
    for pid in $children; do
        stat=
        read -r stat 2>/dev/null <"/proc/$pid/stat" || continue
        case "${stat##*)}" in
            ' Z '* | ' X '*) ;;
            *) kill -KILL "$pid" 2>/dev/null; alive=yes ;;
        esac
    done
    [ -n "$alive" ] || break
    sleep 0.01
done
for group in "$@"; do
    rmdir "$group"/*/ "$group"
done 2>/dev/null
exit 137
"""


def part_from_sentinels() -> list[int]:
    """Fork twice: the child goes on with the write ends of two pipes, the others watch over it."""
    if not become_subreaper() or not os.path.exists(f"/proc/{os.getpid()}/task"):
        return []  # Not Linux: jobs of a keeper that is killed go on.
    return [_part() for _ in range(SENTINELS)]


def _part() -> int:
    read_end, write_end = os.pipe()
    if os.fork():
        _become_sentinel(read_end)  # Pipes of those above it are closed by the exec.
    os.close(read_end)
    os.setpgid(0, 0)
    become_subreaper()  # Not inherited by fork.
    return write_end


def _become_sentinel(read_end: int) -> NoReturn:
    os.set_inheritable(read_end, True)
    os.execv("/bin/sh", ["/bin/sh", "-c", SCRIPT, "grid-sentinel", str(read_end)])  # noqa: S606


def tell_groups(write_ends: list[int], paths: list[str]) -> None:
    """What is to be removed when nobody else can."""
    _tell(write_ends, "".join(f"{path}\n" for path in paths))


def dismiss(write_ends: list[int], exit_code: int) -> None:
    """Tell the sentinels that this end is in order, and with which exit code."""
    _tell(write_ends, f"{exit_code}\n")


def _tell(write_ends: list[int], text: str) -> None:
    for write_end in write_ends:
        with contextlib.suppress(OSError):  # It was killed.
            os.write(write_end, text.encode())


def become_subreaper() -> bool:
    """Let the kernel hand orphans below us to us; whether it does."""
    if sys.platform != "linux":
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
