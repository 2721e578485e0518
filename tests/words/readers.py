"""Everything that reads bytes of others, with real bytes to begin from, and what it may raise.

Lives here: the list of readers; decoders of the package are found by looking, so that a new one is
covered as soon as it is there. Never here: spoiling the bytes (`fuzzing`).
"""

import importlib
import os
import pkgutil
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import distributed_grid
from distributed_grid.config import documents
from distributed_grid.config.fleet import fleet_of
from distributed_grid.config.jobs import jobs_of
from distributed_grid.config.toml_tree import build_toml
from distributed_grid.config.yaml_tree import build_tree
from distributed_grid.edges.artifacts.ignoring import rules_of
from distributed_grid.edges.runner.journal import Begun, Journal, Opened
from distributed_grid.errors import GridError
from distributed_grid.kernel.across import record_bytes
from distributed_grid.kernel.mesh import coordinates
from distributed_grid.model import artifact
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact, MeshId, Ticket
from distributed_grid.web.bodies import plain
from distributed_grid.web.new_jobs import new_jobs
from distributed_grid.wire import heartbeat, ticket
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.mesh import JUNK
from tests.property.test_junk import FLEET, FLEET_JSON
from tests.words.drawing import Drawer, kind_of
from tests.words.talking import INSIDE

REAL = 12  # Of each decoder: so many values to begin from.
TOML = """[cluster]
name = "attic"
[[jobs]]
argv = ["true"]
cpus = 1.5
"""
IGNORED = (
    b"*.log\n!keep.log\n/build/\n**/x/**\na/**/b\n[a-z]*.py\n[!a]?\n# no\n\\#yes\nx[]a]\n",
    b"node_modules\n*.tmp \nfoo/*\n/**\n**\n*/*/*\n[[:alpha:]]\n",
)
JOBS = b'{"jobs": [{"name": "x", "argv": ["true"], "cpus": 1, "memory": "1GiB", "array": "0-9"}]}'


class Reader(NamedTuple):
    """One way in."""

    name: str
    read: Callable[[bytes], Any]
    real: tuple[bytes, ...]
    raises: tuple[type[BaseException], ...]  # What is documented, and nothing else.
    share: int = 4  # How often it is tried, beside the others.


def readers(folder: str) -> list[Reader]:
    """All of them; those that read files have them in a folder."""
    drawer = Drawer(random.Random("readers"))
    drawer.inside = INSIDE
    found = [
        Reader(name, decoder.decode, _drawn(decoder, drawer), JUNK)
        for name, decoder in sorted(decoders().items())
    ]
    return [*found, *_of_the_wire(drawer), *_of_files(Path(folder))]


