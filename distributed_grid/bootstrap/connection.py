"""The way to the other machine: the system's ssh, with its configuration, agent and jump hosts.

Lives here: one ssh process, orders to the programme over there (`remote`) and its answers. Never
here: which orders (`bringing`).
Invariant: no wait is without end, and however ssh ends, a sentence and a remedy come of it.
"""

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import msgspec

from distributed_grid.bootstrap import NotBrought, own_python
from distributed_grid.config.cluster_sections import NodeConfig, SshConfig
from distributed_grid.errors import BadValue

CONNECT_S: Final = 15
ANSWER_S: Final = 150.0  # The longest of its commands may take 100 s.
INDEX_S: Final = 1_000.0
TYPING_S: Final = 300.0  # On a terminal ssh may ask, and people look for their password.
LINE_BYTES_MAX: Final = 1 << 20
PIECE_BYTES: Final = 1 << 18
HOST_CHARACTERS_MAX: Final = 255
SSH_PORT: Final = 22
HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MARK: Final = b"GRID:"
_NONE: Final = b"GRID-NONE "
_FITS: Final = "import sys, fcntl, zipfile; sys.exit(sys.version_info < (3, 11))"
# What ssh says -> what to do.
_REMEDIES: Final = {
    "Permission denied": "Let your key in there: ssh-copy-id {host}; or run this on a terminal",
    "Host key verification failed": "See that it is the right machine by: ssh {host}",
    "Could not resolve": "See how it is spelt, or give it a Host entry in ~/.ssh/config",
    "Connection refused": "Start sshd there, or name its port: --port",
    "timed out": "See that it is on, and that this network leads there: ssh {host}",
}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as ssh knows it; what is empty is left to its configuration."""

    host: str  # Or user@host.
    name: str = ""  # Of the node.
    port: int = 0
    key: str = ""

    def __post_init__(self) -> None:
        is_word = self.host.isprintable() and " " not in self.host
        if not is_word or self.host[:1] in {"", "-"} or len(self.host) > HOST_CHARACTERS_MAX:
            raise BadValue(self.host, expected="user@host", remedy="Name it as ssh does")

    @classmethod
    def listed(cls, node: NodeConfig, ssh: SshConfig) -> Self:
        """A machine of a configuration, under `nodes`."""
        user = f"{node.user}@" if node.user and "@" not in node.host else ""
        key = os.path.expanduser(node.ssh_key_path or ssh.key_file or "")  # noqa: PTH111
        port = 0 if node.port == SSH_PORT else node.port  # The usual one may be set in ~/.ssh.
        return cls(host=f"{user}{node.host}", name=node.name, port=port, key=key)

    def words(self, command: str, *, may_ask: bool) -> list[str]:
        """The ssh command."""
        options = [f"ConnectTimeout={CONNECT_S}", "ServerAliveInterval=15", "ServerAliveCountMax=4"]
        options += [] if may_ask else ["BatchMode=yes"]
        words = ["ssh", "-T", *(word for option in options for word in ("-o", option))]
        words += ["-p", str(self.port)] if self.port else []
        words += ["-i", self.key] if self.key else []
        return [*words, "--", self.host, command]


class NoPython(NotBrought):
    """There is none on that machine that Grid can use."""

    def __init__(self, host: str, *, kind: str, but: str = "") -> None:
        self.kind = kind  # System and processor.
        super().__init__(
            host,
            why=f"it has no Python 3.11 or newer ({kind}){but}",
            remedy="Install one there, without root too: curl -LsSf https://astral.sh/uv/install.sh"
            " | sh, then uv python install; or: sudo apt install python3",
        )


def send_python(target: Target, archive: Path, *, kind: str) -> None:
    """Unpack this Python there, unless it does not run: then nothing of it stays."""
    place, draft = f"$HOME/{own_python.PLACE}", f"$HOME/{own_python.PLACE}.$$"
    tried = f'/bin/{own_python.NAME}" -I -c "{_FITS}" </dev/null'
    script = (  # Whoever does the same at this moment may use it already: that one stays.
        f'umask 077 && mkdir -p "{draft}" && tar -xzf - -C "{draft}" && "{draft}{tried}'
        f' && {{ "{place}{tried} 2>/dev/null || {{ rm -rf "{place}" && mv "{draft}" "{place}"; }}; }};'
        f' code=$?; rm -rf "{draft}"; exit $code'
    )
    try:
        with archive.open("rb") as sent:
            done = subprocess.run(  # noqa: S603  (ssh, as told)
                target.words(f"exec sh -c '{script}'", may_ask=_may_ask()),
                stdin=sent,
                capture_output=True,
                timeout=INDEX_S,
                check=False,
            )
        said = done.stderr.decode(errors="replace").strip().splitlines()[-2:]
    except subprocess.TimeoutExpired:
        said, done = [f"it took longer than {INDEX_S:.0f} s"], None
    if done is None or done.returncode:
        but = f", and the one of here does not run there: {' / '.join(said)}"
        raise NoPython(target.host, kind=kind, but=but)


def _may_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


class Connection:
    """The programme over there, running; a context manager."""

    def __init__(
        self, target: Target, *, say: Callable[[str], None], answer_s: float = ANSWER_S
    ) -> None:
        self._host, self._say, self._answer_s = target.host, say, answer_s
        self._may_ask = _may_ask()
        self._told: queue.Queue[bytes] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=3)
        text = Path(__file__).with_name("remote.py").read_bytes()
        try:
            self._ssh = subprocess.Popen(  # noqa: S603  (ssh, as told)
                target.words(_command(len(text)), may_ask=self._may_ask),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError:
            raise self._failed("there is no ssh here", "Install openssh-client") from None
        assert self._ssh.stdin is not None
        self._orders: IO[bytes] = self._ssh.stdin
        os.set_blocking(self._orders.fileno(), False)
        self._readers = [
            threading.Thread(target=each, daemon=True) for each in (self._read, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()
        self._text = text

    def begin(self) -> dict[str, Any]:
        """Wait for the programme; what it says of its machine."""
        try:
            self._send(self._text)
            return self._answer(TYPING_S if self._may_ask else min(self._answer_s, 60.0))
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, *, sent: Path | None = None, **order: Any) -> dict[str, Any]:
        """Give an order, with a file behind it if told; its answer."""
        if sent is not None:
            order["size"] = sent.stat().st_size
        self._send(json.dumps({"do": do, **order}).encode() + b"\n")
        if sent is not None:
            with sent.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    self._send(piece)
        return self._answer(INDEX_S if order.get("from_index") else self._answer_s)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        while True:
            try:
                line = self._told.get(timeout=limit_s)
            except queue.Empty:
                raise self._hangs() from None
            if line.startswith(_NONE):
                raise NoPython(self._host, kind=line[len(_NONE) :].decode(errors="replace"))
            if not line:
                raise self._ended()
            answer = json.loads(line[len(_MARK) :])
            if "why" in answer:
                raise self._failed(str(answer["why"]), str(answer["remedy"]))
            if "say" not in answer:
                assert isinstance(answer, dict)
                return answer
            self._say(str(answer["say"]))

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            _, ready, _ = select.select([], [self._orders], [], self._answer_s)
            if not ready:
                raise self._hangs()
            try:
                view = view[os.write(self._orders.fileno(), view) :]
            except BlockingIOError:  # pragma: no cover  (a pipe that was ready a moment ago)
                continue
            except BrokenPipeError:
                return  # Whoever reads the answer hears why.

    def _read(self) -> None:
        assert self._ssh.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in iter(lambda: _line(self._ssh.stdout), b""):
                if line.startswith((_MARK, _NONE)):  # Others talk at login as well.
                    self._told.put(line.strip())
        self._told.put(b"")

    def _read_errors(self) -> None:
        assert self._ssh.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            for line in iter(lambda: _line(self._ssh.stderr), b""):
                if text := line.decode(errors="replace").strip():
                    self._errors.append(text)

    def _hangs(self) -> NotBrought:
        return self._failed(
            f"it has not answered for {self._answer_s:.0f} s",
            f"See that this ends: ssh {self._host} true; then run it again, it goes on from there",
        )

    def _ended(self) -> NotBrought:
        self._ssh.wait(timeout=10)
        self._readers[1].join(timeout=10)
        said = " / ".join(self._errors) or f"exit code {self._ssh.returncode}"
        remedy = "Run it again, it goes on from there"
        for word, what in _REMEDIES.items():
            if word in said:
                remedy = what.format(host=self._host)
        return self._failed(f"ssh ended: {said}", remedy)

    def _failed(self, why: str, remedy: str) -> NotBrought:
        return NotBrought(self._host, why=why, remedy=remedy)

    def close(self) -> None:
        """End ssh; the programme over there ends when its orders do."""
        with contextlib.suppress(OSError):
            self._orders.close()
        try:
            self._ssh.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        for reader in self._readers:
            reader.join(timeout=2)
        for pipe in (self._ssh.stdout, self._ssh.stderr):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _command(size: int) -> str:
    """For whichever shell is there: one line, and quotes that all of them read alike."""
    own = own_python.NAME  # Our wheels are made for it.
    others = " ".join(f"python3.{minor}" for minor in range(14, 10, -1))
    brought = f'"$HOME/{own_python.PLACE}/bin/{own}"'
    script = (
        f'for p in {own} python3 {others} "$HOME/.local/bin/python3" {brought}; do'
        f' if "$p" -I -c "{_FITS}" </dev/null 2>/dev/null; then'
        f' exec "$p" -I -c "import sys; exec(sys.stdin.buffer.read({size}))"; fi; done;'
        ' echo "GRID-NONE $(uname -sm)"'
    )
    return f"exec sh -c '{script}'"


def _line(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None
    return pipe.readline(LINE_BYTES_MAX)
