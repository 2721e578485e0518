"""Workaround: each call into iroh builds two structures for an error that hardly ever comes.

Lives here: the same call with a structure that is used again and again. A fifth of what a mesh at
rest costs went into them. Version 1.2.0 of the wheel needs it; a later one is left alone, and
tests/contract/test_iroh_workarounds.py says when this file can go.
Invariant: a structure is used by one call at a time, and never again once it held an error.
"""

import ctypes
from importlib.metadata import version
from typing import Any, Final

from iroh import iroh_ffi

NEEDED_BY: Final = frozenset({"1.2.0"})
_new_status: Final[Any] = iroh_ffi._UniffiRustCallStatus.default  # noqa: SLF001
_check: Final[Any] = iroh_ffi._uniffi_check_call_status  # noqa: SLF001
_spare: Final[list[tuple[Any, Any]]] = []  # As many as there were calls at once: one in a thread.


def _call(error_converter: Any, function: Any, *arguments: Any) -> Any:
    try:
        pair = _spare.pop()
    except IndexError:
        status = _new_status()
        pair = status, ctypes.byref(status)
    result = function(*arguments, pair[1])
    if pair[0].code:
        _check(error_converter, pair[0])
    _spare.append(pair)
    return result


def _plain_call(function: Any, *arguments: Any) -> Any:
    return _call(None, function, *arguments)


def hasten() -> None:
    """Call without ado from now on."""
    if version("iroh") in NEEDED_BY:
        iroh_ffi._uniffi_rust_call_with_error = _call  # noqa: SLF001
        iroh_ffi._uniffi_rust_call = _plain_call  # noqa: SLF001
