"""What nodes say to each other about files, on the bulk lane.

Lives here: offering a directory, telling what is lacking, chunks, what is safe. Never here: what a
manifest holds (`model.artifact`), what the files are for (`across`).
Invariant: everything may be said again after a link broke; what a receiver has made durable is all
that is remembered of a transfer.

    sender      Offer            ManifestPart…            Chunk… (a window of them)
    receiver          WantManifest            Lacking            Kept…    Complete

Whoever wants something says Fetch to a node that has it, and is offered it. Either end may say
Refusal at any time.
"""

from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.model.artifact import CHUNK_BYTES_MAX, CHUNKS_MAX, ManifestId
from distributed_grid.model.bounds import Bytes, Count

BULK_MESSAGE_BYTES_MAX: Final = (
    1 << 20
)  # The lane takes 16 MiB; shorter ones let others in between.
PART_BYTES_MAX: Final = CHUNK_BYTES_MAX  # Of a manifest, in one message.
KEPT_MAX: Final = 1_024  # Chunks that are told to be durable in one message.
DETAIL_CHARACTERS_MAX: Final = 300
# What reading bytes of others may raise.
JUNK: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Id = Annotated[ManifestId, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Part = Annotated[bytes, msgspec.Meta(max_length=PART_BYTES_MAX)]
Bits = Annotated[bytes, msgspec.Meta(max_length=CHUNKS_MAX // 8)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=CHUNKS_MAX)]
Indices = Annotated[tuple[Index, ...], msgspec.Meta(max_length=KEPT_MAX)]
Detail = Annotated[str, msgspec.Meta(max_length=DETAIL_CHARACTERS_MAX)]
Reason = Literal[
    "unknown",  # Whoever is asked does not have it.
    "full",  # There is no room for it.
    "too-large",
    "not-permitted",
    "malformed",  # The manifest, or a chunk, is not what it says.
    "gone",  # The sender has lost a chunk of it.
    "withdrawn",  # The sender does not want it to be there any more.
    "busy",  # Too many at once.
]


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag="offer"):
    """Take this directory. Said again after each break of the link, until it is complete."""

    manifest: Id
    manifest_bytes: Bytes
    content_bytes: Bytes
    is_durable: bool = True  # Each chunk is to be synced before it counts. A job can run without.


class WantManifest(msgspec.Struct, frozen=True, kw_only=True, tag="want-manifest"):
    """The manifest itself is lacking, from here on."""

    manifest: Id
    offset: Count = 0


class ManifestPart(msgspec.Struct, frozen=True, kw_only=True, tag="manifest-part"):
    """A piece of the manifest."""

    manifest: Id
    offset: Count
    data: Part


class Lacking(msgspec.Struct, frozen=True, kw_only=True, tag="lacking"):
    """These of its chunks are not here; the others are."""

    manifest: Id
    bits: Bits  # One for each chunk, the lowest of the first byte for the first; 1: lacking.
    is_durable: bool = True  # As the offer wanted it that this answers.


class Chunk(msgspec.Struct, frozen=True, kw_only=True, tag="chunk"):
    """One of them."""

    manifest: Id
    index: Index
    data: Part
    is_squeezed: bool = False  # By zlib.


class Kept(msgspec.Struct, frozen=True, kw_only=True, tag="kept"):
    """These are here, durable if that was wanted; so many more can be sent."""

    manifest: Id
    indices: Indices
    is_durable: bool = True  # As the offer wanted it that this answers.


class Complete(msgspec.Struct, frozen=True, kw_only=True, tag="complete"):
    """All of it is here, durable if that was wanted."""

    manifest: Id
    is_durable: bool = True


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """No, or no more."""

    manifest: Id
    reason: Reason
    detail: Detail = ""


class Fetch(msgspec.Struct, frozen=True, kw_only=True, tag="fetch"):
    """Offer me this, please."""

    manifest: Id
    is_durable: bool = True


ArtifactMessage = (
    Offer | WantManifest | ManifestPart | Lacking | Chunk | Kept | Complete | Refusal | Fetch
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ArtifactMessage] = msgspec.msgpack.Decoder(ArtifactMessage)


def encode(message: ArtifactMessage) -> bytes:
    """A message as bytes, without a frame."""
    return _encoder.encode(message)


def decode(body: bytes) -> ArtifactMessage:
    """A message from bytes that anybody may have sent; raises one of `JUNK`."""
    return _decoder.decode(body)


def bits_of(indices: list[int], count: int) -> bytes:
    """A bit for each of `count` chunks."""
    bits = bytearray((count + 7) // 8)
    for index in indices:
        bits[index >> 3] |= 1 << (index & 7)
    return bytes(bits)


def indices_of(bits: bytes, count: int) -> list[int]:
    """The chunks whose bits are set; bits beyond the last chunk mean nothing."""
    return [
        index
        for at, byte in enumerate(bits[: (count + 7) // 8])
        if byte
        for index in range(at << 3, min(count, (at + 1) << 3))
        if byte >> (index & 7) & 1
    ]
