"""The agent as the keeper's child: started, started again, and spoken to.

Lives here: its process, its restarts, the bytes between us. Never here: what the messages do
(`keeper`).
Invariant: whatever an agent does or sends harms at most itself.
"""

import os
import signal
import socket
import time
from typing import Final

import msgspec

from distributed_grid.edges.runner import KEEPER_FD, reap
from distributed_grid.edges.runner.spawn import SIGNALS_RESET
from distributed_grid.errors import GridError
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.keeper import Hello, ToKeeper

RESTART_MS_MIN: Final = 100  # An agent that crashed once is back within a second.
RESTART_MS_MAX: Final = 5_000  # One that cannot live must not keep a core busy.
STABLE_NS: Final = 5_000_000_000  # Living longer than this, it starts again without waiting.
OUTGOING_BYTES_MAX: Final = 256 << 10  # Reports wait in `reports`, not here.
READ_BYTES: Final = 256 << 10
BROKEN_GRACE_NS: Final = 500_000_000  # For an agent that sent junk: to end by itself.

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ToKeeper).decode


class AgentProcess:
    """At most one agent at a time."""

    def __init__(self, argv: tuple[str, ...], env: dict[str, str], cwd: str) -> None:
        self.argv, self.env, self.cwd = argv, env, cwd
        self.pid = 0
        self.line: socket.socket | None = None
        self.restarts = 0
        self.is_wanted = True
        self.start_at_ns = 1  # Monotonic; 0: not to be started.
        self.kill_at_ns = 0
        self._delay_ms = RESTART_MS_MIN
        self._started_ns = 0
        self._unframer = Unframer()
        self._outgoing = bytearray()
        # Made once: a new one of this size for every message costs more than reading it.
        self._incoming = bytearray(READ_BYTES)

    def start(self, hello: Hello) -> socket.socket | None:
        """Start it; our end of the line, or None if it cannot be executed (it is tried again)."""
        self.start_at_ns = 0
        self._started_ns = time.monotonic_ns()
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        env = {**self.env, KEEPER_FD: str(theirs.fileno())}
        try:
            os.chdir(self.cwd)
            self.pid = os.posix_spawnp(
                self.argv[0],
                self.argv,
                env,
                setsid=True,  # Ctrl-C of a terminal is for whoever reads it, not for us.
                setsigmask=(),
                setsigdef=SIGNALS_RESET,
            )
        except (OSError, ValueError):
            ours.close()
            self.went()
            return None
        finally:
            theirs.close()
            os.chdir("/")
        ours.setblocking(False)
        self.line = ours
        self._unframer = Unframer()
        self._outgoing = bytearray(framed(_encode(hello)))
        return ours

    def went(self) -> None:
        """Its process has ended."""
        self.pid, self.kill_at_ns = 0, 0
        if not self.is_wanted:
            return
        self.restarts += 1
        now_ns = time.monotonic_ns()
        if now_ns - self._started_ns >= STABLE_NS:
            self._delay_ms = RESTART_MS_MIN
        self.start_at_ns = now_ns + self._delay_ms * 1_000_000
        self._delay_ms = min(self._delay_ms * 2, RESTART_MS_MAX)

    def adopt(self, argv: tuple[str, ...], env: dict[str, str], cwd: str) -> None:
        """Start this one next, as somebody asked for it."""
        self.argv, self.env, self.cwd = argv, env, cwd
        self.is_wanted = True
        self._delay_ms = RESTART_MS_MIN
        self.start_at_ns = time.monotonic_ns()

    def hang_up(self) -> None:
        """End the line; an agent that does not go with it is killed a little later."""
        if self.line:
            self.line.close()
            self.line = None
        if self.pid and not self.kill_at_ns:
            self.kill_at_ns = time.monotonic_ns() + BROKEN_GRACE_NS

    def end(self, number: int = signal.SIGKILL) -> None:
        """Signal it, and whatever it started."""
        if self.pid:
            reap.send_signal_to_session(self.pid, number)
            self.kill_at_ns = 0

    def read(self) -> list[ToKeeper] | None:
        """Messages that are whole; None if the line is at its end or carries junk."""
        if self.line is None:
            return []
        try:
            count = self.line.recv_into(self._incoming)
            if not count:
                return None
            data = memoryview(self._incoming)[:count].tobytes()
            return [_decode(body) for body in self._unframer.feed(data)]
        except BlockingIOError:
            return []
        except (OSError, GridError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    def room(self) -> int:
        """How many bytes may be added to what waits to be sent."""
        return OUTGOING_BYTES_MAX - len(self._outgoing) if self.line else 0

    def write(self, data: bytes) -> bool:
        """Send, as far as the other end takes it; whether something waits."""
        self._outgoing += data
        if self.line and self._outgoing:
            try:
                sent = self.line.send(self._outgoing)
                del self._outgoing[:sent]
            except BlockingIOError:
                pass
            except OSError:
                self._outgoing.clear()  # Reading will tell.
        return bool(self._outgoing)
