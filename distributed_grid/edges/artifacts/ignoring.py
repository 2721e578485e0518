"""Which files stay at home: `.gridignore`, with the rules of `.gitignore`.

Lives here: patterns, and what they match. Never here: walking (`walking`).
Invariant: no pattern takes longer than its length times that of the path, whatever it is.

The last pattern that matches decides, `!` brings back, and nothing below a folder that stays at
home comes back. A pattern with a slash before its end counts from the folder of its file, others at
any depth; a slash at its end means folders only; `**` stands for any number of folders.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

IGNORE_FILE: Final = b".gridignore"
IGNORE_BYTES_MAX: Final = 64 << 10  # Of one file; a thousand patterns.
ANY_FOLDERS: Final = b"**"


class Pattern(NamedTuple):
    """One line of an ignore file, or one glob of outputs."""

    parts: tuple[re.Pattern[bytes] | None, ...]  # None: any number of folders.
    is_anchored: bool  # Else only the name counts.
    is_folder_only: bool
    is_back: bool  # What matches travels after all.

    def matches(self, path: Sequence[bytes], *, is_folder: bool) -> bool:
        """Whether a path, relative to the folder of the pattern, is meant."""
        if self.is_folder_only and not is_folder:
            return False
        if not self.is_anchored:
            only = self.parts[0]
            return only is None or only.match(path[-1]) is not None
        return _matches(self.parts, path)


class Rules(NamedTuple):
    """The patterns of one file."""

    depth: int  # How many folders below the root it is.
    patterns: tuple[Pattern, ...]


def rules_of(text: bytes, *, depth: int) -> Rules:
    """The patterns of an ignore file."""
    found = (pattern_of(line) for line in text[:IGNORE_BYTES_MAX].splitlines())
    return Rules(depth, tuple(pattern for pattern in found if pattern))


def is_ignored(rules: Sequence[Rules], path: Sequence[bytes], *, is_folder: bool) -> bool:
    """Whether a path stays at home; the files of deeper folders have the last word."""
    for one in reversed(rules):
        below = path[one.depth :]
        for pattern in reversed(one.patterns):
            if pattern.matches(below, is_folder=is_folder):
                return not pattern.is_back
    return False


def pattern_of(line: bytes) -> Pattern | None:
    """The pattern of a line; None: it holds none."""
    line = _without_trailing_blanks(line)
    if not line or line.startswith(b"#"):
        return None
    is_back = line.startswith(b"!")
    line = line[1:] if is_back else line
    is_folder_only = line.endswith(b"/")
    line = line.rstrip(b"/") if is_folder_only else line
    is_anchored = b"/" in line
    words = [word for word in line.split(b"/") if word]
    if not words:
        return None
    if words[-1] == ANY_FOLDERS and is_anchored:
        words.append(b"*")  # What is inside, not the folder itself.
    return Pattern(parts_of(words), is_anchored, is_folder_only, is_back)


def glob_of(text: bytes) -> Pattern:
    """A glob of outputs, which always counts from the work directory."""
    words = [word for word in text.split(b"/") if word not in (b"", b".")]
    if words[-1:] == [ANY_FOLDERS]:
        words.append(b"*")
    return Pattern(parts_of(words), is_anchored=True, is_folder_only=False, is_back=False)


def parts_of(words: Sequence[bytes]) -> tuple[re.Pattern[bytes] | None, ...]:
    """What each step of a path must look like."""
    return tuple(None if word == ANY_FOLDERS else _expression(word) for word in words)


def _matches(parts: Sequence[re.Pattern[bytes] | None], path: Sequence[bytes]) -> bool:
    """Whether the parts match the whole path: greedy, and back to the last `**` if that fails."""
    part = step = 0
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


def _expression(word: bytes) -> re.Pattern[bytes]:
    """A step with `*`, `?`, `[…]` and backslashes. Atomic groups: no star is tried again."""
    pieces: list[bytes] = [b""]  # What stands between the stars.
    at = 0
    while at < len(word):
        letter = word[at : at + 1]
        at += 1
        if letter == b"*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append(b"")
        elif letter == b"?":
            pieces[-1] += b"."
        elif letter == b"[":
            piece, at = _bracket(word, at)
            pieces[-1] += piece
        elif letter == b"\\" and at < len(word):
            pieces[-1] += re.escape(word[at : at + 1])
            at += 1
        else:
            pieces[-1] += re.escape(letter)
    first, *middle = pieces
    if not middle:
        return re.compile(first + rb"\Z", re.DOTALL)
    *between, last = middle
    groups = b"".join(b"(?>.*?" + piece + b")" for piece in between)
    return re.compile(first + groups + b".*" + last + rb"\Z", re.DOTALL)


def _bracket(word: bytes, at: int) -> tuple[bytes, int]:
    """A set of letters from behind its `[`, and where it ends; one without end is a letter."""
    is_not = word[at : at + 1] in (b"!", b"^")
    begin = at + is_not
    end = word.find(b"]", begin + 1)
    if end < 0:
        return re.escape(b"["), at
    inside = word[begin:end].replace(b"\\", rb"\\").replace(b"[", rb"\[").replace(b"]", rb"\]")
    for sign in (b"&&", b"||", b"~~"):  # Which regular expressions want to mean something.
        inside = inside.replace(sign, sign[:1] + b"\\" + sign[1:])
    inside = b"\\" + inside if inside.startswith(b"^") else inside
    try:
        piece = b"[" + (b"^" if is_not else b"") + inside + b"]"
        re.compile(piece)
    except re.error:
        return re.escape(b"["), at  # z-a: no letter is meant.
    return piece, end + 1


def _without_trailing_blanks(line: bytes) -> bytes:
    line = line.rstrip(b"\r\n")
    while line.endswith((b" ", b"\t")) and not line.endswith((b"\\ ", b"\\\t")):
        line = line[:-1]
    return line
