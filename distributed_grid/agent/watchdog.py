"""Steps that take too long are broken off, where the system can do that.

Lives here: the timer. Never here: what follows from that (`blast_door`).
Invariant: what the timer raises is raised inside a step; a process that does nothing is not woken.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PEER_S: Final = 1.0  # For what one peer, or some together, have said.
LOOK_S: Final = 0.2  # Between two looks at a step.
OWN_S: Final = 10.0  # For what time alone makes of it: thousands of jobs of a home that died.


class TookTooLong(Exception):
    """A step was broken off."""


class _Timer:
    """The one of this process. It goes on between steps that follow each other, and then stops."""

    def __init__(self) -> None:
        self.most_s = 0.0  # For the present step; 0: there is none.
        self._since_s: float | None = None  # It was there by then, of this thread's own time.
        self._is_running = False

    def begin(self, most_s: float) -> None:
        """There is a step now. That costs nothing, but for the first one in a while."""
        self._since_s, self.most_s = None, most_s
        if not self._is_running:
            self._is_running = True
            if signal.getsignal(signal.SIGALRM) != self._rang:
                signal.signal(signal.SIGALRM, self._rang)
                signal.siginterrupt(signal.SIGALRM, False)  # Other threads do not notice.
            signal.setitimer(signal.ITIMER_REAL, LOOK_S)

    def _rang(self, *_: object) -> None:
        """A machine that slept, or gave its time to others, has not worked on the step so long."""
        self._is_running = bool(self.most_s)
        if not self._is_running:
            return
        now_s = time.thread_time()
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self.most_s:
            self.most_s, self._is_running = 0.0, False
            raise TookTooLong("it took too long")
        signal.setitimer(signal.ITIMER_REAL, LOOK_S)


_timer: Final = _Timer()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TookTooLong if what is done meanwhile takes longer, of this thread's own time.

    A look or two longer, that is. Only in the main thread, which alone hears signals; elsewhere
    nothing is limited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _timer.begin(seconds)
    try:
        yield
    finally:
        _timer.most_s = 0.0
