"""Calls and streams driven over a blocking unix socket.

Lives here: connecting, timeouts, one patient reconnect. Never here: what is asked (`calls`).
Invariant: every wait has a deadline; what goes wrong with the connection is a NoAgent.
"""

import _socket  # `socket` makes enums of 300 numbers first: two milliseconds of every `grid run`.
import select
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self, TypeVar

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
from distributed_grid.client.streams import Stream
from distributed_grid.errors import NoAgent

T = TypeVar("T")

ANSWER_S: Final = 30.0  # An agent that fsyncs to a slow disk under load still answers in this.
RESTART_S: Final = 5.0  # A crashed agent is back within 1 s on an idle machine.
COMING_S: Final = 2.0  # The same, where it is only likely: a keeper lives, and nobody answers.
RETRY_S: Final = 0.02


class Line:
    """One connection, one conversation."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = _connected(path)
        self._exchange = Exchange()

    def ask(self, request: Request, *, answer_s: float = ANSWER_S) -> None:
        """Send a request."""
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
            return self._exchange.hear(self._socket.recv(READ_BYTES))
        except TimeoutError as error:
            seconds = self._socket.gettimeout() or 0
            why = f"it did not answer within {seconds:g} s"
            raise NoAgent(self._path, why=why) from error
        except OSError as error:
            raise error if isinstance(error, Broken) else Broken(str(error)) from error

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    @property
    def is_fresh(self) -> bool:
        """Whether it can carry another request: not closed, nothing left over."""
        if not self._exchange.is_reusable:
            return False
        readable, _, _ = select.select([self._socket], [], [], 0)
        return not readable

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Caller:
    """Carries calls and streams to the agent behind one socket. One thread at a time."""

    def __init__(
        self, path: str, *, answer_s: float = ANSWER_S, coming_s: float = COMING_S
    ) -> None:
        self.path = path
        self._answer_s = answer_s
        self._coming_s = coming_s
        self._line: Line | None = None

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
        try:
            if line is None:
                line = self.opened(stream)
            return line, stream.feed(line.hear())
        except Broken as error:
            if line is not None:
                line.close()
            stream.begin_again()
            return self._opened_again(stream, error), []
        except BaseException:
            if line is not None:
                line.close()
            raise

    def opened(self, stream: Stream[T]) -> Line:
        """A new line on which the stream was asked for."""
        line = self.line()
        try:
            line.ask(stream.request(), answer_s=self._answer_s)
        except BaseException:
            line.close()
            raise
        return line

    def line(self) -> Line:
        """A new connection; patient only if a keeper is about to bring the agent back."""
        try:
            return Line(self.path)
        except NoAgent:
            if not self._coming_s or not door.is_coming_back(self.path):
                raise
            return self._patient_line(self._coming_s)

    def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()
            self._line = None

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
        try:
            response = self._once(request)
        except Broken as error:
            self.close()
            if not request.is_repeatable:
                raise NoAgent(self.path, why=str(error)) from error
            self._line = self._patient_line()
            try:
                response = self._once(request)
            except Broken as again:
                self.close()
                raise NoAgent(self.path, why=str(again)) from again
        return response._replace(took_ms=int((time.monotonic() - started) * 1_000))

    def _once(self, request: Request) -> Response:
        if self._line is None or not self._line.is_fresh:
            self.close()
            self._line = self.line()
        line, self._line = self._line, None  # Given back only if the conversation ended well.
        try:
            line.ask(request, answer_s=self._answer_s)
            gathering = Gathering()
            while (response := gathering.add(line.hear())) is None:
                pass
        except BaseException:
            line.close()
            raise
        self._line = line
        return response

    def _opened_again(self, stream: Stream[T], error: Broken) -> Line:
        line = self._patient_line()
        try:
            line.ask(stream.request(), answer_s=self._answer_s)
        except Broken as again:
            line.close()
            raise NoAgent(self.path, why=str(again)) from error
        return line

    def _patient_line(self, patience_s: float = RESTART_S) -> Line:
        """A connection to an agent that was there a moment ago."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return Line(self.path)
            except NoAgent:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_S)


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
