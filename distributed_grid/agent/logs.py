"""Output of jobs, read from the files that the processes write.

Lives here: reading and following. Never here: writing or rotating them (`edges.runner`).
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

PART_BYTES: Final = 64 << 10  # One read; a client that does not read costs this much memory.
POLL_MS_MIN, POLL_MS_MAX = 20, 250  # Quiet files are looked at less often.


async def read_output(
    path: str,
    *,
    offset: int,
    follow: bool,
    has_ended: Callable[[], bool],
    changed: Callable[[float], Awaitable[object]],
) -> AsyncIterator[bytes]:
    """The file from an offset on; with `follow`, until its writer has ended and all is read.

    `changed` waits until the job changes, for so many seconds at the most.
    """
    older = f"{path}.1"  # The half that was rotated away, if the job wrote that much.
    if offset == 0:
        async for part in _parts(older, 0):
            yield part
    at, poll_ms = offset, POLL_MS_MIN
    while True:
        is_over = has_ended()  # Asked before reading: what was written before the end is read.
        grown = False
        at = min(at, _size(path))  # It was cut while we read: go on at its new end.
        async for part in _parts(path, at):
            at += len(part)
            grown = True
            yield part
        if is_over or not follow:
            return
        poll_ms = POLL_MS_MIN if grown else min(2 * poll_ms, POLL_MS_MAX)
        await changed(poll_ms / 1_000)  # Files do not tell when they grow; the job's end does.


async def _parts(path: str, offset: int) -> AsyncIterator[bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        while part := os.pread(file, PART_BYTES, offset):
            offset += len(part)
            yield part
    finally:
        os.close(file)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0
