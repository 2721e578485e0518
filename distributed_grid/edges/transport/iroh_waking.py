"""Workaround: each call into iroh goes through the event loop twice, even one that is done at once.

Lives here: waiting for a Rust future without the detour. The bindings write to the loop's
self-pipe for each poll, ready or not; here a poll that is ready is taken at once, which also leaves
no moment in which a cancellation could lose what was read. Version 1.2.0 of the wheel needs it; a
later one is left alone, and tests/contract/test_iroh_workarounds.py says when this file can go.
A heartbeat may also wait for the next tick instead of waking the loop: among thirty nodes that is
twenty wakes a second, each with cold caches, and a fifth of what a mesh at rest costs.
Invariant: the loop gets its turn at least every TURNS_MAX calls; a future is freed exactly once;
what waits is resolved by the next `take_in`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from itertools import count
from threading import get_ident
from time import monotonic_ns
from typing import Any, Final

from iroh import iroh_ffi

NEEDED_BY: Final = frozenset({"1.2.0"})
AS_IT_COMES: Final[Any] = iroh_ffi._uniffi_rust_call_async  # noqa: SLF001
TURNS_MAX: Final = 16
_READY: Final = 0
_UNKNOWN: Final = -1


class _Wait:
    __slots__ = ("code", "future", "is_patient", "loop", "thread", "waited_us")

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, *, is_patient: bool) -> None:
        self.loop, self.thread = loop, thread
        self.is_patient, self.waited_us = is_patient, 0
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
_late: Final[deque[tuple[_Wait, int, int]]] = deque()  # One for each link, with its time.
_in_a_row = 0
_is_patient = False  # Somebody takes in what waits, again and again.
_may_wait = False  # The call that comes next.
_waited_us = 0  # What the last one waited.


def _on_wake(number: int, code: int) -> None:
    wait = _waits.pop(number)
    if wait.thread == get_ident():
        wait.resolve(code)
    elif wait.is_patient and _is_patient:
        _late.append((wait, code, monotonic_ns()))
    else:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            wait.loop.call_soon_threadsafe(wait.resolve, code)


_wake: Final[Any] = iroh_ffi._UNIFFI_RUST_FUTURE_CONTINUATION_CALLBACK(_on_wake)  # noqa: SLF001


def take_in(*, is_patient: bool) -> None:
    """Go on with what waits, in the thread of the loop; with patience it may wait from now on."""
    global _is_patient  # noqa: PLW0603 - of the one loop
    _is_patient = is_patient
    now_ns = monotonic_ns()
    while _late:
        wait, code, woken_ns = _late.popleft()
        wait.waited_us = max(now_ns - woken_ns, 0) // 1_000
        wait.resolve(code)


async def patiently(call: Callable[[], Awaitable[bytes]]) -> tuple[bytes, int]:
    """What the call reads, and for how many microseconds it had waited."""
    global _may_wait, _waited_us
    _may_wait, _waited_us = True, 0
    data = await call()
    return data, _waited_us  # Nobody ran in between: it is of this call.


async def _call(  # noqa: PLR0917 - as the bindings call it
    rust_future: Any,
    poll: Callable[..., None],
    complete: Any,
    free: Callable[[Any], None],
    lift: Callable[[Any], Any],
    error_converter: Any,
) -> Any:
    global _in_a_row, _may_wait, _waited_us  # noqa: PLW0603 - of the one loop
    loop, thread = asyncio.get_running_loop(), get_ident()
    is_patient, _may_wait = _may_wait, False
    try:
        _in_a_row += 1
        if _in_a_row > TURNS_MAX:
            _in_a_row = 0
            await asyncio.sleep(0)  # Before anything is had that a cancellation could lose.
        while True:
            wait = _Wait(loop, thread, is_patient=is_patient)
            number = next(_numbers)
            _waits[number] = wait
            poll(rust_future, _wake, number)
            if wait.code == _UNKNOWN:
                wait.future = loop.create_future()
                _in_a_row = 0
                code = await wait.future
                _waited_us = wait.waited_us
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
