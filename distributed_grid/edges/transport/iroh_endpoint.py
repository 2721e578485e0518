"""Links over iroh: QUIC by public key, direct where the network allows, else by the owner's relay.

Lives here: listening, dialling, the door. Never here: what a link does (`iroh_link`).
Source: the iroh 1.2.0 wheel (core 1.4.1). No public relay, DNS or registry is ever asked.
Invariant: an address that is not admitted costs a look at its first packet, and no handshake.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from iroh import (
    Endpoint,
    EndpointAddr,
    EndpointId,
    EndpointOptions,
    Incoming,
    IncomingAddr,
    IrohError,
    RelayConfig,
    RelayMap,
    RelayMode,
    SecretKey,
    preset_minimal,
)
from iroh.iroh_ffi import uniffi_set_event_loop

from distributed_grid.edges.transport import (
    Admit,
    CannotListen,
    Counters,
    Limits,
    Unreachable,
    addresses,
    iroh_calling,
    iroh_copying,
    iroh_sockets,
    iroh_waking,
)
from distributed_grid.edges.transport.iroh_link import IrohLink, cause
from distributed_grid.edges.transport.strangers import Strangers
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import ADDRESSES_MAX, Contact
from distributed_grid.wire.mesh import ALPN

HANDSHAKE_S: Final = 5.0
KNOCKS_PER_S: Final = 600  # Looked at; a look that ends in a refusal takes some 300 us.
_KNOCKS_AT_ONCE: Final = 50


class IrohTransport:
    """An end on the network; see `Transport`."""

    def __init__(
        self,
        secret: bytes,
        *,
        listen: str = "",
        kept_port: int = 0,
        advertise: Sequence[str] = (),
        relay: str = "",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        admit: Admit = lambda _: True,
    ) -> None:
        self.id = NodeId(str(SecretKey.from_bytes(secret).public()))
        self.counters = Counters()
        self.port = 0  # The one of IPv4 if there is one, to be kept.
        self._secret = secret
        self._listen, self._kept_port = listen, kept_port
        self._advertise, self._relay = tuple(advertise), relay
        self._limits, self._admit = limits, admit
        self._strangers = Strangers(limits, self.counters)
        self._links: set[IrohLink] = set()
        self._accepted: asyncio.Queue[IrohLink | None] = asyncio.Queue()  # Bound: `strangers`.
        self._handshakes: set[asyncio.Task[None]] = set()
        self._endpoint: Endpoint | None = None
        self._door: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `Transport`."""
        iroh_calling.hasten()
        iroh_copying.hasten()
        iroh_waking.hasten()
        loop: Any = asyncio.get_running_loop()  # uvloop's is no BaseEventLoop, and works.
        uniffi_set_event_loop(loop)
        self._endpoint = await self._bind()
        for text in self._sockets(self._endpoint):
            host, port = addresses.split(text)
            if ":" not in host or not self.port:
                self.port = port
        self._door = asyncio.create_task(self._keep_door(self._endpoint))

    async def close(self) -> None:
        """See `Transport`."""
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is None:
            return
        self._strangers.close()
        self.take_in(is_patient=False)
        links = list(self._links)
        await asyncio.gather(*(link.close("closing") for link in links))
        await endpoint.close()
        if self._door is not None:
            await self._door
        if self._handshakes:
            await asyncio.wait(self._handshakes)
        self._door = None  # It holds the endpoint, and that its port.
        for link in links:
            await link.gone()
        self._accepted.put_nowait(None)

    def take_in(self, *, is_patient: bool) -> None:
        """See `Transport`."""
        iroh_waking.take_in(is_patient=is_patient)

    def contact(self) -> Contact:
        """See `Transport`."""
        found = list(self._advertise)
        if self._endpoint is not None:
            bound = self._sockets(self._endpoint)
            found += addresses.reachable(bound, addresses.of_this_machine())
        unique = tuple(dict.fromkeys(found))[:ADDRESSES_MAX]
        return Contact(node=self.id, addresses=unique, relay=self._relay)

    async def dial(self, contact: Contact, *, timeout_ms: int) -> IrohLink:
        """See `Transport`."""
        endpoint, peer = self._endpoint, contact.node
        if endpoint is None:
            raise Unreachable(peer, "this end is closed")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                where = await addresses.resolved(contact.addresses)
                target = EndpointAddr(EndpointId.from_string(peer), contact.relay or None, where)
                connection = await endpoint.connect(target, ALPN.encode())
        except TimeoutError:
            raise Unreachable(peer, f"no answer within {timeout_ms} ms") from None
        except IrohError as error:
            raise Unreachable(peer, cause(error)) from None
        link = IrohLink(
            connection,
            endpoint=endpoint,
            remote_address="",
            is_dialled=True,
            limits=self._limits,
            counters=self.counters,
        )
        link.remote_address = link.path().address
        self._keep(link)
        return link

    async def accept(self) -> IrohLink | None:
        """See `Transport`."""
        link = await self._accepted.get()
        if link is None:
            self._accepted.put_nowait(None)  # For whoever asks again.
        return link

    async def _bind(self) -> Endpoint:
        wanted = addresses.bind_address(self._listen, kept_port=self._kept_port)
        try:
            return await self._bind_to(wanted)
        except CannotListen:
            if not self._kept_port or addresses.split(self._listen)[1]:
                raise
        # Somebody else has the port of last time; nobody insisted on it.
        return await self._bind_to(addresses.bind_address(self._listen))

    async def _bind_to(self, wanted: str) -> Endpoint:
        mode = RelayMode.disabled()
        if self._relay:
            relays = RelayMap.empty()
            relays.insert(RelayConfig(url=self._relay, quic_port=None, auth_token=None))
            mode = RelayMode.custom(relays)
        options = EndpointOptions(
            preset=preset_minimal(),
            alpns=[ALPN.encode()],
            relay_mode=mode,
            bind_addr=wanted,
            secret_key=self._secret,
        )
        try:
            return await Endpoint.bind(options)
        except IrohError as error:
            raise CannotListen(wanted, cause(error)) from None

    def _sockets(self, endpoint: Endpoint) -> list[str]:
        """Where it listens: if the owner named an address, there and nowhere else."""
        bound = endpoint.bound_sockets()
        host = addresses.split(self._listen)[0]
        if not host:
            return bound
        iroh_sockets.close_others(bound, host)
        return [text for text in bound if (":" in addresses.split(text)[0]) == (":" in host)]

    async def _keep_door(self, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        count, since_s = 0, loop.time()
        while True:
            try:
                incoming = await endpoint.accept_next()
                if incoming is None:
                    return
                await self._answer(incoming)
            except IrohError:
                self.counters.handshakes_failed += 1
            count += 1
            if count >= _KNOCKS_AT_ONCE:
                spare_s = since_s + count / KNOCKS_PER_S - loop.time()
                if spare_s > 0:
                    await asyncio.sleep(spare_s)
                count, since_s = 0, loop.time()

    async def _answer(self, incoming: Incoming) -> None:
        address = _text(await incoming.remote_addr())
        if not self._strangers.has_room() or not self._admit(address):
            self.counters.not_admitted += 1
            await incoming.refuse()
            return
        self._strangers.knock()
        task = asyncio.create_task(self._shake_hands(incoming, address))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, incoming: Incoming, address: str) -> None:
        link = None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                connection = await (await incoming.accept()).connect()
            if self._endpoint is None:
                return  # Closed meanwhile.
            link = IrohLink(
                connection,
                endpoint=self._endpoint,
                remote_address=address,
                is_dialled=False,
                limits=self._limits,
                counters=self.counters,
            )
            self._keep(link)
            self._accepted.put_nowait(link)
        except (IrohError, TimeoutError):
            self.counters.handshakes_failed += 1
        finally:
            self._strangers.came(link)

    def _keep(self, link: IrohLink) -> None:
        self._links.add(link)
        link.on_gone = self._links.discard


def _text(address: IncomingAddr) -> str:
    if isinstance(address, IncomingAddr.IP):
        return str(address.addr)
    return f"relay:{address.url}" if isinstance(address, IncomingAddr.RELAY) else str(address)
