"""Five machines for the tour: real agents with pretended hardware, in a network of their own.

Lives here: the network, their configurations, starting, joining, killing and ending them. Never
here: what they run (`demo_mesh`).
Invariant: nothing leaves the network, and nothing of it is left afterwards.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from distributed_grid.client.cluster import Cluster, connect
from distributed_grid.client.resting import rest
from distributed_grid.errors import GridError

GRID: Final = (sys.executable, "-P", "-m", "distributed_grid")
TOGETHER_S: Final = 60.0  # Until each sees all others.
LOOK_S: Final = 0.2
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 1

PRETENDED: Final = {
    "server": "{cpus: 16, memory: 64GiB, class: datacenter, gpus: [{model: H100, count: 2}]}",
    "tower": "{cpus: 8, memory: 32GiB, class: workstation, gpus: [{model: RTX4090}]}",
    "oldtower": "{cpus: 4, memory: 16GiB, class: workstation, gpus: [{model: RTX3060}]}",
    "laptop": "{cpus: 4, memory: 16GiB, class: laptop, battery_percent: 80, gpus: []}",
    "pi": "{cpus: 4, memory: 4GiB, class: edge, gpus: []}",
}


def own_network(words: list[str]) -> int | None:
    """Run `grid` with these words in a network of its own; None where there can be none."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return None
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    apart = ["unshare", *as_root, "--net", "--"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:  # noqa: S603
        return None
    return subprocess.run([*apart, *GRID, *words], check=False).returncode  # noqa: S603


def raise_loopback() -> None:
    """A new network begins with its loopback down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


class DemoFailed(GridError):
    """One of the machines did not do what it was told."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why.strip()}", remedy="Look at it with: grid doctor")


class Machine:
    """One of them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.home = name, folder / name
        self._env = dict(os.environ) | {"GRID_HOME": str(self.home)}
        self.files = folder / f"files-of-{name}"  # Where its owner works.
        self.files.mkdir()
        self._config = folder / f"{name}.yaml"
        self._config.write_text(f"pretend: {PRETENDED[name]}\n")
        self.cluster: Cluster = connect(f"{self.home}/agent.sock")

    def up(self) -> None:
        """Start keeper and agent."""
        self._grid("up", "--detach", "--name", self.name, "--config", str(self._config))

    def down(self) -> None:
        """End them, and their jobs."""
        self.cluster.close()
        with contextlib.suppress(DemoFailed):  # Killed before.
            self._grid("down", "--stop-jobs")

    def kill(self) -> None:
        """As if its power had failed: keeper and agent at once, jobs with them."""
        for who in ("keeper", "agent"):
            os.kill(int((self.home / f"{who}.pid").read_text()), signal.SIGKILL)

    def sees(self) -> int:
        """How many nodes it knows to be alive."""
        with contextlib.suppress(GridError):
            return sum(node.health == "alive" for node in self.cluster.nodes())
        return 0

    def _grid(self, *words: str) -> None:
        done = subprocess.run(  # noqa: S603
            [*GRID, *words], env=self._env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoFailed(self.name, done.stderr)


@contextmanager
def machines() -> Iterator[list[Machine]]:
    """All of them, joined to one mesh."""
    with tempfile.TemporaryDirectory(prefix="grid-demo-", ignore_cleanup_errors=True) as folder:
        all_of_them = [Machine(Path(folder), name) for name in PRETENDED]
        with ThreadPoolExecutor(len(all_of_them)) as pool:
            try:
                list(pool.map(Machine.up, all_of_them))
                first, *others = all_of_them
                ticket = first.cluster.ticket(uses=len(others)).text
                list(pool.map(lambda machine: machine.cluster.join(ticket), others))
                _until_together(all_of_them)
                yield all_of_them
            finally:
                list(pool.map(Machine.down, all_of_them))


def _until_together(all_of_them: list[Machine]) -> None:
    deadline = time.monotonic() + TOGETHER_S
    while any(machine.sees() < len(all_of_them) for machine in all_of_them):
        assert time.monotonic() < deadline, "the machines did not find each other"
        rest(LOOK_S)
