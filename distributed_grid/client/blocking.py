"""Calls and streams driven over a blocking unix socket.

Lives here: connecting, timeouts, patient reconnects. Never here: what is asked (`calls`), how long
an agent may be away (`patience`).
Invariant: every wait has a deadline; what goes wrong with the connection is a NoAgent. A connection
carries one question at a time, of the process that opened it: threads and forks never share one.
"""

import _socket  # `socket` makes enums of 300 numbers first: two milliseconds of every `grid run`.
import contextlib
import os
import select
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from distributed_grid.client import door
from distributed_grid.client.calls import Call
from distributed_grid.client.exchange import (
    READ_BYTES,
    Broken,
    Exchange,
    Gathering,
    Piece,
    Request,
    Response,
)
from distributed_grid.client.patience import RETRY_S, Patience
from distributed_grid.client.resting import rest
from distributed_grid.client.streams import Stream
from distributed_grid.errors import NoAgent

T = TypeVar("T")

ANSWER_S: Final = 30.0  # An agent that fsyncs to a slow disk under load still answers in this.
COMING_S: Final = 2.0  # Where a restart is only likely: a keeper lives, and nobody answers.
IDLE_LINES_MAX: Final = 8  # Kept for the next question; as many threads seldom ask at once.


class Woken(KeyboardInterrupt):
    """Somebody told us, by `wake_fd`, not to wait any longer."""


class Meanwhile(Protocol):
    """What somebody does while an answer takes long; only for callers that can be woken."""

    def due_s(self) -> float:
        """In how many seconds there is something to do."""
        ...

    def look(self) -> None:
        """Do it; it may ask the same agent, on another line."""
        ...


class Line:
    """One connection, one conversation. With `wake_fd` waiting ends when that is readable."""

    meanwhile: Meanwhile | None = None

    def __init__(
        self, path: str, *, patience: Patience | None = None, wake_fd: int | None = None
    ) -> None:
        self._path = path
        self._socket = _connected(path)
        self._exchange = Exchange()
        self._wake_fd = wake_fd
        self._pid = os.getpid()
        self.patience = patience or Patience()

    def ask(self, request: Request, *, answer_s: float = ANSWER_S) -> None:
        """Send a request."""
        self.patience.tries(time.monotonic())
        self._socket.settimeout(answer_s + request.wait_ms / 1_000)
        try:
            self._socket.sendall(self._exchange.ask(request))
        except TimeoutError as error:
            raise NoAgent(self._path, why="it does not read what it is told") from error
        except OSError as error:
            raise Broken(str(error)) from error

    def hear(self) -> list[Piece]:
        """The pieces of the next read; waits for it, but not for ever."""
        try:
            if self._wake_fd is not None:
                self._await(self._wake_fd)
            return self._exchange.hear(self._socket.recv(READ_BYTES))
        except TimeoutError as error:
            seconds = self._socket.gettimeout() or 0
            why = f"it did not answer within {seconds:g} s"
            raise NoAgent(self._path, why=why) from error
        except OSError as error:
            raise error if isinstance(error, Broken) else Broken(str(error)) from error

    def _await(self, wake_fd: int) -> None:
        # A signal handler that raised would do so anywhere: also inside of C that cannot bear it.
        watched = [self._socket.fileno(), wake_fd]
        until_s = time.monotonic() + (self._socket.gettimeout() or 0)
        while True:
            left_s = max(until_s - time.monotonic(), 0)
            due_s = left_s if self.meanwhile is None else min(left_s, self.meanwhile.due_s())
            ready, _, _ = select.select(watched, [], [], due_s)
            if wake_fd in ready:
                raise Woken
            if ready:
                return
            if self.meanwhile is None or due_s >= left_s:
                raise TimeoutError
            self.meanwhile.look()

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    @property
    def is_fresh(self) -> bool:
        """Whether it can carry another request: not closed, nothing left over, not a parent's."""
        if not self._exchange.is_reusable or self._pid != os.getpid():
            return False
        return self.is_silent

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to hear at this moment."""
        readable, _, _ = select.select([self._socket], [], [], 0)
        return not readable

    def close(self) -> None:
        """Hang up. After a fork only for this process: the other's conversation goes on."""
        self._socket.close()


