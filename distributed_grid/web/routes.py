"""From the table of routes to handlers: decode, call, encode.

Lives here: one handler for each route. Never here: the table (`wire.api`), the handlers of the mesh
(`mesh_routes`) and of what goes across it (`across_routes`).
"""

from collections.abc import AsyncIterator
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from distributed_grid.agent import Operations
from distributed_grid.errors import BadValue
from distributed_grid.model.booking import Booking
from distributed_grid.web.across_routes import ACROSS_HANDLERS
from distributed_grid.web.admission import admit, admit_booking, refusals
from distributed_grid.web.application import Handler
from distributed_grid.web.bodies import body, submitted
from distributed_grid.web.cache_routes import CACHE_HANDLERS
from distributed_grid.web.mesh_routes import MESH_HANDLERS
from distributed_grid.web.mistakes import refuse_parts
from distributed_grid.web.openapi import openapi_document
from distributed_grid.web.problems import JSON
from distributed_grid.web.queries import WAIT_MS_MAX, event_id, index, number
from distributed_grid.wire.api import (
    JOBS_MAX,
    WAIT_JOBS_MAX,
    Down,
    Event,
    JobState,
    Nothing,
    WaitMany,
)
from distributed_grid.wire.maps import FeedMap, OpenMap, TakeCalls, WantValue
from distributed_grid.wire.sharing import ChangeOffers

JOB_STATES: tuple[str, ...] = get_args(JobState)


async def _submit(operations: Operations, request: Request) -> Any:
    jobs = await submitted(request)
    if len(jobs) > JOBS_MAX:
        raise BadValue(
            len(jobs),
            expected=f"at most {JOBS_MAX} jobs",
            remedy="Use an array, or several calls",
        )
    refuse_parts((f"jobs[{at}].", refusals(spec)) for at, spec in enumerate(jobs))
    return await operations.submit(jobs)


async def _jobs(operations: Operations, request: Request) -> Any:
    query = request.query_params
    state = query.get("state", "")
    if state and state not in JOB_STATES:
        expected = f"one of {', '.join(JOB_STATES)}"
        raise BadValue(state, expected=expected, remedy="Ask for one of these states")
    return await operations.jobs(
        state=state,
        name=query.get("name", ""),
        user=query.get("user", ""),
        limit=number(request, "limit", default=100, most=JOBS_MAX),
        before_ms=number(request, "before_ms", default=0, most=10**15),
    )


async def _job(operations: Operations, request: Request) -> Any:
    return await operations.job(request.path_params["job"])


async def _wait(operations: Operations, request: Request) -> Any:
    timeout_ms = number(request, "timeout_ms", default=WAIT_MS_MAX, most=WAIT_MS_MAX)
    return await operations.wait(request.path_params["job"], timeout_ms=timeout_ms)


async def _wait_many(operations: Operations, request: Request) -> Any:
    wanted = await body(request, WaitMany)
    if not 0 <= wanted.timeout_ms <= WAIT_MS_MAX:
        expected = f"timeout_ms from 0 to {WAIT_MS_MAX}"
        raise BadValue(wanted.timeout_ms, expected=expected, remedy="Wait again after that")
    if len(wanted.ids) > WAIT_JOBS_MAX:
        expected = f"at most {WAIT_JOBS_MAX} jobs"
        raise BadValue(len(wanted.ids), expected=expected, remedy="Ask again for the rest")
    return await operations.wait_many(wanted.ids, timeout_ms=wanted.timeout_ms)


async def _cancel(operations: Operations, request: Request) -> Any:
    return await operations.cancel(request.path_params["job"])


async def _explain(operations: Operations, request: Request) -> Any:
    return await operations.explain(request.path_params["job"])


async def _logs(operations: Operations, request: Request) -> Any:
    stream = request.query_params.get("stream", "stdout")
    if stream not in ("stdout", "stderr"):
        raise BadValue(stream, expected="stdout or stderr", remedy="Ask for one of them")
    parts = operations.logs(
        request.path_params["job"],
        stream=stream,
        index=index(request),
        follow=request.query_params.get("follow", "") in ("1", "true"),
        offset=number(request, "offset", default=0, most=10**15),
        attempt=number(request, "attempt", default=0, most=10**9),
    )
    return StreamingResponse(await _begun(parts), media_type="application/octet-stream")


