"""A member that lies: a real agent in a mesh of real agents, which says what a test tells it to.

Lives here: making one of a member, what it says and hears, the lies that were found to hurt. Never
here: assertions about the product; the agent itself (`mesh.lying_app`).
"""

import os
import socket

import msgspec

from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_bytes import decode as record_of
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire import job_lane
from distributed_grid.wire.across import Holding, Inquiry
from tests.mesh.lying_app import MOUTH, SAID_S
from tests.mesh_lab import Member, awaited

# Read by every Python of a member; only its agent heeds it.
INSTEAD = """\
import sys
if sys.orig_argv[1:4] == ["-P", "-m", "distributed_grid.app"]:
    import runpy
    sys.argv = sys.orig_argv[3:]
    runpy.run_module("tests.mesh.{app}", run_name="__main__")
    sys.exit(0)
"""


def replaced(member: Member, app: str) -> Member:
    """The member, whose agent will be that of a module of `tests.mesh`."""
    folder = member.root / "instead"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(INSTEAD.format(app=app))
    member.env["PYTHONPATH"] = f"{folder}{os.pathsep}{member.env['PYTHONPATH']}"
    return member


PATIENCE_S = 120.0  # With the mouth: longer than it takes for anything.


class Liar:
    """What a lying member says, and what it is told."""

    def __init__(self, member: Member) -> None:
        self.member = replaced(member, "lying_app")
        self._ids: dict[str, NodeId] = {}

    def id_of(self, other: Member) -> NodeId:
        """A node's id: everybody knows it."""
        if other.name not in self._ids:
            seen = awaited(lambda: self.member.nodes().get(other.name))
            self._ids[other.name] = NodeId(seen.id)
        return self._ids[other.name]

    @property
    def me(self) -> NodeId:
        return self.id_of(self.member)

    def says(
        self, to: Member, *messages: job_lane.LaneMessage | bytes, within_s: float = SAID_S
    ) -> int:
        """Put these on the job lane to somebody; how many went out."""
        bodies = [
            each if isinstance(each, bytes) else msgspec.msgpack.encode(each) for each in messages
        ]
        return self._asked(["say", self.id_of(to), bodies, within_s])

    def heard(self) -> list[tuple[NodeId, job_lane.LaneMessage]]:
        """What others said to it about jobs, the last of it."""
        return [(NodeId(peer), job_lane.decode(body)) for peer, body in self._asked(["heard"])]

    def learn(self, of: Member, job: str, *, within_s: float = 20) -> JobRecord | None:
        """The record of a job, if it is told."""
        before = len(self._holdings(job))
        self.says(of, Inquiry(jobs=(JobId(job),)), within_s=within_s)
        found = awaited(lambda: self._holdings(job)[before:], within_s=within_s)
        return record_of(found[-1]) if found[-1] else None

    def _holdings(self, job: str) -> list[bytes]:
        told = [message for _, message in self.heard() if isinstance(message, Holding)]
        return [message.record for message in told if message.job == job]

    def _asked(self, words: list[object]):
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE_S)
            line.connect(str(self.member.home / MOUTH))
            line.sendall(msgspec.msgpack.encode(words))
            line.shutdown(socket.SHUT_WR)
            data = b""
            while part := line.recv(1 << 20):
                data += part
        return msgspec.msgpack.decode(data)