class Caller:
    """Carries calls and streams to the agent behind one socket, for any number of threads.

    Each question has a connection for itself while it is asked; idle ones are used again.
    """

    def __init__(
        self,
        path: str,
        *,
        answer_s: float = ANSWER_S,
        coming_s: float = COMING_S,
        wake_fd: int | None = None,
    ) -> None:
        self.path = path
        self._answer_s = answer_s
        self._coming_s = coming_s
        self._wake_fd = wake_fd  # Readable: whoever waits raises Woken.
        self.meanwhile: Meanwhile | None = None
        self._idle: list[Line] = []  # Taken and given back in one step each: threads may.

    def run(self, call: Call[T]) -> T:
        """Drive a call to its value."""
        try:
            request = next(call)
            while True:
                request = call.send(self._answered(request))
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            call.close()

    def stream(self, stream: Stream[T]) -> Iterator[T]:
        """What a stream says, on a connection of its own, over restarts of the agent."""
        line: Line | None = None
        try:
            while not stream.is_over:
                line, found = self.next_of(stream, line)
                yield from found
        finally:
            if line is not None:
                line.close()

    def next_of(self, stream: Stream[T], line: Line | None) -> tuple[Line, list[T]]:
        """The next things a stream says, and the line on which it goes on."""
        line = line or self.opened(stream)
        try:
            found = stream.feed(line.hear())
        except Broken as error:
            line.close()
            stream.begin_again()
            return self._opened_again(stream, line.patience, error), []
        except BaseException:
            line.close()
            raise
        if found:
            line.patience.begins_anew()
        return line, found

    def opened(self, stream: Stream[T]) -> Line:
        """A new line on which the stream was asked for."""
        line = self.line()
        try:
            return self._asked(line, stream.request())
        except Broken as error:
            return self._opened_again(stream, line.patience, error)

    def line(self) -> Line:
        """A new connection; patient only if a keeper is about to bring the agent back."""
        deadline = time.monotonic() + self._coming_s
        while True:
            try:
                return Line(self.path, wake_fd=self._wake_fd)
            except NoAgent:
                if time.monotonic() >= deadline or not door.is_coming_back(self.path):
                    raise
            self._pause()

    def close(self) -> None:
        """Hang up."""
        while (line := self._taken()) is not None:
            line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answered(self, request: Request) -> Response:
        started = time.monotonic()
        line = self._fresh_line()
        while True:
            try:
                response = self._once(request, line)
                break
            except Broken as error:
                if not request.is_repeatable:
                    raise NoAgent(self.path, why=str(error)) from error
                line = self._line_again(line.patience, error)
        return response._replace(took_ms=int((time.monotonic() - started) * 1_000))

    def asked(self, request: Request) -> Line:
        """A line on which a request was sent, for `heard`; raises Broken if the agent went away."""
        return self._asked(self._fresh_line(), request)

    def _once(self, request: Request, line: Line) -> Response:
        return self.heard(self._asked(line, request))

    def heard(self, line: Line) -> Response:
        """The whole answer; raises Broken if the agent went away before it was complete."""
        try:
            gathering = Gathering()
            while (response := gathering.add(line.hear())) is None:
                pass
        except BaseException:
            line.close()
            raise
        line.patience.begins_anew()
        # Given back only if the conversation ended well.
        if len(self._idle) < IDLE_LINES_MAX:
            self._idle.append(line)
        else:
            line.close()
        return response

    def _asked(self, line: Line, request: Request) -> Line:
        line.meanwhile = self.meanwhile
        try:
            line.ask(request, answer_s=self._answer_s)
        except BaseException:
            line.close()
            raise
        return line

    def _fresh_line(self) -> Line:
        while (line := self._taken()) is not None:
            if line.is_fresh:
                return line
            line.close()
        return self.line()

    def _taken(self) -> Line | None:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return None

    def _opened_again(self, stream: Stream[T], patience: Patience, error: Broken) -> Line:
        while True:
            line = self._line_again(patience, error)
            try:
                return self._asked(line, stream.request())
            except Broken as again:
                error = again

    def _line_again(self, patience: Patience, broken: Broken) -> Line:
        """A connection to an agent that was there a moment ago."""
        failure = NoAgent(self.path, why=str(broken))
        while not patience.is_over(time.monotonic(), has_keeper=door.is_coming_back(self.path)):
            self._pause()
            try:
                return Line(self.path, patience=patience, wake_fd=self._wake_fd)
            except NoAgent as error:
                failure = error
        raise failure from broken

    def _pause(self) -> None:
        if self._wake_fd is None:
            rest(RETRY_S)
        elif select.select([self._wake_fd], [], [], RETRY_S)[0]:
            raise Woken


def _connected(path: str) -> _socket.socket:
    made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    made.settimeout(ANSWER_S)
    try:
        made.connect(path)
    except FileNotFoundError:
        made.close()
        raise NoAgent(path, why="there is no socket") from None
    except ConnectionRefusedError:
        made.close()
        raise NoAgent(path, why="the socket is stale") from None
    except OSError as error:
        made.close()
        raise NoAgent(path, why=error.strerror or str(error)) from error
    return made
