"""Attempts on their way to a keeper that does what the test says: real files, no processes.

Lives here: what tests of housing share. Never here: assertions about the product.
"""

import asyncio

import msgspec

from distributed_grid.agent.housing import Housing
from distributed_grid.agent.preparing import Ground
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.edges.artifacts.environments import Environments
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.artifact import ASKED
from distributed_grid.model.job import Shipment, Work
from distributed_grid.wire.keeper import Ended, Run, Stop
from tests.builders import a_job, an_id
from tests.unit.artifacts.lab import a_store, files_of

NOW_MS = 1_000


class Fetch:
    """Whoever has the files; it can be slow, or have none."""

    def __init__(self, store):
        self.store = store
        self.gate = asyncio.Event()
        self.gate.set()
        self.lacks = False
        self.gone = set()  # Manifests that nobody has any more.
        self.asked = []
        self.let_gone = []

    async def have(self, manifest, spec, *, owner):
        self.asked.append(manifest)
        await self.gate.wait()
        if self.lacks or manifest in self.gone:
            raise NotFetched(an_id(1), reason="unknown")
        assert self.store.pin(manifest, owner)

    def let_go(self, manifest, *, owner):
        self.let_gone.append((manifest, owner))
        self.store.unpin(manifest, owner)


class Lab:
    def __init__(self, tmp_path, environ):
        self.root = tmp_path / "work"
        self.saved = tmp_path / "saved"
        self.saved.mkdir()
        self.store = a_store(tmp_path / "cache")
        self.files = files_of(self.store)
        self.fetch = Fetch(self.store)
        self.jobs = {}
        self.keeper = MemoryRunner()
        self.broken = []
        self.said = []
        self.ground = Ground(
            root=str(self.root),
            files=self.files,
            fetch=self.fetch,
            pythons=Environments(str(tmp_path / "environments"), environ=environ),
            clock_ms=lambda: NOW_MS,
        )
        send = self.keeper.send

        async def noting(message):
            self.said.append(message)
            await send(message)

        self.keeper.send = noting
        self.connect()

    def connect(self):
        self.runner = Housing(
            self.keeper.connect(),
            self.ground,
            self.store,
            job_of=self.jobs.get,
            broke=self.broken.append,
            state_in=lambda job: f"{self.saved}/{job.spec.id}",
        )

    def shipped(self, tree):
        packed = self.files.pack(str(tree), owner="test", amount=ASKED)
        return Shipment(manifest=packed.id, size_bytes=packed.content_bytes, files=packed.files)

    def a_run(self, attempt="one", *, command="sleep", abroad=True, indices=(), **wishes):
        work = Work(argv=(command, "9"), cwd="/far", is_abroad=abroad)
        spec = msgspec.structs.replace(a_job("job"), work=work, **wishes)
        self.jobs[attempt] = Job(spec=spec, submitted_ms=0)
        return Run(
            attempt=attempt,
            job=spec.id,
            argv=work.argv,
            env={"PATH": "/usr/bin"},
            cwd="/scratch",
            output_dir="/o",
            scratch_dir="/s",
            indices=indices,
            checkpoint_dir=f"{self.saved}/{spec.id}",
        )

    async def started(self):
        """Until the keeper runs what was sent; how it was told."""
        while not (runs := [one for one in self.said if isinstance(one, Run)]):
            await asyncio.sleep(0.01)
        return runs[-1]

    async def reports(self, kind=Ended):
        """Until the end of something is told."""
        found = []
        while not (found and isinstance(found[-1], kind)):
            found += await asyncio.wait_for(self.runner.receive(), 10)
        return found

    async def over(self, attempt="one"):
        """Let it end well, and hear of it."""
        await self.keeper.send(Stop(attempt=attempt))
        return (await self.reports())[-1]

    async def removed(self):
        while list(self.root.iterdir()):
            await asyncio.sleep(0.01)


def run_in_lab(test, tmp_path, environ):
    """Run a test in a lab of its own."""

    async def go():
        made = Lab(tmp_path, {**environ, "PATH": "/usr/bin:/bin"})
        async with asyncio.timeout(30):
            await test(made)
        await made.runner.close()
        assert not made.broken

    asyncio.run(go())
