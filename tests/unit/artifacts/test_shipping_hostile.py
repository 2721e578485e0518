"""A peer that breaks the rules costs its own transfer, and nothing else."""

import asyncio
import contextlib
import threading
import tracemalloc
import zlib

import msgspec
import pytest

from distributed_grid.agent import (
    shipping,
    shipping_in,
    shipping_lane,
    shipping_out,
    shipping_receiving,
)
from distributed_grid.agent.shipping_out import WINDOW_BYTES
from distributed_grid.model import artifact
from distributed_grid.model.artifact import CHUNK_BYTES_MAX, ROOT, File, Manifest, ManifestId
from distributed_grid.wire.artifacts import (
    Chunk,
    Complete,
    Fetch,
    Kept,
    Lacking,
    ManifestPart,
    Offer,
    Refusal,
    WantManifest,
)
from tests.unit.artifacts.lab import BOB, EVE, a_store, noise, packed


def an_offer(body: bytes, content: int) -> Offer:
    return Offer(manifest=artifact.id_of(body), manifest_bytes=len(body), content_bytes=content)


class Stranger:
    """A member that says what it likes; Bob's answers are kept."""

    def __init__(self, bob) -> None:
        self.bob = bob
        self.heard = []
        self._news = asyncio.Event()

    async def take(self, _, message) -> bool:
        self.heard.append(message)
        self._news.set()
        return True

    def say(self, message) -> bool:
        return self.bob.received(EVE, message)

    async def wait_for(self, kind):
        while not any(isinstance(message, kind) for message in self.heard):
            self._news.clear()
            await self._news.wait()
        return next(message for message in self.heard if isinstance(message, kind))


@contextlib.asynccontextmanager
async def a_stranger(tmp_path):
    eve = Stranger(None)
    bob = shipping.Shipping(a_store(tmp_path / "bob"), eve.take)
    eve.bob = bob
    bob.link_up(EVE)
    try:
        yield eve, bob
    finally:
        await bob.close()


DATA = b"x" * 100
GOOD = artifact.encode(
    Manifest(files=(File(ROOT, b"a", 0o644, 100),), digests=artifact.digest(DATA), sizes=(100,))
)
OTHER = artifact.encode(msgspec.structs.replace(artifact.read(GOOD), mode=0o700))
EVIL = artifact.encode(Manifest(files=(File(ROOT, b"../a", 0o644, 0),)))


def part(body: bytes, **fields) -> ManifestPart:
    return ManifestPart(**{"manifest": artifact.id_of(body), "offset": 0, "data": body, **fields})


@pytest.mark.parametrize(
    "said",
    [
        [an_offer(EVIL, 0), part(EVIL)],
        [an_offer(b"no manifest", 0), part(b"no manifest")],
        [an_offer(GOOD, 99), part(GOOD)],
        [an_offer(GOOD, 100), part(GOOD, data=GOOD[:-1] + b"!")],
        [an_offer(GOOD, 100), part(GOOD, data=OTHER)],
        [an_offer(GOOD, 100), part(GOOD, data=GOOD + b"!")],
        [an_offer(GOOD, 100), part(GOOD), Chunk(manifest=artifact.id_of(GOOD), index=0, data=b"!")],
        [an_offer(GOOD, 100), part(GOOD), Chunk(manifest=artifact.id_of(GOOD), index=9, data=b"!")],
        [
            an_offer(GOOD, 100),
            part(GOOD),
            Chunk(manifest=artifact.id_of(GOOD), index=0, data=b"!", is_squeezed=True),
        ],
    ],
)
async def test_what_makes_no_sense_ends_that_transfer_and_is_counted(tmp_path, said):
    async with a_stranger(tmp_path) as (eve, bob):
        for message in said:
            assert eve.say(message)
            if isinstance(message, Offer):
                await eve.wait_for(WantManifest)
            elif isinstance(message, ManifestPart) and message is not said[-1]:
                await eve.wait_for(Lacking)
        refusal = await eve.wait_for(Refusal)

        assert refusal.reason == "malformed"
        assert bob.broken == 1
        assert bob.chunks.status().chunks == 0


