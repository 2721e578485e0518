"""A task that notes each of its beginnings: when, in which process, under which parent."""

import os
import time
from pathlib import Path

LOOK_S = 0.005


def begin_and_sleep(path: str) -> None:
    """The task."""
    with Path(path).open("a", encoding="ascii") as file:
        file.write(f"{time.time()} {os.getpid()} {os.getppid()}\n")
    time.sleep(600)


def begun(path: str, times: int, bound_s: float) -> tuple[float, int, int]:
    """The last of so many beginnings: when, its process, the parent of that."""
    deadline = time.monotonic() + bound_s
    while True:
        lines = Path(path).read_text().splitlines() if Path(path).exists() else []
        if len(lines) >= times:
            at, pid, parent = lines[times - 1].split()
            return float(at), int(pid), int(parent)
        assert time.monotonic() < deadline, f"it did not begin {times} times in {bound_s} s"
        time.sleep(LOOK_S)
