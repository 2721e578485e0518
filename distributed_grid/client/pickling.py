"""Functions, items, results and exceptions as bytes, and back.

Lives here: what travels inside the calls of a map. Client and worker are the only ones to read it.
Invariant: whatever a person's objects do while they are packed or read, the outcome is a value, a
`NotPicklable` or a `CallFailed`.

cloudpickle sends by value what the other process cannot import: lambdas, closures, and all that
was defined in `__main__`. It is loaded only where plain data does not do.
"""

import contextlib
import pickle
import traceback
from collections.abc import Callable
from typing import Any, Final

import msgspec

from distributed_grid.errors import CallFailed, NotPicklable, shown
from distributed_grid.model.bounds import Body, Listed, Name, Path
from distributed_grid.wire.maps import ASIDE_BYTES_MIN, PAYLOAD_BYTES_MAX, Raised

PLAIN: Final = frozenset({int, float, bool, str, bytes, type(None)})
ASIDE: Final = b"\0"  # How bytes begin of which some were put aside; a pickle begins otherwise.
WHOLE_BYTES_MAX: Final = 8 << 20  # A pickle that is larger is put aside whole.
Put = Callable[[memoryview], str]
TRACEBACK_CHARACTERS_MAX: Final = 100_000  # A deep recursion repeats itself.
# Raised here, these would end the caller's program or its loop without a word.
_NOT_RAISED_HERE: Final = (StopIteration, StopAsyncIteration)


class Aside(msgspec.Struct, array_like=True):
    """A value of which something was put aside."""

    data: Body  # Its pickle; empty: that is the last of those that were put aside.
    names: Listed[Name]  # Its buffers.
    beside: Listed[Path] = []


class RemoteTraceback(Exception):  # As in concurrent.futures: it is shown as the cause.
    """Where a call raised, on the worker: the cause of the exception that comes back."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def packed(value: Any, *, what: str, index: int, put: Put | None = None) -> bytes:
    """A value as bytes; with `put` what is large in it goes there, and only its name is in them."""
    large: list[memoryview] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        """Whether it stays in."""
        with contextlib.suppress(BufferError):  # Not in one piece.
            if (raw := buffer.raw()).nbytes >= ASIDE_BYTES_MIN:
                large.append(raw)
                return False
        return True

    data = _dumped(value, what=what, index=index, aside=aside if put is not None else None)
    if put is not None and (large or len(data) > WHOLE_BYTES_MAX):
        try:
            names = [put(one) for one in large]
            if len(data) > ASIDE_BYTES_MIN:
                names.append(put(memoryview(data)))
                data = b""
        except OSError as error:
            why = f"it is large, and cannot be put aside: {error}"
            raise NotPicklable(index, what=what, why=why) from error
        return ASIDE + msgspec.msgpack.encode(Aside(data, names))
    if len(data) > PAYLOAD_BYTES_MAX:
        why = f"it has {len(data)} bytes, at most {PAYLOAD_BYTES_MAX} travel at once"
        raise NotPicklable(index, what=what, why=why)
    return data


def _dumped(
    value: Any, *, what: str, index: int, aside: Callable[[pickle.PickleBuffer], bool] | None = None
) -> bytes:
    if type(value) in PLAIN:
        return pickle.dumps(value, protocol=5)
    try:
        import cloudpickle  # type: ignore[import-untyped]

        data: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=aside)
    except Exception as error:  # Anything: __reduce__ and __getstate__ are other people's code.
        raise NotPicklable(index, what=what, why=_sentence(error)) from error
    return data


def unpacked(data: bytes) -> Any:
    """The value; raises whatever its classes raise."""
    if not data.startswith(ASIDE):
        return pickle.loads(data)  # noqa: S301  # From our own client, through a 0600 socket.
    found = _aside(data)
    large = [fetched(name) for name in found.names]
    return pickle.loads(found.data or large.pop(), buffers=large)  # noqa: S301


def values_of(data: bytes) -> list[str]:
    """The names of what was put aside of a value, or is needed beside it."""
    if not data.startswith(ASIDE):
        return []
    found = _aside(data)
    return found.names + found.beside


def beside(data: bytes, names: list[str]) -> bytes:
    """A value inside of which there is another, of which this was put aside."""
    found = _aside(data) if data.startswith(ASIDE) else Aside(data, [])
    return ASIDE + msgspec.msgpack.encode(Aside(found.data, found.names, names))


def _aside(data: bytes) -> Aside:
    return msgspec.msgpack.decode(memoryview(data)[1:], type=Aside)


def fetched(name: str) -> Any:
    """What was put aside, as a buffer; a worker knows how."""
    raise LookupError(name)


def outcome_of(function: Callable[[Any], Any], data: bytes) -> tuple[str, bytes]:
    """Run one call: `returned` and the value; `raised`, or `missing` a module, and what."""
    try:
        value = function(unpacked(data))
        return "returned", packed(value, what="result", index=-1)
    except BaseException as error:  # noqa: BLE001  # sys.exit() in a call ends the call, no more.
        trace = error.__traceback__  # Without this function: it is no news to anybody.
        lacks = any(isinstance(one, ModuleNotFoundError) for one in (error, error.__cause__))
        return "missing" if lacks else "raised", msgspec.msgpack.encode(
            _raised(error.with_traceback(trace.tb_next if trace else None))
        )


def _raised(error: BaseException) -> Raised:
    text = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS_MAX:]
    try:
        pickled = packed(error, what="exception", index=-1)
    except NotPicklable:
        pickled = b""
    return Raised(pickled, type(error).__qualname__, _said(error), text)


def raised_of(data: bytes, *, index: int, name: str) -> Exception:
    """The exception of a call as it is raised here, the remote traceback as its cause."""
    raised = msgspec.msgpack.decode(data, type=Raised)
    found = _read(raised.pickled)
    error: Exception
    if isinstance(found, NotPicklable):
        error = NotPicklable(
            index, what=found.what, why=_reason(found), remote_traceback=raised.traceback
        )
    elif not isinstance(found, Exception) or isinstance(found, _NOT_RAISED_HERE):
        error = CallFailed(
            index,
            why=f"it raised {raised.kind}: {raised.message}",
            remedy="The traceback of the worker is in remote_traceback, and below as the cause",
            remote_traceback=raised.traceback,
        )
    else:
        error = found
        error.add_note(f"raised by call {index} of {name}")
    error.__cause__ = RemoteTraceback(raised.traceback)
    return error


def _reason(error: NotPicklable) -> str:
    return error.why.partition("cannot be sent: ")[2] or error.why


def _read(pickled: bytes) -> Any:
    try:
        return unpacked(pickled) if pickled else None
    except Exception:  # noqa: BLE001  # A constructor that wants other arguments, a missing module.
        return None


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # Other people's __str__.
        return "(it cannot say)"


def _sentence(error: Exception) -> str:
    return shown(f"{type(error).__name__}: {_said(error)}")
