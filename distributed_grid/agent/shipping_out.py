"""One directory on its way to one peer: what was told, what flies, what is safe there.

Lives here: the sender's side of a transfer, told what happened and asked what to say next. Never
here: sending, reading the disk (`shipping`).
Invariant: at most a window of bytes flies; a chunk counts as there only after the peer said so.
"""

import asyncio
from collections import deque
from typing import Final, Literal

import msgspec

from distributed_grid.model.artifact import DIGEST_BYTES, Manifest, ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import (
    PART_BYTES_MAX,
    Complete,
    Kept,
    Lacking,
    ManifestPart,
    Offer,
    Reason,
    Refusal,
    WantManifest,
    indices_of,
)

WINDOW_BYTES: Final = 8 << 20  # On their way to one peer: 80 MB/s at 100 ms, and all it must hold.
WINDOW_CHUNKS: Final = 256  # Where they are small.

State = Literal["offering", "sending", "complete", "refused"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a transfer is."""

    manifest: ManifestId
    peer: NodeId
    state: State
    bytes_total: int
    bytes_left: int  # Not safe there yet.
    bytes_sent: int  # In this life of the agent, squeezed as they went.
    reason: Reason | None = None
    detail: str = ""


class Shipment:
    """The sender's side of one transfer."""

    def __init__(
        self,
        peer: NodeId,
        manifest_id: ManifestId,
        manifest: Manifest,
        body: bytes,
        *,
        is_durable: bool = True,
    ) -> None:
        self.peer = peer
        self.manifest_id = manifest_id
        self.is_durable = is_durable  # What counts as there is synced.
        self.is_asked = False  # By the peer; else it is to have it, whether it wants to or not.
        self.state: State = "offering"
        self.reason: Reason | None = None
        self.detail = ""
        self.bytes_sent = 0
        self.began_s = 0.0  # When the first chunk left, by the loop's clock.
        self.over = asyncio.Event()
        self._digests = manifest.digests
        self._sizes = manifest.sizes
        self._body = body
        self._bytes_total = manifest.content_bytes
        self._count = 0  # Of its chunks, once it is over.
        self._twins = _twins(manifest)
        self._kept: set[int] = set()
        self._there_bytes = 0  # Of what is kept, twins too.
        self._kept_bytes = 0  # Of what flew there.
        self._is_offered = False
        self._part_at: int | None = None  # Of the manifest; None: it is not wanted.
        self._todo: deque[int] = deque()
        self._flying: dict[int, int] = {}
        self._flying_bytes = 0

    def restart(self) -> None:
        """The link is a new one: offer again; what did not arrive will be lacking again."""
        if self.state in ("offering", "sending"):
            self.state = "offering"
            self._is_offered = False
            self._part_at = None
            self._todo.clear()
            self._flying.clear()
            self._flying_bytes = 0

    def next_message(self) -> Offer | ManifestPart | None:
        """What is to be said before, or beside, the chunks."""
        if not self._is_offered and not self.over.is_set():
            self._is_offered = True
            return Offer(
                manifest=self.manifest_id,
                manifest_bytes=len(self._body),
                content_bytes=self._bytes_total,
                is_durable=self.is_durable,
            )
        if self._part_at is not None:
            at = self._part_at
            data = self._body[at : at + PART_BYTES_MAX]
            self._part_at = at + len(data) if at + len(data) < len(self._body) else None
            return ManifestPart(manifest=self.manifest_id, offset=at, data=data)
        return None

    def next_chunk(self) -> tuple[int, bytes] | None:
        """A chunk that can be sent now, by its number and digest; it flies from now on."""
        is_full = self._flying_bytes >= WINDOW_BYTES or len(self._flying) >= WINDOW_CHUNKS
        if not self._todo or is_full:
            return None
        index = self._todo.popleft()
        self._flying[index] = self._sizes[index]
        self._flying_bytes += self._sizes[index]
        return index, self._digest(index)

    def heard(self, message: WantManifest | Lacking | Kept | Complete | Refusal) -> None:
        """The peer has answered. What makes no sense is ignored."""
        if self.over.is_set():
            return
        if self.is_durable and not getattr(message, "is_durable", True):
            return  # It answers an offer of before it had to be durable.
        match message:
            case WantManifest(offset=offset):
                if 0 <= offset < len(self._body):
                    self._part_at = offset
            case Lacking(bits=bits):
                self._lacks(indices_of(bits, len(self._sizes)))
            case Kept(indices=indices):
                for index in indices:
                    self._is_kept(index)
            case Complete():
                self._end("complete")
            case Refusal(reason=reason, detail=detail):
                self.refuse(reason, detail)

    def harden(self) -> None:
        """It must be durable there after all, and is under way: offer again."""
        self.is_durable = True
        self.restart()

    def refuse(self, reason: Reason, detail: str = "") -> None:
        """It ends here."""
        self.reason, self.detail = reason, detail
        self._end("refused")

    def there(self) -> set[int]:
        """The chunks that are there, and durable if that was wanted."""
        return set(range(self._count)) if self.state == "complete" else set(self._kept)

    def rate(self, now_s: float) -> int | None:
        """Bytes a second that became safe there; None: too few to tell."""
        if not self.began_s or self._kept_bytes < WINDOW_BYTES // 4 or now_s <= self.began_s:
            return None
        return int(self._kept_bytes / (now_s - self.began_s))

    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            manifest=self.manifest_id,
            peer=self.peer,
            state=self.state,
            bytes_total=self._bytes_total,
            bytes_left=self._bytes_total - self._there_bytes,
            bytes_sent=self.bytes_sent,
            reason=self.reason,
            detail=self.detail,
        )

    def _lacks(self, indices: list[int]) -> None:
        if not self._is_offered:
            return  # It was said on a link that is gone.
        self.state = "sending"
        self._part_at = None
        self._flying.clear()
        self._flying_bytes = 0
        gone = {self._digest(index) for index in indices}
        here = range(len(self._sizes))
        self._kept = {index for index in here if self._digest(index) not in gone}
        self._there_bytes = sum(self._sizes[index] for index in self._kept)
        self._todo = deque(indices)

    def _is_kept(self, index: int) -> None:
        if index in self._flying:
            size = self._flying.pop(index)
            self._flying_bytes -= size
            self._kept_bytes += size
            twins = self._twins.get(self._digest(index), [index])
            self._kept.update(twins)
            self._there_bytes += size * len(twins)

    def _digest(self, index: int) -> bytes:
        return self._digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]

    def _end(self, state: State) -> None:
        self.state = state
        self._part_at = None
        self._todo.clear()
        self._flying.clear()
        self._flying_bytes = 0
        self._count = len(self._sizes)
        self._there_bytes = self._bytes_total if state == "complete" else 0
        # What is over stays for a while, and these are megabytes.
        self._body, self._digests, self._sizes, self._twins = b"", b"", (), {}
        self._kept = set()
        self.over.set()


def _twins(manifest: Manifest) -> dict[bytes, list[int]]:
    """The chunks that are there more than once: they travel once."""
    places: dict[bytes, list[int]] = {}
    for index, digest in enumerate(manifest.chunks):
        places.setdefault(digest, []).append(index)
    return {digest: indices for digest, indices in places.items() if len(indices) > 1}
