"""A keeper for every test that asks for one.

Lives here: the fixtures. Never here: the lab itself (`tests.keeper_lab`).
Invariant: a lab is closed whatever the test did.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper_lab import KeeperLab


@pytest.fixture
def new_lab(tmp_path: Path) -> Iterator[KeeperLab]:
    """Not started yet."""
    lab = KeeperLab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture
def lab(new_lab: KeeperLab) -> KeeperLab:
    """With control groups, where this machine has them."""
    return new_lab.start()


@pytest.fixture(params=["groups", "no-groups"])
def any_lab(request: pytest.FixtureRequest, new_lab: KeeperLab, tmp_path: Path) -> KeeperLab:
    """Once with control groups, once where none can be made."""
    (tmp_path / "no-cgroups").mkdir()
    options = (
        ["--cgroup-root", str(tmp_path / "no-cgroups")] if request.param == "no-groups" else []
    )
    return new_lab.start(*options)
