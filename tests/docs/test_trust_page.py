"""Each line of the page on trust names tests that exist."""

import re

import pytest

from tests.docs.pages import ROOT
from tests.tidy.test_accept import missing

PAGE = (ROOT / "docs" / "concepts" / "trust.md").read_text("utf-8")
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| What |")
]


@pytest.mark.parametrize(("told", "shown"), LINES)
def test_what_is_told_is_shown_by_tests_that_exist(told, shown):
    tests = re.findall(r"`([^`]+)`", shown)

    assert re.match(r"\*\*can\*\*|\*cannot\*", told)
    assert tests
    assert not [problem for test in tests if (problem := missing(test))]


def test_all_five_are_told_of_with_what_they_can_and_what_they_cannot():
    parts = {head: text for head, _, text in (part.partition("\n") for part in PAGE.split("\n## "))}

    for who in ("A stranger", "A guest", "A worker", "A member", "An admin"):
        assert "**can**" in parts[who]
        assert "*cannot*" in parts[who]


def test_who_wants_to_report_something_is_sent_there():
    assert "docs/concepts/trust.md" in (ROOT / "SECURITY.md").read_text("utf-8")
