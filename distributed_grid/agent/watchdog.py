"""Steps that take too long are broken off, where the system can do that.

Lives here: the timer. Never here: what follows from that (`blast_door`).
Invariant: the timer runs only during a step, and what it raises is raised inside that step.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PEER_S: Final = 1.0  # For what one peer, or some together, have said.
OWN_S: Final = 10.0  # For what time alone makes of it: thousands of jobs of a home that died.


class TookTooLong(Exception):
    """A step was broken off."""


class _Timer:
    """The one of this process."""

    def __init__(self) -> None:
        self.until_s = 0.0  # Of the main thread's own time; 0: nothing is being timed.

    def rang(self, *_: object) -> None:
        """A machine that slept, or gave its time to others, has not worked on the step so long."""
        left_s = self.until_s - time.thread_time()
        if self.until_s and left_s > 0:
            signal.setitimer(signal.ITIMER_REAL, left_s)
        elif self.until_s:
            self.until_s = 0.0
            raise TookTooLong("it took too long")


_timer: Final = _Timer()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TookTooLong if what is done meanwhile takes longer, of this thread's own time.

    Only in the main thread, which alone hears signals; elsewhere nothing is limited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGALRM) != _timer.rang:
        signal.signal(signal.SIGALRM, _timer.rang)
    _timer.until_s = time.thread_time() + seconds
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        _timer.until_s = 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
