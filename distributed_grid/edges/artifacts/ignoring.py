"""Patterns of ignore files, with the rules of `.gitignore`, and globs of outputs.

Lives here: patterns, and what they match. Never here: which files count (`staying`), walking
(`walking`).
Invariant: no pattern takes longer than its length times that of the path, whatever it is; a text is
compiled once, and a name is looked up in tables and at most two expressions, however many lines.

The last pattern that matches decides, `!` brings back, and nothing below a folder that stays at
home comes back. A pattern with a slash before its end counts from the folder of its file, others at
any depth; a slash at its end means folders only; `**` stands for any number of folders.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

IGNORE_BYTES_MAX: Final = 1 << 20  # Of one file: some ten thousand lines.
ANY_FOLDERS: Final = b"**"
_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_SET: Final = re.compile(rb"\\.|\[[!^]?\]?(?:\[:\w{0,9}:\]|\\.|[^\]\\]){0,255}\]", re.DOTALL)
_STEP: Final = b"[^/]"
_END: Final = rb"\Z"
_MARK: Final = b"\xef\xbb\xbf"  # Which some editors put before a text.
_LETTERS: Final = {
    b"alnum": rb"[0-9A-Za-z]", b"alpha": rb"[A-Za-z]", b"blank": rb"[ \t]",
    b"cntrl": rb"[\x00-\x1f\x7f]", b"digit": rb"[0-9]", b"graph": rb"[!-~]", b"lower": rb"[a-z]",
    b"print": rb"[ -~]", b"punct": rb"[!-/:-@\[-`{-~]", b"space": rb"[ \t-\r]",
    b"upper": rb"[A-Z]", b"xdigit": rb"[0-9A-Fa-f]",
}  # fmt: skip


class Pattern(NamedTuple):
    """One glob of outputs."""

    parts: tuple[re.Pattern[bytes] | None, ...]  # None: any number of folders.

    def matches(self, path: Sequence[bytes]) -> bool:
        """Whether a path is meant: greedy, and back to the last `**` if that fails."""
        parts, part, step = self.parts, 0, 0
        retry_part, retry_step = -1, 0
        while step < len(path):
            wanted = parts[part] if part < len(parts) else None
            if part < len(parts) and wanted is None:
                retry_part, retry_step = part, step
                part += 1
            elif wanted is not None and wanted.match(path[step]):
                part, step = part + 1, step + 1
            elif retry_part >= 0:
                retry_step += 1
                part, step = retry_part + 1, retry_step
            else:
                return False
        return all(rest is None for rest in parts[part:])


def glob_of(text: bytes) -> Pattern:
    """A glob of outputs, which always counts from the work directory."""
    words = [word for word in text.split(b"/") if word not in (b"", b".")]
    if words[-1:] == [ANY_FOLDERS]:
        words.append(b"*")
    return Pattern(
        tuple(
            None
            if word == ANY_FOLDERS
            else re.compile((_expression(word) or re.escape(word)) + _END, re.DOTALL)
            for word in words
        )
    )


class Line(NamedTuple):
    """One line of an ignore file."""

    words: tuple[bytes, ...]
    is_anchored: bool  # Else only the name counts.
    is_folder_only: bool
    is_back: bool  # What matches travels after all.


class Rules:
    """The patterns of ignore files of one folder, the last of them counts most."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.are_back = [line.is_back for line in lines]
        self._literal: dict[bytes, int] = {}  # Names, and paths with a slash before them.
        self._endings: dict[bytes, int] = {}  # `*.log`, by `.log`.
        names: list[tuple[int, bytes]] = []
        paths: list[tuple[int, bytes]] = []
        for number, line in enumerate(lines):
            slash = b"/" if line.is_folder_only else b""
            word = line.words[-1]
            if not any(map(_SPECIAL.search, line.words)):
                start = b"/" if line.is_anchored else b""
                self._literal[start + b"/".join(line.words) + slash] = number
            elif not line.is_anchored and _is_ending(word):
                self._endings[word[1:] + slash] = number
            elif source := _source(line):
                (paths if line.is_anchored else names).append((number, source))
        self._names, self._paths = _joined(names), _joined(paths)

    def last(self, path: bytes, name: bytes, *, is_folder: bool) -> int:
        """The number of the last pattern that matches a path from their folder; -1: none does."""
        words = [name, b"/" + path]
        endings = [name[dot:]] if (dot := name.rfind(b".")) >= 0 else []
        if is_folder:
            name, path = name + b"/", path + b"/"
            words += [name, b"/" + path]
            endings += [ending + b"/" for ending in endings]
        found = -1
        for table, keys in ((self._literal, words), (self._endings, endings)):
            for key in keys:
                if key in table and table[key] > found:
                    found = table[key]
        for one, text in ((self._names, name), (self._paths, path)):
            if one is not None and (met := one[0].match(text)) is not None:
                found = max(found, one[1][(met.lastindex or 0) - 1])
        return found


@lru_cache(maxsize=256)
def rules_of(*texts: bytes) -> Rules:
    """The patterns of ignore files of one folder."""
    found = (line_of(line) for text in texts for line in text.removeprefix(_MARK).split(b"\n"))
    return Rules([line for line in found if line])


