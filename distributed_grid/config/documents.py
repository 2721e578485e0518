"""Untrusted JSON and YAML as plain dicts, lists and text.

Lives here: limits, duplicate keys, what YAML may not do to us. Never here: what keys mean
(`fleet`, `jobs`).
Invariant: size and depth are checked before anything is built from the bytes.

YAML scalars stay text: YAML 1.1 would turn `no` into False, `0123` into 83 and `12:30` into 750.
"""

import json
import os
import re
import stat
from typing import Any

import msgspec

from distributed_grid.config.yaml_tree import build_tree
from distributed_grid.errors import BadInput, shown

YAML_BYTES_MAX = 16 << 20  # YAML takes some 0.4 s a MiB to read; JSON is for machines.
JSON_BYTES_MAX = 256 << 20  # Some 400,000 nodes.
DEPTH_MAX = 64  # Ours are five deep.
STDIN = "-"


def read_document(file: str) -> Any:
    """The document in a JSON or YAML file; `-` is standard input."""
    data, is_json = _read(file)
    text = _text(file, data)
    if is_json:
        return _json(file, text)
    return build_tree(file, text, depth_max=DEPTH_MAX)


def _read(file: str) -> tuple[bytes, bool]:
    """The bytes of a file and whether they are JSON, by its name or else by its first character."""
    try:
        with open(0 if file == STDIN else file, "rb", closefd=file != STDIN) as stream:
            if stat.S_ISDIR(os.fstat(stream.fileno()).st_mode):
                raise IsADirectoryError(None, "it is a directory")
            head = stream.read(YAML_BYTES_MAX + 1)
            is_json = _is_json(file, head)
            rest = stream.read(JSON_BYTES_MAX + 1 - len(head)) if is_json else b""
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


def _is_json(file: str, head: bytes) -> bool:
    name = file.lower()
    if name.endswith((".yaml", ".yml")):
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


_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS = {code: None for code in range(128) if chr(code) not in "[]{}"}


def _json(file: str, text: str) -> Any:
    bare = _STRING.sub("", text)
    _check_depth(file, bare)
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise BadInput(
            file, path="$", problem=f"is not JSON: {error}", remedy="Check it with a JSON linter"
        ) from None
    except RecursionError:  # Brackets in a broken string can hide from the count above.
        raise _too_deep(file) from None
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


def _count_keys(document: Any) -> int:
    keys, todo = 0, [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            keys += len(value)
            todo.extend(child for child in value.values() if isinstance(child, dict | list))
        elif isinstance(value, list):
            todo.extend(child for child in value if isinstance(child, dict | list))
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
