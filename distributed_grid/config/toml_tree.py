"""TOML as a tree of dicts and lists, with the lines of its keys.

Lives here: what can be wrong with the text. Never here: what keys mean.
Invariant: a line that is told is one on which the key stands; inside of long strings and of
inline tables none is told, and the line of the table above counts.
"""

import re
import tomllib
from typing import Any, Final

from distributed_grid.errors import BadInput

_TABLE: Final = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\-\" ]+?)\s*\]{1,2}\s*(?:#.*)?")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_\-.\" ]+?)\s*=")


def build_toml(file: str, text: str, *, lines: dict[str, int]) -> dict[str, Any]:
    """The document in this text; `lines` gets the line of each key's path."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise BadInput(
            file,
            path="$",
            problem=f"is not TOML: {error}",
            remedy="Check the quotes and brackets",
            line=int(line[1]) if line else 0,
        ) from None
    except RecursionError:
        raise BadInput(
            file, path="$", problem="is nested too deeply", remedy="Flatten it"
        ) from None
    _find_lines(text, lines)
    return document


def _find_lines(text: str, lines: dict[str, int]) -> None:
    table, is_in_string = "$", False
    for number, line in enumerate(text.splitlines(), start=1):
        if not is_in_string:
            if header := _TABLE.fullmatch(line):
                table = f"$.{_plain(header[2])}"
                lines.setdefault(table, number)
            elif key := _KEY.match(line):
                lines.setdefault(f"{table}.{_plain(key[1])}", number)
        # A long string begins or ends; three quotes on one line twice are a whole one.
        is_in_string ^= (line.count('"""') + line.count("'''")) % 2 == 1


def _plain(key: str) -> str:
    return ".".join(part.strip().strip('"') for part in key.split("."))
