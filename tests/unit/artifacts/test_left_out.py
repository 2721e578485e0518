"""Outputs that cannot be read, or never rest: they alone stay out, each by name."""

import os

import pytest

from distributed_grid.edges.artifacts import CannotShip, packing, walking
from distributed_grid.model.artifact import ASKED
from tests.unit.artifacts.lab import a_store, files_of, noise, plant


@pytest.fixture
def store(tmp_path):
    return a_store(tmp_path / "cache")


def forbid(monkeypatch, is_forbidden):
    """Some files may not be read: rights do not keep root out."""
    real = os.open

    def open_(path, *words, **options):
        if isinstance(path, bytes) and is_forbidden(path.rpartition(b"/")[2]):
            raise PermissionError(13, "Permission denied")
        return real(path, *words, **options)

    monkeypatch.setattr(packing.os, "open", open_)


def test_every_output_that_can_be_read_comes_and_each_other_is_named(tmp_path, store, monkeypatch):
    names = [f"{n:03}" for n in range(300)]
    root = plant(tmp_path / "w", {name: noise(3_000, int(name)) for name in names})
    plant(root, {"large": noise(300_000), "shut": noise(300_000, 2)})
    shut = {b"shut", *(name.encode() for name in names if name.endswith(("2", "7")))}
    forbid(monkeypatch, lambda name: name in shut)
    packed = files_of(store).collect(str(root), owner="job", amount=ASKED, globs=("*",))

    assert {one.path.encode() for one in packed.refused} == shut
    assert {one.why for one in packed.refused} == {"cannot be read: Permission denied"}
    assert packed.files == 302 - len(shut)
    with pytest.raises(CannotShip, match=r"002 \(cannot be read: Permission denied\); 007"):
        files_of(store).pack(str(root), owner="job", amount=ASKED)


class Looks(walking.Walk):
    """Counts them."""

    made = 0

    def look(self):
        Looks.made += 1
        return super().look()


@pytest.mark.parametrize(("files", "is_enough"), [(5, True), (9, False)])
def test_of_files_that_change_one_after_the_other_some_are_left_out_then_all_stay(
    tmp_path, store, monkeypatch, files, is_enough
):
    names = "abcdefghi"[:files]
    root = plant(tmp_path / "w", {"fine": "1", **dict.fromkeys(names, "2")})
    monkeypatch.setattr(packing, "Walk", Looks)
    monkeypatch.setattr(Looks, "made", 0)
    forbid(monkeypatch, lambda name: name.decode() in names[: Looks.made])
    if is_enough:
        packed = files_of(store).collect(str(root), owner="job", amount=ASKED, globs=("*",))
        assert "".join(one.path for one in packed.refused) == names
        assert packed.files == 1
    else:
        with pytest.raises(CannotShip, match=r"a \(cannot be read"):
            files_of(store).collect(str(root), owner="job", amount=ASKED, globs=("*",))
        assert Looks.made == packing.LOOKS_MAX + packing.LOOKS_WITHOUT_MAX


def test_what_is_left_out_is_named_up_to_a_bound(tmp_path, store, monkeypatch):
    root = plant(tmp_path / "w", {f"{n}": "1" for n in range(9)})
    monkeypatch.setattr(packing, "REFUSED_MAX", 4)
    forbid(monkeypatch, lambda name: name.isdigit() and name != b"8")
    packed = files_of(store).collect(str(root), owner="job", amount=ASKED, globs=("*",))

    assert [one.path for one in packed.refused] == ["0", "1", "2", "3"]
    assert packed.files == 1
