"""Where the text of a ticket comes from: an argument, stdin, a file, or `GRID_TICKET`.

Lives here: reading it, and keeping it away from processes that live long. Never here: what it means
(`wire.ticket`).
Invariant: after `taken` it is in no environment that a process of ours inherits; no error shows it.
"""

import os
import sys
from typing import Final

from distributed_grid.errors import BadInput, BadValue
from distributed_grid.wire.mesh_api import TICKET_CHARACTERS_MAX

VARIABLE: Final = "GRID_TICKET"


def taken(word: str | None) -> str | None:
    """The text that an argument or else the environment leads to; None if there is neither.

    `-` is stdin, `@FILE` a file, anything else the ticket itself. Line ends and blanks, as mail
    programmes add them, are left out.
    """
    told = os.environ.pop(VARIABLE, "")
    if word is None:
        if not told.strip():
            return None
        word = told
    if word == "-":
        text = _read("stdin", 0)
    elif word.startswith("@"):
        text = _read(word[1:], word[1:])
    else:
        text = word
    plain = "".join(text.split())
    if not plain:
        raise BadValue(
            "", expected="the text of a ticket", remedy="Copy the line that grid ticket printed"
        )
    return plain


def moved_to_pipe(text: str) -> str:
    """A word, for `taken` in the programme that replaces this one, which leads to the text."""
    reading, writing = os.pipe()
    os.write(writing, text.encode())  # Far less than a pipe holds.
    os.close(writing)
    os.set_inheritable(reading, True)
    return f"@/dev/fd/{reading}"


def _read(name: str, place: str | int) -> str:
    if place == 0 and sys.stdin.isatty():
        sys.stderr.write("grid: paste the ticket, then Enter\n")
        return sys.stdin.readline(TICKET_CHARACTERS_MAX)
    try:
        with open(place, "rb", closefd=place != 0) as file:
            data = file.read(TICKET_CHARACTERS_MAX + 1)
    except OSError as error:
        raise BadInput(
            name,
            path="$",
            problem=f"cannot be read: {error.strerror}",
            remedy="Write the ticket into it: grid ticket > FILE",
        ) from None
    if len(data) > TICKET_CHARACTERS_MAX:
        raise BadInput(
            name,
            path="$",
            problem="is too long for a ticket",
            remedy="It should hold the line that grid ticket printed, and nothing else",
        )
    return data.decode(errors="replace")
