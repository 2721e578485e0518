"""Nothing that is there is said to come later: a reader who believes that stops reading."""

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT, all_pages

LATER = re.compile(r"\b(?:comes? later|not built yet|not enforced yet|and later to)\b")
# Of each part of docs/roadmap.md: words that mean it and nothing else.
WORDS = {
    "1": r"\bprofiles?\b|\bplacement\b|grid (?:probe|place)\b",
    "2": r"\bjobs on one machine\b|\bkeeper\b|grid run\b",
    "3": r"\blending\b|\bbookings?\b|\bpreemption\b|\bfair shares?\b|run-shared",
    "4": r"\ba mesh comes\b|\bheartbeats?\b|\bcertificates?\b",
    "5": r"\bjobs? (?:\w+ ){0,3}(?:cross|across|on another machine|on several machines)"
    r"|\bcross(?:es)? machines\b|\bother nodes\b|\bowner of a node\b|\bgangs?\b"
    r"|\bwhere they are submitted\b|\b(?:worker|guest)\b",
}


def there() -> dict[str, re.Pattern[str]]:
    """What the roadmap calls `now`."""
    page = (ROOT / "docs" / "roadmap.md").read_text("utf-8")
    parts = re.findall(r"^\| (\w+) \|.*\| now \|$", page, re.MULTILINE)
    return {part: re.compile(WORDS[part]) for part in parts}


def sentences(text: str) -> Iterator[str]:
    """As they are read, over the ends of lines."""
    for paragraph in re.split(r"\n\s*(?:\n|[-|>*#])", text):
        yield from re.split(r"(?<=[.;])\s", " ".join(paragraph.split()))


def denied(text: str) -> list[str]:
    """Two sentences in a row are read together: "… cross machines. That comes later"."""
    told = list(sentences(text))
    pairs = [
        f"{before} {one}" if re.match(r"(?:That|This|It|They)\b", one) else one
        for before, one in zip(["", *told], told, strict=False)
    ]
    return [
        one
        for one in pairs
        if LATER.search(one) and any(words.search(one) for words in there().values())
    ]


def test_no_page_and_no_message_denies_what_is_there():
    files = [*all_pages(), *sorted((ROOT / "distributed_grid").rglob("*.py"))]
    found = {
        path.relative_to(ROOT).as_posix(): said
        for path in files
        if path.name != "CHANGELOG.md" and (said := denied(path.read_text("utf-8")))
    }

    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "What a guest may not lend is enforced when jobs cross machines.\nThat comes later: today",
        "Relays come later, and so do jobs that run\non another machine.",
        "What it does not need it may lend: to `grid run-shared`, and later to other nodes.",
        "The owner of a node must have the last word, and that is\nnot built yet.",
        "grid: jobs placed across the mesh come later: cluster_mesh.battery_threshold",
    ],
)
def test_what_was_once_said_so_is_noticed(text):
    assert denied(text)


@pytest.mark.parametrize(
    "text",
    [
        "Discovery on the local network comes later.",
        "Ways of discovery beyond tickets and addresses come later.",
        "- Jobs cross machines.\n- Stars come later.",
    ],
)
def test_what_does_come_later_may_be_said(text):
    assert denied(text) == []


def test_every_part_that_is_there_has_its_words():
    assert set(there()) == set(WORDS)