async def _events(operations: Operations, request: Request) -> Any:
    events = operations.events(
        after=event_id(request),
        follow=request.query_params.get("follow", "") not in ("0", "false"),
    )

    async def lines() -> AsyncIterator[bytes]:
        yield b": grid events\n\n"  # So that headers go out before the first event.
        async for event in events:
            yield _server_sent(event)

    return StreamingResponse(lines(), media_type="text/event-stream")


async def _open_map(operations: Operations, request: Request) -> Any:
    wanted = await body(request, OpenMap, msgspec.msgpack.decode)
    admit(wanted.workers)
    await operations.maps.open(wanted)
    return Nothing()


async def _feed_map(operations: Operations, request: Request) -> Any:
    fed = await body(request, FeedMap, msgspec.msgpack.decode)
    return await operations.maps.feed(request.path_params["map"], fed)


async def _take_calls(operations: Operations, request: Request) -> Any:
    wanted = await body(request, TakeCalls, msgspec.msgpack.decode)
    return await operations.maps.take(request.path_params["map"], wanted)


async def _map_value(operations: Operations, request: Request) -> Any:
    wanted = await body(request, WantValue, msgspec.msgpack.decode)
    return await operations.maps.value(request.path_params["map"], wanted)


async def _hold_map(operations: Operations, request: Request) -> Any:
    holding = operations.maps.hold(request.path_params["map"])
    return StreamingResponse(await _begun(holding), media_type="application/octet-stream")


async def _close_map(operations: Operations, request: Request) -> Any:
    await operations.maps.close(request.path_params["map"])
    return Nothing()


async def _sharing(operations: Operations, _: Request) -> Any:
    return await operations.sharing()


async def _change_offers(operations: Operations, request: Request) -> Any:
    return await operations.change_offers(await body(request, ChangeOffers))


async def _book(operations: Operations, request: Request) -> Any:
    wanted = await body(request, Booking)
    admit_booking(wanted)
    await operations.book(wanted)
    return Nothing()


async def _cancel_booking(operations: Operations, request: Request) -> Any:
    await operations.cancel_booking(request.path_params["name"])
    return Nothing()


async def _queue(operations: Operations, request: Request) -> Any:
    return await operations.queue(limit=number(request, "limit", default=100, most=JOBS_MAX))


async def _status(operations: Operations, _: Request) -> Any:
    return await operations.status()


async def _down(operations: Operations, request: Request) -> Any:
    wanted = await body(request, Down)
    await operations.down(stop_jobs=wanted.stop_jobs)
    return Nothing()


async def _health(_: Operations, __: Request) -> Any:
    return Nothing()


async def _metrics(operations: Operations, _: Request) -> Any:
    return Response(operations.metrics(), media_type="text/plain; version=0.0.4")


async def _openapi(_: Operations, __: Request) -> Any:
    return Response(openapi_document(), media_type=JSON)


async def _begun(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream with its first part read, so that an error still becomes a problem."""
    first = await anext(parts, b"")

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    return whole()


def _server_sent(event: Event) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        event.id.encode(),
        event.name.encode(),
        msgspec.json.encode(event),
    )


HANDLERS: dict[str, Handler] = {
    "submit": _submit,
    "jobs": _jobs,
    "job": _job,
    "wait": _wait,
    "wait_many": _wait_many,
    "cancel": _cancel,
    "explain": _explain,
    "logs": _logs,
    "open_map": _open_map,
    "feed_map": _feed_map,
    "take_calls": _take_calls,
    "map_value": _map_value,
    "hold_map": _hold_map,
    "close_map": _close_map,
    "sharing": _sharing,
    "change_offers": _change_offers,
    "book": _book,
    "cancel_booking": _cancel_booking,
    "queue": _queue,
    "status": _status,
    "events": _events,
    "down": _down,
    "health": _health,
    "metrics": _metrics,
    "openapi": _openapi,
    **MESH_HANDLERS,
    **CACHE_HANDLERS,
    **ACROSS_HANDLERS,
}
