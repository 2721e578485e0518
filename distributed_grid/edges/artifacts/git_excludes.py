"""What is left out of a directory by files that are not in it.

Lives here: where git keeps them: its settings, `.git/info/exclude`, and the ignore files, also
ours, of the folders between the top of a repository and the directory. Never here: what they mean
(`ignoring`).
Invariant: git itself is not needed, nor a repository; what cannot be read says nothing.
"""

import itertools
import os
import re
from typing import Final

from distributed_grid.edges.artifacts.ignoring import IGNORE_BYTES_MAX, rules_of
from distributed_grid.edges.artifacts.staying import GIT_IGNORE, GRID_IGNORE, Level, Scope
from distributed_grid.model.artifact import PATH_BYTES_MAX

_SETTINGS_BYTES_MAX: Final = 1 << 20
_SECTION: Final = re.compile(rb"\s*\[\s*([^\]\"\s]*)\s*(\"[^\]]*)?\]")
_EXCLUDES: Final = re.compile(rb"\s*excludesfile\s*=\s*(.*?)\s*(?:[#;][^\"]*)?\Z", re.IGNORECASE)


def level_of(root: bytes, *, user_home: str) -> Level:
    """What counts in a directory before any file in it is read."""
    top, way = _top_of(root)
    inside = _git_folder(top) if top else b""
    texts = [(_global_excludes(inside, user_home), "git's global excludes")]
    if inside:
        texts.append((_text(inside + b"/info/exclude"), ".git/info/exclude"))
    found = [Scope(rules_of(text), source, above=way) for text, source in texts if text]
    steps = way.split(b"/")[:-1]
    grid: list[Scope] = []
    for depth, name in itertools.product(range(len(steps)), (GIT_IGNORE, GRID_IGNORE)):
        file = b"/".join([top, *steps[:depth], name])
        if text := _text(file):
            above = b"/".join([*steps[depth:], b""])
            scope = Scope(rules_of(text), os.fsdecode(os.path.relpath(file, root)), above=above)
            if name == GIT_IGNORE:
                found.append(scope)
            else:  # Who works in a folder means that one, whatever leaves it out.
                narrow = _seen_from_top(scope, way).within(way[:-1])
                grid.append(scope._replace(rules=narrow.rules))
    level = Level(grid=tuple(grid), git=tuple(found))
    for depth in range(1, len(steps) + 1):  # Who works in a folder that git ignores means that one.
        path = b"/".join(steps[:depth])
        told = Level(git=tuple(_seen_from_top(one, way) for one in found))
        if told.why(path, steps[depth - 1], is_folder=True):
            return level._replace(git=())
    return level


def _seen_from_top(scope: Scope, way: bytes) -> Scope:
    return scope._replace(above=b"", below=len(way) - len(scope.above))


def _top_of(root: bytes) -> tuple[bytes, bytes]:
    """The top of the repository, and the way from there to the directory, with a slash behind."""
    at = os.path.abspath(root)
    while not os.path.lexists(os.path.join(at, b".git")):
        at, before = os.path.dirname(at), at
        if at == before:
            return b"", b""
    way = os.path.relpath(os.path.abspath(root), at)
    return at, b"" if way == b"." else way + b"/"


def _git_folder(top: bytes) -> bytes:
    """Where a repository has its own files: `.git`, or where a file of that name leads."""
    folder = top + b"/.git"
    if os.path.isfile(folder):
        told = _text(folder).removeprefix(b"gitdir:").strip()[:PATH_BYTES_MAX]
        folder = os.path.join(top, told)
        if common := _text(folder + b"/commondir").strip()[:PATH_BYTES_MAX]:
            folder = os.path.join(folder, common)
    return folder


def _global_excludes(inside: bytes, user_home: str) -> bytes:
    home = os.fsencode(user_home)
    settings = os.fsencode(os.environ.get("XDG_CONFIG_HOME") or user_home + "/.config") + b"/git/"
    named = b""
    own = os.environ.get("GIT_CONFIG_GLOBAL")
    mine = [os.fsencode(own)] if own is not None else [settings + b"config", home + b"/.gitconfig"]
    for file in [b"/etc/gitconfig", *mine, *([inside + b"/config"] if inside else [])]:
        named = _excludes_file(_text(file)) or named
    if named.startswith(b"~/"):
        named = home + named[1:]
    return _text(named or settings + b"ignore")


def _excludes_file(text: bytes) -> bytes:
    """What settings call core.excludesFile, if they do."""
    named, is_core = b"", False
    for line in text.split(b"\n"):
        if section := _SECTION.match(line):
            is_core = section[1].lower() == b"core" and not section[2]
        rest = line[section.end() :] if section else line
        if is_core and (told := _EXCLUDES.fullmatch(rest)):
            named = re.sub(rb"\\(.)", rb"\1", told[1].replace(b'"', b""))
    return named


def _text(path: bytes) -> bytes:
    """A file that may not be there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(descriptor, max(_SETTINGS_BYTES_MAX, IGNORE_BYTES_MAX))
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return b""
