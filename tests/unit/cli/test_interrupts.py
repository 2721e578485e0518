"""Signals before, while and after a job is submitted, as a process against a scripted agent."""

import signal
import socket
import subprocess
import sys
import threading

import msgspec
import pytest

from tests.agent_stand_in import a_view, answering, http, read_request
from tests.conftest import VENV_BIN

RUNS = [
    ("run", "tool"),
    ("run", "--json", "tool"),
    ("run", "--detach", "tool"),
    ("run", "--array", "0-3", "tool"),
]


class Scene:
    """`grid` in the middle of its submission."""

    def __init__(self, tmp_path, clean_env) -> None:
        self.home = tmp_path / "g"
        self.home.mkdir()
        self.env = clean_env | {"GRID_HOME": str(self.home)}
        self.heard: list[bytes] = []
        self.process: subprocess.Popen[str] | None = None
        self.has_begun = threading.Event()

    def run(self, words, *scripts) -> tuple[int, str]:
        with answering(self.home / "agent.sock", *scripts):
            self.process = subprocess.Popen(
                [VENV_BIN / "grid", *words],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.has_begun.set()
            _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said

    def hear(self, connection: socket.socket, *numbers: int) -> None:
        """Read a request, and send signals before anything is answered."""
        self.heard.append(read_request(connection).partition(b"\r\n")[0])
        assert self.has_begun.wait(20)
        for number in numbers:
            self.process.send_signal(number)


@pytest.fixture
def scene(tmp_path, clean_env) -> Scene:
    return Scene(tmp_path, clean_env)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_signal_during_the_submission_cancels_what_was_accepted(scene, words, number, code):
    def script(connection: socket.socket) -> None:
        scene.hear(connection, number)
        connection.sendall(http(b'{"ids": ["%s"]}' % (b"ab" * 32)))
        scene.hear(connection)
        connection.sendall(http(msgspec.json.encode(a_view(state="cancelled", exit_code=None))))

    returned, said = scene.run(words, script)

    assert (returned, said.count("cancelled"), "Traceback" in said) == (code, 1, False)
    assert scene.heard[1].startswith(b"POST")
    assert b"/cancel" in scene.heard[1]


def test_a_signal_before_the_submission_submits_nothing(scene):
    def script(connection: socket.socket) -> None:
        scene.hear(connection, signal.SIGTERM)
        connection.sendall(http(msgspec.json.encode(a_view())))
        scene.hear(connection)

    assert scene.run(("run", "--after", "build", "tool"), script) == (143, "")
    assert len(scene.heard) == 1


def test_a_second_signal_does_not_wait_for_the_answer(scene):
    def script(connection: socket.socket) -> None:
        scene.hear(connection, signal.SIGINT, signal.SIGTERM)
        connection.recv(1)  # Until it has gone.

    returned, said = scene.run(("run", "tool"), script)

    assert returned in (130, 143)
    assert "may have been accepted: grid cancel" in said


def test_a_refusal_after_a_signal_has_the_code_of_the_signal(scene):
    def script(connection: socket.socket) -> None:
        scene.hear(connection, signal.SIGINT)
        connection.sendall(http(b"{}", status="503 Service Unavailable"))

    assert scene.run(("run", "tool"), script)[0] == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_waiting_and_not_the_job(scene, number, code):
    def script(connection: socket.socket) -> None:
        scene.hear(connection, number)
        connection.recv(1)

    assert scene.run(("wait", "build"), script) == (code, "")
    assert len(scene.heard) == 1


def test_a_signal_while_modules_load_ends_at_once(tmp_path):
    """C code that makes types swallows a KeyboardInterrupt, and crashes over it later."""
    (tmp_path / "trap.py").write_text(
        "import os, signal\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('swallowed')\n"
    )
    program = f"import sys; sys.path.append({str(tmp_path)!r})\nfrom distributed_grid import cli\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}cli.loaded('trap')"], capture_output=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
