"""Numbers in the query of a request, within bounds."""

import re
from typing import Final

from starlette.requests import Request

from distributed_grid.errors import BadValue
from distributed_grid.wire.api import EventPlace

WAIT_MS_MAX: Final = 3_600_000  # A client that waits longer asks again.
NO_INDEX: Final = -1  # Where an index of an array could stand.


def number(request: Request, name: str, *, default: int, most: int, least: int = 0) -> int:
    """The number of this name; raises BadValue for what is none, or out of bounds."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18 and least <= int(text) <= most:
        return int(text)
    raise BadValue(text, expected=f"{name} from {least} to {most}", remedy="Check the query")


def event_id(request: Request) -> EventPlace:
    """After which event, as EPOCH-NUMBER or a number of this epoch; None: none was told."""
    text = request.query_params.get("after", "") or request.headers.get("last-event-id", "")
    if text in ("", "-1"):
        return None
    if (found := re.fullmatch(r"(?:(\d{1,15})-)?(\d{1,15})", text, re.ASCII)) is None:
        expected = "after, or Last-Event-ID, as EPOCH-NUMBER"
        raise BadValue(text, expected=expected, remedy="Give the id of an event, or 0 for all")
    return int(found[1] or 0), int(found[2])


def index(request: Request) -> int:
    """The index of an array, or NO_INDEX."""
    return number(request, "index", default=NO_INDEX, most=10**9, least=NO_INDEX)
