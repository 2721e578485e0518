"""An agent for a benchmark: in a temporary directory, gone afterwards."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GRID = (sys.executable, "-m", "distributed_grid")


class Running(NamedTuple):
    """Where it is, and how commands reach it."""

    socket: str
    env: dict[str, str]
    pids: tuple[int, int]

    def pss_bytes(self) -> int:
        """What agent and keeper take, shared pages counted by share."""
        return sum(_pss_bytes(pid) for pid in self.pids)

    def cpu_s(self) -> float:
        """What both have used so far."""
        return sum(_cpu_s(pid) for pid in self.pids)


@contextlib.contextmanager
def running_agent(config: str = "") -> Iterator[Running]:
    """An agent, up for as long as this lasts; `config` is what stands in its file."""
    with tempfile.TemporaryDirectory(prefix="grid-bench-") as folder:
        env = dict(os.environ) | {"GRID_HOME": folder}
        if config:
            env["GRID_CONFIG"] = f"{folder}/cluster_config.yaml"
            Path(env["GRID_CONFIG"]).write_text(config, encoding="utf-8")
        subprocess.run([*GRID, "up", "--detach"], env=env, check=True, capture_output=True)
        try:
            pids = tuple(int(Path(folder, f"{n}.pid").read_text()) for n in ("agent", "keeper"))
            yield Running(f"{folder}/agent.sock", env, (pids[0], pids[1]))
        finally:
            subprocess.run([*GRID, "down", "--stop-jobs"], env=env, check=True, capture_output=True)


def _pss_bytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return (
        int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1]) << 10
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
