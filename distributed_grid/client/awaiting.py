"""Calls and streams driven by asyncio: the twin of `blocking`, line for line where it can be.

Lives here: connecting, timeouts, patient reconnects, a few connections shared by many tasks.
Invariant: every wait has a deadline; what goes wrong with the connection is a NoAgent.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final, TypeVar

from distributed_grid.client import door
from distributed_grid.client.blocking import ANSWER_S, COMING_S
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
from distributed_grid.client.streams import Stream
from distributed_grid.errors import NoAgent

T = TypeVar("T")

LINES_MAX: Final = 128  # At once; a server's usual limit of open files is 1,024.


class AsyncLine:
    """One connection, one conversation."""

    def __init__(
        self,
        path: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        patience: Patience,
    ) -> None:
        self._path, self._reader, self._writer = path, reader, writer
        self._exchange = Exchange()
        self._limit_s = ANSWER_S
        self.patience = patience

    @classmethod
    async def connected(cls, path: str, patience: Patience | None = None) -> "AsyncLine":
        """A new connection."""
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(path)
        except FileNotFoundError:
            raise NoAgent(path, why="there is no socket") from None
        except ConnectionRefusedError:
            raise NoAgent(path, why="the socket is stale") from None
        except OSError as error:
            raise NoAgent(path, why=error.strerror or str(error)) from error
        return cls(path, reader, writer, patience or Patience())

    async def ask(self, request: Request, *, answer_s: float = ANSWER_S) -> None:
        """Send a request."""
        self.patience.tries(time.monotonic())
        self._limit_s = answer_s + request.wait_ms / 1_000
        try:
            async with asyncio.timeout(self._limit_s):
                self._writer.write(self._exchange.ask(request))
                await self._writer.drain()
        except TimeoutError as error:
            raise NoAgent(self._path, why="it does not read what it is told") from error
        except OSError as error:
            raise Broken(str(error)) from error

    async def hear(self) -> list[Piece]:
        """The pieces of the next read; waits for it, but not for ever."""
        try:
            async with asyncio.timeout(self._limit_s):
                data = await self._reader.read(READ_BYTES)
        except TimeoutError as error:
            why = f"it did not answer within {self._limit_s:g} s"
            raise NoAgent(self._path, why=why) from error
        except OSError as error:
            raise Broken(str(error)) from error
        return self._exchange.hear(data)

    @property
    def is_fresh(self) -> bool:
        """Whether it can carry another request."""
        return self._exchange.is_reusable and not self._reader.at_eof()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class AsyncCaller:
    """Carries calls and streams of any number of tasks to the agent behind one socket."""

    def __init__(self, path: str, *, answer_s: float = ANSWER_S) -> None:
        self.path = path
        self._answer_s = answer_s
        self._idle: list[AsyncLine] = []
        self._room = asyncio.Semaphore(LINES_MAX)

    async def run(self, call: Call[T]) -> T:
        """Drive a call to its value."""
        try:
            request = next(call)
            while True:
                request = call.send(await self._answered(request))
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            call.close()

    async def stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        """What a stream says, on a connection of its own, over restarts of the agent."""
        async with self._room:
            line = await self.opened(stream)
            try:
                while not stream.is_over:
                    try:
                        found = stream.feed(await line.hear())
                    except Broken as error:
                        line.close()
                        stream.begin_again()
                        line = await self._opened_again(stream, line.patience, error)
                        continue
                    if found:
                        line.patience.begins_anew()
                    for item in found:
                        yield item
            finally:
                line.close()

    async def opened(self, stream: Stream[T]) -> AsyncLine:
        """A new line on which the stream was asked for."""
        line = await self._line()
        try:
            return await self._asked(line, stream.request())
        except Broken as error:
            return await self._opened_again(stream, line.patience, error)

    async def close(self) -> None:
        """Hang up."""
        for line in self._idle:
            line.close()
        self._idle.clear()
        await asyncio.sleep(0)  # Lets the transports close, so that nobody warns of them.

    async def _answered(self, request: Request) -> Response:
        started = time.monotonic()
        async with self._room:
            line = await self._fresh_line()
            while True:
                try:
                    response = await self._once(request, line)
                    break
                except Broken as error:
                    if not request.is_repeatable:
                        raise NoAgent(self.path, why=str(error)) from error
                    line = await self._line_again(line.patience, error)
        return response._replace(took_ms=int((time.monotonic() - started) * 1_000))

    async def _once(self, request: Request, line: AsyncLine) -> Response:
        await self._asked(line, request)
        try:
            gathering = Gathering()
            while (response := gathering.add(await line.hear())) is None:
                pass
        except BaseException:
            line.close()
            raise
        line.patience.begins_anew()
        self._idle.append(line)
        return response

    async def _asked(self, line: AsyncLine, request: Request) -> AsyncLine:
        try:
            await line.ask(request, answer_s=self._answer_s)
        except BaseException:
            line.close()
            raise
        return line

    async def _fresh_line(self) -> AsyncLine:
        while self._idle:
            line = self._idle.pop()
            if line.is_fresh:
                return line
            line.close()
        return await self._line()

    async def _line(self) -> AsyncLine:
        deadline = time.monotonic() + COMING_S
        while True:
            try:
                return await AsyncLine.connected(self.path)
            except NoAgent:
                if time.monotonic() >= deadline or not door.is_coming_back(self.path):
                    raise
            await asyncio.sleep(RETRY_S)

    async def _opened_again(
        self, stream: Stream[T], patience: Patience, error: Broken
    ) -> AsyncLine:
        while True:
            line = await self._line_again(patience, error)
            try:
                return await self._asked(line, stream.request())
            except Broken as again:
                error = again

    async def _line_again(self, patience: Patience, broken: Broken) -> AsyncLine:
        """A connection to an agent that was there a moment ago."""
        failure = NoAgent(self.path, why=str(broken))
        while not patience.is_over(time.monotonic(), has_keeper=door.is_coming_back(self.path)):
            await asyncio.sleep(RETRY_S)
            try:
                return await AsyncLine.connected(self.path, patience)
            except NoAgent as error:
                failure = error
        raise failure from broken
