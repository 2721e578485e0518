"""What is true of links over iroh only: hostile peers that speak QUIC, and facts about the wheel.

Lives here: cases for `transport_child`; each with a sentence for a name.
"""

import asyncio
import os
import socket
from pathlib import Path

import iroh
import pytest
from iroh import iroh_ffi

from distributed_grid.edges.transport import CannotListen, Limits, iroh_waking
from distributed_grid.edges.transport.addresses import split
from distributed_grid.edges.transport.iroh_endpoint import IrohTransport
from distributed_grid.wire.mesh import ALPN
from tests.contract.transport_lab import DIAL_MS, cases_in, got, meet


async def _stranger():
    """An endpoint of somebody who has the library and no manners."""
    options = iroh.EndpointOptions(
        preset=iroh.preset_minimal(),
        alpns=[ALPN.encode()],
        relay_mode=iroh.RelayMode.disabled(),
        bind_addr="127.0.0.1:0",
        secret_key=os.urandom(32),
    )
    return await iroh.Endpoint.bind(options)


async def _knock(stranger, hub, alpn=ALPN):
    contact = hub.contact()
    target = iroh.EndpointAddr(
        iroh.EndpointId.from_string(contact.node), None, list(contact.addresses)
    )
    return await stranger.connect(target, alpn.encode())


async def _is_closed(lab, misbehave):
    """The link is closed and counted, and others do not notice."""
    hub = await lab.end()
    here, there = await meet(await lab.end(), hub)
    stranger = await _stranger()
    connection = await _knock(stranger, hub)
    served = await hub.accept()
    asking = asyncio.create_task(served.receive())
    kept = await misbehave(connection)

    assert await asking is None
    assert hub.counters.malformed == 1
    assert "malformed" in await connection.closed()
    there.trust()
    await here.send(b"still here")
    assert await got(there) == b"still here"
    del kept
    await stranger.close()


async def a_lane_that_does_not_exist_closes_its_link(lab):
    async def misbehave(connection):
        stream = await connection.open_uni()
        await stream.write_all(b"\xff\x00\x00\x00\x01x")
        return stream

    await _is_closed(lab, misbehave)


async def a_length_that_is_not_allowed_closes_its_link(lab):
    async def misbehave(connection):
        stream = await connection.open_uni()
        await stream.write_all(b"\x00\xff\xff\xff\xff")
        return stream

    await _is_closed(lab, misbehave)


async def a_two_way_stream_closes_its_link(lab):
    async def misbehave(connection):
        stream = await connection.open_bi()
        await stream.send().write_all(b"\x00")
        return stream

    await _is_closed(lab, misbehave)


async def too_many_streams_close_their_link(lab):
    async def misbehave(connection):
        streams = [await connection.open_uni() for _ in range(4)]
        for stream in streams:
            await stream.write_all(b"\x00")
        return streams

    await _is_closed(lab, misbehave)


async def half_a_message_is_not_waited_for(lab):
    hub = await lab.end(Limits(stranger_idle_ms=200))
    stranger = await _stranger()
    connection = await _knock(stranger, hub)
    stream = await connection.open_uni()
    await stream.write_all(b"\x00\x00\x00\x00\x10half")
    served = await hub.accept()

    assert await served.receive() is None
    assert hub.counters.strangers_closed == 1
    await stranger.close()


async def a_stranger_that_fills_streams_unread_is_closed(lab):
    hub = await lab.end()
    stranger = await _stranger()
    connection = await _knock(stranger, hub)
    stream = await connection.open_uni()

    async def fill():
        while True:
            await stream.write_all(b"\x02" + bytes(60_000))

    with pytest.raises(iroh.IrohError):
        await fill()

    assert hub.counters.strangers_closed == 1
    await stranger.close()


async def another_protocol_gets_no_link(lab):
    hub = await lab.end()
    stranger = await _stranger()
    with pytest.raises(iroh.IrohError):
        await _knock(stranger, hub, "smtp")

    await meet(await lab.end(), hub)
    assert hub.counters.handshakes_failed == 1
    await stranger.close()


