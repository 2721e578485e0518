"""Stand-ins for the agent, below the client: a real HTTP server with canned jobs, and a raw socket.

Lives here: servers in threads, on unix sockets in a directory of the test. Never here: assertions,
anything of the real agent but its route table (`web.routes`).
Invariant: after the `with` block nothing listens, and no thread is left.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from distributed_grid.errors import Ambiguous, NeverFits, NotFound
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId, job_id_of
from distributed_grid.model.job import JobSpec
from distributed_grid.web.application import Application
from distributed_grid.web.routes import HANDLERS
from distributed_grid.wire.api import (
    ArrayView,
    AttemptView,
    Event,
    EventPlace,
    Explanation,
    Jobs,
    JobView,
    NodeStatus,
    Submitted,
)
from distributed_grid.wire.sharing import ChangeOffers, Queue, SharingStatus
from tests.across_stand_in import CannedAcross
from tests.mesh_stand_in import STARTED_MS, CannedMesh


def a_view(name: str = "build", **fields: Any) -> JobView:
    """A job that ended well, unless told otherwise."""
    usual = dict(id=job_id_of(name), name=name, state="succeeded", submitted_ms=STARTED_MS,
                 exit_code=0, node="desk", started_ms=STARTED_MS + 5, ended_ms=STARTED_MS + 1_505,
                 argv=("make", "all"), cwd="/src", user="ada", cpu_milli=2_000,
                 memory_bytes=1 << 30)  # fmt: skip
    return JobView(**{**usual, **fields})


class CannedAgent:
    """Answers from a few jobs; remembers what it was asked."""

    def __init__(self, *views: JobView) -> None:
        self.views = {view.id: view for view in views}
        self.submitted: list[JobSpec] = []
        self.cancelled: list[str] = []
        self.asked: list[tuple[Any, ...]] = []
        self.output: dict[tuple[str, str, int], list[bytes]] = {}
        self.ends_as: Callable[[JobSpec], JobView] | None = None
        self.is_stopping = threading.Event()
        self.lends = SharingStatus(
            node="desk", is_enabled=True, state="open", mode="dynamic_balancing", policy="balanced"
        )
        self.never_has = ""  # A custom kind.
        self.waiting = Queue(entries=(), total=0)
        self.mesh = CannedMesh()
        self.across = CannedAcross(self)
        self.bytes_left = 0  # Of the files of what is submitted.
        self.is_only_here = False
        self.happened: list[Event] | None = None  # None: three jobs ended.

    def write(self, name: str, *parts: bytes, stream: str = "stdout", index: int = -1) -> None:
        self.output[job_id_of(name), stream, index] = list(parts)

    async def submit(self, jobs: tuple[JobSpec, ...]) -> Submitted:
        for job in jobs:
            if job.request.cpu_milli > 64_000 and not job.wait_for_capacity:
                shortfall = [("cpu_milli", job.request.cpu_milli, 64_000)]
                raise NeverFits(job.name, shortfall=shortfall)
            for kind, amount in job.request.custom:
                if kind == self.never_has:
                    raise NeverFits(job.name, shortfall=[(f"custom.{kind}", amount, 0)])
            self.submitted.append(job)
            ended = self.ends_as(job) if self.ends_as else a_view(job.name)
            self.views[job.id] = msgspec.structs.replace(ended, id=job.id)
        return Submitted(
            ids=tuple(job.id for job in jobs),
            bytes_left=self.bytes_left,
            is_only_here=self.is_only_here,
        )

    async def jobs(self, **filters: Any) -> Jobs:
        self.asked.append(("jobs", filters))
        found = [
            view
            for view in self.views.values()
            if filters["state"] in ("", view.state) and filters["name"] in ("", view.name)
        ]
        limit = filters["limit"]
        return Jobs(jobs=tuple(found[:limit]), more=len(found) > limit)

    async def job(self, word: str) -> JobView:
        plain = word.removeprefix("id:").removeprefix("name:")
        views = self.views.values()
        found = [view for view in views if plain in (view.name, view.id)]
        found = found or [view for view in views if view.id.startswith(plain)]
        if not found:
            raise NotFound("job", word)
        if len(found) > 1:
            raise Ambiguous("job", word, matches=[view.id for view in found])
        return found[0]

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        self.asked.append(("wait", word, timeout_ms))
        return await self.job(word)

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        self.asked.append(("wait_many", words, timeout_ms))
        return Jobs(jobs=tuple([await self.job(word) for word in words]))

    async def cancel(self, word: str) -> JobView:
        view = await self.job(word)
        self.cancelled.append(view.name)
        return msgspec.structs.replace(view, state="cancelled", exit_code=None)

    async def explain(self, word: str) -> Explanation:
        view = await self.job(word)
        return Explanation(id=view.id, state="waiting", summary="it waits for cores", position=2,
                           shortfall=(("cpu_milli", 2_000, 500), ("memory_bytes", 2 << 30, 1 << 30)),
                           waits_for=("train",), remedies=("cancel train",))  # fmt: skip

    async def logs(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int, attempt: int = 0
    ) -> AsyncIterator[bytes]:
        view = await self.job(word)
        self.asked.append(("logs", view.name, stream, index, follow, offset))
        by_name = (job_id_of(view.name), stream, index)
        written = b"".join(self.output.get(by_name, []))
        yield written[offset:]

    async def status(self) -> NodeStatus:
        return NodeStatus(id="ab" * 32, name="desk", node_class="workstation", version="0.1.0",
                          pid=1, keeper_pid=2, since_ms=STARTED_MS, data_dir="/data",
                          cpu_milli_total=8_000, cpu_milli_free=6_500,
                          memory_bytes_total=16 << 30, memory_bytes_free=4 << 30, gpus_total=2,
                          gpus_free_milli=1_500, jobs_waiting=3, jobs_running=1,
                          limits={"memory": "cgroup v2"}, pretended=("gpus",))  # fmt: skip

    async def sharing(self) -> SharingStatus:
        return self.lends

    async def change_offers(self, change: ChangeOffers) -> SharingStatus:
        self.asked.append(("change_offers", change))
        return self.lends

    async def book(self, booking: Booking) -> None:
        self.asked.append(("book", booking))

    async def cancel_booking(self, name: str) -> None:
        if all(booking.name != name for booking in self.lends.bookings):
            raise NotFound("booking", name)
        self.asked.append(("cancel_booking", name))

    async def queue(self, *, limit: int) -> Queue:
        return Queue(entries=self.waiting.entries[:limit], total=self.waiting.total)

    async def events(self, *, after: EventPlace, follow: bool = True) -> AsyncIterator[Event]:
        self.asked.append(("events", after, follow))
        ended = [
            Event(number=number, at_ms=STARTED_MS, name="job.ended", job=JobId("ab" * 32))
            for number in range(1, 4)
        ]
        for event in ended if self.happened is None else self.happened:
            if after is not None and event.number > after[1]:
                yield event

    async def down(self, *, stop_jobs: bool) -> None:
        self.asked.append(("down", stop_jobs))
        self.is_stopping.set()

    def metrics(self) -> bytes:
        return b"grid_jobs 1\n"


def an_array(name: str = "sweep", **fields: Any) -> JobView:
    """An array of three, one of which failed."""
    counts = ArrayView(total=3, succeeded=2, failed=1, failed_indices=((1, 9),))
    return a_view(name, **{"state": "failed", "exit_code": 1, "array": counts, **fields})


def an_attempt(**fields: Any) -> AttemptView:
    usual = dict(number=1, node="desk", state="ended", started_ms=STARTED_MS, exit_code=0,
                 ended_ms=STARTED_MS + 2_000, how="exited", user_us=900_000, system_us=100_000,
                 memory_bytes_peak=5 << 20, cores=(0, 1), limits={"memory": "cgroup v2"})  # fmt: skip
    return AttemptView(**{**usual, **fields})


@contextlib.contextmanager
def serving(agent: CannedAgent, path: Path) -> Iterator[str]:
    """The canned agent behind the real routes, on a real server."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(64)
    config = uvicorn.Config(
        Application(agent, HANDLERS),
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        yield str(path)
    finally:
        server.should_exit = True
        thread.join()
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def answering(path: Path, *scripts: Callable[[socket.socket], None]) -> Iterator[str]:
    """A raw server: the n-th connection is handled by the n-th script, then closed."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(8)

    def serve() -> None:
        for script in scripts:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                script(connection)
        listening.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield str(path)
    finally:
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        path.unlink(missing_ok=True)


def says(*parts: bytes) -> Callable[[socket.socket], None]:
    """Read one request, say this, hang up."""

    def script(connection: socket.socket) -> None:
        read_request(connection)
        for part in parts:
            connection.sendall(part)

    return script


def hangs_up(connection: socket.socket) -> None:
    """Read one request, and close without a word, as a killed agent does."""
    read_request(connection)


def stays_silent(connection: socket.socket) -> None:
    """Read, and never answer, until the client gives up."""
    while connection.recv(65_536):
        pass


def read_request(connection: socket.socket) -> bytes:
    """One whole request. Raises ConnectionError if the client has gone before it was heard."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _heard(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    while len(body) < length:
        body += _heard(connection)
    return head + b"\r\n\r\n" + body


def _heard(connection: socket.socket) -> bytes:
    data = connection.recv(65_536)
    if not data:
        raise ConnectionError("the client has gone")  # Else whoever waits for more spins for ever.
    return data


def http(body: bytes, *, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A whole answer."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
