"""The papers exist, lead somewhere, and the generated ones are fresh."""

import inspect
from pathlib import Path

import pytest

from distributed_grid import errors
from scripts import reference
from tests.docs import pages
from tests.docs.pages import ROOT
from tests.docs.player import commands

REQUIRED = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "SECURITY.md",
    "docs/benchmarks.md",
    "docs/compared.md",
    "docs/concepts/placement.md",
    "docs/concepts/profile.md",
    "docs/concepts/trust.md",
    "docs/concepts/words.md",
    "docs/critiques.md",
    "docs/guides/why-not-here.md",
    "docs/guides/write-a-policy.md",
    "docs/internals/journey-of-a-decision.md",
    "docs/internals/protocols.md",
    "docs/internals/testing.md",
    "docs/limitations.md",
    "docs/reference/cli.md",
    "docs/reference/errors.md",
    "docs/reference/files.md",
    "docs/reference/python.md",
    "docs/roadmap.md",
    "docs/start.md",
]
PAGES = pages.all_pages()


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", REQUIRED)
def test_the_page_exists_and_says_something(name):
    assert len((ROOT / name).read_text("utf-8").split()) > 40


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_page_has_one_title_and_it_comes_first(page):
    headings = pages.headings(page.read_text("utf-8"))

    assert [words for level, words in headings if level == 1] == [headings[0][1]]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_nobody_is_taught_to_leave_everything_at_home(page):
    blocks = pages.blocks(page.read_text("utf-8"))

    assert not [one for one in blocks if one.title == ".gridignore" and "*" in one.body.split()]


def broken_links(page: Path) -> list[str]:
    found = []
    for line, target in pages.links(page.read_text("utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(f"{line}: {target} leads nowhere")
        elif anchor and anchor not in pages.anchors(file.read_text("utf-8")):
            found.append(f"{line}: {target} names no heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_links_of_the_page_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "b.md").write_text("# B\n\n## A `grid` word\n", encoding="utf-8")
    page = tmp_path / "a.md"
    page.write_text(
        "# A\n\n[x](b.md) [x](b.md#a-grid-word) [x](#a)\n`[x](code.md)`\n\n[x](c.md) [x](b.md#c)\n",
        encoding="utf-8",
    )

    assert broken_links(page) == ["6: c.md leads nowhere", "6: b.md#c names no heading"]


def test_the_readme_begins_with_one_machine_in_three_lines_then_two_and_pretends_nothing():
    text = (ROOT / "README.md").read_text("utf-8")
    one, two, *_ = [commands(block) for block in pages.blocks(text) if block.language == "console"]

    assert [command.words.split()[:2] for command in one] == [
        ["grid", "up"],
        ["grid", "run"],
        ["grid", "run"],
    ]
    assert [command.words.split()[1] for command in two] == ["ticket", "up", "join"]
    assert "pretend" not in text
    assert ".gridignore" not in text


def test_every_page_of_the_docs_can_be_reached_from_the_readme():
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        for _, target in pages.links(page.read_text("utf-8")):
            file = (page.parent / target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.exists() and file not in seen:
                waiting.append(file)

    assert [named(page) for page in PAGES if page not in seen] == []


def test_the_cli_reference_is_what_the_commands_say_today():
    written = (ROOT / "docs/reference/cli.md").read_text("utf-8")

    assert written == reference.cli_page(), "stale: run `make reference`"


def error_classes() -> list[type[errors.GridError]]:
    return [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, errors.GridError)
    ]


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_every_error_has_its_place_in_the_reference(error):
    found = pages.headings((ROOT / "docs/reference/errors.md").read_text("utf-8"))

    assert (2, error.__name__) in found


@pytest.mark.rows("S2-150")
def test_the_licence_is_mit():
    text = (ROOT / "LICENSE").read_text("utf-8")

    assert text.startswith("MIT License\n")
    assert "Permission is hereby granted, free of charge" in text
    assert 'THE SOFTWARE IS PROVIDED "AS IS"' in text
    assert 'license = "MIT"' in (ROOT / "pyproject.toml").read_text("utf-8")