def decoders() -> dict[str, Any]:
    """Every decoder that a module of the package holds, by its place."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for module in _modules():
        for name, value in vars(module).items():
            decoder = getattr(value, "__self__", value)
            is_one = isinstance(decoder, msgspec.msgpack.Decoder | msgspec.json.Decoder)
            if is_one and id(decoder) not in seen:
                seen.add(id(decoder))
                found[f"{module.__name__}.{name}"] = decoder
    return found


def _modules() -> Iterator[Any]:
    for one in pkgutil.walk_packages(distributed_grid.__path__, "distributed_grid."):
        if one.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(one.name)
        except ImportError:
            continue  # It needs what is not installed.


def _drawn(decoder: Any, drawer: Drawer) -> tuple[bytes, ...]:
    """Bytes that this one takes, of everything that its type allows."""
    encode = (
        msgspec.json.encode if type(decoder) is msgspec.json.Decoder else msgspec.msgpack.encode
    )
    found = []
    for turn in range(REAL * 40):
        drawer.wild = 1.0
        try:
            body = encode(drawer.draw(kind_of(decoder.type)))
            if turn < REAL * 30:
                decoder.decode(body)
        except (*JUNK, OverflowError, TypeError, KeyError):
            continue
        if len(body) < 20_000:
            found.append(body)
        if len(found) == REAL:
            break
    return tuple(found) or (b"\x80", b"\x90", b"\xa1x", b"{}")


def _of_the_wire(drawer: Drawer) -> list[Reader]:
    beat = heartbeat.Heartbeat(1, 77, 5, heartbeat.packed_member(1, 2, 1, 99) * 3)
    whole = ticket.ticket_text(
        Ticket(
            mesh=MeshId("a" * 64),
            issuer=Contact(node=NodeId("b" * 64), addresses=("1.2.3.4:5",)),
            secret=b"s" * 16,
            expires_ms=5,
        )
    )
    records = _drawn(msgspec.msgpack.Decoder(record_bytes._Written), drawer)
    manifests = _drawn(msgspec.msgpack.Decoder(artifact.Manifest), drawer)
    data = artifact.digest(b"x")
    file, link = artifact.File(0, b"f", 0o644, 1), artifact.Symlink(-1, b"l", b"d/f")
    folders = (artifact.Folder(-1, b"d", 0o755),)
    whole_one = artifact.Manifest(
        folders=folders, files=(file,), links=(link,), digests=data, sizes=(1,)
    )
    manifests += (artifact.encode(artifact.Manifest()), artifact.encode(whole_one))
    place = coordinates.packed(coordinates.Coordinate(1, 2, 3, 4, 5))
    return [
        Reader("heartbeat", _beats, (heartbeat.encode(beat),), (ValueError,)),
        Reader("record", record_bytes.decode, records, JUNK, 8),
        Reader("ticket", _ticket, (whole.encode(),), (GridError,)),
        Reader("sealed ticket", _sealed_ticket, _drawn(ticket._decoder, drawer), (GridError,)),
        Reader("manifest", artifact.read, manifests, (artifact.BadManifest,), 8),
        Reader("frames", _frames, (framed(b"x") + framed(b"yy"),), (GridError,)),
        Reader("coordinate", coordinates.unpacked, (place,), ()),
        Reader("submission", _submission, (JOBS,), (GridError,), 2),
    ]


def _beats(data: bytes) -> None:
    for _ in heartbeat.members_of(heartbeat.decode(data).members):
        pass


def _ticket(data: bytes) -> None:
    ticket.read_ticket(data.decode("latin-1"))


def _sealed_ticket(body: bytes) -> None:
    """As somebody would make one who can compute a checksum."""
    body = body[:2_000]
    data = bytes([ticket.VERSION]) + len(body).to_bytes(2, "big") + body
    ticket.read_ticket(ticket.PREFIX + ticket._letters(data + ticket._checksum(data)))


def _frames(data: bytes) -> None:
    unframer = Unframer()
    for at in range(0, len(data), 7):
        unframer.feed(data[at : at + 7])


def _submission(data: bytes) -> None:
    new_jobs(plain(data))


def _of_files(folder: Path) -> list[Reader]:
    path = folder / "journal"
    records = (
        Opened(keeper_id="k", boot_id="b", next_number=1),
        Begun(attempt="a", scratch_dir="/s", started_ms=1),
    )
    bodies = tuple(msgspec.msgpack.encode(one) for one in records)
    whole = b"".join(map(_sealed, bodies))
    return [
        Reader("keeper journal", lambda data: _journal(path, data), (whole,), (), 1),
        Reader("its records", lambda data: _journal(path, _sealed(data)), bodies, (), 1),
        Reader("yaml", lambda data: _document("a.yaml", data), (FLEET.encode(),), (GridError,), 1),
        Reader(
            "json", lambda data: _document("a.json", data), (FLEET_JSON.encode(),), (GridError,)
        ),
        Reader("toml", _toml, (TOML.encode(),), (GridError,), 2),
        Reader("ignore rules", _ignoring, IGNORED, (), 2),
    ]


def _sealed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def _journal(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    journal = Journal(str(path))
    try:
        for _ in journal.records():
            pass
    finally:
        os.close(journal._handle)


def _document(file: str, data: bytes) -> None:
    text = documents._text(file, data)
    if file.endswith("json"):
        document = documents._json(file, text)
    else:
        document = build_tree(file, text, depth_max=documents.DEPTH_MAX)
    for meaning in (fleet_of, jobs_of):
        meaning(file, document)


def _toml(data: bytes) -> None:
    build_toml("a.toml", documents._text("a.toml", data), lines={})


def _ignoring(data: bytes) -> None:
    rules = rules_of(data)
    for path in (b"a/b/c.log", b"x", b"build/x/y", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"):
        rules.last(path, path.rpartition(b"/")[2], is_folder=False)
