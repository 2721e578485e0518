"""Numbers in the query of a request, within bounds."""

from typing import Final

from starlette.requests import Request

from distributed_grid.errors import BadValue

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


def index(request: Request) -> int:
    """The index of an array, or NO_INDEX."""
    return number(request, "index", default=NO_INDEX, most=10**9, least=NO_INDEX)
