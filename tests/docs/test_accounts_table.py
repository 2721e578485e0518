"""The limits of accounts on the page of a mesh are those of the code."""

from distributed_grid.kernel.accounts import LIMITS
from distributed_grid.model import bytesize
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "operate" / "mesh.md").read_text("utf-8")
TABLE = PAGE.partition("\n## What one member may take up\n")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines()
        if line.startswith("| ")][1:]  # fmt: skip


def test_the_page_tells_the_limits_of_every_account():
    assert [[kind, *map(bytesize.text, limits)] for kind, limits in LIMITS.items()] == ROWS
