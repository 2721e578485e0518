"""A real podman with an image of one busybox, in a store of its own: nothing comes over a network.

Lives here: the store, the image, what a keeper has to know of it. Never here: assertions about the
product.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

IMAGE = "localhost/grid-test:latest"
TOOLS = ("sh", "echo", "cat", "sleep", "tail", "touch", "pwd", "env", "true")
NEEDED = ("podman", "runc", "busybox")


class Podman:
    """Podman as it works in a virtual machine without systemd, with a store of its own."""

    def __init__(self, root: Path) -> None:
        self.words = [
            *("podman", "--root", str(root / "store"), "--runroot", str(root / "run")),
            *("--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs"),
        ]
        self.env = {
            "GRID_CONTAINER_RUNTIME": " ".join(self.words),
            "GRID_CONTAINER_OPTIONS": "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024",
        }

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self.words, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def containers(self) -> list[str]:
        return self("ps", "--all", "--quiet").split()


@contextlib.contextmanager
def podman_in(root: Path) -> Iterator[Podman]:
    """One with the image; the test is skipped where there is none."""
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing or os.getuid():
        pytest.skip(f"needs root and {', '.join(missing)}: scripts/setup installs them")
    tree = root / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "tmp").mkdir()
    shutil.copy(shutil.which("busybox"), tree / "bin" / "busybox")
    for tool in TOOLS:
        (tree / "bin" / tool).symlink_to("busybox")
    subprocess.run(["tar", "-C", tree, "-cf", root / "image.tar", "."], check=True)
    made = Podman(root)
    made("import", "--quiet", str(root / "image.tar"), IMAGE)
    yield made
    assert made.containers() == []
    made("rmi", "--all", "--force")
