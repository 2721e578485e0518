"""Every error a person can meet.

    GridError                  carries a message, a remedy and an exit code
    ├── BadValue               a word that does not mean an amount, an id, a duration
    ├── BadInput               a file, and the path inside it, that cannot be used
    ├── UnknownName            a policy, filter, node or setting nobody registered
    ├── NotEnough              more was taken than there is
    └── BrokenPlugin           somebody's own policy or filter failed

Lives here: what went wrong, and what to do about it. Never here: printing, exit calls.
Invariant: every error has a remedy, carries its facts as fields, and reads as one line that is
safe to print, whatever names of people's files and packages it repeats.
"""

from collections.abc import Sequence
from typing import ClassVar


class GridError(Exception):
    """The root of everything Grid raises on purpose."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        self.message = _printable(message)
        self.remedy = _printable(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}."


class BadValue(GridError, ValueError):
    """A word that does not mean what it should: an amount, an id, a duration."""

    exit_code = 2

    def __init__(self, value: object, *, expected: str, remedy: str, field: str = "") -> None:
        self.value = value
        self.expected = expected
        self.field = field  # Where it stands, if whoever noticed knows.
        super().__init__(f"expected {expected}, got {shown(value)}", remedy=remedy)


class BadInput(GridError):
    """A file that cannot be used, with the path inside it."""

    exit_code = 2

    def __init__(self, file: str, *, path: str, problem: str, remedy: str) -> None:
        self.file = file
        self.path = path
        self.problem = problem
        super().__init__(f"{file}: {_cut(path)}: {problem}", remedy=remedy)


class UnknownName(GridError):
    """A name nobody registered; says which names there are."""

    exit_code = 2

    def __init__(self, kind: str, name: str, *, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(
            f"there is no {kind} named {shown(name)}", remedy=f"Known: {', '.join(known) or 'none'}"
        )


class NotEnough(GridError):
    """More was taken than there is."""

    exit_code = 3

    def __init__(self, what: str, *, wanted: int, has: int) -> None:
        self.what, self.wanted, self.has = what, wanted, has
        super().__init__(
            f"wanted {wanted} {what}, there are {has}",
            remedy="Ask for less, or wait until something is given back",
        )


class BrokenPlugin(GridError):
    """Somebody's own policy or filter failed; the rest of Grid is fine."""

    def __init__(self, kind: str, name: str, *, why: str) -> None:
        self.kind, self.name, self.why = kind, name, why
        mend = "Mend or remove the package that registers it"
        super().__init__(
            f"the {kind} {shown(name)} failed: {_cut(why, WHY_CHARACTERS_MAX)}",
            remedy=f"{mend}, or choose another policy" if kind == "policy" else mend,
        )


SHOWN_CHARACTERS_MAX = 60  # One line of a terminal, with room for the sentence around it.
WHY_CHARACTERS_MAX = 200  # Somebody's own exception: long enough to find it, short of a page.


def shown(value: object) -> str:
    """A value as a person may see it in one line: quoted, cut, without control characters."""
    try:
        return _cut(repr(value))
    except ValueError:  # Python does not write integers of more than 4,300 digits.
        return "a number of thousands of digits"


def _cut(text: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def _printable(text: str) -> str:
    """Text without line ends, terminal escapes and the like; those are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
