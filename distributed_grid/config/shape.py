"""Plain documents as typed values, with errors a person can act on.

Lives here: conversion, and the words for what does not fit. Never here: reading bytes
(`documents`), what single words mean (`words`).
Invariant: every error names the file, the path inside it, what was expected, and what to do.

A shape is a msgspec struct whose fields are words (`Annotated[int, Word(parse)]`), other structs,
tuples of either, or any of these or None.
"""

import difflib
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from distributed_grid.errors import BadInput, BadValue, shown

T = TypeVar("T")


class Word(NamedTuple):
    """How a single value is read: a function that raises BadValue for what it cannot use."""

    parse: Callable[[Any], Any]


class _UnknownKey(BadValue):
    """A key that nobody knows; its value is the key."""


def shaped(
    file: str,
    document: Any,
    kind: type[T],
    *,
    path: str = "$",
    lines: Mapping[str, int] | None = None,
) -> T:
    """The document as this kind of value, or one error that says where it does not fit.

    `lines` are the lines of the paths in the document, if whoever read it remembers them.
    """
    try:
        return typing.cast(T, _read(kind, document))
    except BadValue as error:
        where = path + error.field
        at = f"{where}.{error.value}" if isinstance(error, _UnknownKey) else where
        raise BadInput(
            file,
            path=where,
            problem=error.message,
            remedy=error.remedy,
            line=_line(at, lines or {}),
        ) from None


def _line(path: str, lines: Mapping[str, int]) -> int:
    """The line of a path, or of the nearest one above that has one."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 0)


def _read(kind: Any, value: Any) -> Any:
    """`value` as `kind`; a BadValue carries the path below here in its `field`."""
    reader, of = _plan(kind)
    if reader == "word":
        return of.parse(value)
    if reader == "optional":
        return None if value is None else _read(of, value)
    if reader == "tuple":
        return _read_list(of, value)
    return _read_struct(of, value)


def _read_list(of: Any, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise BadValue(value, expected="a list", remedy="Write it as a list, even of one")
    return tuple(_below(f"[{index}]", of, item) for index, item in enumerate(value))


def _read_struct(of: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise BadValue(value, expected="a mapping of keys to values", remedy="See the file format")
    fields = _fields(of)
    for key in value:
        if key not in fields:
            raise _unknown_key(key, fields)
    found = {}
    for key, field in fields.items():
        if key in value:
            found[field.name] = _below(f".{key}", field.type, value[key])
        elif field.required:
            raise BadValue(
                sorted(map(str, value))[:6], expected=f"the key '{key}'", remedy=f"Add '{key}'"
            )
    return of(**found)


def _below(step: str, kind: Any, value: Any) -> Any:
    try:
        return _read(kind, value)
    except BadValue as error:
        error.field = step + error.field
        raise


def _unknown_key(key: Any, fields: Mapping[str, msgspec.structs.FieldInfo]) -> BadValue:
    close = difflib.get_close_matches(str(key), fields, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    error = _UnknownKey(
        key, expected="a known key", remedy=f"{hint}Known: {', '.join(sorted(fields))}"
    )
    error.message = f"has the unknown key {shown(key)}"
    return error


@cache
def _fields(kind: Any) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


@cache
def _plan(kind: Any) -> tuple[str, Any]:
    """How to read a kind, worked out once."""
    if typing.get_origin(kind) is typing.Annotated:
        return "word", next(note for note in kind.__metadata__ if isinstance(note, Word))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        inner = [choice for choice in typing.get_args(kind) if choice is not types.NoneType]
        return "optional", inner[0]
    if typing.get_origin(kind) is tuple:
        return "tuple", typing.get_args(kind)[0]
    return "struct", kind
