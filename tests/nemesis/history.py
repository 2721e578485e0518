"""What happened, when, by whom: told whole when a promise was broken.

Lives here: one list for all threads. Time is that of CLOCK_BOOTTIME, which the processes of jobs
write down as well.
"""

import threading
import time


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class History:
    """Lines, each with its moment."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, str, str]] = []
        self._lock = threading.Lock()
        self.began_s = boot_s()

    def add(self, who: str, what: str) -> None:
        with self._lock:
            self._lines.append((boot_s(), who, what))

    def told(self, *words: str, by: str = "") -> list[str]:
        """Those that name one of these, or that somebody wrote; without either, all."""
        with self._lock:
            lines = list(self._lines)
        return [
            f"{at:10.2f} {who:8} {what}"
            for at, who, what in lines
            if (not words and not by) or who == by or any(word in what for word in words)
        ]
