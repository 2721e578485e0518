"""How far files are, in a sentence."""

import pytest

from distributed_grid.model.transit import Transit

MIB = 1 << 20


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (
            {"doing": "receiving", "bytes_done": 34 * MIB, "bytes_total": 200 * MIB, "files": 1204},
            "attic is receiving 34 MiB of 200 MiB (1204 files)",
        ),
        ({"doing": "receiving", "bytes_total": 5, "files": 1}, "attic is receiving 0 B of 5 B (1 file)"),
        ({"doing": "receiving"}, "attic is receiving its files"),
        (
            {"doing": "copying", "bytes_done": 1, "bytes_total": 2},
            "attic is getting a copy of its files, 1 B of 2 B",
        ),
        ({"doing": "unpacking", "files": 3}, "attic is unpacking its files (3 files)"),
        ({"doing": "packing"}, "attic is packing its directory"),
    ],
)  # fmt: skip
def test_it_says_who_does_what_and_how_far_it_is(facts, says):
    assert str(Transit(node="attic", **facts)) == says


@pytest.mark.parametrize(
    ("doing", "is_so"), [("collecting", True), ("bringing", True), ("building", False)]
)
def test_it_tells_what_a_process_left_behind_from_what_it_needs(doing, is_so):
    assert Transit(doing=doing, node="attic").is_after_the_end == is_so
