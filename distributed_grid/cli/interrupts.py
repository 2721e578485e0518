"""Ctrl-C while a job runs: noticed at a safe moment, then a person is asked.

Lives here: signals, and the question. Never here: cancelling (`foreground`).
Invariant: a signal never tears a write in two, unless a second one says so.
"""

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Self

from distributed_grid.cli.tell import tell

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal closed.
Choice = Literal["cancel", "detach", "go on"]


class Interrupted(KeyboardInterrupt):
    """A signal came where waiting could not be left in another way."""


class Interrupts:
    """Catches signals. With `raises` at once, else a byte arrives at `fileno`, for select."""

    def __init__(self, *, raises: bool) -> None:
        self._raises = raises
        self._previous: dict[signal.Signals, Any] = {}
        self._read_end, self._write_end = os.pipe()
        self.last: int | None = None  # The signal that is not answered yet.

    def __enter__(self) -> Self:
        # Under nohup a closed terminal shall end nothing.
        is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        heard = [number for number in SIGNALS if number != signal.SIGHUP or not is_nohup]
        self._previous = {number: signal.signal(number, self._heard) for number in heard}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)

    def fileno(self) -> int:
        """Readable when a signal came."""
        return self._read_end

    def ask(self, name: str) -> Choice:
        """What shall become of the job; without a terminal there is nobody to ask."""
        is_asked = self.last == signal.SIGINT and sys.stdin.isatty() and sys.stderr.isatty()
        choice = self._answer(name) if is_asked else "cancel"
        if choice == "go on":
            self.last = None
            os.set_blocking(self._read_end, False)
            os.read(self._read_end, 512)
        return choice

    def _answer(self, name: str) -> Choice:
        question = f"\nJob {name} runs. [c]ancel it, [d]etach (it goes on), or [g]o on watching? "
        held = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            tell(question, end="")
            letter = sys.stdin.readline().strip().lower()[:1] or "c"
        except KeyboardInterrupt:  # The second one.
            tell()
            return "cancel"
        finally:
            signal.signal(signal.SIGINT, held)
        choices: dict[str, Choice] = {"d": "detach", "g": "go on"}
        return choices.get(letter, "cancel")

    def _heard(self, number: int, frame: FrameType | None) -> None:
        del frame
        is_second = self.last is not None
        self.last = number
        os.write(self._write_end, b"!")
        if self._raises or is_second:
            raise Interrupted
