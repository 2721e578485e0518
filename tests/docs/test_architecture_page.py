"""The maps of modules are whole: what a newcomer looks for is on its map once."""

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


@pytest.mark.parametrize("folder", ["kernel", "kernel/across", "agent"])
def test_every_module_is_on_the_map_of_its_folder_once(folder):
    rest = PAGE.partition(f"\n### The modules of {folder}\n")[2]
    rows = re.findall(r"^\|.*$", re.split(r"\n##", rest)[0], flags=re.MULTILINE)
    files = (ROOT / "distributed_grid" / folder).glob("*.py")
    modules = sorted(path.stem for path in files if path.stem != "__init__")

    assert sorted(re.findall(r"`([a-z_]+)`", "\n".join(rows))) == modules
