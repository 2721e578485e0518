"""The tables of modes and policies on the page are the ones in the code; every key is described."""

from pathlib import Path

import pytest

from distributed_grid.config.terms import KEYS
from distributed_grid.kernel.lending_policies import MODES, POLICIES, PolicyRule
from distributed_grid.model import duration
from distributed_grid.model.lending import percent

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "concepts" / "lending.md").read_text("utf-8")
REFERENCE = (DOCS / "reference" / "config.md").read_text("utf-8")


def row(first: str) -> list[str]:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{first}` |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def cells(rule: PolicyRule) -> list[str]:
    return [
        percent(rule.part_milli),
        yes(not rule.counts_used_cores),
        duration.text(rule.quiet_ms) if rule.quiet_ms else "-",
        "when not idle" if rule.is_wary else "under pressure",
        duration.text(rule.suspended_ms_max),
        yes(rule.learns),
    ]


@pytest.mark.parametrize("mode", sorted(MODES))
def test_the_page_tells_what_a_mode_does(mode):
    assert row(mode) == [yes(MODES[mode].lends), yes(MODES[mode].gives_way)]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_page_tells_the_numbers_of_a_policy(policy):
    assert row(policy) == cells(POLICIES[policy])


@pytest.mark.parametrize("key", sorted(KEYS))
def test_the_reference_names_every_key(key):
    section, _, name = key.rpartition(".")

    assert any(f"`{word}`" in REFERENCE for word in (key, f".{name}" if section else key))
