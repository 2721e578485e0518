"""The keeper's parent, a sleeping shell that ends whatever a dead keeper leaves behind.

Lives here: becoming two processes, and what the older one does. Never here: ending jobs while the
keeper lives (`reap`).
Invariant: only the keeper holds the write end of the pipe, so end of file means that it is gone.

Why a parent and not a list of process ids in a file: a subreaper is handed every orphan below it
by the kernel, also those that left their session. There is no moment between a spawn and a note of
it, and no id to be mistaken for another's. The setting survives `exec`, so a shell of one megabyte
can do the waiting.
"""

import contextlib
import ctypes
import os
import sys
from typing import Final, NoReturn

PR_SET_CHILD_SUBREAPER: Final = 36

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


def part_from_sentinel() -> int:
    """Fork: the child goes on with the write end of the pipe, the parent becomes the sentinel."""
    read_end, write_end = os.pipe()
    if not become_subreaper() or not os.path.exists(f"/proc/{os.getpid()}/task"):
        os.close(read_end)  # Not Linux: jobs of a keeper that is killed go on.
        return write_end
    if os.fork():
        _become_sentinel(read_end)
    os.close(read_end)
    become_subreaper()  # Not inherited by fork.
    return write_end


def _become_sentinel(read_end: int) -> NoReturn:
    os.set_inheritable(read_end, True)
    os.execv("/bin/sh", ["/bin/sh", "-c", SCRIPT, "grid-sentinel", str(read_end)])  # noqa: S606


def tell_groups(write_end: int, paths: list[str]) -> None:
    """What is to be removed when nobody else can."""
    with contextlib.suppress(OSError):
        os.write(write_end, "".join(f"{path}\n" for path in paths).encode())


def dismiss(write_end: int, exit_code: int) -> None:
    """Tell the sentinel that this end is in order, and with which exit code."""
    with contextlib.suppress(OSError):  # It was killed, or there never was one.
        os.write(write_end, b"%d\n" % exit_code)


def become_subreaper() -> bool:
    """Let the kernel hand orphans below us to us; whether it does."""
    if sys.platform != "linux":
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
