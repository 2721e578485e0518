"""The times and sizes on the page of rules are those of the code."""

import importlib

import pytest

from distributed_grid.model import duration
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "internals" / "protocols.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("\n## Times and sizes\n")[2].splitlines()
    if line.endswith("` |")
]
UNITS = {"_S": 1_000, "_US": 1 / 1_000}


def value(where: str) -> str:
    module, _, name = where.rpartition(".")
    number = getattr(importlib.import_module(f"distributed_grid.{module}"), name)
    if "_MS" in name:
        return duration.text(number)
    for ending, factor in UNITS.items():
        if name.endswith(ending):
            return duration.text(round(number * factor))
    return f"{number:,}"


@pytest.mark.parametrize(("told", "where"), [(row[1], row[2].strip("`")) for row in ROWS])
def test_the_page_tells_the_number_that_counts(told, where):
    assert told == value(where)


def test_the_table_is_long_enough_to_be_worth_reading():
    assert len(ROWS) > 30
