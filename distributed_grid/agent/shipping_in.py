"""One directory on its way from one peer: what came, what is still lacking.

Lives here: the receiver's side of a transfer, told what happened. Never here: sending, writing to
the disk (`shipping`).
Invariant: whatever a peer sends, it costs at most a manifest and a window of memory, and only
chunks that are lacking are kept.
"""

import zlib
from typing import Final

from distributed_grid.agent.shipping_out import WINDOW_BYTES
from distributed_grid.errors import GridError
from distributed_grid.model import artifact
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    CHUNKS_MAX,
    MANIFEST_BYTES_MAX,
    Manifest,
    ManifestId,
)
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import Chunk, ManifestPart, Offer, Reason

CONTENT_BYTES_MAX: Final = CHUNKS_MAX * CHUNK_BYTES_MAX
RESTING_BYTES_MAX: Final = 1 << 20  # Of a manifest, while there is no link; longer ones begin anew.
PENDING_BYTES_MAX: Final = WINDOW_BYTES + CHUNK_BYTES_MAX  # That came and are not written yet.


class NotFetched(GridError):
    """A peer does not give what was asked for."""

    def __init__(self, peer: NodeId, *, reason: Reason, detail: str = "") -> None:
        self.peer, self.reason, self.detail = peer, reason, detail
        more = f" ({detail})" if detail else ""
        super().__init__(
            f"node {peer[:8]} does not send the files: {reason}{more}",
            remedy="They are asked for elsewhere, if another node has them",
        )


class Broken(Exception):
    """The peer said something that makes no sense."""


class Arrival:
    """The receiver's side of one transfer."""

    def __init__(self, peer: NodeId, offer: Offer) -> None:
        self.peer = peer
        self.manifest_id: ManifestId = offer.manifest
        self.manifest: Manifest | None = None
        self.is_active = False  # It has one of the few places.
        self.heard_s = 0.0  # When it last said something, by the loop's clock.
        self.is_durable = offer.is_durable
        self.offers = 0  # How often it was offered: once for each link.
        self.lacking: set[int] = set()
        self.unsynced: list[int] = []
        self.pending_bytes = 0
        self._manifest_bytes = offer.manifest_bytes
        self._content_bytes = offer.content_bytes
        self._body = bytearray()

    def is_of(self, offer: Offer) -> bool:
        """Whether an offer is the one that began it, said again."""
        return (self._manifest_bytes, self._content_bytes) == (
            offer.manifest_bytes,
            offer.content_bytes,
        )

    def accept_part(self, part: ManifestPart) -> bool:
        """Whether a piece of the manifest is to be kept until its turn comes. Raises Broken."""
        if not self.is_active or self.manifest is not None:
            return False
        if self.pending_bytes + len(part.data) > self._manifest_bytes:
            raise Broken("it sends more of the manifest than there is")
        self.pending_bytes += len(part.data)
        return True

    def take_part(self, part: ManifestPart) -> bytes | None:
        """A piece of the manifest; the whole of it once it is here. Raises Broken."""
        self.pending_bytes = max(0, self.pending_bytes - len(part.data))
        if self.manifest is not None or part.offset != len(self._body):
            return None  # Of before the link broke.
        self._body += part.data
        if len(self._body) < self._manifest_bytes:
            return None
        body, self._body = bytes(self._body), bytearray()
        if artifact.id_of(body) != self.manifest_id:
            raise Broken("the manifest is another one")
        return body

    def rest(self) -> None:
        """The link is gone: what came and was not looked at went with it."""
        self.pending_bytes = 0
        if len(self._body) > RESTING_BYTES_MAX:
            self._body = bytearray()

    def ask(self) -> int:
        """The manifest is not here, or not any more: from where on it is wanted."""
        self.manifest = None
        return len(self._body)

    def describe(self, manifest: Manifest) -> None:
        """The manifest is known. Raises Broken."""
        if manifest.content_bytes != self._content_bytes:
            raise Broken("it is not as large as it was said to be")
        self.manifest = manifest

    def accept(self, chunk: Chunk) -> bool:
        """Whether a chunk is to be written; it counts as pending from now on. Raises Broken."""
        if not self.is_active or self.manifest is None:
            return False  # Of before the link broke, or a stranger to the rules: not read.
        if chunk.index >= len(self.manifest.sizes):
            raise Broken("it has no such chunk")
        if chunk.index not in self.lacking:
            return False
        if self.pending_bytes + len(chunk.data) > PENDING_BYTES_MAX:
            raise Broken("it sends more than it may")
        self.pending_bytes += len(chunk.data)
        return True

    def unsqueezed(self, chunk: Chunk) -> tuple[bytes, bytes]:
        """The digest and the bytes of a chunk, looked through. Raises Broken. Takes a while."""
        assert self.manifest is not None, "it was accepted"
        size = self.manifest.sizes[chunk.index]
        data = chunk.data
        if chunk.is_squeezed:
            try:
                data = zlib.decompressobj().decompress(data, size + 1)
            except zlib.error as error:
                raise Broken("a chunk is damaged") from error
        at = chunk.index * artifact.DIGEST_BYTES
        wanted = self.manifest.digests[at : at + artifact.DIGEST_BYTES]
        if len(data) != size or artifact.digest(data) != wanted:
            raise Broken("a chunk is not what it should be")
        return wanted, data

    def written(self, index: int) -> None:
        """A chunk is on the disk, not durable yet."""
        self.lacking.discard(index)
        self.unsynced.append(index)

    def bytes_of(self) -> tuple[int, int]:
        """How many bytes are here, and of how many; all may lack until the manifest is known."""
        if self.manifest is None:
            return 0, self._content_bytes
        # Of chunks that are there more than once, one is lacking.
        left = sum(self.manifest.sizes[index] for index in self.lacking)
        return max(0, self._content_bytes - left), self._content_bytes

    def digests_of(self, indices: list[int]) -> list[bytes]:
        """Of some chunks."""
        assert self.manifest is not None, "it is described"
        whole, step = self.manifest.digests, artifact.DIGEST_BYTES
        return [whole[index * step : index * step + step] for index in indices]


def objection(offer: Offer) -> tuple[Reason, str] | None:
    """Why an offer cannot be taken, whoever makes it."""
    if offer.manifest_bytes <= 0 or offer.content_bytes < 0:
        return "malformed", "that is no offer"
    if offer.manifest_bytes > MANIFEST_BYTES_MAX:
        return "too-large", f"a manifest has at most {MANIFEST_BYTES_MAX} bytes"
    if offer.content_bytes > CONTENT_BYTES_MAX:
        return "too-large", f"at most {CONTENT_BYTES_MAX} bytes travel at once"
    return None
