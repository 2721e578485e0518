"""The ASGI application: finds the handler of a request, and turns what it gives into an answer.

Lives here: paths, and answers that are not streams. Never here: what an operation does (`routes`).
Two of Starlette's middlewares and its router would cost a submission a third of its time here, and
do what a table does.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from distributed_grid.agent import Operations
from distributed_grid.errors import AgentLeft, GridError, NotFound
from distributed_grid.web.problems import JSON, problem_response
from distributed_grid.wire.across_api import ACROSS_ROUTES
from distributed_grid.wire.api import ROUTES, Route
from distributed_grid.wire.cache import CACHE_ROUTES
from distributed_grid.wire.mesh_api import MESH_ROUTES
from distributed_grid.wire.sharing import SHARING_ROUTES

MSGPACK: Final = "application/msgpack"
CLIENT_GONE: Final = 499  # As nginx calls it.
METHOD_NOT_ALLOWED: Final = 405
METHODS: Final = ("GET", "POST")

Handler = Callable[[Operations, Request], Awaitable[Any]]


class OurFault(GridError):
    """Something went wrong that is not the client's doing."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the agent made a mistake: {what}", remedy="Please report its log")


class _Found(NamedTuple):
    route: Route
    handle: Handler
    segments: tuple[str, ...]  # Of the path; `{job}` is a parameter.

    def parameters(self, told: list[str]) -> dict[str, str] | None:
        """What stands in the places of the parameters; None: another path."""
        found = {}
        for segment, word in zip(self.segments, told, strict=True):
            if segment.startswith("{"):
                found[segment[1:-1]] = word
                if not word:
                    return None
            elif segment != word:
                return None
        return found


class Application:
    """Every route of the table, bound to the operations."""

    def __init__(self, operations: Operations, handlers: dict[str, Handler]) -> None:
        self._operations = operations
        self._fixed: dict[tuple[str, str], _Found] = {}
        self._others: dict[tuple[str, int], list[_Found]] = {}
        for route in (*ROUTES, *SHARING_ROUTES, *MESH_ROUTES, *ACROSS_ROUTES, *CACHE_ROUTES):
            found = _Found(route, handlers[route.name], tuple(route.path.split("/")))
            if "{" in route.path:
                key = (route.method, len(found.segments))
                self._others.setdefault(key, []).append(found)
            else:
                self._fixed[route.method, route.path] = found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method, path = scope["method"], scope["path"]
        found, parameters = self._find(method, path)
        if found is None:
            problem = problem_response(NotFound("path", f"{method} {path}"))
            if others := [other for other in METHODS if self._find(other, path)[0]]:
                problem.status_code = METHOD_NOT_ALLOWED
                problem.headers["allow"] = ", ".join(others)
            await problem(scope, receive, send)
            return
        scope["path_params"] = parameters
        try:
            answer = await found.handle(self._operations, Request(scope, receive))
        except GridError as error:
            answer = problem_response(error)
        except ClientDisconnect:
            answer = Response(status_code=CLIENT_GONE)
        except asyncio.CancelledError:
            answer = problem_response(AgentLeft())  # Whoever waits for a job shall know why.
        except Exception as error:
            await problem_response(OurFault(type(error).__name__))(scope, receive, send)
            raise  # For the log.
        if isinstance(answer, Response):
            with contextlib.suppress(asyncio.CancelledError):  # A stream ends with the agent.
                await answer(scope, receive, send)
        elif found.route.codec == "msgpack":
            await _send(send, msgspec.msgpack.encode(answer), MSGPACK)
        else:
            await _send(send, msgspec.json.encode(answer), JSON)

    def _find(self, method: str, path: str) -> tuple[_Found | None, dict[str, str]]:
        fixed = self._fixed.get((method, path))
        if fixed is not None:
            return fixed, {}
        told = path.split("/")
        for other in self._others.get((method, len(told)), ()):
            parameters = other.parameters(told)
            if parameters is not None:
                return other, parameters
        return None, {}


async def _send(send: Send, body: bytes, media_type: str) -> None:
    headers = [
        (b"content-length", str(len(body)).encode()),
        (b"content-type", media_type.encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