def line_of(line: bytes) -> Line | None:
    """What a line says; None: it holds no pattern, or one that matches nothing."""
    line = _without_trailing_blanks(line.removesuffix(b"\r").partition(b"\0")[0])
    if line.startswith(b"#"):
        return None
    is_back = line.startswith(b"!")
    line = line[1:] if is_back else line
    is_folder_only = line.endswith(b"/")
    line = line[:-1] if is_folder_only else line
    is_anchored = b"/" in line  # Also by one in brackets, which stands between no folders.
    line = _SET.sub(lambda found: found[0].replace(b"/", b"\0"), line)
    words = line.removeprefix(b"/").split(b"/")
    if not all(words):
        return None
    return Line(tuple(words), is_anchored, is_folder_only, is_back)


def _is_ending(word: bytes) -> bool:
    return word.startswith(b"*.") and b"." not in word[2:] and not _SPECIAL.search(word, 1)


def _joined(found: list[tuple[int, bytes]]) -> tuple[re.Pattern[bytes], list[int]] | None:
    """One expression for all, the last first: the group that matches tells which it is."""
    if not found:
        return None
    found.reverse()
    whole = b"|".join(b"(" + source + b")" for _, source in found)
    return re.compile(whole, re.DOTALL), [number for number, _ in found]


def _source(line: Line) -> bytes | None:
    """The expression of a line, for a path that ends with a slash if it is a folder's."""
    end = (b"/" if line.is_folder_only else b"/?") + _END
    chunks: list[list[bytes]] = [[]]  # What stands between the `**`.
    for word in line.words:
        if line.is_anchored and len(word) > 1 and not word.strip(b"*"):
            chunks.append([])
            continue
        step = _expression(word)
        if step is None:
            return None
        chunks[-1].append(step)
    first, *others = [b"/".join(chunk) for chunk in chunks]
    if not others:
        return first + end
    *between, last = others
    made = first + b"/" if first else b""
    for chunk in filter(None, between):  # Atomic: the first place that fits is as good as any.
        made += b"(?>(?:" + _STEP + b"+/)*?" + chunk + b"/)"
    return made + (b"(?:" + _STEP + b"+/)*" + last if last else _STEP + b".*?") + end


def _expression(word: bytes) -> bytes | None:
    """A step with `*`, `?`, `[…]` and backslashes; None: nothing matches it.

    Atomic groups: no star is tried again.
    """
    pieces: list[bytes] = [b""]  # What stands between the stars.
    at = 0
    while at < len(word):
        letter = word[at : at + 1]
        at += 1
        if letter == b"*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append(b"")
        elif letter == b"?":
            pieces[-1] += _STEP
        elif letter == b"[":
            piece, at = _bracket(word, at)
            if not piece:
                return None
            pieces[-1] += piece
        elif letter == b"\\":
            if at == len(word):
                return None
            pieces[-1] += re.escape(word[at : at + 1])
            at += 1
        else:
            pieces[-1] += re.escape(letter)
    first, *middle = pieces
    if not middle:
        return first
    *between, last = middle
    groups = b"".join(b"(?>" + _STEP + b"*?" + piece + b")" for piece in between)
    some = b"*" if first or groups or last else b"+"
    return first + groups + _STEP + some + last


def _bracket(word: bytes, at: int) -> tuple[bytes, int]:
    """A set of letters from behind its `[`, and where it ends; empty: nothing matches it."""
    word = word.replace(b"\0", b"/")
    is_not = word[at : at + 1] in (b"!", b"^")
    at += is_not
    found: set[int] = set()
    before = -1  # The letter from which a range may begin.
    is_first = True
    while at < len(word) and (is_first or word[at] != ord("]")):
        is_first = False
        if word.startswith(b"[:", at) and (end := word.find(b"]", at + 2)) > 0:
            named = _LETTERS.get(word[at + 2 : end - 1])
            if word[end - 1 : end] == b":" and end > at + 2:
                if named is None:
                    return b"", at
                found |= {one for one in range(256) if re.match(named, bytes([one]))}
                before, at = -1, end + 1
                continue
        is_range = before >= 0 and word[at] == ord("-") and word[at + 1 : at + 2] not in (b"", b"]")
        at += is_range
        at += word[at] == ord("\\")
        if at >= len(word):
            break
        found |= set(range(before, word[at] + 1)) if is_range else {word[at]}
        before = -1 if is_range else word[at]
        at += 1
    letters = (set(range(256)) - found if is_not else found) - {ord("/")}
    if at >= len(word) or not letters:
        return b"", at
    return b"[" + b"".join(b"\\x%02x" % one for one in sorted(letters)) + b"]", at + 1


def _without_trailing_blanks(line: bytes) -> bytes:
    """A blank behind a backslash stays, and so do those before it."""
    kept = re.match(rb"(?:[^ \\]|\\.|\\\Z| ++(?!\Z))*+", line, re.DOTALL)
    return line[: kept.end()] if kept else line
