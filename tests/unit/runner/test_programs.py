import errno
from pathlib import Path

import pytest

from distributed_grid.edges.runner.keeper_start import Arguments, parse
from distributed_grid.edges.runner.program import NotRun, Program, find, refusal


def test_the_jobs_own_path_is_searched_in_order(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text("")
        (tmp_path / name / "tool").chmod(0o700)
    env = {"PATH": f"{tmp_path}/none:{tmp_path}/b:{tmp_path}/a"}

    assert find(("tool", "x"), env) == Program(f"{tmp_path}/b/tool", ("tool", "x"))


def test_without_a_path_the_usual_places_are_searched() -> None:
    assert find(("true",), {}).path in {"/usr/bin/true", "/bin/true"}


def test_a_directory_of_that_name_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    with pytest.raises(NotRun) as problem:
        find(("tool",), {"PATH": str(tmp_path)})

    assert problem.value.code == 127


def test_an_empty_command_is_not_found() -> None:
    for argv in ((), ("",)):
        with pytest.raises(NotRun) as problem:
            find(argv, {})
        assert problem.value.code == 127


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, 127),
        (errno.EACCES, 126),
        (errno.ENOEXEC, 126),
        (errno.E2BIG, 125),
        (errno.EAGAIN, 125),
    ],
)
def test_what_the_kernel_says_becomes_a_code(number: int, code: int) -> None:
    assert refusal(Program("/x", ("x",)), OSError(number, "why")).code == code


def test_the_command_line_is_understood() -> None:
    words = ["--data-dir", "d", "--cgroup-root", "/c", "--", "grid", "--", "x"]

    assert parse(words) == Arguments("d", ("grid", "--", "x"), cgroup_root="/c")


@pytest.mark.parametrize(
    "words",
    [[], ["--data-dir", "d"], ["--data-dir", "--", "x"], ["--", "x"], ["--data-dir", "d", "--"],
     ["--data-dir", "d", "--unknown", "x", "--", "y"]],
)  # fmt: skip
def test_a_wrong_command_line_is_none(words: list[str]) -> None:
    assert parse(words) is None
