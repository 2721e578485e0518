"""A real agent on a machine that is pretended to have 8 cores, 64 GiB and 3 GPUs, idle.

Lives here: its configuration, and starting commands that go on. Never here: assertions.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.agent_lab import AgentLab
from tests.conftest import VENV_BIN
from tests.keeper_lab import wait_until

MACHINE = "pretend: {cpus: 8, memory: 64GiB, gpus: [{model: H100, count: 3}]}\n"
LENDS = "resource_sharing: {max_offers_per_node: 20}\n"
# Runs its argument as if it were a page of a notebook.
PAGE = (
    "import ast, asyncio, sys\n"
    "code = compile(sys.argv[1], 'page', 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)\n"
    "import inspect, types\n"
    "made = types.FunctionType(code, {'__name__': '__main__', 'asyncio': asyncio})()\n"
    "asyncio.run(made) if inspect.iscoroutine(made) else None\n"
)


class SharingLab(AgentLab):
    """One agent that lends, named lab."""

    def __init__(self, config: str = LENDS, machine: str = MACHINE) -> None:
        super().__init__()
        self.file = self.root / "cluster_config.yaml"
        self.file.write_text(machine + config, encoding="utf-8")
        self.env["GRID_CONFIG"] = str(self.file)
        self.env["PATH"] = f"{VENV_BIN}{os.pathsep}{self.env['PATH']}"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed_grid", *words], env=self.env, cwd=self.dir,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def borrow(self, kind: str, amount: str, *words: str) -> subprocess.Popen[bytes]:
        """`run-shared` that has got what it asked for."""
        name = words[words.index("-j") + 1]
        process = self.start("run-shared", "-r", kind, "-a", amount, *words)
        wait_until(lambda: self.state(name) == "running")
        return process

    def state(self, name: str) -> str:
        done = self("job", name, "--json")
        return self.decoded(done.stdout)["state"] if done.returncode == 0 else "unknown"

    def story(self, name: str) -> list[str]:
        return [line["what"] for line in self.json("job", name)["story"]]

    def python(self, source: str) -> subprocess.CompletedProcess[bytes]:
        """A program of somebody, with `await` where the page has it."""
        return subprocess.run(
            [sys.executable, "-c", PAGE, source], env=self.env, cwd=self.dir, timeout=60,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip

    @staticmethod
    def decoded(data: bytes) -> Any:
        import json

        return json.loads(data)


@contextlib.contextmanager
def lending(config: str = LENDS, machine: str = MACHINE) -> Iterator[SharingLab]:
    """A lab that runs for as long as this lasts."""
    lab = SharingLab(config, machine)
    try:
        lab.up()
        yield lab
    finally:
        lab.close()
