"""What the workers of an Executor run: whatever function each call names.

Lives here: the initializer, and functions that were read once. Never here: sockets, futures.
Invariant: the initializer runs once in a process, before its first call.
"""

from collections.abc import Callable
from typing import Any, Final

from distributed_grid.client.pickling import unpacked

FUNCTIONS_MAX: Final = 256  # Kept by one worker.


class InitializerFailed(RuntimeError):
    """The initializer of an Executor raised: no worker can run its calls."""


class Applying:
    """The function of all calls of one Executor: of a function's bytes and its arguments."""

    __name__ = "executor"

    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
        self._initializer, self._initargs = initializer, initargs
        self._functions: dict[bytes, Callable[..., Any]] = {}

    def __call__(self, given: tuple[bytes, tuple[Any, ...], dict[str, Any]]) -> Any:
        """Run one call."""
        data, args, kwargs = given
        function = self._functions.get(data)
        if function is None:
            function = self._read(data)
        return function(*args, **kwargs)

    def _read(self, data: bytes) -> Callable[..., Any]:
        if self._initializer is not None:
            try:
                self._initializer(*self._initargs)
            except Exception as error:
                raise InitializerFailed(f"{type(error).__name__}: {error}") from error
            self._initializer = None
        if len(self._functions) >= FUNCTIONS_MAX:
            del self._functions[next(iter(self._functions))]
        function: Callable[..., Any] = unpacked(data)
        self._functions[data] = function
        return function
