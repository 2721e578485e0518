"""Which Python a project wants: `>=3.11,<3.13`, as `requires-python` has it.

Lives here: reading such words and comparing. Never here: finding interpreters (`environments`).
Invariant: a word that is not understood is an error, never a yes.
"""

import operator
import re
from collections.abc import Callable
from typing import Final

from distributed_grid.errors import BadValue

Version = tuple[int, ...]

_CLAUSE: Final = re.compile(r"(===|==|!=|~=|>=|<=|>|<)\s*(\d+(?:\.\d+){0,3})(\.\*)?")
_ORDERS: Final[dict[str, Callable[[Version, Version], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
}


def allows(wanted: str, version: Version) -> bool:
    """Whether a version is one of those that are wanted; an empty word wants any."""
    return all(_holds(clause.strip(), version) for clause in wanted.split(",") if clause.strip())


def _holds(clause: str, version: Version) -> bool:
    found = _CLAUSE.fullmatch(clause)
    sign = found[1] if found else ""
    if found is None or (found[3] and sign not in ("==", "!=")):
        raise BadValue(
            clause,
            expected="versions of Python such as >=3.11,<3.13",
            remedy="Mend requires-python in the project's file",
            field="requires-python",
        )
    told = tuple(int(number) for number in found[2].split("."))
    if found[3]:
        return (version[: len(told)] == told) == (sign == "==")
    if sign == "~=":
        return version >= told and version[: len(told) - 1] == told[:-1]
    width = max(len(told), len(version))
    return _ORDERS[sign](_filled(version, width), _filled(told, width))


def _filled(version: Version, width: int) -> Version:
    return version + (0,) * (width - len(version))
