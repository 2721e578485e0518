"""Small worlds for files that travel: trees, stores, two nodes and the link between them.

Lives here: builders. Never here: assertions.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from distributed_grid.agent.shipping import Shipping
from distributed_grid.agent.shipping_out import Shipment
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.model.artifact import ASKED, ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.wire import artifacts as wire
from distributed_grid.wire.artifacts import ArtifactMessage

ADA, BOB, EVE = (NodeId(letter * 64) for letter in "abe")
Tree = dict[bytes, tuple[str, int, bytes]]  # Path -> kind, mode, content or target.


def a_store(path: Path, *, bytes_max: int = 1 << 30) -> ChunkStore:
    store = ChunkStore(str(path), bytes_max=bytes_max)
    store.open()
    return store


def files_of(store: ChunkStore, home: str = "/nobody") -> DiskFiles:
    return DiskFiles(store, user_home=home)


def plant(root: Path, entries: dict[str, Any]) -> Path:
    """Text or bytes: a file; None: an empty folder; a tuple: a symbolic link to its word."""
    root.mkdir(parents=True, exist_ok=True)
    for name, what in entries.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if what is None:
            path.mkdir(exist_ok=True)
        elif isinstance(what, tuple):
            path.symlink_to(what[0])
        else:
            path.write_bytes(what.encode() if isinstance(what, str) else what)
    return root


def picture(root: Path) -> Tree:
    """Everything below a directory, so that two of them can be compared."""
    found: Tree = {b".": ("folder", stat.S_IMODE(root.stat().st_mode) & 0o777, b"")}
    base = os.fsencode(root)
    for folder, folders, names in os.walk(base):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)  # noqa: PTH118  (bytes)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode) & 0o777
            short = os.path.relpath(path, base)
            if stat.S_ISLNK(status.st_mode):
                found[short] = ("link", 0, os.readlink(path))  # noqa: PTH115
            elif stat.S_ISDIR(status.st_mode):
                found[short] = ("folder", mode, b"")
            else:
                with open(path, "rb") as file:  # noqa: PTH123
                    found[short] = ("file", mode, file.read())
    return found


def noise(size: int, seed: int = 7) -> bytes:
    """Bytes that nobody can squeeze, the same each time."""
    import random

    return random.Random(seed).randbytes(size)


class Wire:
    """A link between two nodes that carries real bytes, in order, and can break."""

    def __init__(self) -> None:
        self.ends: dict[NodeId, Shipping] = {}
        self.is_up = False
        self.said: list[tuple[NodeId, ArtifactMessage]] = []
        self.breaks_after: set[int] = set()
        self._queue: asyncio.Queue[tuple[NodeId, bytes]] = asyncio.Queue(maxsize=4)
        self._pump: asyncio.Task[None] | None = None

    def plug(self, node: NodeId, store: ChunkStore, **options: Any) -> Shipping:
        async def send(_: NodeId, message: ArtifactMessage) -> bool:
            return await self.carry(node, message)

        self.ends[node] = Shipping(store, send, **options)
        return self.ends[node]

    async def carry(self, sender: NodeId, message: ArtifactMessage) -> bool:
        if not self.is_up:
            return False
        self.said.append((sender, message))
        if len(self.said) in self.breaks_after:  # It was on its way when the link broke.
            self.down()
            asyncio.get_running_loop().call_soon(self.up)
            return False
        await self._queue.put((sender, wire.encode(message)))
        return True

    def up(self) -> None:
        self.is_up = True
        self._queue = asyncio.Queue(maxsize=4)
        self._pump = asyncio.get_running_loop().create_task(self._carry_on(self._queue))
        one, other = self.ends
        self.ends[one].link_up(other)
        self.ends[other].link_up(one)

    def down(self) -> None:
        self.is_up = False
        if self._pump is not None:
            self._pump.cancel()
        while not self._queue.empty():  # Whoever waits to say something says it to nobody.
            self._queue.get_nowait()
        one, other = self.ends
        self.ends[one].link_down(other)
        self.ends[other].link_down(one)

    async def _carry_on(self, queue: asyncio.Queue[tuple[NodeId, bytes]]) -> None:
        one, other = self.ends
        while True:
            sender, body = await queue.get()
            assert len(body) <= wire.BULK_MESSAGE_BYTES_MAX
            to = other if sender == one else one
            assert self.ends[to].received(sender, wire.decode(body))

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        for end in self.ends.values():
            await end.close()


@contextlib.asynccontextmanager
async def two_nodes(
    tmp_path: Path, *, bytes_max: int = 1 << 30, **options: Any
) -> AsyncIterator[tuple[Wire, Shipping, Shipping]]:
    """Ada has files, Bob has room."""
    wire = Wire()
    ada = wire.plug(ADA, a_store(tmp_path / "ada"))
    bob = wire.plug(BOB, a_store(tmp_path / "bob", bytes_max=bytes_max), **options)
    wire.up()
    try:
        yield wire, ada, bob
    finally:
        await wire.close()


def packed(shipping: Shipping, root: Path) -> ManifestId:
    return files_of(shipping.chunks).pack(str(root), owner="job", amount=ASKED).id


async def shipped(_wire: Wire, ada: Shipping, name: ManifestId, peer: NodeId = BOB) -> Shipment:
    shipment = await ada.ship(peer, name)
    await shipment.over.wait()
    return shipment
