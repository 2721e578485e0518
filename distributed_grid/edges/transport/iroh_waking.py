"""Workaround: each call into iroh goes through the event loop twice, even one that is done at once.

Lives here: waiting for a Rust future without the detour. The bindings write to the loop's
self-pipe for each poll, ready or not; here a poll that is ready is taken at once, which also leaves
no moment in which a cancellation could lose what was read. Version 1.2.0 of the wheel needs it; a
later one is left alone, and tests/contract/test_iroh_workarounds.py says when this file can go.
Invariant: the loop gets its turn at least every TURNS_MAX calls; a future is freed exactly once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from threading import get_ident
from typing import Any, Final

from iroh import iroh_ffi

NEEDED_BY: Final = frozenset({"1.2.0"})
AS_IT_COMES: Final[Any] = iroh_ffi._uniffi_rust_call_async  # noqa: SLF001
TURNS_MAX: Final = 16
_READY: Final = 0
_UNKNOWN: Final = -1


class _Wait:
    __slots__ = ("code", "future", "loop", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self.loop, self.thread = loop, thread
        self.code = _UNKNOWN
        self.future: asyncio.Future[int] | None = None

    def resolve(self, code: int) -> None:
        """In the thread of the loop."""
        if self.future is None:
            self.code = code  # In the middle of the poll.
        elif not self.future.done():
            self.future.set_result(code)


_waits: Final[dict[int, _Wait]] = {}
_numbers: Final = count(1)
_in_a_row = 0


def _on_wake(number: int, code: int) -> None:
    wait = _waits.pop(number)
    if wait.thread == get_ident():
        wait.resolve(code)
    else:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            wait.loop.call_soon_threadsafe(wait.resolve, code)


_wake: Final[Any] = iroh_ffi._UNIFFI_RUST_FUTURE_CONTINUATION_CALLBACK(_on_wake)  # noqa: SLF001


async def _call(  # noqa: PLR0917 - as the bindings call it
    rust_future: Any,
    poll: Callable[..., None],
    complete: Any,
    free: Callable[[Any], None],
    lift: Callable[[Any], Any],
    error_converter: Any,
) -> Any:
    global _in_a_row  # noqa: PLW0603 - of the one loop
    loop, thread = asyncio.get_running_loop(), get_ident()
    try:
        _in_a_row += 1
        if _in_a_row > TURNS_MAX:
            _in_a_row = 0
            await asyncio.sleep(0)  # Before anything is had that a cancellation could lose.
        while True:
            wait = _Wait(loop, thread)
            number = next(_numbers)
            _waits[number] = wait
            poll(rust_future, _wake, number)
            if wait.code == _UNKNOWN:
                wait.future = loop.create_future()
                _in_a_row = 0
                code = await wait.future
            else:
                code = wait.code
            if code == _READY:
                break
        return lift(iroh_ffi._uniffi_rust_call_with_error(error_converter, complete, rust_future))  # type: ignore[no-untyped-call] # noqa: SLF001
    finally:
        free(rust_future)


def hasten() -> None:
    """Take what is ready at once, from now on."""
    if version("iroh") in NEEDED_BY:
        iroh_ffi._uniffi_rust_call_async = _call  # noqa: SLF001