async def test_a_squeezed_chunk_does_not_unfold_beyond_its_size(tmp_path):
    bomb = zlib.compress(bytes(10_000_000), 9)
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.say(part(GOOD))
        await eve.wait_for(Lacking)
        eve.say(Chunk(manifest=artifact.id_of(GOOD), index=0, data=bomb, is_squeezed=True))
        await eve.wait_for(Refusal)

        assert bob.broken == 1


def test_unfolding_takes_no_more_memory_than_the_chunk():
    arrival = shipping_in.Arrival(EVE, an_offer(GOOD, 100))
    arrival.describe(artifact.read(GOOD))
    bomb = zlib.compress(bytes(10_000_000), 9)
    chunk = Chunk(manifest=arrival.manifest_id, index=0, data=bomb, is_squeezed=True)
    tracemalloc.start()
    try:
        with pytest.raises(shipping_in.Broken):
            arrival.unsqueezed(chunk)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert most < 1_000_000


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (Offer(manifest=ManifestId("ab" * 32), manifest_bytes=0, content_bytes=0), "malformed"),
        (Offer(manifest=ManifestId("ab" * 32), manifest_bytes=1, content_bytes=-1), "malformed"),
        (
            Offer(manifest=ManifestId("ab" * 32), manifest_bytes=1 << 40, content_bytes=0),
            "too-large",
        ),
        (
            Offer(manifest=ManifestId("ab" * 32), manifest_bytes=1, content_bytes=1 << 60),
            "too-large",
        ),
    ],
)
async def test_an_offer_that_nobody_could_take_is_refused(tmp_path, offer, reason):
    async with a_stranger(tmp_path) as (eve, _):
        eve.say(offer)

        assert (await eve.wait_for(Refusal)).reason == reason


async def test_what_nobody_waits_for_is_not_kept(tmp_path):
    async with a_stranger(tmp_path) as (eve, bob):
        name = artifact.id_of(GOOD)
        for message in (
            Chunk(manifest=name, index=0, data=DATA),
            part(GOOD),
            Kept(manifest=name, indices=(1,)),
            Complete(manifest=name),
            Lacking(manifest=name, bits=b"\xff"),
            Refusal(manifest=name, reason="full"),
            Refusal(manifest=name, reason="gone"),
        ):
            assert eve.say(message)
        eve.say(Fetch(manifest=name))
        await eve.wait_for(Refusal)

        assert bob.chunks.status().bytes_used == 0


@pytest.mark.parametrize(("resting_max", "offset"), [(1 << 20, 20), (10, 0)])
async def test_a_manifest_is_taken_up_again_unless_it_is_too_long_to_wait(
    tmp_path, monkeypatch, resting_max, offset
):
    monkeypatch.setattr(shipping_in, "RESTING_BYTES_MAX", resting_max)
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.say(part(GOOD, data=GOOD[:20]))
        (arrival,) = bob._active
        while not arrival._body:
            await asyncio.sleep(0)
        bob.link_down(EVE)
        bob.link_up(EVE)
        eve.heard.clear()
        eve.say(an_offer(GOOD, 100))
        assert (await eve.wait_for(WantManifest)).offset == offset
        eve.say(part(GOOD, offset=offset, data=GOOD[offset:]))
        await eve.wait_for(Lacking)


async def test_parts_that_are_not_wanted_are_ignored(tmp_path):
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.say(part(GOOD, offset=7, data=b""))
        eve.say(part(GOOD))
        await eve.wait_for(Lacking)
        eve.say(part(GOOD))
        eve.say(Chunk(manifest=artifact.id_of(GOOD), index=0, data=DATA))
        eve.say(Chunk(manifest=artifact.id_of(GOOD), index=0, data=DATA))
        await eve.wait_for(Complete)

        assert bob.broken == 0


async def test_more_of_a_manifest_than_there_is_ends_the_transfer(tmp_path):
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.say(part(GOOD, offset=5))
        eve.say(part(GOOD, offset=5))
        await eve.wait_for(Refusal)

        assert bob.broken == 1


async def test_another_offer_of_the_same_name_begins_anew(tmp_path):
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(GOOD, 99))
        await eve.wait_for(WantManifest)
        eve.heard.clear()
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.say(part(GOOD))
        await eve.wait_for(Lacking)

        assert bob.broken == 0


