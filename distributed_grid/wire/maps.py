"""What clients that have calls, and workers that run them, say about maps of Python functions.

Lives here: the structs of the routes under `/v1/maps`. They travel as msgpack: bytes stay bytes.
Never here: what the bytes mean; only client and worker unpickle them, an agent never does.
"""

from typing import Literal

import msgspec

from distributed_grid.model.bounds import Body, Bytes, Count, Moment, Most, Name, Path, Text
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec

PAYLOAD_BYTES_MAX = 48 << 20  # Of one function, item or result: it fits into one request.
ASIDE_BYTES_MIN = 1 << 20  # A buffer of this size does not travel in a call, but as a file.
BATCH_BYTES = 4 << 20  # More than this is not gathered before it is sent.

# Of a job of another node: the agent of the machine it runs on, and the Python of that agent.
GUEST_SOCKET = "GRID_JOB_SOCKET"
GUEST_PYTHON = "GRID_JOB_PYTHON"


class MapFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls that follow call."""

    number: Count  # Of this map, from 1; a warm worker that has it is not sent it again.
    data: Body
    retries: Count = 1  # How often a call whose worker died is run again.
    chunk: Count = 0  # Calls a worker takes at once; 0: as many as fill a batch's time.
    prints: bool = False  # Whether its client wants to hear what the calls print.


class MapCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call; its number is unique in its map."""

    number: Count
    data: Body


class MapOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a call. `died`: the data says how its worker ended, as text."""

    number: Count
    how: Literal["returned", "raised", "died"]
    data: Body
    printed: Body = b""  # What the call wrote to its standard streams, if that is wanted.


class Raised(msgspec.Struct, frozen=True, array_like=True):
    """The data of a call that raised. Whether the exception itself can be read is not sure."""

    pickled: Body
    kind: Text
    message: Text
    traceback: Text


class WantValue(msgspec.Struct, frozen=True, kw_only=True):
    """A worker needs a value that was too large for a call."""

    job: JobId  # Of the worker.
    value: Name  # The SHA-256 of its bytes.


class ValueHere(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is on the worker's machine, for the moment."""

    path: Path


class OpenMap(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a map, or bring more workers to it; the same again changes nothing."""

    map: Name
    workers: JobSpec


class FeedMap(msgspec.Struct, frozen=True, kw_only=True):
    """More calls, and the question what became of earlier ones."""

    after: Count  # Outcomes that the client has; the agent may forget them.
    calls: Most[MapCall] = ()
    function: MapFunction | None = None
    workers: Count = 0  # The client would like so many, and is told at once if there are fewer.
    held_bytes: Bytes = 0  # Results that the client holds and nobody has read yet.
    wait_ms: Moment = 0


class MapNews(msgspec.Struct, frozen=True, kw_only=True):
    """What became of calls since."""

    outcomes: Most[MapOutcome] = ()
    workers: Count = 0  # Processes that run or are yet to start.
    waiting: Count = 0  # Calls that no worker has.
    failure: Text = ""  # Why the whole map is over.
    unable: Most[tuple[Text, Text]] = ()  # Nodes that get no calls of it any more, and why.


class TakeCalls(msgspec.Struct, frozen=True, kw_only=True):
    """A worker tells what it did and asks for more."""

    worker: Name
    job: JobId  # Of the workers; an agent that restarted hears of them by this.
    outcomes: Most[MapOutcome] = ()
    returned: Most[Count] = ()  # Calls it took and has not begun.
    function: Count = 0  # The one it has.
    most: Count = 0  # Calls it wants. 0: it has not finished what it took.
    wait_ms: Moment = 0
    unable: Text = ""  # Why no worker on its machine can run calls of this map.


class TakenCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to do next; nothing at all: end."""

    calls: Most[MapCall] = ()
    function: MapFunction | None = None
