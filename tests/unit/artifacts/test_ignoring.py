"""`.gridignore` means what `.gitignore` would mean. The judge is git itself."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts.ignoring import (
    is_ignored,
    pattern_of,
    rules_of,
)
from distributed_grid.edges.artifacts.walking import Walk
from tests.unit.artifacts.lab import plant

TREE = {
    "a.txt": "",
    "b.log": "",
    "build/out.o": "",
    "build/keep/x.o": "",
    "src/build/y.o": "",
    "src/a.txt": "",
    "src/deep/er/a.txt": "",
    "src/deep/b.log": "",
    "doc/notes.txt": "",
    "doc/build": "a file",
    "data/raw/1.csv": "",
    "data/raw/2.csv": "",
    "data/3.csv": "",
    "weird [x].txt": "",
    "weird x.txt": "",
    "!bang": "",
    "#hash": "",
    "trailing ": "",
    "ünïcode/é.txt": "",
    "x/y/z/w": "",
    "abc": "",
    "aXc": "",
    "a-c": "",
}
WORDS = [
    "*.log", "build", "build/", "/build", "/build/", "src/build", "**/build", "build/**", "src/**",
    "src/**/a.txt", "**/deep/**", "!*.log", "!src/deep/b.log", "*.txt", "!a.txt", "/a.txt",
    "doc/*.txt", "data/*", "!data/raw", "data/raw/?.csv", "[ab].*", "weird*", "weird [[]x].txt",
    "\\!bang", "\\#hash", "#hash", "trailing\\ ", "trailing ", "  ", "", "x/**/w", "x/**", "**",
    "/**", "*", "/*", "!src", "!src/", "ünïcode", "*/é.txt", "a[!-]c", "a[^X]c", "a?c", "a[a-z]c",
    "**/er/", "x/*/z", "x/y", "/x/y/z/", "***", "a**", "src/a*", "!/src/a.txt", "deep/er", "[", "a[",
    "\\", "**/*.csv", "build/*", "!build/keep", "!build/keep/**", "foo/**/", "src/deep/",
]  # fmt: skip


def travels(root: Path) -> set[str]:
    found = Walk(bytes(root)).look()
    return {file.path.decode() for file in found.files}


def git_ignores(root: Path, folder: Path) -> set[str]:
    """Which files git would leave out, with the same files under its own name."""
    twin = folder / "git"
    shutil.copytree(root, twin)
    for file in twin.rglob(".gridignore"):
        file.rename(file.with_name(".gitignore"))
    run = ["git", "-C", str(twin)]
    subprocess.run([*run, "init", "-q"], check=True)
    listed = subprocess.run(
        [*run, "-c", "core.excludesFile=/dev/null", "ls-files", "-o", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
    )
    shown = {
        name.replace(".gitignore", ".gridignore") for name in listed.stdout.decode().split("\0")
    }
    shutil.rmtree(twin)
    return shown - {""}


@pytest.mark.parametrize("word", WORDS)
def test_a_pattern_means_what_it_means_to_git(tmp_path, word):
    root = plant(tmp_path / "tree", {**TREE, ".gridignore": f"{word}\n"})

    assert travels(root) == git_ignores(root, tmp_path)


@pytest.mark.slow
def test_patterns_together_and_in_nested_files_mean_what_they_mean_to_git(tmp_path):
    chance = random.Random(11)
    for number in range(40):
        files = {
            folder + ".gridignore": "\n".join(chance.choices(WORDS, k=chance.randrange(1, 7)))
            + "\n"
            for folder in chance.sample(["", "src/", "src/deep/", "data/", "build/"], k=3)
        }
        root = plant(tmp_path / f"tree{number}", {**TREE, **files})

        assert travels(root) == git_ignores(root, tmp_path), files


def test_a_line_of_windows_ends_where_it_should():
    rules = rules_of(b"*.log\r\nbuild/\r\n", depth=0)

    assert is_ignored([rules], [b"a.log"], is_folder=False)
    assert is_ignored([rules], [b"build"], is_folder=True)


@pytest.mark.parametrize("line", [b"/", b"//", b"!", b"", b"# words"])
def test_a_line_may_hold_no_pattern(line):
    assert pattern_of(line) is None


def test_a_range_the_wrong_way_round_is_no_range():
    assert pattern_of(b"[z-a]").matches([b"[z-a]"], is_folder=False)


def test_no_pattern_takes_for_ever():
    pattern = pattern_of(b"*a" * 60 + b"*b")
    deep = pattern_of(b"/".join([b"**", b"a*"] * 60) + b"/b")
    began = time.process_time()

    assert not pattern.matches([b"a" * 255], is_folder=False)
    assert not deep.matches([b"a"] * 200, is_folder=False)
    assert time.process_time() - began < 1


def test_an_ignore_file_that_cannot_be_read_is_told(tmp_path):
    root = plant(tmp_path / "tree", {"a": "", ".gridignore": None})
    found = Walk(bytes(root)).look()

    assert [one.path for one in found.refused] == [".gridignore"]