async def test_an_answer_to_an_offer_of_before_does_not_make_it_safe(tmp_path):
    shipment = shipping_out.Shipment(BOB, artifact.id_of(GOOD), artifact.read(GOOD), GOOD)
    shipment.next_message()
    shipment.heard(Complete(manifest=shipment.manifest_id, is_durable=False))
    assert shipment.state == "offering"
    shipment.heard(Lacking(manifest=shipment.manifest_id, bits=b"\x01"))
    shipment.restart()
    shipment.heard(Lacking(manifest=shipment.manifest_id, bits=b"\x01"))
    shipment.heard(Kept(manifest=shipment.manifest_id, indices=(0,)))
    shipment.heard(WantManifest(manifest=shipment.manifest_id, offset=10**6))

    assert (shipment.state, shipment.next_chunk(), shipment.there()) == ("offering", None, set())
    shipment.heard(Complete(manifest=shipment.manifest_id))
    shipment.heard(Refusal(manifest=shipment.manifest_id, reason="full"))
    assert (shipment.state, shipment.there()) == ("complete", {0})


@pytest.mark.parametrize(("size", "most"), [(CHUNK_BYTES_MAX, 16), (1, 256)])
async def test_what_flies_is_bounded_in_bytes_and_in_number(size, most):
    manifest = Manifest(
        files=(File(ROOT, b"a", 0o644, 300 * size),),
        digests=b"".join(artifact.digest(b"%d" % n) for n in range(300)),
        sizes=(size,) * 300,
    )
    body = artifact.encode(manifest)
    shipment = shipping_out.Shipment(BOB, artifact.id_of(body), manifest, body)
    shipment.next_message()
    shipment.heard(Lacking(manifest=shipment.manifest_id, bits=b"\xff" * 38))
    flying = list(iter(shipment.next_chunk, None))
    shipment.heard(Kept(manifest=shipment.manifest_id, indices=(0, 1)))

    assert len(flying) == most
    assert len(list(iter(shipment.next_chunk, None))) == 2


async def test_nothing_is_called_durable_that_came_before_it_had_to_be(tmp_path, monkeypatch):
    datas = [noise(500, n) for n in range(2)]
    body = artifact.encode(
        Manifest(
            files=(File(ROOT, b"a", 0o644, 1_000),),
            digests=b"".join(map(artifact.digest, datas)),
            sizes=(500, 500),
        )
    )
    name = artifact.id_of(body)
    chunks = [Chunk(manifest=name, index=n, data=data) for n, data in enumerate(datas)]
    soft = msgspec.structs.replace(an_offer(body, 1_000), is_durable=False)
    async with a_stranger(tmp_path) as (eve, bob):
        fetching = asyncio.ensure_future(bob.fetch(EVE, name, durable=False))
        await eve.wait_for(Fetch)
        eve.say(soft)
        await eve.wait_for(WantManifest)
        eve.say(part(body))
        await eve.wait_for(Lacking)
        eve.say(chunks[0])
        await eve.wait_for(Kept)
        told = threading.Event()
        real = bob.chunks.lacking
        monkeypatch.setattr(bob.chunks, "lacking", lambda names: (told.wait(0.3), real(names))[1])
        eve.say(chunks[1])  # The look at what is lacking is slow: meanwhile this one is synced.
        eve.say(an_offer(body, 1_000))
        complete = await eve.wait_for(Complete)
        synced = set(bob.chunks._synced)
        told.set()
        await fetching

        assert complete.is_durable
        assert {artifact.digest(data) for data in datas} <= synced


async def test_more_chunks_than_a_window_end_the_transfer(tmp_path):
    count = WINDOW_BYTES // CHUNK_BYTES_MAX + 3
    chunks = [noise(CHUNK_BYTES_MAX, n) for n in range(count)]
    body = artifact.encode(
        Manifest(
            files=(File(ROOT, b"a", 0o644, count * CHUNK_BYTES_MAX),),
            digests=b"".join(map(artifact.digest, chunks)),
            sizes=(CHUNK_BYTES_MAX,) * count,
        )
    )
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(body, count * CHUNK_BYTES_MAX))
        await eve.wait_for(WantManifest)
        eve.say(part(body))
        await eve.wait_for(Lacking)
        for index, data in enumerate(chunks):
            eve.say(Chunk(manifest=artifact.id_of(body), index=index, data=data))
        refusal = await eve.wait_for(Refusal)

        assert refusal.detail == "it sends more than it may"
        assert bob.broken == 1


