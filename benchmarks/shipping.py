"""A work directory to another process: packed, sent over a socket, unpacked; then sent again.

`python -m benchmarks.shipping` prints JSON. The tree is made of small files and large ones that
cannot be squeezed. Each round begins with empty stores. The bytes go through a socketpair to a
second process with a store of its own, as they would go through a link: what a link costs comes on
top. Beside it, in the same run: `cp -r` of the same tree, synced as our store is. After that the
same through a real mesh to three nodes, beside rsync over ssh (`shipping_mesh`); needs root, for a
network of its own.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.mesh_fleet import enter_network
from benchmarks.shipping_mesh import versus
from distributed_grid.agent.shipping import Shipping
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.model.artifact import ASKED, ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.wire import artifacts as wire
from distributed_grid.wire.artifacts import ArtifactMessage

SENDER, RECEIVER = NodeId("a" * 64), NodeId("b" * 64)
SMALL_BYTES = 8 << 10
LARGE_BYTES = 16 << 20


def make_tree(root: Path, *, size_bytes: int, small_share: float, seed: int = 1) -> int:
    """A work directory; the number of its files."""
    chance = random.Random(seed)
    small = int(size_bytes * small_share) // SMALL_BYTES
    left = size_bytes - small * SMALL_BYTES
    for number in range(small):
        folder = root / f"src/{number % 50:02}"
        if number < 50:
            folder.mkdir(parents=True)
        (folder / f"{number}.txt").write_bytes(chance.randbytes(SMALL_BYTES))
    large = 0
    (root / "data").mkdir(parents=True)
    while left > 0:
        size = min(left, LARGE_BYTES)
        (root / f"data/{large}.bin").write_bytes(chance.randbytes(size))
        left, large = left - size, large + 1
    return small + large


class Peer:
    """One end: a store, its transfers, and a socket with frames."""

    def __init__(self, me: NodeId, other: NodeId, home: str, sock: socket.socket) -> None:
        self._me, self._other, self._sock = me, other, sock
        self.store = ChunkStore(f"{home}/cache")
        self.store.open()
        self.files = DiskFiles(self.store, user_home="/nobody")
        self.shipping = Shipping(self.store, self._send, blame=self._blame)
        self._writer: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        """Carry messages until the other end is gone."""
        reader, self._writer = await asyncio.open_connection(sock=self._sock, limit=4 << 20)
        self.shipping.link_up(self._other)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                message = wire.decode(await reader.readexactly(size))
                if not self.shipping.received(self._other, message):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    async def _send(self, _: NodeId, message: ArtifactMessage) -> bool:
        assert self._writer is not None, "it runs"
        body = wire.encode(message)
        self._writer.write(len(body).to_bytes(4, "big"))
        self._writer.write(body)
        await self._writer.drain()
        return True

    def _blame(self, _peer: NodeId, _kind: str, why: str) -> None:
        raise AssertionError(why)


async def ship(home: str, tree: str, sock: socket.socket) -> dict[str, float]:
    """One round: pack and send, and again; the seconds of each."""
    peer = Peer(SENDER, RECEIVER, home, sock)
    running = asyncio.get_running_loop().create_task(peer.run())
    await asyncio.sleep(0)
    took: dict[str, float] = {}
    for turn in ("first", "second"):
        began = time.perf_counter()
        packed = await asyncio.to_thread(peer.files.pack, tree, owner=turn, amount=ASKED)
        took[f"{turn}_pack_s"] = time.perf_counter() - began
        if turn == "second":
            peer.shipping.withdraw(RECEIVER, packed.id)
        shipment = await peer.shipping.ship(RECEIVER, packed.id)
        await shipment.over.wait()
        assert shipment.state == "complete", shipment.detail
        took[f"{turn}_s"] = time.perf_counter() - began
    await asyncio.to_thread(Path(home, "manifest").write_text, packed.id, "ascii")
    running.cancel()
    await peer.shipping.close()
    return took


async def receive(home: str, descriptor: int) -> None:
    """The second process."""
    await Peer(RECEIVER, SENDER, home, socket.socket(fileno=descriptor)).run()


def one_round(tree: Path, place: Path) -> dict[str, float]:
    """Two processes, empty stores."""
    ours, theirs = socket.socketpair()
    (place / "there").mkdir(parents=True)
    (place / "here").mkdir()
    there = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.shipping", "--receive", f"{place}/there",
         "--descriptor", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
    )  # fmt: skip
    theirs.close()
    try:
        took = asyncio.run(ship(f"{place}/here", str(tree), ours))
    finally:
        ours.close()
        there.wait(timeout=60)
    store = ChunkStore(f"{place}/there/cache")
    store.open()
    name = ManifestId(Path(place, "here/manifest").read_text(encoding="ascii"))
    took["unpack_s"] = timed(
        lambda: DiskFiles(store, user_home="/nobody").unpack(name, f"{place}/x")
    )
    took["cp_s"] = timed(lambda: copy_synced(tree, place / "copy"))
    return took


def copy_synced(tree: Path, target: Path) -> None:
    """What the machine can do at best: one process, no network, one sync."""
    subprocess.run(["cp", "-r", str(tree), str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)


def timed(work: Callable[[], object]) -> float:
    """How many seconds something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(*, megabytes: int, rounds: int, small_share: float, place: str) -> dict[str, object]:
    """Medians over the rounds."""
    base = Path(tempfile.mkdtemp(prefix="grid-shipping-", dir=place))
    try:
        size_bytes = megabytes * 1_000_000
        files = make_tree(base / "tree", size_bytes=size_bytes, small_share=small_share)
        os.sync()
        found = []
        for number in range(rounds):
            found.append(one_round(base / "tree", base / f"round{number}"))
            shutil.rmtree(base / f"round{number}")
    finally:
        shutil.rmtree(base)
    medians = {name: round(statistics.median(one[name] for one in found), 4) for name in found[0]}
    return {
        "megabytes": megabytes,
        "files": files,
        "rounds": rounds,
        **medians,
        "first_mb_s": round(megabytes / medians["first_s"]),
        "cp_mb_s": round(megabytes / medians["cp_s"]),
        "second_times_faster": round(medians["first_s"] / medians["second_s"], 1),
    }


