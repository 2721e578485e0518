"""The map of modules is whole: what a newcomer looks for is on it once."""

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
MAP = PAGE.partition("\n### The modules of kernel/across\n")[2].partition("\n## ")[0]


def test_every_module_of_jobs_across_machines_is_on_the_map_once():
    folder = ROOT / "distributed_grid" / "kernel" / "across"
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")

    assert sorted(re.findall(r"`([a-z_]+)`", MAP)) == modules