async def test_too_many_messages_at_once_are_noticed(tmp_path):
    async with a_stranger(tmp_path) as (eve, _):
        name = artifact.id_of(GOOD)
        said = [eve.say(Complete(manifest=name)) for _ in range(shipping_lane.INBOX_MAX + 1)]

        assert said == [True] * shipping_lane.INBOX_MAX + [False]


async def test_too_many_transfers_at_once_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping_receiving, "ARRIVALS_MAX", 1)
    async with a_stranger(tmp_path) as (eve, _):
        eve.say(an_offer(GOOD, 100))
        eve.say(an_offer(EVIL, 0))

        assert (await eve.wait_for(Refusal)).reason == "busy"


async def test_who_says_nothing_gives_its_place_to_those_who_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "ACTIVE_MAX", 1)
    monkeypatch.setattr(shipping, "STALLED_S", 0.02)
    async with a_stranger(tmp_path) as (eve, _):
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.heard.clear()
        eve.say(an_offer(OTHER, 100))
        assert (await eve.wait_for(WantManifest)).manifest == artifact.id_of(OTHER)
        eve.heard.clear()
        assert (await eve.wait_for(WantManifest)).manifest == artifact.id_of(GOOD)
        eve.say(part(GOOD))
        await eve.wait_for(Lacking)


async def test_what_did_not_come_back_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping_receiving, "HOLD_S", 0.01)
    async with a_stranger(tmp_path) as (eve, bob):
        eve.say(an_offer(GOOD, 100))
        await eve.wait_for(WantManifest)
        eve.say(part(GOOD))
        await eve.wait_for(Lacking)
        assert bob.chunks.status().bytes_pinned > 0
        bob.link_down(EVE)
        while bob.chunks.status().bytes_pinned:
            await asyncio.sleep(0.005)

        assert bob.chunks.clear().bytes_left == 0


async def test_a_lane_that_breaks_off_costs_its_peer_the_link_and_is_begun_anew(tmp_path):
    blamed, sent, is_broken = [], [], True
    wanted = ManifestId("ab" * 32)

    async def send(_peer, message):
        if is_broken:
            raise ZeroDivisionError
        sent.append(message)
        return True

    bob = shipping.Shipping(
        a_store(tmp_path / "bob"), send, blame=lambda *told: blamed.append(told)
    )
    bob.link_up(EVE)
    with pytest.raises(shipping_in.NotFetched, match="gone"):
        await bob.fetch(EVE, wanted)
    assert [(peer, kind) for peer, kind, _ in blamed] == [(EVE, "files")]
    assert blamed[0][2].startswith("ZeroDivisionError")

    is_broken = False
    bob.link_up(EVE)
    fetching = asyncio.get_running_loop().create_task(bob.fetch(EVE, wanted))
    while not sent:
        await asyncio.sleep(0)
    await bob.close()
    with pytest.raises(asyncio.CancelledError):
        await fetching


async def test_what_is_sent_on_a_lane_that_breaks_off_is_sent_on_the_next_link(tmp_path):
    sent, broken = [], [True]

    async def send(_peer, message):
        if broken:
            broken.clear()
            raise ZeroDivisionError
        sent.append(message)
        return True

    blamed = []
    bob = shipping.Shipping(
        a_store(tmp_path / "bob"), send, blame=lambda *told: blamed.append(told)
    )
    folder = tmp_path / "files"
    folder.mkdir()
    manifest = packed(bob, folder)
    bob.link_up(EVE)
    await bob.ship(EVE, manifest)
    while not blamed:
        await asyncio.sleep(0)
    bob.link_up(EVE)
    while not sent:
        await asyncio.sleep(0)
    assert isinstance(sent[0], Offer)
    await bob.close()
