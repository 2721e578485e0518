"""The links of one node: greeting, reading, writing, letting go.

Lives here: what happens on a connection, from the first byte to the last. Never here: who may talk
and what about (`kernel.mesh`), connections themselves (`edges.transport`).
Invariant: of two links with one peer one stays, and both ends keep the same; a peer that does not
read is let go, never waited for. No word about jobs ends a link, however many and however long they
are: what has no room is lost, and said again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, Literal

import msgspec

from distributed_grid.agent.blast_door import in_words
from distributed_grid.edges.transport import (
    Datagram,
    Lane,
    Link,
    LinkClosed,
    TooLarge,
    Transport,
    Unreachable,
)
from distributed_grid.kernel.accounts import LIMITS
from distributed_grid.kernel.mesh.doorman import Doorman
from distributed_grid.kernel.mesh.events import DialFailed, Heard, LinkDown, LinkUp, Now, Told
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.pool import LinkFacts, is_better
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import (
    JUNK,
    Challenge,
    Delta,
    Goodbye,
    Hello,
    MeshMessage,
    Proof,
    Redeem,
    Refused,
    Renew,
    Welcome,
    decode,
    encode,
)

GREETING_S: Final = 5.0  # For the first message each way.
FAREWELL_S: Final = 1.0  # For what was sent before; who does not read by then is not waited for.
DRAIN_S: Final = 0.01  # Between two looks at an outbox that is full.
REPLIES_MAX: Final = 4  # To one peer at once: some of them cost a sync, or a tenth of a second.
OUTBOX_MAX: Final = 256  # Messages for one peer; gossip has at most one of each kind under way.
# About jobs, for one peer: one step may copy thousands of records to one guardian. What is more is
# said again within a second, by when these have left.
JOBS_BYTES_MAX: Final = LIMITS["going out"].member

Step = Callable[[LinkUp | LinkDown | DialFailed | Heard | Told], None]
Answer = Callable[[NodeId, Redeem | Renew], Awaitable[MeshMessage]]
Answered = Callable[[NodeId, Welcome | Refused], None]  # To a ticket that was passed on.
Proved = Callable[[NodeId, Challenge | Proof], Coroutine[Any, Any, None]]
Inquired = Callable[[NodeId, MeshMessage | None], None]
Broke = Callable[[BaseException], None]
Blame = Callable[[NodeId, str, str], None]  # What a peer said could not be handled: what, and why.
Lost = Callable[[NodeId, str], None]  # A link is gone, and what was on its way with it.
Aside = Callable[[NodeId, Lane, bytes], bool]  # What comes on the other lanes; False: it is junk.


class Outbox:
    """What waits to be said on one lane of a link; neither lane waits for the other."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.said: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: nothing follows.
        self.size_bytes = 0

    def has_room(self, body: bytes) -> bool:
        """Whether one more may wait; the first always may."""
        if self.lane == "control":
            return self.said.qsize() < OUTBOX_MAX
        return not self.size_bytes or self.size_bytes + len(body) <= JOBS_BYTES_MAX

    def put(self, body: bytes) -> None:
        """Say it after those that wait."""
        self.size_bytes += len(body)
        self.said.put_nowait(body)

    async def take(self) -> bytes | None:
        """The next; None: it was the last."""
        body = await self.said.get()
        self.size_bytes -= len(body or b"")
        return body

    def end(self) -> None:
        """Nothing follows."""
        self.said.put_nowait(None)


class Open(msgspec.Struct, kw_only=True):
    """A link whose greetings were good, and what serves it."""

    link: Link
    hello: Hello
    facts: LinkFacts
    control: Outbox
    jobs: Outbox
    writers: tuple[asyncio.Task[None], ...] = ()
    is_leaving: bool = False
    replies: int = 0  # Being worked out.


