"""Reading below a root: bounded, never raising, never outside."""

import os
from pathlib import Path

import pytest

from distributed_grid.edges.probe.tree import NAMES_MAX, TEXT_BYTES_MAX, Tree, cpu_list, fields


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


def test_a_file_is_read_without_space_and_nul(root: Path) -> None:
    (root / "model").write_bytes(b"Raspberry Pi 4\0")

    assert Tree(str(root)).text("/model") == "Raspberry Pi 4"


def test_what_cannot_be_read_is_none(root: Path) -> None:
    (root / "directory").mkdir()
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    tree = Tree(str(root))

    for path in ("/missing", "/directory", "/pipe", "/loop", "/nul\0byte", "/directory/x/y"):
        assert tree.text(path) is None
        assert tree.line(path) is None
        assert tree.integer(path) is None
    assert tree.names("/missing") == []
    assert tree.names("/nul\0byte") == []
    assert not tree.exists("/missing")
    assert not tree.exists("/nul\0byte")
    assert tree.target("/missing") is None
    assert tree.target("/nul\0byte") is None


def test_a_link_out_of_the_root_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the real machine")
    (tmp_path / "outside").mkdir()
    (root / "absolute").symlink_to(tmp_path / "secret")
    (root / "relative").symlink_to("../secret")
    (root / "folder").symlink_to("../outside")
    (root / "inside").write_text("fine")
    (root / "kept").symlink_to("inside")
    tree = Tree(str(root))

    assert tree.text("/absolute") is None
    assert tree.text("/relative") is None
    assert tree.text("/../secret") is None
    assert not tree.exists("/absolute")
    assert tree.names("/folder") == []
    assert tree.text("/kept") == "fine"
    assert tree.target("/kept") == "inside"


def test_reading_stops_at_the_limit(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(TEXT_BYTES_MAX * 2)
        file.seek(0)
        file.write(b"1")
    for number in range(NAMES_MAX + 10):
        (root / f"many{number}").touch()
    tree = Tree(str(root))

    assert len(tree.text("/huge") or "") <= TEXT_BYTES_MAX + (1 << 16)
    assert len(tree.names("/")) == NAMES_MAX


def test_names_come_in_the_order_of_their_numbers(root: Path) -> None:
    for name in ("cpu10", "cpu2", "cpu", "cpu1", "x"):
        (root / name).touch()

    assert Tree(str(root)).names("/") == ["cpu", "cpu1", "cpu2", "cpu10", "x"]


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "0x10", "\u0661", "1 2", "9" * 5_000, str(1 << 61), "-1"]
)
def test_what_is_no_number_within_bounds_is_none(root: Path, text: str) -> None:
    (root / "number").write_text(text)

    assert Tree(str(root)).integer("/number") is None


def test_a_line_is_short_and_printable(root: Path) -> None:
    (root / "name").write_bytes(b"\x1b[31mred\x07\nsecond")
    (root / "long").write_text("x" * 1_000)
    tree = Tree(str(root))

    assert tree.line("/name") == "[31mred"
    assert tree.line("/long", characters_max=10) == "x" * 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        (None, set()),
        ("a-b", set()),
        ("0-99999999", set()),
        ("3-1", set()),
    ],
)
def test_a_list_of_cpus(text: str | None, expected: set[int]) -> None:
    assert cpu_list(text) == expected


def test_of_a_key_that_repeats_the_first_counts() -> None:
    assert fields("a: 1\nnothing\na: 2\nb:\n") == {"a": "1", "b": ""}
