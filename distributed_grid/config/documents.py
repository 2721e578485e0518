"""Untrusted JSON and YAML as plain dicts, lists and text.

Lives here: limits, duplicate keys, what YAML may not do to us. Never here: what keys mean
(`fleet`, `jobs`).
Invariant: size and depth are checked before anything is built from the bytes.

YAML scalars stay text: YAML 1.1 would turn `no` into False, `0123` into 83 and `12:30` into 750.
"""

import gc
import json
import os
import re
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec

from distributed_grid.config.yaml_tree import build_tree
from distributed_grid.errors import BadInput, shown

YAML_BYTES_MAX = 16 << 20  # YAML takes some 0.4 s a MiB to read; JSON is for machines.
JSON_BYTES_MAX = 256 << 20  # Some 400,000 nodes.
JSON_VALUES_MAX = 20_000_000  # Over a million nodes; 256 MiB of brackets alone would be 128.
DEPTH_MAX = 64  # Ours are five deep.
SILENCE_S_MAX = 5  # Of a pipe that a path names; standard input may take its time.
STDIN = "-"


def read_document(file: str) -> Any:
    """The document in a JSON or YAML file; `-` is standard input."""
    data, is_json = _read(file)
    text = _text(file, data)
    with _growing():
        if is_json:
            return _json(file, text)
        return build_tree(file, text, depth_max=DEPTH_MAX)


@contextmanager
def _growing() -> Iterator[None]:
    """While millions of values are made, none of them garbage, looking for some takes minutes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_located(file: str) -> tuple[Any, dict[str, int]]:
    """The document in a YAML, TOML or JSON file, and the line of each path (not for JSON)."""
    data, is_json = _read(file)
    text = _text(file, data)
    lines: dict[str, int] = {}
    if is_json:
        return _json(file, text), lines
    if file.lower().endswith(".toml"):
        from distributed_grid.config.toml_tree import build_toml

        return build_toml(file, text, lines=lines), lines
    return build_tree(file, text, depth_max=DEPTH_MAX, lines=lines), lines


def _read(file: str) -> tuple[bytes, bool]:
    """The bytes of a file and whether they are JSON, by its name or else by its first character."""
    try:
        with _open(file) as stream:
            head = _taken(stream, YAML_BYTES_MAX + 1)
            is_json = _is_json(file, head)
            rest = _taken(stream, JSON_BYTES_MAX + 1 - len(head)) if is_json else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            file, path="$", problem=f"cannot be read: {reason}", remedy="Check the path"
        ) from None
    data = head + rest
    limit, kind = (JSON_BYTES_MAX, "JSON") if is_json else (YAML_BYTES_MAX, "YAML")
    if len(data) > limit:
        raise BadInput(
            file,
            path="$",
            problem=f"is larger than {limit >> 20} MiB, the most that is read of a {kind} file",
            remedy="Split it" if is_json else "Split it, or write it as JSON",
        )
    return data, is_json


def _open(file: str) -> BinaryIO:
    if file == STDIN:
        return open(0, "rb", closefd=False)
    # Without waiting: a named pipe to which nobody writes would never open.
    return open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))


def _taken(stream: BinaryIO, size: int) -> bytes:
    """Up to this many bytes, unless it is a pipe or a device on which nothing comes."""
    if stream.fileno() == 0 or stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream.read(size)
    data = bytearray()
    while len(data) < size:
        ready, _, _ = select.select([stream], [], [], SILENCE_S_MAX)
        if not ready:
            raise TimeoutError(None, f"it is no file, and silent for {SILENCE_S_MAX} seconds")
        piece = os.read(stream.fileno(), size - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def _is_json(file: str, head: bytes) -> bool:
    name = file.lower()
    if name.endswith((".yaml", ".yml", ".toml")):
        return False
    return name.endswith(".json") or head.lstrip()[:1] in (b"{", b"[")


def _text(file: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            file,
            path="$",
            problem=f"is not text: byte {error.start} is not UTF-8",
            remedy="Give a JSON or YAML file in UTF-8",
        ) from None
    if not text.strip():
        raise BadInput(file, path="$", problem="is empty", remedy="Write at least one entry")
    return text


_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = {code: None for code in range(128) if chr(code) not in "[]{}"}


def _json(file: str, text: str) -> Any:
    bare = _STRING.sub("", text)
    if bare.count(",") > JSON_VALUES_MAX:
        raise BadInput(
            file,
            path="$",
            problem=f"holds more than {JSON_VALUES_MAX:,} values",
            remedy="Split it",
        )
    _check_depth(file, bare)
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise BadInput(
            file, path="$", problem=f"is not JSON: {error}", remedy="Check it with a JSON linter"
        ) from None
    # A duplicate key passes silently, the last one winning. Outside of strings there is exactly
    # one colon for each key, so counting both tells, and the slow search runs only then.
    if bare.count(":") != _count_keys(document):
        _report_duplicate(file, text)
    return document


def _check_depth(file: str, bare: str) -> None:
    depth = 0
    for bracket in bare.translate(_NOT_BRACKETS):
        if bracket in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise _too_deep(file)
        elif bracket in "]}":
            depth -= 1


def _too_deep(file: str) -> BadInput:
    return BadInput(
        file,
        path="$",
        problem=f"is nested deeper than {DEPTH_MAX} levels",
        remedy="Flatten it; nothing here needs more than five",
    )


_CONTAINERS = frozenset({dict, list})


def _count_keys(document: Any) -> int:
    keys, todo = 0, [document]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            keys += len(value)
            value = value.values()
        elif type(value) is not list:
            continue
        todo += [child for child in value if child and type(child) in _CONTAINERS]
    return keys


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON as it was written, duplicates and all."""


def _report_duplicate(file: str, text: str) -> None:
    """Find the key that stands twice, and where."""
    todo: list[tuple[str, Any]] = [("$", json.loads(text, object_pairs_hook=_Pairs))]
    while todo:
        path, value = todo.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, child in value:
                if key in seen:
                    raise BadInput(
                        file,
                        path=path,
                        problem=f"has the key {shown(key)} twice",
                        remedy="Keep one of them",
                    )
                seen.add(key)
                todo.append((f"{path}.{key}", child))
        elif isinstance(value, list):
            todo.extend((f"{path}[{index}]", child) for index, child in enumerate(value))
