"""An agent for a program: the one that runs here, or one that is started beside and ended again.

Lives here: whose agent it is. Never here: starting it (`grid up` does).
Invariant: an agent that was there before is never stopped.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from distributed_grid.client import calls, door
from distributed_grid.client.awaiting import AsyncCaller
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.errors import NoAgent
from distributed_grid.model.home import Home
from distributed_grid.orchestration.failures import NotStarted
from distributed_grid.wire.api import NodeStatus

COMMAND_S: Final = 90.0  # `grid up` gives up after 10 s, `grid down` after 60 s.


class AgentBeside:
    """The way to the agent of a data directory, from `open` to `close`."""

    def __init__(self, config: ClusterConfig, data_dir: str | os.PathLike[str] | None) -> None:
        self._config = config
        self._home: Home = door.home_of(None if data_dir is None else os.fspath(data_dir))
        self.caller = AsyncCaller(self._home.socket)
        self.is_ours = False  # Started by us.

    async def open(self) -> NodeStatus:
        """The status of the agent; one is started if none answers."""
        try:
            return await self.caller.run(calls.status())
        except NoAgent:
            code, said = await self._grid("up", "--detach", *self._options())
        self.is_ours = code == 0
        try:
            # Somebody else may have started one at the same moment: then that one serves.
            return await self.caller.run(calls.status())
        except NoAgent:
            raise NotStarted(said.strip().removeprefix("grid: ").rstrip(".")) from None

    async def close(self) -> None:
        """Hang up; an agent that we started ends, and its jobs with it."""
        await self.caller.close()
        if self.is_ours:
            self.is_ours = False
            await self._grid("down", "--stop-jobs")

    def _options(self) -> list[str]:
        if self._config.source:
            return ["--config", str(Path(self._config.source).absolute())]
        if self._config == ClusterConfig():
            return []
        folder = Path(self._home.data)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._config.to_yaml(folder / "orchestrator.yaml")
        return ["--config", str(folder / "orchestrator.yaml")]

    async def _grid(self, *words: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "distributed_grid", *words, "--data-dir", self._home.data,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(COMMAND_S):
                _, said = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return 1, f"grid {words[0]} took longer than {COMMAND_S:g} s"
        return process.returncode or 0, said.decode(errors="replace")