def through_mesh(
    *, megabytes: int, rounds: int, small_share: float, place: str
) -> dict[str, object]:
    """To three nodes, and beside it rsync; each round with files that nobody has seen."""
    with tempfile.TemporaryDirectory(prefix="grid-shipping-", dir=place) as base:
        trees = [Path(base, str(number)) for number in range(rounds)]
        for number, tree in enumerate(trees):
            size_bytes = megabytes * 1_000_000
            make_tree(tree, size_bytes=size_bytes, small_share=small_share, seed=number)
        return versus(trees, megabytes=megabytes)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shipping")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", type=float, default=0.1, help="the share of small files")
    parser.add_argument("--place", default="", help="a directory on the disk to measure")
    parser.add_argument("--no-pipe", action="store_true", help="only through the mesh")
    parser.add_argument("--no-mesh", action="store_true", help="only through a pipe")
    parser.add_argument("--receive", default="", help=argparse.SUPPRESS)
    parser.add_argument("--descriptor", type=int, default=-1, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.receive:
        asyncio.run(receive(told.receive, told.descriptor))
        return
    place = told.place or tempfile.gettempdir()
    if not told.no_mesh:
        enter_network()
    found: dict[str, object] = {"benchmark": "shipping"}
    if not told.no_pipe:
        found["pipe"] = measure(
            megabytes=told.megabytes, rounds=told.rounds, small_share=told.small, place=place
        )
    if not told.no_mesh:
        found["mesh"] = through_mesh(
            megabytes=told.megabytes, rounds=told.rounds, small_share=told.small, place=place
        )
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
