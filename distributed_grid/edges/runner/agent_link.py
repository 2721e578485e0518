"""The agent's end of the line to the keeper that started it.

Lives here: `Runner` over an inherited socket. Never here: what to run (`kernel`), the keeper's end.
Invariant: the first message is the keeper's hello; the end of the line is the end of the keeper.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from distributed_grid.edges.runner import KEEPER_FD, SOCKET_FILE, Report
from distributed_grid.edges.runner.door import standing_in
from distributed_grid.errors import GridError
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.keeper import Adopt, Adopted, FromKeeper, Hello, ToKeeper

READ_BYTES: Final = 256 << 10
ADOPT_S_MAX: Final = 5.0  # A keeper answers at once; one that does not is stuck or stopped.

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(FromKeeper).decode


class RunnerGone(GridError):
    """The keeper is gone, and the jobs with it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the keeper is gone: {why}", remedy="Start Grid again with `grid up`")


class AgentLink:
    """A `Runner`; made with `connect`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, unframer: Unframer
    ) -> None:
        self._reader, self._writer, self._unframer = reader, writer, unframer
        self._arrived: list[Report] = []
        self._is_greeted = False
        self._is_over = False
        self.hello: Hello

    async def send(self, message: ToKeeper) -> None:
        """Hand a message to the keeper; waits only while its socket is full."""
        if self._writer.is_closing():
            raise RunnerGone("the line is closed")
        self._writer.write(framed(_encode(message)))
        try:
            await self._writer.drain()
        except OSError as problem:
            raise RunnerGone(str(problem)) from None

    async def receive(self) -> tuple[Report, ...]:
        """What has arrived, at least one report; nothing once the keeper is gone."""
        while not self._arrived and not self._is_over:
            await self._read()
        if not self._arrived:
            await self.close()
        reports, self._arrived = tuple(self._arrived), []
        return reports

    async def _read(self) -> None:
        """Take in what comes next; junk is the end, like the end itself."""
        try:
            data = await self._reader.read(READ_BYTES)
            self._is_over = not data
            for body in self._unframer.feed(data):
                message = _decode(body)
                if isinstance(message, Hello):
                    self.hello = message
                    self._is_greeted = True
                else:
                    self._arrived.append(message)
        except (OSError, GridError, msgspec.MsgspecError, UnicodeError, RecursionError):
            self._is_over = True

    async def __aiter__(self) -> AsyncIterator[Report]:
        while reports := await self.receive():
            for report in reports:
                yield report

    async def close(self) -> None:
        """Hang up; the keeper starts a new agent, unless it was told to quit."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def greet(self) -> None:
        """Wait for the hello."""
        while not self._is_greeted:
            if self._is_over:
                await self.close()
                raise RunnerGone("it hung up before it said hello")
            await self._read()


async def connect(descriptor: int | None = None) -> AgentLink:
    """The line that this process inherited, after the keeper's hello."""
    if descriptor is None:
        word = os.environ.pop(KEEPER_FD, "")  # Not for children of the agent.
        if not word.isdigit():
            raise RunnerGone("this process was not started by one")
        descriptor = int(word)
    try:
        line = socket.socket(fileno=descriptor)
    except OSError as problem:
        raise RunnerGone(str(problem)) from None
    line.set_inheritable(False)
    reader, writer = await asyncio.open_connection(sock=line)
    link = AgentLink(reader, writer, Unframer())
    await link.greet()
    return link


def ask_for_agent(data_dir: str, wish: Adopt) -> Adopted:
    """Ask the keeper of a data directory to start an agent again; waits for its answer."""
    unframer = Unframer()
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ADOPT_S_MAX)
        try:
            with standing_in(data_dir):
                line.connect(SOCKET_FILE)
            line.sendall(framed(_encode(wish)))
            while data := line.recv(READ_BYTES):
                for body in unframer.feed(data):
                    return msgspec.msgpack.decode(body, type=Adopted)
        except OSError as problem:
            raise RunnerGone(str(problem)) from None
    raise RunnerGone("it gave no answer")
