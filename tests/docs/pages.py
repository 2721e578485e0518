"""A page of the docs as data: its fenced blocks, headings and links.

Lives here: reading Markdown, as much of it as we write. Never here: running anything (`player`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
_FENCE = re.compile(r"^(?P<indent> {0,3})(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: +#+)?$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """One fenced block; `line` is the line of its first content line."""

    line: int
    language: str
    title: str | None
    body: str


class Line(NamedTuple):
    """One line of prose."""

    number: int
    text: str


def all_pages(root: Path = ROOT) -> list[Path]:
    """Every page a reader can meet, sorted."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def blocks(text: str) -> list[Block]:
    """The fenced blocks, in order."""
    return [part for part in _parts(text) if isinstance(part, Block)]


def prose(text: str) -> list[Line]:
    """Everything outside the fences."""
    return [part for part in _parts(text) if isinstance(part, Line)]


def _parts(text: str) -> Iterator[Block | Line]:
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            yield Line(number, line)
            continue
        body: list[str] = []
        for _, inner in lines:
            if inner.strip().startswith(fence["mark"]) and not inner.strip(" `~"):
                break
            body.append(inner.removeprefix(fence["indent"]))
        else:
            raise ValueError(f"line {number}: the fence is never closed")
        words = fence["info"].split()
        titles = [word.removeprefix("title=") for word in words[1:] if word.startswith("title=")]
        yield Block(
            number + 1,
            words[0] if words else "",
            titles[0] if titles else None,
            "".join(f"{one}\n" for one in body),
        )


def headings(text: str) -> list[tuple[int, str]]:
    """(level, words) of every heading."""
    found = [_HEADING.match(line.text) for line in prose(text)]
    return [(len(match[1]), match[2]) for match in found if match]


def anchors(text: str) -> set[str]:
    """The names under which headings can be linked, as GitHub makes them."""
    seen: set[str] = set()
    for _, words in headings(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        name, count = slug, 0
        while name in seen:
            count += 1
            name = f"{slug}-{count}"
        seen.add(name)
    return seen


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of every link and picture outside code."""
    return [
        (line.number, match[1] or match[2])
        for line in prose(text)
        for match in _LINK.finditer(_CODE.sub("", line.text))
    ]
