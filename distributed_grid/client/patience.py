"""How long an agent that went away in the middle of an answer is waited for.

Lives here: when to give up. Never here: sockets, clocks, waiting (the drivers).
Invariant: tries that fail one after the other end; an agent that lived in between is a new one.
"""

from typing import Final

RESTART_S: Final = 5.0  # A crashed agent is back within 1 s on an idle machine.
KEPT_S: Final = 15.0  # If it crashes again and again, its keeper waits up to 5 s before each start.
RETRY_S: Final = 0.02  # Before each try: who just died may still have an open door, and no ears.


class Patience:
    """With the agent of one question, or of one stream. Times are those of one clock."""

    def __init__(self) -> None:
        self._tried_s: float | None = None  # When the try began that is under way.
        self._since_s: float | None = None  # When it went away; None: nothing is amiss.

    def tries(self, now_s: float) -> None:
        """The question is asked now."""
        self._tried_s = now_s

    def begins_anew(self) -> None:
        """A whole answer, or more of a stream: what goes wrong after this is another crash."""
        self._since_s = None

    def is_over(self, now_s: float, *, has_keeper: bool) -> bool:
        """After a try that failed: whether that was the last one.

        Who waits for a job hears nothing for long: a try that lasted had an agent that lived.
        """
        has_lasted = self._tried_s is not None and now_s - self._tried_s > RESTART_S
        if self._since_s is None or has_lasted:
            self._since_s = now_s
            self._tried_s = None
        return now_s - self._since_s >= (KEPT_S if has_keeper else RESTART_S)
