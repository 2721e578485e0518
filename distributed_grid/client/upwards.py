"""The folders of a project: from where somebody is up to its top.

Lives here: where a project ends. Never here: reading its files. Every `grid run` loads this.
"""
# pathlib would cost every `grid run` some milliseconds.
# ruff: noqa: PTH111, PTH118, PTH120

import os
from collections.abc import Iterator
from typing import Final

LEVELS_MAX: Final = 64


def upwards(at: str) -> Iterator[str]:
    """A folder and those above it, up to the top of the repository, the home directory or all."""
    home = os.path.expanduser("~")
    for _ in range(LEVELS_MAX):
        yield at
        above = os.path.dirname(at)
        if at in (home, above) or os.path.lexists(os.path.join(at, ".git")):
            return
        at = above
