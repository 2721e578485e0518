"""The advice of the guides can be followed: what they tell people to write is accepted."""

import re

import pytest
import yaml

from distributed_grid.config import ClusterConfig
from tests.docs.pages import ROOT

GUIDE = (ROOT / "docs/guides/lend-your-machine.md").read_text("utf-8")
ADVICE = re.search(r"^## Which thresholds\n(.*?)^## ", GUIDE, re.MULTILINE | re.DOTALL)[1]
ROWS = re.findall(r"^\| (a [^|]+?) \| (.+) \|$", ADVICE, re.MULTILINE)


@pytest.mark.rows("S3-79")
@pytest.mark.parametrize(("machine", "terms"), ROWS, ids=[machine for machine, _ in ROWS])
def test_the_thresholds_that_suit_a_machine_are_good_terms(machine, terms):
    thresholds, *others = re.findall(r"`([^`]+)`", terms)
    section = {"thresholds": yaml.safe_load(thresholds)}
    for other in others:
        section |= yaml.safe_load(other)
    config = ClusterConfig.from_dict({"resource_sharing": section})

    assert config.told["resource_sharing"]["thresholds"] == section["thresholds"]


def test_there_is_advice_for_several_kinds_of_machines():
    assert len(ROWS) == 4
