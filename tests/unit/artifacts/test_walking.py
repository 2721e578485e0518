"""An ignore file counts whole or not at all: what its end keeps at home may be a secret."""

import pytest

from distributed_grid.edges.artifacts import CannotShip
from distributed_grid.edges.artifacts.ignoring import IGNORE_BYTES_MAX
from distributed_grid.model.artifact import ASKED
from tests.unit.artifacts.lab import a_store, files_of, plant

SECRET = "mine.txt\n"


def ignoring(size_bytes):
    """An ignore file of so many bytes, with the secret last."""
    lines = "".join(f"pattern{number:06}\n" for number in range(size_bytes // 14))
    room = size_bytes - len(SECRET)
    return lines[:room].rpartition("\n")[0].ljust(room - 1, "x") + "\n" + SECRET


@pytest.mark.parametrize("folder", ["", "deep/er/"])
@pytest.mark.parametrize("paths", [(), ("a",)])
def test_a_longer_one_is_refused_by_name(tmp_path, folder, paths):
    text = ignoring(IGNORE_BYTES_MAX + 1)
    plant(tmp_path / "w", {f"{folder}.gridignore": text, f"{folder}mine.txt": "s", "a": "1"})
    files = files_of(a_store(tmp_path / "cache"))
    if paths and folder:
        assert files.pack(str(tmp_path / "w"), owner="j", amount=ASKED, paths=paths).files == 1
        return
    with pytest.raises(CannotShip) as caught:
        files.pack(str(tmp_path / "w"), owner="j", amount=ASKED, paths=paths)
    (refused,) = caught.value.refused

    assert refused.path == f"{folder}.gridignore"
    assert refused.why == "it has more than 1024 KiB: write fewer, wider patterns"


def test_one_that_is_just_not_too_long_counts_to_its_end(tmp_path):
    text = ignoring(IGNORE_BYTES_MAX)
    assert len(text) == IGNORE_BYTES_MAX
    plant(tmp_path / "w", {".gridignore": text, "mine.txt": "s", "a": "1"})
    store = a_store(tmp_path / "cache")
    packed = files_of(store).pack(str(tmp_path / "w"), owner="j", amount=ASKED)

    assert {file.name for file in store.manifest(packed.id).files} == {b".gridignore", b"a"}
