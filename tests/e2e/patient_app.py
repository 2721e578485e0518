"""A stand-in for the agent, under the real keeper: it joins when the test says so.

    python -m tests.e2e.patient_app --data-dir DIR …

It writes `join.asked` into its directory, and answers as `join.answer` says: `yes`, or `no`.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from distributed_grid.edges.home import pid_file, prepare
from distributed_grid.edges.runner.agent_link import connect
from distributed_grid.errors import MeshUnreachable
from distributed_grid.model.home import Home, locate
from distributed_grid.web.server import bound_socket, serve
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.keeper import Quit
from distributed_grid.wire.mesh_api import Join, Joined
from tests.agent_stand_in import CannedAgent
from tests.mesh_stand_in import CannedMesh, hashed


class PatientMesh(CannedMesh):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    async def join(self, wanted: Join) -> Joined:
        (self._directory / "join.asked").write_text(hashed(wanted.ticket))
        answer = self._directory / "join.answer"
        while not answer.exists():
            await asyncio.sleep(0.01)
        if answer.read_text() == "no":
            raise MeshUnreachable("attic", why="no answer")
        return Joined(mesh=hashed("m"), name="desk", roles=("member",), was_member=False, nodes=2)


class PatientAgent(CannedAgent):
    def __init__(self, directory: Path, keeper) -> None:
        super().__init__()
        self.mesh = PatientMesh(directory)
        self._keeper = keeper
        self.is_over = asyncio.Event()

    async def status(self) -> NodeStatus:
        canned = await super().status()
        return msgspec.structs.replace(
            canned, pid=os.getpid(), keeper_pid=self._keeper.hello.pid, jobs_running=0
        )

    async def down(self, *, stop_jobs: bool) -> None:
        await self._keeper.send(Quit(stop_jobs=stop_jobs))
        asyncio.get_running_loop().call_later(0.05, self.is_over.set)


async def _run(home: Home) -> None:
    agent = PatientAgent(Path(home.data), await connect())
    serving = asyncio.create_task(serve(agent, bound_socket(home.socket)))
    await agent.is_over.wait()
    serving.cancel()
    await asyncio.wait([serving])


def main() -> None:
    data_dir = sys.argv[sys.argv.index("--data-dir") + 1]
    home = locate(os.environ, user_home=str(Path.home()), data_dir=data_dir)
    prepare(home)
    Path(home.data, "agent.words").write_text("\n".join(sys.argv[1:]))
    with pid_file(home.agent_pid):
        asyncio.run(_run(home))
    Path(home.socket).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
