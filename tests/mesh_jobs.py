"""Jobs on a mesh of real agents: submitting them, asking for them, holding them back.

Lives here: a person's questions about jobs, and a gate that processes wait at without using a
core. Never here: agents and their networks (`mesh_lab`), assertions about the product.
"""

import contextlib
import fcntl
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from distributed_grid.kernel.mesh.membership import Known
from tests.mesh_lab import Member, MeshLab, awaited

# Of two cores, all of which are lent: else the last one stays with the owner.
PLAIN = """\
pretend: {cpus: 2, memory: 16GiB}
resource_sharing: {thresholds: {cpu_min_cores: 0}, allow_urgent: true}
"""
ENDED = ("succeeded", "failed", "cancelled", "lost", "skipped")
UNKNOWN: dict[str, Any] = {"state": "", "node": None, "story": [], "attempts": []}


class Gate:
    """Whoever runs its words waits until it is opened, asleep in the kernel of the machine."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = file.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def words(self, *argv: str) -> tuple[str, ...]:
        """The command, behind the gate."""
        return ("flock", "--shared", str(self.file), *argv)

    def open(self) -> None:
        self._lock.close()


def submitted(member: Member, *words: str) -> str:
    """The id of a job that was acknowledged; it needs no files, and its directory has none."""
    empty = member.root / "empty"
    empty.mkdir(exist_ok=True)
    return member.says("run", "--detach", "--cwd", str(empty), *words).strip()


def job(member: Member, word: str) -> dict[str, Any]:
    """What a node says of a job; nothing, if it does not know it now, or does not answer."""
    status, body = member.http_or_none(f"/v1/jobs/{word}") or (0, b"")
    return json.loads(body) if status == 200 else UNKNOWN


def once(member: Member, word: str, *states: str, within_s: float = 60) -> dict[str, Any]:
    """The job when it is in one of these states; in any, if it ended otherwise: an error."""
    return awaited(
        lambda: (seen := job(member, word))["state"] in states and seen,
        lambda: f"{member.name}: {job(member, word)}\n{member.log[-2000:]}\n{unfinished(member)}",
        within_s,
    )


def over(member: Member, *words: str, within_s: float = 60) -> set[str]:
    """The states in which jobs ended, once all have."""
    return {once(member, word, *ENDED, within_s=within_s)["state"] for word in words}


def listed(member: Member) -> dict[str, str]:
    """Every job that `grid jobs` shows here, by id: its state."""
    found = json.loads(member.http("GET", "/v1/jobs?limit=1000")[1])
    return {one["id"]: one["state"] for one in found["jobs"]}


def told(member: Member, word: str, what: str) -> list[tuple[int, str]]:
    """When a line of its story was written, and the rest of it."""
    story = job(member, word)["story"]
    return [(one["at_ms"], one["detail"]) for one in story if one["what"] == what]


def tries(member: Member, word: str) -> list[str]:
    """The nodes of its attempts."""
    return [one["node"] for one in job(member, word)["attempts"]]


# What is on their disks


@contextlib.contextmanager
def disk(member: Member) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(member.home / "grid.db", timeout=10)) as base, base:
        yield base


def unfinished(member: Member) -> list[Any]:
    """What its disk has of jobs that have not ended, its guests too."""
    with disk(member) as base:
        rows = base.execute("SELECT record FROM jobs WHERE is_finished = 0").fetchall()
    return [msgspec.msgpack.decode(record) for (record,) in rows]


def holders(lab: MeshLab, word: str) -> list[Member]:
    """Those who hold its record for its home."""
    found = []
    for member in lab.members:
        with disk(member) as base:
            if base.execute("SELECT 1 FROM held WHERE id = ?", (word,)).fetchone():
                found.append(member)
    return found


def age(member: Member, by_ms: int) -> None:
    """It was last seen so long ago; to be told to one that is down."""
    with disk(member) as base:
        (value,) = base.execute("SELECT value FROM meta WHERE key = 'mesh.known'").fetchone()
        known = msgspec.msgpack.decode(value, type=Known)
        older = msgspec.structs.replace(known, at_ms=known.at_ms - by_ms)
        value = msgspec.msgpack.encode(older)
        base.execute("UPDATE meta SET value = ? WHERE key = 'mesh.known'", (value,))


# Cuts


def cut(lab: MeshLab, left: list[Member], right: list[Member]) -> None:
    """Neither side hears the other."""
    for here, there in ((left, right), (right, left)):
        for member in here:
            for other in there:
                lab.host(member.name).deafen(lab.host(other.name).address)


def heal(lab: MeshLab) -> None:
    for member in lab.members:
        lab.host(member.name).hear()


def all_see(members: list[Member], gone: list[Member], health: str) -> None:
    """Until each of them has this verdict on all of those."""

    def wrong() -> list[str]:
        return [
            f"{member.name}: {other.name} {member.health().get(other.name)}"
            for member in members
            for other in gone
            if member.health().get(other.name) != health
        ]

    awaited(lambda: not wrong(), wrong, 60)
