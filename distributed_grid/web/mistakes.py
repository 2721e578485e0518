"""Every mistake of a body at once, each with its path.

Lives here: where a body differs from what its route takes. Never here: what a job may ask for
(`admission`).
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from distributed_grid.errors import BadValue, GridError, UnknownName, shown

SHOWN_MAX: Final = 100  # Of one body.
REMEDY: Final = "See /openapi.json"

Mistake = dict[str, str]  # Its path, what was expected, and what was got.


def mistake(path: str, expected: str, got: object) -> Mistake:
    """One of them."""
    return {"path": path, "expected": expected, "got": got if got == "nothing" else shown(got)}


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise BadValue if there are any."""
    found = tuple(islice(mistakes, SHOWN_MAX))
    if found:
        first = found[0]
        raise BadValue(
            first["got"],
            expected=f"{first['path']}: {first['expected']}",
            remedy=REMEDY,
            field=first["path"],
            errors=found,
        )


def refuse_parts(parts: Iterable[tuple[str, Iterable[GridError]]]) -> None:
    """Raise what is wrong with parts of a body, each told with the path at which it stands."""
    every = ((path, error) for path, errors in parts for error in errors)
    found = list(islice(every, SHOWN_MAX))
    if len(found) == 1 and not isinstance(found[0][1], BadValue):
        raise found[0][1]  # With a remedy of its own.
    refuse(within(path, error) for path, error in found)


def within(path: str, error: GridError) -> Mistake:
    """What is wrong with a part of a body, with the path at which that stands."""
    if isinstance(error, BadValue):
        return mistake(
            path + error.field, error.expected.removeprefix(f"{error.field}: "), error.value
        )
    assert isinstance(error, UnknownName), "all that admission refuses beside values"
    return mistake(path + error.kind, error.remedy, error.name)


def mistakes_of(value: Any, kind: Any, path: str = "") -> Iterator[Mistake]:
    """Where this value, as JSON has it, is not of this kind."""
    is_wrong = False
    for found in _of_parts(value, _plain(kind), path):
        is_wrong = True
        yield found
    if is_wrong:
        return
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        text, _, deeper = str(error).partition(" - at `$")
        expected = re.fullmatch(r"[Ee]xpected (.+?)(?:, got .*)?", text, re.DOTALL)
        where = path + deeper.rstrip("`") or "the body"
        said = (expected[1] if expected else text).replace("`", "")
        if get_origin(_plain(kind)) is Literal:
            said = f"one of {', '.join(map(str, get_args(_plain(kind))))}"
        yield mistake(where.removeprefix("."), said, value)


def _of_parts(value: Any, kind: Any, path: str) -> Iterator[Mistake]:
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        before = f"{path}." if path else ""
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for name, field in fields.items():
            if name in value:
                yield from mistakes_of(value[name], field.type, before + name)
            elif field.required:
                yield mistake(before + name, f"a value for {name}", "nothing")
        if path or kind.__struct_config__.forbid_unknown_fields:
            for name in sorted(value.keys() - fields.keys()):
                yield mistake(before + name, f"one of {', '.join(sorted(fields))}", value[name])
    elif isinstance(value, list) and get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        for number, item in enumerate(value):
            yield from mistakes_of(item, get_args(kind)[0], f"{path}[{number}]")


def _plain(kind: Any) -> Any:
    """Without its bounds, and without the None that it may be instead."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        kinds = [each for each in get_args(kind) if each is not type(None)]
        return _plain(kinds[0]) if len(kinds) == 1 else kind
    return kind
