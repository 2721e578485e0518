"""This node's part in the mesh: ticks, and carries out what the kernel says.

Lives here: `MeshSide`, the loop. Never here: decisions (`kernel.mesh`), connections (`mesh_links`),
what people ask (`mesh_desk`), what this node says about itself (`mesh_values`).
Invariant: what a step saves is durable before anything of that step, or of a later one, is sent,
but for the copy of what all say that is kept from time to time; heartbeats never wait for a disk.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from typing import Any, Final, Literal, NamedTuple

from distributed_grid.agent.mesh_forwarding import Forwarding
from distributed_grid.agent.mesh_links import Links
from distributed_grid.agent.mesh_proving import Proving
from distributed_grid.agent.pace import Pace
from distributed_grid.agent.watchdog import PEER_S, limited
from distributed_grid.edges.store import SetMeta, Store, StoreError
from distributed_grid.edges.transport import Lane, Transport
from distributed_grid.kernel.mesh.doorman import Doorman
from distributed_grid.kernel.mesh.events import (
    Heard,
    LinkDown,
    LinkUp,
    Measured,
    MeshEvent,
    MeshReady,
    Now,
    Publish,
    Tick,
    Told,
)
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.membership import Forward
from distributed_grid.kernel.mesh.signing import Signer
from distributed_grid.kernel.mesh.views import everyone
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import (
    Challenge,
    Key,
    MeshMessage,
    Proof,
    Redeem,
    Refused,
    Renew,
    Renewed,
    Welcome,
)
from distributed_grid.wire.mesh_api import NodeView

TICK_S: Final = 0.05  # Two nodes hear of each other that often,
MANY_TICK_S: Final = 0.1  # many less,
CALM_TURNS: Final = 2  # and with nobody suspected only when it is time to speak.
MANY: Final = 5
SPREAD_S: Final = 0.3  # Until neighbours have what was said last.
LOOK_S: Final = 1.0  # How often own values and new links are looked at,
TURNS: Final = 10  # and in so many looks each path and each address once: they call into Rust.
RETRY_S: Final = 0.5
COPY: Final = "mesh.known"  # Of what all say, kept from time to time; others have it as well.


class Parts(NamedTuple):
    """What a mesh is made of; put together when there is one to be in."""

    mesh: Mesh
    doorman: Doorman
    new_transport: Callable[[Callable[[str], bool], int], Transport]  # Who may knock; a kept port.
    new_authority: Callable[[], tuple[Signer, str]]  # And where its recovery copy is.
    set_authority_aside: Callable[[], object]
    proving: Proving | None = None


class Carried(NamedTuple):
    """What is to be carried out, and who waits until it is durable."""

    ready: MeshReady
    durable: asyncio.Future[None] | None = None


class Ground(NamedTuple):
    """What the composition root plugs in."""

    name: str
    assemble: Callable[[Mapping[str, bytes]], Parts]
    now: Callable[[], Now]
    secret: Callable[[], bytes]
    # What this node says about itself now, and whether it says so for the last time.
    values: Callable[[bool], dict[Key, bytes]]
    alone: Callable[[], NodeView]
    publish: Callable[[Happened], None]
    connection_timeout_ms: int = 5_000
    remember: Callable[[str], None] = lambda _name: None  # What this node is called from now on.
    user: str = ""  # Whose machine this is, when it founds a mesh.


class MeshSide:
    """One agent's side of the mesh."""

    def __init__(self, store: Store, ground: Ground) -> None:
        self.parts: Parts | None = None
        self.links: Links | None = None
        self.ground = ground
        self._store = store
        self._memory: dict[str, bytes] = {}
        self.transport: Transport | None = None
        self.refused: Refused | None = None  # The last no to a question over a link.
        self._queue: asyncio.Queue[Carried] = asyncio.Queue()
        self._carrier: asyncio.Task[None] | None = None
        self._copy: MeshReady | None = None  # Could not be written, and is tried again.
        self._opening = asyncio.Lock()
        self._forwarding = Forwarding()
        self._changed = asyncio.Event()  # Something happened: whoever waits looks again.
        self._pulse = asyncio.Event()  # Set and replaced at each tick.
        self.pace = Pace()
        self._tasks: list[asyncio.Task[None]] = []
        self._failed: asyncio.Future[None] | None = None  # A task broke, and so does the agent.
        # Said to all when the agent stops; after `restarting` what runs here is left to it.
        self.farewell: Literal["restarting", "leaving"] = "restarting"
        self.is_going_down = False  # Said with it: somebody told the agent to stop.
        self.on_link_lost: Callable[[NodeId, str], None] = lambda _peer, _why: None
        self.on_job: Callable[[NodeId, bytes], bool] = lambda _peer, _body: True
        self.on_bulk: Callable[[NodeId, bytes], bool] = lambda _peer, _body: True
        self.on_link: Callable[[NodeId, bool], None] = lambda _peer, _is_up: None

    @property
    def mesh(self) -> Mesh:
        """The kernel; keys and libraries are loaded for the first who asks."""
        if self.parts is None:
            self.parts = self.ground.assemble(self._memory)
        return self.parts.mesh

    @property
    def is_member(self) -> bool:
        """Whether this node is in a mesh."""
        return self.parts is not None and self.parts.mesh.is_member

    @property
    def name(self) -> str:
        """Of this node: in a mesh as it is certified."""
        return self.mesh.membership.chain[0].name if self.is_member else self.ground.name

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """Begin where the store left off."""
        self._memory = {key: value for key, value in meta.items() if key.startswith("mesh.")}
        if self._memory.get("mesh.own"):
            _ = self.mesh  # Put together now: what is wrong with its keys is told at the start.
            if self.is_member:
                self.ground.remember(self.name)

    async def run(self) -> None:
        """For as long as the agent lives."""
        try:
            self._failed = asyncio.get_running_loop().create_future()
            if self.is_member:
                await self.open()
            await self._failed
        finally:
            await self._say_down()
            await self.close(self.farewell)
            if self._carrier is not None:
                self._carrier.cancel()
            if self.is_member and self.is_going_down:  # Maybe alone, when it starts again.
                ready = MeshReady()
                self.mesh.membership.save_known(self.ground.now(), ready)
                with contextlib.suppress(StoreError):
                    await self._store.commit([SetMeta(COPY, ready.save[COPY] or b"")])

    async def _say_down(self) -> None:
        """Those whom the goodbye does not reach hear by others that this node was told to stop."""
        if self.links is not None and self.is_member and self.is_going_down:
            others = {*self.mesh.present()} - {self.mesh.me}
            if not others <= self.links.open.keys():
                self.say(is_moved=False)
                await asyncio.sleep(SPREAD_S)

    async def open(self) -> None:
        """Begin to listen: before the first ticket or join there is no port."""
        async with self._opening:
            if self.transport is None:
                await self._open()

    async def _open(self) -> None:
        ground, mesh, parts = self.ground, self.mesh, self.parts
        assert parts is not None, "asked for"
        kept_port = int.from_bytes(self._memory.get("mesh.port", b""), "big")
        transport = parts.new_transport(
            lambda address: parts.doorman.admit(address, ground.now().mono_us) is None, kept_port
        )
        await transport.open()
        if transport.port != kept_port:
            self._memory["mesh.port"] = transport.port.to_bytes(2, "big")
            self.take(MeshReady(save={"mesh.port": self._memory["mesh.port"]}))
        self.transport = transport
        self.links = Links(
            mesh,
            transport,
            doorman=parts.doorman,
            now=ground.now,
            step=self.step,
            answer=self._answer,
            answered=self._answered,
            proving=self._prove,
            broke=self.broke,
            blame=self.blame,
            aside=self._heard_aside,
            lost=lambda peer, why: self.on_link_lost(peer, why),  # noqa: PLW0108  (it may change)
            timeout_ms=ground.connection_timeout_ms,
        )
        self._store.write_aside()  # A disk that hangs must not look like a machine that died.
        self.say()
        work = (self._tick(), self._look(), self.links.accept())
        self._tasks = [self._begin(each) for each in work]
        self.pace.begin(MANY_TICK_S)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    def is_refused(self, peer: NodeId) -> bool:
        """Whether a peer has no link for a while, for what it has said."""
        faults = self.parts.mesh.faults if self.parts is not None else None
        return bool(faults and faults.total and faults.left_us(peer, self.ground.now().mono_us))

    def blame(self, peer: NodeId, kind: str, why: str) -> None:
        """What a peer said could not be handled: that costs it its link."""
        roster, ready = self.mesh.roster, MeshReady()
        if roster is not None and peer in roster.standings:  # Who is nobody is counted at the door.
            self.mesh.blame(peer, kind, why, self.ground.now(), ready)
        self.take(ready)
        if self.links is not None:
            self.links.cut(peer, f"its {kind} could not be handled")

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.broke(error)

    def broke(self, error: BaseException) -> None:
        """A mistake of ours: the agent ends with it, and its keeper starts another."""
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def close(self, why: Literal["restarting", "leaving"] = "restarting") -> None:
        """Let everyone go, and the port."""
        async with self._opening:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks = []
            if self.links is not None:
                await self.links.close(why, is_down=self.is_going_down)
            if self.transport is not None:
                await self.transport.close()
            self.links = self.transport = None
            self._keep_saves()
            self.pace.end()
            self._beat()  # The last: whoever waits sees that this node is in no mesh.

    def _keep_saves(self) -> None:
        """What waits to be sent was for links that are gone; what is to be saved still is."""
        left = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for carried in left:
            self._queue.put_nowait(Carried(MeshReady(save=carried.ready.save), carried.durable))

    def views(self) -> tuple[NodeView, ...]:
        """Everyone, this node first; nobody, if it is in no mesh."""
        return everyone(self.mesh, self.ground.now()) if self.is_member else ()

    # The loop

    def step(self, event: MeshEvent) -> None:
        """Tell the kernel, and see to it that its answer is carried out.

        Raises what breaks off for a peer's words. Nothing is built anew then: what the mesh knows
        is signed by whom it is about, or measured again and again.
        """
        with limited(PEER_S) if isinstance(event, Told | Heard) else contextlib.nullcontext():
            ready = self.mesh.step(event)
        self.take(ready)
        if isinstance(event, LinkUp | LinkDown):
            self.on_link(event.peer, isinstance(event, LinkUp))

    def take(self, ready: MeshReady) -> None:
        """Have it carried out, after what came before; datagrams at once."""
        if self.links is not None:
            for peer, datagram in ready.datagrams:
                self.links.send_datagram(peer, datagram)
        told = ready.messages or ready.happened or ready.ask
        if ready.save or told or ready.dial or ready.hang_up:
            self._put(Carried(ready))

    async def carry_out(self, ready: MeshReady) -> None:
        """The same, and return when what it saves is durable."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(Carried(ready, durable))
        await durable

    def _put(self, carried: Carried) -> None:
        self._queue.put_nowait(carried)
        if self._carrier is None:  # One for good: also before there is a port, and after.
            self._carrier = self._begin(self._carry())

    async def _carry(self) -> None:
        while True:
            ready, durable = await self._queue.get()
            await self._save(ready, may_wait=durable is None and ready.save.keys() == {COPY})
            if durable is not None and not durable.done():
                durable.set_result(None)
            if self.links is not None:
                for contact in ready.dial:
                    self.links.dial(contact)
                for peer, message in ready.messages:
                    self._send(peer, message)
                for contact, renew in ready.ask:
                    self.links.inquire(contact, renew, self._renewed)
                for peer, why in ready.hang_up:
                    self.links.hang_up(peer, why)
            for happened in ready.happened:
                self.ground.publish(happened)
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Until something has happened."""
        await self._changed.wait()

    async def check_disk(self) -> None:
        """Before anything is decided that must be durable: raises StoreError if it could not be."""
        await self._store.commit([SetMeta("mesh.tried", b"")])

    async def _save(self, ready: MeshReady, *, may_wait: bool) -> None:
        writes = [SetMeta(key, value or b"") for key, value in ready.save.items()]
        if COPY in ready.save:
            self._copy = None  # This one is newer than what waits.
        while writes:
            try:
                await self._store.commit(writes)
            except StoreError:
                if may_wait:  # Nothing rests on it: that the disk is full is told meanwhile.
                    self._copy = ready
                    asyncio.get_running_loop().call_later(RETRY_S, self._save_copy, ready)
                    return
                await asyncio.sleep(RETRY_S)  # Nothing goes on before it is durable.
            else:
                return

    def _save_copy(self, ready: MeshReady) -> None:
        if self._copy is ready:
            self.take(MeshReady(save=ready.save))

    def _send(self, peer: NodeId, message: MeshMessage) -> None:
        assert self.links is not None, "open"
        self.links.send(peer, message)

    def _heard_aside(self, peer: NodeId, lane: Lane, body: bytes) -> bool:
        """What members say about jobs; whoever lost its membership meanwhile says nothing."""
        roster = self.mesh.roster
        if roster is None or not roster.is_member(peer) or self.is_refused(peer):
            return True
        return self.on_job(peer, body) if lane == "job" else self.on_bulk(peer, body)

    def send_job(self, peer: NodeId, body: bytes) -> bool:
        """On the job lane, if there is a link; else there will be one, for the next time."""
        if self.links is None:
            return False
        if self.links.send_job(peer, body):
            return True
        self.reach(peer)
        return False

    async def send_bulk(self, peer: NodeId, body: bytes) -> bool:
        """On the bulk lane, when there is room on it; False: there is no link."""
        if self.links is not None and await self.links.send_bulk(peer, body):
            return True
        self.reach(peer)
        return False

    def reach(self, peer: NodeId) -> None:
        """Dial somebody whom there is no link with, unless that was tried just now."""
        if self.links is None or peer in self.links.open or self.is_refused(peer):
            return
        contact = self.mesh.contact(peer)
        now_us = self.ground.now().mono_us
        if contact is not None and self.mesh.dialling.due([peer], self.mesh.links, now_us):
            self.links.dial(contact)

    async def _tick(self) -> None:
        for turn in count():
            is_crowded = len(self.mesh.links) >= MANY
            is_calm = is_crowded and self.mesh.liveness.is_calm
            if self.transport is not None:
                self.transport.take_in(is_patient=is_calm)
            if not is_calm or turn % CALM_TURNS == 0:
                self.step(Tick(now=self.ground.now()))
            self._beat()
            await asyncio.sleep(MANY_TICK_S if is_crowded else TICK_S)

    def _beat(self) -> None:
        self._pulse.set()
        self._pulse = asyncio.Event()
        self.pace.beat()

    async def pulse(self) -> None:
        """Until the next tick, at most 100 ms: whoever looks often does it in the same wake."""
        await self._pulse.wait()

    async def _look(self) -> None:
        """What traffic shows of the links, and what this node has to say."""
        for turn in count():
            await self.pace.rest(LOOK_S)
            self._look_at_paths(turn)
            self.say(is_moved=turn % TURNS == 0)
            self._check_one()

    def _look_at_paths(self, turn: int) -> None:
        assert self.links is not None, "open"
        now = self.ground.now()
        for number, (peer, served) in enumerate(list(self.links.open.items())):
            held = self.mesh.links.get(peer)
            if held is None or (held.path != "none" and (number - turn) % TURNS):
                continue
            path = served.link.path()
            if (held.path, held.address) != (path.kind, path.address):
                self.step(Measured(now=now, peer=peer, path=path.kind, address=path.address))

    def _check_one(self) -> None:
        """Ask one node to show what it claims."""
        proving = self.parts.proving if self.parts else None
        if proving is None:
            return
        asked = proving.due()
        if asked is not None:
            self._send(*asked)
        self._tell_verdicts(proving)

    async def _prove(self, peer: NodeId, message: Challenge | Proof) -> None:
        """Somebody wants us to show what we have, or shows what it has."""
        proving = self.parts.proving if self.parts else None
        if proving is None:
            return
        if isinstance(message, Challenge):
            proof = await proving.answer(message)
            if proof is not None and self.links is not None:
                self.links.send(peer, proof)
        else:
            await proving.take(peer, message)
            self._tell_verdicts(proving)

    def _tell_verdicts(self, proving: Proving) -> None:
        news, now, ready = proving.news(), self.ground.now(), MeshReady()
        if not news:
            return
        self.step(Publish(now=now, values={"verdicts": proving.value()}))
        for node, verdict in news:
            told = {"verification": verdict.state, "what": verdict.why}
            self.mesh.tell(ready, "mesh.verified", node, now, **told)
        self.take(ready)

    def say(self, *, is_moved: bool = True) -> None:
        """Publish what this node has to say about itself; where it is only if that may be new."""
        assert self.transport is not None, "open"
        values = dict(self.ground.values(self.is_going_down))
        if is_moved:
            values["contact"] = self.mesh.reach_value(self.transport.contact())
        self.step(Publish(now=self.ground.now(), values=values))

    # Letting in

    async def _answer(self, peer: NodeId, asked: Redeem | Renew) -> MeshMessage:
        """A newcomer shows a ticket, or a member wants its certificate renewed."""
        now = self.ground.now()
        if isinstance(asked, Renew):
            return self.mesh.membership.renewing.renew(peer, asked, now)
        try:
            await self.check_disk()
        except StoreError as error:
            return Refused(reason="busy", detail=error.problem, about=asked.node)
        answer, ready = self.mesh.membership.redeem(peer, asked, now)
        if isinstance(answer, Forward):
            return await self._forwarding.ask(answer, self.links)
        await self.carry_out(ready)
        return answer

    def _renewed(self, peer: NodeId, answer: MeshMessage | None) -> None:
        """A delegate that we have no link with has answered."""
        if isinstance(answer, Renewed) and self.is_member:
            now, ready = self.ground.now(), MeshReady()
            self.mesh.membership.renewing.take(answer.chain, now, ready, by=peer)
            self.take(ready)
        elif isinstance(answer, Refused):
            self.refused = answer
            self._wake()

    def _answered(self, peer: NodeId, answer: Welcome | Refused) -> None:
        if isinstance(answer, Refused):
            about = answer.about
            if not about:
                self.refused = answer
                self._wake()
        else:
            about = answer.chain[0].node if answer.chain else ""
        self._forwarding.answered(peer, about, answer)
