"""What each part must show is shown by tests that exist."""

import re
import tomllib

import pytest

from tests.conftest import ROOT

PARTS = sorted((ROOT / "tests" / "accept").glob("part-*.toml"))


def missing(test: str) -> str:
    """What is wrong with the id of a test; empty: nothing."""
    path, _, name = test.partition("::")
    file = ROOT / path
    if not file.exists():
        return f"{path}: there is no such file"
    plain = re.escape(name.rpartition("::")[2].partition("[")[0])
    is_there = not name or re.search(rf"^\s*(async )?def {plain}\(", file.read_text(), re.MULTILINE)
    return "" if is_there else f"{path}: there is no {name}"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.stem)
def test_every_test_of_a_demand_is_there(part):
    demands = tomllib.loads(part.read_text())["demand"]
    found = [f"{one['id']}: {problem}" for one in demands
             for test in one["tests"] if (problem := missing(test))]  # fmt: skip

    assert demands
    assert not found, "\n".join(found)
    assert len({one["id"] for one in demands}) == len(demands)


def test_a_test_that_is_gone_is_noticed():
    assert missing("tests/tidy/test_accept.py::test_a_test_that_is_gone_is_noticed") == ""
    assert missing("tests/tidy/test_accept.py") == missing("tests/tidy") == ""
    assert missing("tests/tidy/test_accept.py::test_gone") != ""
    assert missing("tests/tidy/test_gone.py") != ""