async def junk_packets_do_no_harm(lab):
    hub = await lab.end()
    host, port = split(hub.contact().addresses[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rude:
        for size in (0, 1, 20, 1_200, 1_400) * 200:
            rude.sendto(os.urandom(size), (host, port))
        for _ in range(200):  # As the first packet of QUIC begins.
            rude.sendto(b"\xc3\x00\x00\x00\x01\x08" + os.urandom(1_194), (host, port))

    await meet(await lab.end(), hub)


async def a_port_is_kept_if_it_can_be(lab):
    taken = await lab.end()
    again = IrohTransport(os.urandom(32), kept_port=taken.port)
    await again.open()
    await again.close()
    insisting = IrohTransport(os.urandom(32), listen=f":{taken.port}", kept_port=taken.port)

    assert again.port not in {0, taken.port}
    with pytest.raises(CannotListen, match="in use"):
        await insisting.open()
    await taken.close()
    await insisting.open()
    assert insisting.port == taken.port
    await insisting.close()


async def loopback_is_told_if_there_is_nothing_else(lab):
    end = await lab.end()

    assert f"127.0.0.1:{end.port}" in end.contact().addresses


async def _loses_bytes(lab):
    hub = await lab.end()
    stranger = await _stranger()
    connection = await _knock(stranger, hub)
    served = await hub.accept()
    stream = await served._connection.open_uni()
    incoming = None
    is_lost = False
    for number in range(1, 200):
        await stream.write_all(bytes([number]))
        incoming = incoming or await connection.accept_uni()
        reading = asyncio.create_task(incoming.read(1))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
        if reading.cancelled():
            await stream.write_all(b"\xff")
            if await incoming.read(1) == b"\xff":
                is_lost = True
                break
            assert await incoming.read(1) == b"\xff"
        else:
            assert reading.result() == bytes([number])
    await stranger.close()
    return is_lost


async def as_it_comes_a_cancelled_read_loses_bytes(lab):
    """If this fails, iroh_reading.py may cancel its reads."""
    await lab.end()  # Everything is hastened.
    hastened = iroh_ffi._uniffi_rust_call_async
    iroh_ffi._uniffi_rust_call_async = iroh_waking.AS_IT_COMES
    hub_opens, iroh_waking.hasten = iroh_waking.hasten, lambda: None
    try:
        is_lost = await _loses_bytes(lab)
    finally:
        iroh_ffi._uniffi_rust_call_async, iroh_waking.hasten = hastened, hub_opens

    assert is_lost


async def as_we_call_it_a_cancelled_read_loses_nothing(lab):
    assert not await _loses_bytes(lab)


async def datagrams_wait_for_who_is_patient_and_say_how_long(lab):
    hub = await lab.end()
    one, other = await meet(await lab.end(), hub)
    other.trust()
    hub.take_in(is_patient=True)
    receiving = asyncio.create_task(other.receive_datagrams())
    one.send_datagram(b"later")
    await one.send(b"a message wakes at once")
    assert await got(other) == b"a message wakes at once"
    while not iroh_waking._late:
        await asyncio.sleep(0)
    assert not receiving.done()
    hub.take_in(is_patient=True)

    ((data, waited_us),) = await receiving
    assert data == b"later"
    assert 0 < waited_us < 10_000_000


async def as_it_comes_one_address_means_two_sockets(lab):
    """If this fails, delete iroh_sockets.py."""
    stranger = await _stranger()

    hosts = sorted(split(text)[0] for text in stranger.bound_sockets())
    assert hosts == ["127.0.0.1", "::"]
    await stranger.close()


async def only_the_address_that_was_named_is_bound_and_told(lab):
    for host, family in (("127.0.0.1", "udp"), ("::1", "udp6")):
        before = _open_sockets()
        ends = [IrohTransport(os.urandom(32), listen=f"[{host}]:0") for _ in range(2)]
        for end in ends:
            await end.open()

        told = [split(text) for end in ends for text in end.contact().addresses]
        assert told == [(host, end.port) for end in ends]
        assert sorted(_open_sockets() - before) == sorted((family, end.port) for end in ends)
        here, there = await meet(*ends)
        await here.send(b"by the one that is left")
        assert await got(there) == b"by the one that is left"
        files = _open_files()
        assert [end.contact().addresses for end in ends for _ in range(9)]
        assert _open_files() <= files  # Looking costs nothing that lasts.
        for end in ends:
            await end.close()


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def _open_sockets() -> set[tuple[str, int]]:
    """Families and ports of all UDP sockets in this network."""
    return {
        (family, int(line.split()[1].rpartition(":")[2], 16))
        for family in ("udp", "udp6")
        for line in Path("/proc/net", family).read_text().splitlines()[1:]
    }


async def a_path_that_iroh_does_not_call_selected_is_a_path_all_the_same(lab):
    here, _ = await meet(await lab.end(), await lab.end())
    usual = here.path()
    paths = here._connection.paths()
    for path in paths:
        path.is_selected = False
    here._connection.paths = lambda: paths

    assert here.path().kind == usual.kind == "direct"
    assert here.path().address in {path.remote_addr for path in paths}
    here._connection.paths = list
    assert here.path().kind == "direct"  # What was seen last.
    await here.close("enough")
    assert here.path().kind == "none"


async def the_wheel_has_no_way_to_resume_with_0_rtt(lab):
    """If this fails, a dial could greet in its first packet; see docs/limitations.md."""
    words = {word for word in dir(iroh.Connecting) if not word.startswith("_")}

    assert words == {"alpn", "connect", "remote_id"}


async def dialling_by_name_works(lab):
    hub, caller = await lab.end(), await lab.end()
    contact = hub.contact()
    named = type(contact)(node=contact.node, addresses=(f"localhost:{hub.port}",))
    link = await caller.dial(named, timeout_ms=DIAL_MS)

    assert link.peer == hub.id


CASES = cases_in(vars())
