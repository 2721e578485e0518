"""Ctrl-C while a job is submitted and runs: noticed at a safe moment, then a person is asked.

Lives here: signals, and the question. Never here: cancelling (`foreground`).
Invariant: a handler does not raise, so that no encoder, answer or write is torn; only out of a
write that does not end, and only at the second signal.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Self

from distributed_grid.cli.tell import tell
from distributed_grid.client.blocking import Woken

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal closed.
Choice = Literal["cancel", "detach", "go on"]


class Interrupts:
    """Catches signals: a byte arrives at `fileno`, for select and for a Caller that waits."""

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)  # Full is as good as one byte.
        self._is_held = False
        self._is_writing = False
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

    def has_come(self) -> bool:
        """Whether there is a signal to answer."""
        return self.last is not None

    @property
    def code(self) -> int:
        """The exit code of who leaves because of a signal."""
        return 128 + (self.last or signal.SIGINT)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """For a question whose answer must be known: the first signal waits for it, in `last`."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """For a write to somebody who may never read: the second signal leaves it."""
        self._is_writing = True
        try:
            yield
        finally:
            self._is_writing = False

    def ask(self, name: str) -> Choice:
        """What shall become of the job; without a terminal there is nobody to ask."""
        is_asked = self.last == signal.SIGINT and sys.stdin.isatty() and sys.stderr.isatty()
        choice = self._answer(name) if is_asked else "cancel"
        with contextlib.suppress(BlockingIOError):  # From here on, one more wakes again.
            os.read(self._read_end, 1 << 16)
        if choice == "go on":
            self.last = None
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
        if is_second or not self._is_held:
            with contextlib.suppress(BlockingIOError):
                os.write(self._write_end, b"!")
        if is_second and self._is_writing:
            raise Woken
