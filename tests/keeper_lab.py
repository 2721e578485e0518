"""A real keeper, with the test in the place of its agent.

Lives here: starting and ending it, the line to it, builders of what to run. Never here: assertions.
Invariant: after `close` nothing of it runs, and nothing of it is left in the control groups.

The keeper's child is a tiny program that hands its end of the line to the test and then waits;
killing it is killing the agent, and the keeper starts the next one.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from distributed_grid.edges.runner import KEEPER_FD
from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.keeper import (
    Acknowledge,
    Ended,
    FromKeeper,
    Hello,
    Limits,
    Run,
    Started,
    ToKeeper,
)

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 20.0  # Two noisy cores; what must be faster is asserted where it matters.
JOB = job_id_of("lab")
HAND_OVER = f"""
import os, socket, sys
with socket.socket(socket.AF_UNIX) as to_test:
    to_test.connect(sys.argv[1])
    line = int(os.environ["{KEEPER_FD}"])
    socket.send_fds(to_test, [str(os.getpid()).encode()], [line])
    os.close(line)
    while to_test.recv(1):
        pass
"""


def wait_until(question: Callable[[], T], *, within_s: float = PATIENCE_S) -> T:
    """The first answer that is true; asks often, and fails when it takes too long."""
    deadline = time.monotonic() + within_s
    while True:
        if answer := question():
            return answer
        assert time.monotonic() < deadline, f"still not after {within_s} s: {question}"
        signal.sigtimedwait([], 0.005)


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def parent_of(pid: int) -> int:
    """Of a process that exists."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class KeeperLab:
    """One keeper at a time, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.agent_pid = 0
        self.hello: Hello | None = None
        self.reports: list[Started | Ended] = []
        self._line: socket.socket | None = None
        self._to_agent: list[socket.socket] = []
        self._unframer = Unframer()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / "agent.sock"))
        self._listener.listen(8)
        self._listener.settimeout(PATIENCE_S)

    # --- The keeper -------------------------------------------------------------------------------

    def start(self, *options: str, env: dict[str, str] | None = None, **popen: Any) -> "KeeperLab":
        """A keeper, and its first agent connected."""
        words = [sys.executable, "-m", "distributed_grid.edges.runner.keeper"]
        words += ["--data-dir", str(self.data_dir), *options, "--", *self.agent_argv]
        full = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self.process = subprocess.Popen(words, env=full, cwd=ROOT, **popen)
        self.connect()
        return self

    @property
    def agent_argv(self) -> list[str]:
        # Isolated: it starts quickly, and measures no coverage.
        return [sys.executable, "-I", "-S", "-c", HAND_OVER, str(self.directory / "agent.sock")]

    def connect(self) -> Hello:
        """Take the line of the next agent that is started."""
        self.accept()
        while self.hello is None:
            self.read()
        self.pid = self.hello.pid
        return self.hello

    def accept(self) -> socket.socket:
        """As `connect`, without reading from the line."""
        if self._line:
            self._line.close()
        connection, _ = self._listener.accept()
        data, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        self._to_agent.append(connection)
        self.agent_pid = int(data)
        self._line = socket.socket(fileno=descriptors[0])
        self._line.settimeout(PATIENCE_S)
        self._unframer = Unframer()
        self.hello = None
        self.reports = []
        return self._line

    def kill(self) -> None:
        """The keeper alone, as the kernel would when memory runs out."""
        os.kill(self.pid, signal.SIGKILL)

    def sentinels(self) -> list[int]:
        """Its parent, and the parent of that."""
        return [(parent := parent_of(self.pid)), parent_of(parent)]

    def let_agent_go(self) -> None:
        """The agent's program ends by itself."""
        while self._to_agent:
            self._to_agent.pop().close()

    def wait(self) -> int:
        """Until the keeper (and its sentinel) are gone; the exit code."""
        assert self.process
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        try:
            self._end_keeper()
        finally:
            # Also when it did not end in order: else a later test is blamed for what stays open.
            for connection in (*self._to_agent, self._line, self._listener):
                if connection:
                    connection.close()

    def _end_keeper(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.let_agent_go()
        os.kill(self.pid, signal.SIGTERM)
        try:
            assert self.process.wait(PATIENCE_S) == 0
            assert self.groups() == []
        finally:
            if self.process.poll() is None:
                os.kill(self.pid, signal.SIGKILL)
                self.process.wait(PATIENCE_S)

    # --- The line ---------------------------------------------------------------------------------

    def send(self, *messages: ToKeeper) -> None:
        assert self._line
        self._line.sendall(
            b"".join(framed(msgspec.msgpack.encode(message)) for message in messages)
        )

    def send_raw(self, data: bytes) -> None:
        assert self._line
        self._line.sendall(data)

    def read(self) -> None:
        """Whatever comes next."""
        assert self._line
        data = self._line.recv(1 << 18)
        assert data, "the keeper hung up"
        for body in self._unframer.feed(data):
            message = msgspec.msgpack.decode(body, type=FromKeeper)
            if isinstance(message, Hello):
                self.hello = message
            else:
                self.reports.append(message)

    def until(self, question: Callable[[], T]) -> T:
        """Read until the answer is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := question()):
            assert time.monotonic() < deadline, self.reports[-5:]
            self.read()
        return answer

    def ended(self, attempt: str = "one") -> list[Ended]:
        """All ends of an attempt, once the last is there."""

        def all_of_it() -> list[Ended]:
            found = [r for r in self.reports if isinstance(r, Ended) and r.attempt == attempt]
            return found if found and found[-1].is_last else []

        return self.until(all_of_it)

    def started(self, attempt: str = "one") -> Started:
        """The report that an attempt runs."""
        found = self.until(
            lambda: [r for r in self.reports if isinstance(r, Started) and r.attempt == attempt]
        )
        return found[0]

    def acknowledge(self) -> None:
        self.send(Acknowledge(upto=self.reports[-1].number))

    # --- What to run ------------------------------------------------------------------------------

    def a_run(self, *argv: str, attempt: str = "one", **fields: Any) -> Run:
        """A command with everything it needs; a test sets what matters to it."""
        given = {
            "env": {"PATH": "/usr/bin:/bin"},
            "cwd": str(self.directory),
            "output_dir": str(self.directory / "output" / attempt),
            "scratch_dir": str(self.directory / "scratch" / attempt),
            "grace_ms": 2_000,
        }
        return Run(attempt=attempt, job=JOB, argv=argv, **{**given, **fields})

    def a_shell(self, script: str, attempt: str = "one", **fields: Any) -> Run:
        """As `a_run`, for a line of shell."""
        return self.a_run("/bin/sh", "-c", script, attempt=attempt, **fields)

    def outcome(self, *argv: str, **fields: Any) -> Ended:
        """Run to the end."""
        self.send(self.a_run(*argv, **fields))
        return self.ended(fields.get("attempt", "one"))[-1]

    def shell_outcome(self, script: str, **fields: Any) -> Ended:
        """Run a line of shell to its end."""
        return self.outcome("/bin/sh", "-c", script, **fields)

    def output(self, name: str = "stdout", attempt: str = "one") -> bytes:
        """What was written; what wrote nothing has no file."""
        path = self.directory / "output" / attempt / name
        return path.read_bytes() if path.exists() else b""

    def pid_from(self, path: Path) -> int:
        """A process id that a job wrote to a file."""
        wait_until(lambda: path.exists() and path.read_text().strip().isdigit())
        return int(path.read_text())

    def groups(self) -> list[Path]:
        """Directories of this keeper in the control groups."""
        return list(groups_of(self.pid))


def groups_of(pid: int) -> Iterator[Path]:
    for controller in ("cpu", "memory", "pids", "unified", "."):
        # Not `glob`: it stumbles over groups of other keepers that vanish while it looks.
        for above, names, _ in os.walk(f"/sys/fs/cgroup/{controller}"):
            yield from (Path(above, name) for name in names if name.startswith(f"grid-{pid}-"))


LIMITED = Limits(memory_bytes=64 << 20)
