"""Limits that a process inherits from the keeper where no control group can be made.

Lives here: how many processes. Never here: memory (`watchdog`: RLIMIT_AS counts what is merely
reserved, and a Go or Java program reserves gigabytes), open files (left as they are).
Invariant: only soft limits change, so the keeper can always take its own back.
"""

import os
import resource
from typing import Final

_UNLIMITED: Final = resource.RLIM_INFINITY


class ProcessLimit:
    """RLIMIT_NPROC, which counts all processes of a user: those that were there come on top."""

    def __init__(self) -> None:
        self._home, self._hard = resource.getrlimit(resource.RLIMIT_NPROC)
        self._now = self._home
        self._others = _threads_of_user()

    @staticmethod
    def is_enforced() -> bool:
        """The kernel exempts root."""
        return os.geteuid() != 0

    def put_on(self, processes_max: int) -> None:
        """For the next child; 0 means as the keeper found it."""
        wanted = self._home
        if processes_max:
            wanted = processes_max + self._others
            wanted = min(x for x in (wanted, self._home, self._hard, wanted) if x != _UNLIMITED)
        if wanted != self._now:
            resource.setrlimit(resource.RLIMIT_NPROC, (wanted, self._hard))
            self._now = wanted


def _threads_of_user() -> int:
    user, count = os.geteuid(), 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count
