"""Events of the agent as log lines: one a line, with fixed names, for people or for programs.

Lives here: how a line is written. Never here: what happens, and under which name (`kernel`).
Invariant: a line is one line, whatever a peer calls itself; a log that cannot be written to harms
nobody.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from distributed_grid.kernel.mesh.event_names import BY_NAME
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.settings import LogFormat, LogLevel

ORDER: Final[dict[str, int]] = {"debug": 0, "info": 1, "warning": 2, "error": 3}
WARNED: Final = frozenset(
    {"job.preempted", "store.set_aside", "agent.mended"}
)  # All others that are not of the mesh are news.


def writer(stream: TextIO, *, level: LogLevel, form: LogFormat) -> Callable[[Happened], None]:
    """A function that writes an event, if it is of this level or above."""
    line = _as_json if form == "json" else _as_text

    def write(happened: Happened) -> None:
        if ORDER[level_of(happened.name)] < ORDER[level]:
            return
        try:
            stream.write(line(happened) + "\n")
            stream.flush()
        except (OSError, ValueError):
            return  # A full disk, or a stream that was closed under us.

    return write


def level_of(name: str) -> str:
    """How much an event matters."""
    if name in BY_NAME:
        return BY_NAME[name].level
    return "warning" if name in WARNED else "info"


def _as_json(happened: Happened) -> str:
    # Not msgspec, which writes U+2028 and its like as they are: to many readers that is a new line.
    return json.dumps(_fields(happened), default=str, sort_keys=True)


def _as_text(happened: Happened) -> str:
    told = _fields(happened)
    head = f"{told.pop('timestamp')} [{told.pop('level'):7}] {told.pop('event')}"
    return " ".join([head, *(f"{key}={_word(value)}" for key, value in told.items())])


def _fields(happened: Happened) -> dict[str, Any]:
    at = datetime.fromtimestamp(happened.at_ms / 1_000, tz=UTC)
    about = {} if happened.job is None else {"job": happened.job}
    # Ours last: no field may stand in for the name of the event.
    return {
        **about,
        **happened.fields,
        "event": happened.name,
        "level": level_of(happened.name),
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    is_plain = text.isprintable() and not set(text) & set(' ="')
    return text if text and is_plain else ascii(text)
