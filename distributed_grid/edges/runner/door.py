"""`keeper.sock`: where a newcomer asks a keeper without agent to start one again.

Lives here: the socket, its few callers, question and answer. Never here: starting
(`agent_process`).
Invariant: callers are few, their questions bounded, and none of them can make the keeper wait.
"""

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.edges.runner import SOCKET_FILE
from distributed_grid.errors import GridError
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.keeper import Adopt, Adopted

CALLERS_MAX: Final = 8  # One person types `grid up`, perhaps twice.
PATH_BYTES_MAX: Final = 100  # Of a unix socket's name: the kernel's limit is 108.

_decode: Final = msgspec.msgpack.Decoder(Adopt).decode


class Door:
    """Listens in the data directory, readable for its owner alone."""

    def __init__(self, data_dir: str) -> None:
        self._path = f"{data_dir}/{SOCKET_FILE}"
        self.listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        umask = os.umask(0o177)
        try:
            with standing_in(data_dir):
                self.listener.bind(SOCKET_FILE)
        finally:
            os.umask(umask)
        self.listener.listen(CALLERS_MAX)
        self.listener.setblocking(False)
        self.callers: dict[int, tuple[socket.socket, Unframer]] = {}

    def open(self) -> int | None:
        """Let a caller in; its descriptor, or None if it is one too many."""
        try:
            caller, _ = self.listener.accept()
        except OSError:
            return None
        if len(self.callers) >= CALLERS_MAX:
            caller.close()
            return None
        caller.setblocking(False)
        self.callers[caller.fileno()] = (caller, Unframer())
        return caller.fileno()

    def answer(self, descriptor: int, asked: Callable[[Adopt], Adopted]) -> bool:
        """Hear a caller, and answer; False when it is done with."""
        caller, unframer = self.callers[descriptor]
        try:
            data = caller.recv(1 << 16)
            bodies = unframer.feed(data)
            if data and not bodies:
                return True
            for body in bodies[:1]:
                caller.send(framed(msgspec.msgpack.encode(asked(_decode(body)))))
        except BlockingIOError:
            return True
        except (OSError, GridError, msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
        del self.callers[descriptor]
        caller.close()
        return False

    def close(self) -> None:
        """Nobody answers any more."""
        self.listener.close()
        for caller, _ in self.callers.values():
            caller.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)


@contextlib.contextmanager
def standing_in(directory: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Socket names are short: bind and connect from inside."""
    before = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.chdir(directory)
        yield
    finally:
        os.fchdir(before)
        os.close(before)
