"""Sides of a mesh in one process: the real loop and links, over memory instead of a network.

Lives here: putting one together, and waiting for what it does. Never here: expectations.
Invariant: nothing leaves this process; every agent is closed with the lab.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec

from distributed_grid.agent.mesh import Ground, MeshSide, Parts
from distributed_grid.agent.mesh_desk import MeshDesk
from distributed_grid.agent.mesh_proving import Proving
from distributed_grid.app.mesh import now
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.edges.transport.memory import MemoryNetwork, MemoryTransport
from distributed_grid.kernel.mesh.doorman import Doorman
from distributed_grid.kernel.mesh.events import Now
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.rules import MeshRules, Start
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.sim.keys import Keys
from distributed_grid.wire.mesh_api import Join, MakeTicket, NodeView
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile

PATIENCE_S = 30  # Machines that test are busy.
PROFILE = NodeProfile(node_class="workstation", version="1", cores=2, memory_bytes=1 << 26)
LOAD = NodeLoad(cpu_milli_free=1_000, memory_bytes_free=1 << 20)


async def until(holds: Callable[[], object]) -> None:
    """Wait for something that will be so."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.005)


class Recording(MemoryStore):
    """A store that can be slow or full, and tells the order of things."""

    def __init__(self, log: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.log = log
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = 0
        self.fails_on = ""
        self.error: Exception | None = None

    async def commit(self, writes, *, within_s: float = 0) -> None:
        await self.gate.wait()
        is_meant = any(write.key == self.fails_on for write in writes)
        if is_meant and self.failures and self.error is not None:
            self.failures -= 1
            raise self.error
        await super().commit(writes)
        self.log.append(("saved", {write.key: write.value for write in writes}))


class Agent:
    """One agent's side of the mesh, and its desk."""

    def __init__(self, lab: "MeshLab", name: str, store: Recording | None, **what: Any) -> None:
        self.lab, self.name = lab, name
        self.key = lab.keys.make(name)
        self.id = NodeId(self.key.public)
        self.log: list[tuple[str, Any]] = store.log if store else []
        self.store = store or Recording(self.log)
        self.events: list[Happened] = []
        self.values: dict[Any, bytes] = {
            "profile": msgspec.msgpack.encode(what.pop("profile", PROFILE)),
            "load": msgspec.msgpack.encode(LOAD),
        }
        self.prove = what.pop("prove", None)
        self.rules = what.pop("rules", MeshRules())
        self.port = what.pop("port", 4_433)
        self.kept_ports: list[int] = []
        self.called: list[str] = []  # What it was told to remember as its name.
        self.authorities_set_aside = 0
        self.shift_ms = what.pop("shift_ms", 0)  # Of the wall clock.
        ground = Ground(
            name=name,
            assemble=self._assemble,
            now=self.now,
            secret=lambda: lab.dice.randbytes(16),
            values=self.told,
            alone=lambda: NodeView(id="", name=name, is_self=True),
            publish=self.events.append,
            connection_timeout_ms=what.pop("timeout_ms", 2_000),
            remember=self.called.append,
        )
        self.side = MeshSide(self.store, ground)
        self.desk = MeshDesk(self.side)
        self.running: asyncio.Task[None] | None = None

    def told(self, is_going_down: bool) -> dict[Any, bytes]:
        """What it says about itself; `test_mesh_values` has the real ones."""
        if not is_going_down:
            return self.values
        last = msgspec.structs.replace(LOAD, is_down=True)
        return self.values | {"load": msgspec.msgpack.encode(last)}

    def now(self) -> Now:
        real = now()
        return Now(real.wall_ms + self.shift_ms, real.mono_us)

    def _assemble(self, memory: Mapping[str, bytes]) -> Parts:
        self.lab.starts += 1
        dice = random.Random(self.lab.starts)
        mesh = Mesh(
            me=self.id,
            signer=self.key,
            verify=self.lab.keys.verify,
            chance=dice.randrange,
            rules=self.rules,
            start=Start(
                nonce=f"start {self.lab.starts}", machine=f"machine {self.name}", now=self.now()
            ),
            memory=memory,
        )

        def new_transport(admit: Callable[[str], bool], kept_port: int) -> MemoryTransport:
            self.kept_ports.append(kept_port)
            made = MemoryTransport(self.id, self.lab.network, admit=admit)
            made.port = kept_port or self.port
            return made

        return Parts(
            mesh=mesh,
            doorman=Doorman(),
            new_transport=new_transport,
            new_authority=lambda: (self.lab.keys.make(f"authority {self.name}"), "/recovery"),
            set_authority_aside=self._set_aside,
            proving=Proving(mesh, self.prove, chance=dice.randrange, now=self.now)
            if self.prove
            else None,
        )

    def _set_aside(self) -> None:
        self.authorities_set_aside += 1

    async def start(self) -> "Agent":
        remembered = await self.store.load_all()
        self.side.restore(remembered.meta)
        self.running = asyncio.ensure_future(self.side.run())
        await asyncio.sleep(0)
        return self

    async def kill(self) -> None:
        """As if the process was gone: its links break, nothing is said."""
        assert self.running is not None
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.running

    @property
    def mesh(self) -> Mesh:
        return self.side.mesh

    @property
    def linked(self) -> set[NodeId]:
        return set(self.mesh.links)

    async def ticket(self, **wanted: Any) -> str:
        return (await self.desk.make_ticket(MakeTicket(**wanted))).text

    async def join(self, text: str):
        return await self.desk.join(Join(ticket=text))

    def names(self) -> list[str]:
        return [event.name for event in self.events]


class MeshLab:
    """All of them, and the network between."""

    def __init__(self) -> None:
        self.keys = Keys("mesh lab")
        self.network = MemoryNetwork()
        self.dice = random.Random(7)
        self.starts = 0
        self.agents: list[Agent] = []

    async def add(self, name: str, store: Recording | None = None, **what: Any) -> Agent:
        made = await Agent(self, name, store, **what).start()
        self.agents.append(made)
        return made

    async def mesh_of(self, *names: str, **what: Any) -> list[Agent]:
        """The first founds it, the others join; all are linked with all."""
        agents = [await self.add(name, **what) for name in names]
        text = await agents[0].ticket(uses=len(names))
        for agent in agents[1:]:
            await agent.join(text)
        await until(lambda: all(len(agent.linked) == len(names) - 1 for agent in agents))
        return agents

    async def restarted(self, agent: Agent, **what: Any) -> Agent:
        await agent.kill()
        self.agents.remove(agent)
        return await self.add(agent.name, agent.store, **what)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for agent in self.agents:
            agent.store.gate.set()
            await agent.kill()
