"""The agent as a service: started and ended as systemd does it, by the unit that Grid writes."""

import os
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.agent_lab import AgentLab
from tests.keeper_lab import is_alive, wait_until

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


class Manager:
    """Starts what a unit says, and hears its datagrams."""

    def __init__(self, lab: AgentLab) -> None:
        self.lab = lab
        for name in ("systemctl", "loginctl"):
            (lab.root / name).write_text("#!/bin/sh\n")
            (lab.root / name).chmod(0o755)
        path = f"{lab.root}:{lab.env['PATH']}"
        done = lab("service", "install", env={"PATH": path})
        assert done.returncode == 0, done.stderr
        unit = (lab.root / ".config/systemd/user/grid.service").read_text()
        [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
        self.words = shlex.split(start.removeprefix("ExecStart="))
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind(str(lab.root / "notify"))
        self.heard.settimeout(PATIENCE_S)
        self.main: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """As Type=notify has it: it has started when it says so."""
        env = self.lab.env | {"NOTIFY_SOCKET": str(self.lab.root / "notify")}
        with (self.lab.root / "said").open("ab") as said:
            self.main = subprocess.Popen(
                self.words, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        assert self.heard.recv(4_096) == b"READY=1"
        assert self.lab("status").returncode == 0

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """As KillMode=process has it: the main process alone is told."""
        assert self.main is not None
        self.main.send_signal(number)
        return self.main.wait(timeout=PATIENCE_S)

    def close(self) -> None:
        if self.main is not None and self.main.poll() is None:
            self.stop()
        self.heard.close()


@pytest.fixture
def manager():
    lab = AgentLab()
    made = Manager(lab)
    yield made
    made.close()
    lab.close()


def running(lab: AgentLab, job: str) -> int:
    """The process of a job."""
    wait_until(lambda: lab.json("job", job)["state"] == "running", within_s=PATIENCE_S)
    return int(wait_until(lambda: (lab.dir / "pid").exists() and (lab.dir / "pid").read_text()))


def test_a_service_says_when_it_is_ready_and_its_jobs_outlive_its_restarts(manager):
    lab = manager.lab
    manager.start()
    job = lab.detached("sh", "-c", "echo $$ > pid; exec sleep 600")
    pid, agent = running(lab, job), lab.pid()
    environ = (
        Path(f"/proc/{agent}/environ").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    )
    assert b"NOTIFY_SOCKET" not in environ  # Nobody but the service speaks for it.

    assert manager.stop() == 0  # A restart: systemd starts it again by the same words.
    assert manager.heard.recv(4_096) == b"STOPPING=1"
    assert not is_alive(agent)
    assert is_alive(pid)
    manager.start()
    assert lab.json("job", job)["state"] == "running"

    agent = lab.pid()
    manager.stop(signal.SIGKILL)  # A crash; the agent itself goes on, and is replaced.
    assert is_alive(agent)
    manager.start()
    assert lab.pid() != agent
    assert not is_alive(agent)
    assert is_alive(pid)
    [attempt] = lab.json("job", job)["attempts"]
    assert attempt.get("exit_code") is None
    lab("cancel", job)
    wait_until(lambda: not is_alive(pid), within_s=PATIENCE_S)


def test_an_agent_that_was_started_by_hand_goes_over_to_the_service(manager):
    lab = manager.lab.up()
    job = lab.detached("sh", "-c", "echo $$ > pid; exec sleep 600")
    pid = running(lab, job)
    manager.start()

    assert lab.json("status")["name"] == "lab"  # The name that was given once.
    assert is_alive(pid)
    done = lab("up", "--detach")
    assert done.returncode == 1
    assert b"already" in done.stderr
    os.kill(pid, signal.SIGTERM)
