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

from distributed_grid.agent import Operations
from distributed_grid.web.application import Application
from distributed_grid.web.connections import CONNECTIONS_MAX, Connection
from distributed_grid.web.routes import HANDLERS

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
    """Leaves signals to the composition root, whose they are; and sleeps while nobody asks.

    uvicorn's own wakes ten times a second, for a date and limits that are not used here.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """End, in a moment."""
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Until told to leave."""
        await self.on_tick(0)  # Sets the headers that every answer has.
        await self._leaving.wait()

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
        Application(operations, HANDLERS),
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # Nobody stands between us and a unix socket.
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.leave()
        await serving
        raise


def _allow_files(wanted: int) -> None:
    """As many open files as there may be clients, where the machine lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