class Links:
    """Everyone this node is connected with."""

    def __init__(
        self,
        mesh: Mesh,
        transport: Transport,
        *,
        doorman: Doorman,
        now: Callable[[], Now],
        step: Step,
        answer: Answer,
        answered: Answered,
        proving: Proved,
        broke: Broke,
        blame: Blame,
        aside: Aside,
        lost: Lost,
        timeout_ms: int,
    ) -> None:
        self.open: dict[NodeId, Open] = {}
        self.refused: dict[str, int] = {}  # How many were sent away, by reason.
        self.junk = 0
        self.oversized = 0  # Words about jobs that no member would read.
        self.sent_bytes = self.sent_datagram_bytes = 0
        self._mesh, self._transport, self._doorman = mesh, transport, doorman
        self._now, self._step, self._answer, self._answered = now, step, answer, answered
        self._proving, self._broke, self._timeout_ms = proving, broke, timeout_ms
        self._aside, self._lost, self._blame = aside, lost, blame
        self._tasks: set[asyncio.Task[None]] = set()

    # Coming and going

    async def accept(self) -> None:
        """For ever: whoever knocks is served beside the others."""
        while (link := await self._transport.accept()) is not None:
            self._beside(self._receive_guest(link))

    def dial(self, contact: Contact) -> None:
        """Try to connect, beside everything else."""
        self._beside(self._dial(contact))

    async def _dial(self, contact: Contact) -> None:
        is_tried = False
        with self._at_cost_of(contact.node, "greeting"):
            await self._connect(contact)
            is_tried = True
        if not is_tried:
            self._step(DialFailed(now=self._now(), peer=contact.node, why="fault"))

    async def _connect(self, contact: Contact) -> None:
        peer = contact.node
        try:
            link = await self._transport.dial(contact, timeout_ms=self._timeout_ms)
        except Unreachable as error:
            self._step(DialFailed(now=self._now(), peer=peer, why=error.why))
            return
        try:
            await link.send(encode(self._mesh.hello(self._now())))
            answer = await self._first(link)
        except LinkClosed as error:
            self._step(DialFailed(now=self._now(), peer=peer, why=error.why))
            return
        if isinstance(answer, Hello):
            refused = self._mesh.greet(peer, answer, self._now())
            if refused is None:
                self._serve(link, answer)
                return
            answer = refused
            await self._refuse(link, refused)
        why = answer.reason if isinstance(answer, Refused) else "no greeting"
        self._step(
            DialFailed(now=self._now(), peer=peer, why=why, is_refused=isinstance(answer, Refused))
        )
        await link.close(why)

    async def _receive_guest(self, link: Link) -> None:
        """A link that somebody dialled."""
        try:
            await self._welcome(link)
        except (LinkClosed, TooLarge):
            pass
        except Exception as error:  # noqa: BLE001  (whatever it is, others are served)
            self._count_junk(link)
            self._blame(link.peer, "greeting", in_words(error))
            await link.close("malformed")

    async def _welcome(self, link: Link) -> None:
        """Nothing is done for it before its first message is good."""
        first = await self._first(link)
        if first is None:
            return
        reason = self._doorman.admit_peer(link.peer, self._now().mono_us)
        if reason is not None:
            await self._refuse(link, Refused(reason=reason))
            return
        if isinstance(first, Redeem | Renew):
            await link.send(encode(await self._answer(link.peer, first)))
            await self._lingering(link)
            return
        if not isinstance(first, Hello):
            await self._refuse(link, Refused(reason="malformed"))
            return
        now = self._now()
        refused = self._mesh.greet(link.peer, first, now)
        if refused is not None:
            await self._refuse(link, refused)
            return
        await link.send(encode(self._mesh.hello(now)))
        self._serve(link, first)

    async def _lingering(self, link: Link) -> None:
        """The other end closes when it has read the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GREETING_S):
                await link.closed.wait()
        await link.close("answered")

    async def _first(self, link: Link) -> MeshMessage | None:
        """The first message; a link without one is closed."""
        try:
            async with asyncio.timeout(GREETING_S):
                received = await link.receive()
            return decode(received[1]) if received is not None else None
        except TimeoutError:
            await link.close("no greeting")
        except JUNK:
            self._count_junk(link)
            await link.close("malformed")
        return None

    async def _refuse(self, link: Link, refused: Refused) -> None:
        self.refused[refused.reason] = self.refused.get(refused.reason, 0) + 1
        if refused.reason in {"forged", "malformed", "stranger"}:
            self._doorman.count_bad(link.remote_address, self._now().mono_us)
        with contextlib.suppress(LinkClosed):
            await link.send(encode(refused))
        await link.close(refused.reason)

    # Serving

    def _serve(self, link: Link, hello: Hello) -> None:
        """Both ends have greeted: of two such links one stays."""
        link.trust()
        held = self.open.get(link.peer)
        facts = LinkFacts(
            is_dialled=link.is_dialled, since_us=self._now().mono_us, nonce=hello.nonce
        )
        if held is not None:
            is_over = held.link.closed.is_set() or held.is_leaving
            if not is_over and not is_better(facts, held.facts, own=self._mesh.me, peer=link.peer):
                self._beside(link.close("twice"))
                if link.is_dialled:
                    self._step(DialFailed(now=self._now(), peer=link.peer, why="twice"))
                return
            self._drop(held, "twice")
        served = Open(
            link=link, hello=hello, facts=facts, control=Outbox("control"), jobs=Outbox("job")
        )
        self.open[link.peer] = served
        boxes = (served.control, served.jobs)
        served.writers = tuple(self._beside(self._write(served, box)) for box in boxes)
        self._beside(self._read(served))
        self._step(LinkUp(now=self._now(), peer=link.peer, hello=hello))
        link.hand_datagrams(partial(self._take_datagram, served))

    async def _write(self, served: Open, box: Outbox) -> None:
        """Until there is nothing more to say, or nobody to say it to."""
        while (body := await box.take()) is not None:
            try:
                await served.link.send(body, lane=box.lane)
                self.sent_bytes += len(body)
            except TooLarge as error:
                if box.lane == "control":
                    self._part(served, error.message)
                    return
                self.oversized += 1  # A record that cannot travel: its job stays, others go on.
            except LinkClosed:
                return  # The reader sees to it.

    async def _read(self, served: Open) -> None:
        link = served.link
        while (received := await link.receive()) is not None:
            lane, body = received
            is_sense = True
            try:
                message = decode(body) if lane == "control" else None
            except JUNK:
                is_sense = False
            else:
                kind = type(message).__name__ if message is not None else f"message ({lane})"
                with self._at_cost_of(link.peer, kind):
                    is_sense = (
                        await self._hear(served, message)
                        if message is not None
                        else self._aside(link.peer, lane, body)
                    )
            if not is_sense:
                self._count_junk(link)
                await link.close("malformed")
                break
        self._ended(served)

    async def _hear(self, served: Open, message: MeshMessage) -> bool:
        peer = served.link.peer
        if isinstance(message, Redeem | Renew | Challenge | Proof):
            if served.replies < REPLIES_MAX:  # Whoever asks more at once gets no answer.
                served.replies += 1
                self._beside(self._reply(served, message))
            return True
        if isinstance(message, Welcome | Refused):
            self._answered(peer, message)
            return True
        if isinstance(message, Delta):
            message = await self._verified(message)
        if self.open.get(peer) is served:
            self._step(Told(now=self._now(), peer=peer, message=message))
        return True

    @contextlib.contextmanager
    def _at_cost_of(self, peer: NodeId, kind: str) -> Iterator[None]:
        """What breaks off meanwhile costs this peer its link, and the agent nothing."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, others are served)
            self._blame(peer, kind, in_words(error))

    async def _reply(self, served: Open, message: Redeem | Renew | Challenge | Proof) -> None:
        peer = served.link.peer
        with self._at_cost_of(peer, type(message).__name__):
            if isinstance(message, Redeem | Renew):
                self.send(peer, await self._answer(peer, message))
            else:
                await self._proving(peer, message)
        served.replies -= 1

    async def _verified(self, delta: Delta) -> Delta:
        """What is here already, and what would change something and its node has signed."""
        good = [entry for entry in delta.entries if self._mesh.holds(entry)]
        for number, entry in enumerate(self._mesh.wanted(delta.entries)):
            if number % 8 == 7:  # 110 us each: others get their turn in between.
                await asyncio.sleep(0)
            if self._mesh.roster is not None and self._mesh.roster.verify(entry):
                good.append(entry)
            else:
                self.junk += 1
        return msgspec.structs.replace(delta, entries=tuple(good))

    def _take_datagram(self, served: Open, datagram: Datagram) -> None:
        peer, (data, waited_us) = served.link.peer, datagram
        if self.open.get(peer) is not served:
            return
        with self._at_cost_of(peer, "heartbeat"):
            self._step(Heard(now=self._now(), peer=peer, datagram=data, waited_us=waited_us))

    def _ended(self, served: Open) -> None:
        if self.open.get(served.link.peer) is served:
            del self.open[served.link.peer]
            why = served.link.why_closed
            self._step(LinkDown(now=self._now(), peer=served.link.peer, why=why))
            self._lost(served.link.peer, why)
        self._end(served)

    def _end(self, served: Open) -> None:
        served.control.end()
        served.jobs.end()

    def _drop(self, served: Open, why: str) -> None:
        """Another link takes its place."""
        del self.open[served.link.peer]
        self._step(LinkDown(now=self._now(), peer=served.link.peer, why=why))
        self._lost(served.link.peer, why)
        self._beside(served.link.close(why))

    def cut(self, peer: NodeId, why: str) -> None:
        """Now, whatever was still to be said."""
        served = self.open.get(peer)
        if served is not None:
            self._drop(served, why)
            self._end(served)

    # Sending

    def send(self, peer: NodeId, message: MeshMessage) -> None:
        """In order, when the peer can take it; who lets too much pile up is let go."""
        served, body = self.open.get(peer), encode(message)
        if served is not None and served.control.has_room(body):
            served.control.put(body)
        elif served is not None:
            self._part(served, "does not read")

    def send_job(self, peer: NodeId, body: bytes) -> bool:
        """On the job lane, in order; False: there is no link, or too much waits for it."""
        served = self.open.get(peer)
        if served is None:
            return False
        if not served.hello.jobs:
            return True  # Of an older version, which would take it for junk.
        if not served.jobs.has_room(body) or not self._has_room(served.jobs, body):
            return False
        served.jobs.put(body)
        return True

    def _has_room(self, box: Outbox, body: bytes) -> bool:
        """Whether it is little, or all others have not used up what there is for everybody."""
        most, size = LIMITS["going out"], len(body)
        if not box.size_bytes or box.size_bytes + size <= most.assured:
            return True
        return sum(one.jobs.size_bytes for one in self.open.values()) + size <= most.total

    async def send_bulk(self, peer: NodeId, body: bytes) -> bool:
        """Past the outbox, which is for what is short and must not wait behind a chunk."""
        served = self.open.get(peer)
        if served is None or served.is_leaving or not served.hello.jobs:
            return False
        try:
            await served.link.send(body, lane="bulk")
        except LinkClosed:
            return False
        self.sent_bytes += len(body)
        return True

    async def drained(self, peer: NodeId) -> None:
        """Until most of what was said to a peer has been handed to the network."""
        while (served := self.open.get(peer)) and served.jobs.said.qsize() > OUTBOX_MAX // 4:  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_S)

    def send_datagram(self, peer: NodeId, datagram: bytes) -> None:
        """Now or never."""
        served = self.open.get(peer)
        if served is not None:
            served.link.send_datagram(datagram)
            self.sent_datagram_bytes += len(datagram)

    def hang_up(self, peer: NodeId, why: str) -> None:
        """Close, after what was sent before."""
        served = self.open.get(peer)
        if served is None:
            return
        self._end(served)
        self._part(served, why)

    def _part(self, served: Open, why: str) -> None:
        if not served.is_leaving:
            served.is_leaving = True
            self._beside(self._farewell(served, why))

    async def _farewell(self, served: Open, why: str) -> None:
        await asyncio.wait(served.writers, timeout=FAREWELL_S)
        await served.link.close(why)

    def inquire(self, contact: Contact, message: Renew, answered: Inquired) -> None:
        """Ask somebody we have no link with, beside everything else."""
        self._beside(self._inquire(contact, message, answered))

    async def _inquire(self, contact: Contact, message: Renew, answered: Inquired) -> None:
        with contextlib.suppress(Unreachable, LinkClosed):
            answered(contact.node, await self.ask(contact, message))

    async def ask(self, contact: Contact, message: Redeem | Renew) -> MeshMessage | None:
        """One question to somebody who does not know us yet. Raises Unreachable, LinkClosed."""
        link = await self._transport.dial(contact, timeout_ms=self._timeout_ms)
        try:
            await link.send(encode(message))
            return await self._first(link)
        finally:
            await link.close("asked")

    async def close(
        self, why: Literal["restarting", "leaving"] = "restarting", *, is_down: bool = False
    ) -> None:
        """Let everyone go, with a word."""
        for peer in list(self.open):
            self.send(peer, Goodbye(reason=why, is_down=is_down))
            self.hang_up(peer, why)
        if self._tasks and self.open:
            await asyncio.wait(self._tasks, timeout=FAREWELL_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _count_junk(self, link: Link) -> None:
        self.junk += 1
        self._doorman.count_bad(link.remote_address, self._now().mono_us)

    def _beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # A mistake of ours: whoever talks to us cannot cause one.
            self._broke(error)
