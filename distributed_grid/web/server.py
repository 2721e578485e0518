"""The HTTP server on the agent's unix socket.

Lives here: uvicorn, told to use the socket that we bound ourselves: its own would be open to all.
"""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from distributed_grid.agent import Operations
from distributed_grid.errors import GridError, NotFound
from distributed_grid.web.connections import CONNECTIONS_MAX, Connection
from distributed_grid.web.problems import problem_response
from distributed_grid.web.routes import routes

BACKLOG = 512
FILES_BESIDE = 512  # What the agent opens for itself: the store, logs that are read.


def bound_socket(path: str) -> socket.socket:
    """A listening unix socket that only its owner may use."""
    Path(path).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(path)
    finally:
        os.umask(before)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


class _QuietServer(uvicorn.Server):
    """Leaves signals to the composition root, whose they are."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def serve(operations: Operations, listening: socket.socket) -> None:
    """Serve until cancelled; open requests get a moment to end."""
    _allow_files(CONNECTIONS_MAX + FILES_BESIDE)
    # Else every junk byte of a stranger would be a line in our log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        Starlette(
            routes=routes(operations),
            exception_handlers={404: _no_such_path, 405: _no_such_path, Exception: _our_fault},
        ),
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


class OurFault(GridError):
    """Something went wrong that is not the client's doing."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the agent made a mistake: {what}", remedy="Please report its log")


async def _no_such_path(request: Request, _: Exception) -> Response:
    return problem_response(NotFound("path", f"{request.method} {request.url.path}"))


async def _our_fault(_: Request, error: Exception) -> Response:
    return problem_response(OurFault(type(error).__name__))


def _allow_files(wanted: int) -> None:
    """As many open files as there may be clients, where the machine lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
