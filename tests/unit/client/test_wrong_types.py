"""What is no name, amount or command is refused with the name of its parameter."""

import pytest

from distributed_grid.client import environment
from distributed_grid.client.specification import array_of, specification
from distributed_grid.errors import BadValue, UnknownName


@pytest.mark.parametrize(
    ("wish", "value"),
    [
        ("name", 5), ("name", b"x"), ("cpus", []), ("cpus", None), ("cpus", True), ("memory", {}),
        ("storage", None), ("gpus", []), ("gpus", {}), ("resources", {"tpu": []}),
        ("resources", ["tpu"]), ("resources", {5: 1}), ("env", {"A": 1}), ("env", {1: "A"}),
        ("env", ["A=1"]), ("env", {"A B": "1"}), ("env", {"": "1"}), ("env", {"A=B": "1"}),
        ("env", {"A\0": "1"}), ("env", {"A\n": "1"}), ("cwd", 5), ("cwd", b"/"), ("cwd", ""),
        ("cwd", "a\0b"), ("array", []), ("array", True), ("array", 1.5), ("retries", "1"),
        ("retries", True), ("retries", None), ("max_losses", 0.5), ("timeout", []),
        ("timeout", "0"), ("image", 5), ("image", None), ("wait_for_capacity", "no"),
        ("inherit_env", 1),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_parameter(wish, value):
    with pytest.raises(BadValue) as refused:
        specification(["x"], {wish: value})

    assert refused.value.field == wish
    assert wish in str(refused.value)


@pytest.mark.parametrize("command", [None, 5, b"make", ["make", None], {"make"}, [b"make"], {}])
def test_what_is_no_command_is_refused(command):
    with pytest.raises(BadValue, match="a command") as refused:
        specification(command, {})

    assert refused.value.field == "command"


def test_a_wish_that_nobody_knows_is_refused_and_not_ignored():
    with pytest.raises(UnknownName, match="'cpu'"):
        specification(["x"], {"cpu": 4})


@pytest.mark.parametrize("command", [["y" * 3_000_000], "y" * 3_000_000, ["/" * 3_000_000 + "y"]])
def test_a_name_that_nobody_gave_is_bounded_whatever_the_command(command):
    name = specification(command, {}).name

    assert 0 < len(name) <= 253
    assert set(name) == {"y"}


def test_a_relative_directory_is_meant_from_where_the_caller_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert specification(["x"], {"cwd": "below/../here"}).work.cwd == str(tmp_path / "here")


@pytest.mark.parametrize("count", [10**30, 10_000_001, range(10_000_001), "0-10000000"])
def test_too_many_indices_are_told_how_many_there_may_be(count):
    with pytest.raises(BadValue, match="at most 10000000 indices"):
        array_of(count)


@pytest.mark.parametrize("name", ["A", "a.b-c", "BASH_FUNC_x%%", "Ä"])
def test_a_name_that_a_shell_can_show_is_taken(name):
    assert environment.given({name: "1"}) == {name: "1"}
