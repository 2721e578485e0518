"""Messages about files: they come back as they were, and are bounded."""

import pytest

from distributed_grid.model.artifact import CHUNK_BYTES_MAX, CHUNKS_MAX, ManifestId
from distributed_grid.wire import artifacts
from distributed_grid.wire.artifacts import (
    BULK_MESSAGE_BYTES_MAX,
    JUNK,
    KEPT_MAX,
    Chunk,
    Complete,
    Fetch,
    Kept,
    Lacking,
    ManifestPart,
    Offer,
    Refusal,
    WantManifest,
    bits_of,
    decode,
    encode,
    indices_of,
)
from distributed_grid.wire.cache import CACHE_ROUTES

NAME = ManifestId("ab" * 32)
ONE_OF_EACH = [
    Offer(manifest=NAME, manifest_bytes=5, content_bytes=7),
    WantManifest(manifest=NAME, offset=3),
    ManifestPart(manifest=NAME, offset=3, data=b"part"),
    Lacking(manifest=NAME, bits=b"\xff"),
    Chunk(manifest=NAME, index=4, data=b"chunk", is_squeezed=True),
    Kept(manifest=NAME, indices=(1, 2, 3)),
    Complete(manifest=NAME),
    Refusal(manifest=NAME, reason="full", detail="no room"),
    Fetch(manifest=NAME),
]


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_from_its_bytes(message):
    assert decode(encode(message)) == message


def test_every_message_is_looked_at_here():
    assert {type(message) for message in ONE_OF_EACH} == set(artifacts.ArtifactMessage.__args__)


def test_the_largest_messages_leave_room_on_the_lane():
    largest = [
        Chunk(manifest=NAME, index=CHUNKS_MAX - 1, data=b"x" * CHUNK_BYTES_MAX),
        Lacking(manifest=NAME, bits=b"\xff" * (CHUNKS_MAX // 8)),
        Kept(manifest=NAME, indices=(CHUNKS_MAX - 1,) * KEPT_MAX),
    ]

    assert max(len(encode(message)) for message in largest) <= BULK_MESSAGE_BYTES_MAX
    assert [decode(encode(message)) for message in largest] == largest


@pytest.mark.parametrize(
    "message",
    [
        Chunk(manifest=NAME, index=0, data=b"x" * (CHUNK_BYTES_MAX + 1)),
        Chunk(manifest=NAME, index=CHUNKS_MAX, data=b""),
        Chunk(manifest=NAME, index=-1, data=b""),
        Lacking(manifest=NAME, bits=b"x" * (CHUNKS_MAX // 8 + 1)),
        Kept(manifest=NAME, indices=(0,) * (KEPT_MAX + 1)),
        Refusal(manifest=NAME, reason="full", detail="x" * 301),
        Fetch(manifest=ManifestId("../../etc/passwd")),
        Fetch(manifest=ManifestId("AB" * 32)),
    ],
)
def test_what_is_larger_than_it_may_be_is_not_read(message):
    with pytest.raises(JUNK):
        decode(encode(message))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1_000])
def test_bits_say_which_chunks_are_lacking(count):
    some = [index for index in range(count) if index % 3 == 0]

    assert indices_of(bits_of(some, count), count) == some
    assert len(bits_of(some, count)) == (count + 7) // 8


def test_bits_beyond_the_last_chunk_mean_nothing():
    assert indices_of(b"\xff\xff\xff", 10) == list(range(10))
    assert indices_of(b"\x01", 100) == [0]


def test_the_routes_of_the_cache_are_told_apart():
    assert len({(route.method, route.path) for route in CACHE_ROUTES}) == len(CACHE_ROUTES)
