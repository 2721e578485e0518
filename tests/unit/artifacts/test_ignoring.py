"""Ignore files mean what `.gitignore` means to git, which is the judge itself."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from distributed_grid.edges.artifacts.ignoring import glob_of, line_of, rules_of
from distributed_grid.edges.artifacts.staying import Level
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
    "[": "",
    "a[": "",
    "a]": "",
    "a:": "",
    "x\\y": "",
    "A.LOG": "",
    "9": "",
    "x.tar.gz": "",
    "tab\t": "",
}
WORDS = [
    "*.log", "build", "build/", "/build", "/build/", "src/build", "**/build", "build/**", "src/**",
    "src/**/a.txt", "**/deep/**", "!*.log", "!src/deep/b.log", "*.txt", "!a.txt", "/a.txt",
    "doc/*.txt", "data/*", "!data/raw", "data/raw/?.csv", "[ab].*", "weird*", "weird [[]x].txt",
    "\\!bang", "\\#hash", "#hash", "trailing\\ ", "trailing ", "  ", "", "x/**/w", "x/**", "**",
    "/**", "*", "/*", "!src", "!src/", "ünïcode", "*/é.txt", "a[!-]c", "a[^X]c", "a?c", "a[a-z]c",
    "**/er/", "x/*/z", "x/y", "/x/y/z/", "***", "a**", "src/a*", "!/src/a.txt", "deep/er", "[", "a[",
    "\\", "**/*.csv", "build/*", "!build/keep", "!build/keep/**", "foo/**/", "src/deep/",
    "[[:upper:]]*", "[[:digit:]]", "[![:alpha:]]*", "a[[:punct:]]", "[[:nope:]]", "a[]]", "a[!]]",
    "a[[:]", "[z-a]", "[a-", "a[\\]]", "[--b]*", "x\\\\y", "src/***/a.txt", "a**/b.log", "build//",
    "//build", "src//deep", "*.tar.gz", "*.gz", "tab\t", "\ufeffabc", "src/\\", "!", "/", "x/[!a]/z",
    "[!/]bc", "[!/]", "[/]", "a[/-z]c", "x/[y/]/z", "[[:alpha:]/]bc", "x]/y]", "[a/b", "\\[/]", "[]/]",
    "src/[!/]*", "x[/]y",
]  # fmt: skip


def travels(root: Path) -> set[str]:
    found = Walk(bytes(root), level=Level()).look()
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


def stays(text, name, *, is_folder=False):
    return rules_of(text).last(name, name.rpartition(b"/")[2], is_folder=is_folder) >= 0


def test_a_line_of_windows_ends_where_it_should():
    text = b"*.log\r\nbuild/\r\n"

    assert stays(text, b"a.log")
    assert stays(text, b"build", is_folder=True)


def test_a_mark_before_the_text_is_not_part_of_it():
    assert stays(b"\xef\xbb\xbfabc\n", b"abc")


def test_names_and_lines_that_are_no_text_are_matched_by_their_bytes():
    assert stays(b"\xff\xfe*\n", b"\xff\xfe\x80")
    assert stays(b"a[\xe9]\n", b"a\xe9")
    assert not stays(b"\xff\x00a\n", b"a")


@pytest.mark.parametrize("line", [b"/", b"//", b"!", b"", b"# words", b"a//b"])
def test_a_line_may_hold_no_pattern(line):
    assert line_of(line) is None


def test_no_pattern_takes_for_ever():
    names = rules_of(b"*a" * 60 + b"*b\n" + b"?*" * 60 + b"b\n")
    deep = rules_of(b"/".join([b"**", b"a*"] * 60) + b"/b\n")
    glob = glob_of(b"/".join([b"**", b"a*"] * 60) + b"/b")
    began = time.process_time()

    assert names.last(b"a" * 255, b"a" * 255, is_folder=False) == -1
    assert deep.last(b"/".join([b"a"] * 200), b"a", is_folder=False) == -1
    assert not glob.matches([b"a"] * 200)
    assert time.process_time() - began < 5


def test_ten_thousand_lines_are_looked_up_and_not_tried_one_by_one():
    lines = [b"/data/set%d/\n*.x%d\nname%d\n" % (n, n, n) for n in range(3_333)]
    rules = rules_of(b"".join(lines) + b"!name7\n")
    began = time.process_time()
    for number in range(20_000):
        rules.last(b"src/file%d.py" % number, b"file%d.py" % number, is_folder=False)

    assert time.process_time() - began < 5
    assert rules.last(b"data/set3332", b"set3332", is_folder=True) >= 0
    assert rules.are_back[rules.last(b"a/name7", b"name7", is_folder=False)]


def test_an_ignore_file_that_cannot_be_read_is_told(tmp_path):
    root = plant(tmp_path / "tree", {"a": "", ".gridignore": None})
    found = Walk(bytes(root), level=Level()).look()

    assert [one.path for one in found.refused] == [".gridignore"]
