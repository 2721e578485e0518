"""A real agent with its keeper in a directory of its own, and ways to talk to it.

Lives here: starting and ending it, `grid` as a person calls it, HTTP as a stranger speaks it. Never
here: assertions about the product.
Invariant: after `close` neither agent nor keeper runs, and the directory is gone.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.keeper_lab import PATIENCE_S, is_alive, wait_until

ROOT = Path(__file__).resolve().parent.parent


class AgentLab:
    """One data directory, and whoever serves it."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        # Short: a socket's path has 107 bytes at most.
        self.root = Path(tempfile.mkdtemp(prefix="grid-lab-"))
        self.home = self.root / "home"
        self.dir = self.root / "work"
        self.dir.mkdir()
        kept = {name: os.environ[name] for name in os.environ if name.startswith("COVERAGE_")}
        self.env = kept | {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.root),
            "GRID_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "TERM": "dumb",
            **(env or {}),
        }

    def __call__(self, *words: str, env: dict[str, str] | None = None) -> Any:
        return subprocess.run(
            [sys.executable, "-P", "-m", "distributed_grid", *words],
            env={**self.env, **(env or {})},
            cwd=self.dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def up(self) -> "AgentLab":
        done = self("up", "--detach", "--name", "lab")
        assert done.returncode == 0, done.stderr.decode()
        return self

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def detached(self, *words: str) -> str:
        done = self("run", "--detach", *words)
        assert done.returncode == 0, done.stderr
        return str(done.stdout.decode().strip())

    def pid(self, who: str = "agent") -> int:
        return int((self.home / f"{who}.pid").read_text())

    @property
    def log(self) -> str:
        files = sorted(self.home.glob("*.log"))
        return "".join(file.read_text(errors="replace") for file in files)

    def close(self) -> None:
        """Down, or else by force; in the end nothing is left."""
        pids = [pid for who in ("agent", "keeper") if (pid := self._pid_or_none(who))]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self("down", "--stop-jobs")
        try:
            wait_until(lambda: not any(map(is_alive, pids)))
        except AssertionError:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            raise
        finally:
            shutil.rmtree(self.root, ignore_errors=True)

    def _pid_or_none(self, who: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return self.pid(who)
        return None

    # --- HTTP, without any client of ours ---------------------------------------------------------

    def line(self) -> socket.socket:
        """A new connection to the agent."""
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE_S)
        try:
            made.connect(str(self.home / "agent.sock"))
        except OSError:
            made.close()
            raise
        return made

    def http(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """One request on a connection of its own."""
        with self.line() as line:
            line.sendall(request(method, path, body, close=True))
            return answer_of(line)

    def http_or_none(self, path: str) -> tuple[int, bytes] | None:
        """As `http`, while nobody may be there."""
        with contextlib.suppress(OSError):
            return self.http("GET", path)
        return None

    def rss_bytes(self) -> int:
        for text in Path(f"/proc/{self.pid()}/status").read_text().splitlines():
            if text.startswith("VmRSS:"):
                return int(text.split()[1]) << 10
        raise AssertionError

    def health_ms(self) -> float:
        """The best of five: how fast it answers, not how busy this machine is."""
        times = []
        for _ in range(5):
            started = time.perf_counter()
            assert self.http("GET", "/health")[0] == 200
            times.append((time.perf_counter() - started) * 1_000)
        return min(times)


def request(method: str, path: str, body: bytes = b"", *, close: bool = False) -> bytes:
    """A request as bytes."""
    head = f"{method} {path} HTTP/1.1\r\nhost: grid\r\ncontent-length: {len(body)}\r\n"
    return (head + ("connection: close\r\n" if close else "") + "\r\n").encode() + body


def answer_of(line: socket.socket) -> tuple[int, bytes]:
    """Status and body of a connection that the server closes; (0, b"") if it said nothing."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := line.recv(1 << 16):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head else (0, b"")
