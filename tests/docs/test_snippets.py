"""Is the page true? Every command and every Python snippet of every page is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages, player
from tests.docs.pages import ROOT, Block
from tests.namespaces import alone

PAGES = pages.all_pages()


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def forms_mesh(text: str) -> bool:
    """Whether agents of the page talk over the network: they get one of their own."""
    return any(re.search(r"grid ticket|\.ticket\(", block.body) for block in pages.blocks(text))


def played(page: Path, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    argv = [sys.executable, "-m", "tests.docs.player", str(page), str(folder)]
    return subprocess.run(
        alone(argv, with_processes=True) if forms_mesh(page.read_text("utf-8")) else argv,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_command_of_the_page_escapes(page):
    assert list(player.problems(page.read_text("utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_page_is_true(page, tmp_path, clean_env):
    done = played(page, tmp_path / "page", clean_env)

    assert done.returncode == 0, done.stderr


def test_a_page_that_forms_a_mesh_is_played_in_a_network_of_its_own():
    assert forms_mesh((ROOT / "docs/guides/mesh.md").read_text("utf-8"))
    assert not forms_mesh((ROOT / "docs/guides/run-jobs.md").read_text("utf-8"))


def test_what_the_docs_do_not_run_is_run_for_real_elsewhere():
    for command, file in player.ELSEWHERE.items():
        assert (ROOT / file).exists(), f"{command} is run nowhere: {file} is missing"


# --- The player itself: it notices what is wrong, and lets pass what is right ---------------------

TRUE = {
    "output": "```console\n$ echo one; echo two\none\ntwo\n```\n",
    "dots in a line": "```console\n$ echo took 12 ms\ntook … ms\n```\n",
    "dots for lines": "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\n```\n",
    "dots for no line": "```console\n$ printf 'a\\nc\\n'\na\n…\nc\n```\n",
    "no output shown": "```console\n$ echo anything\n```\n",
    "exit code": "```console\n$ exit 3  # exit 3\n```\n",
    "two lines": "```console\n$ echo one \\\n> two\none two\n```\n",
    "stderr": "```console\n$ echo talk >&2\ntalk\n```\n",
    "file": "```yaml title=a.yaml\nx: 1\n```\n\n```console\n$ cat a.yaml\nx: 1\n```\n",
    "module": "```python title=mine.py\nX = 7\n```\n\n```python\nimport mine\nassert mine.X == 7\n```\n",
    "python shares names": "```python\nx = 1\n```\n\n```python\n>>> x + 1\n2\n```\n",
    "doctest shares names": "```pycon\n>>> y = 2\n```\n\n```python\nassert y == 2\n```\n",
    "checkout": "```console\n$ test -f pyproject.toml\n```\n",
    "elsewhere": "```console\n$ make test\nnot compared\n```\n",
    "inert": "```text\n$ not run\n```\n",
}
UNTRUE = {
    "other output": ("```console\n$ echo one\ntwo\n```\n", "is not what the page shows"),
    "more output": ("```console\n$ printf 'a\\nb\\n'\na\n```\n", "is not what the page shows"),
    "less output": ("```console\n$ echo a\na\nb\n```\n", "is not what the page shows"),
    "failure": ("```console\n$ false\n```\n", "exit 1, the page says 0"),
    "failure in a pipe": ("```console\n$ false | cat\n```\n", "exit 1, the page says 0"),
    "no failure": ("```console\n$ true  # exit 3\n```\n", "exit 0, the page says 3"),
    "python": ("```python\nassert 1 == 2\n```\n", "AssertionError"),
    "doctest": ("```python\n>>> 1 + 1\n3\n```\n", "Expected:\n    3\nGot:\n    2"),
    "missing name": ("```python\nnowhere\n```\n", "NameError"),
}
ESCAPES = {
    "sh": "```sh\nrm -rf x\n```\n",
    "bash": "```bash\nrm -rf x\n```\n",
    "no language": "```\n$ rm x\n```\n",
    "indented": "Text\n\n    $ rm x\n",
    "indented python": "Text\n\n    >>> 1 + 1\n",
    "no prompt": "```console\nrm x\n```\n",
    "cd": "```console\n$ cd docs\n```\n",
    "title elsewhere": "```yaml title=../a.yaml\nx: 1\n```\n",
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("text", TRUE.values(), ids=TRUE)
def test_a_true_page_passes(text, tmp_path, clean_env):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    done = played(page, tmp_path / "folder", clean_env)

    assert list(player.problems(text)) == []
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.unmeasured
@pytest.mark.parametrize(("text", "words"), UNTRUE.values(), ids=UNTRUE)
def test_an_untrue_page_fails(text, words, tmp_path, clean_env):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    done = played(page, tmp_path / "folder", clean_env)

    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
def test_a_command_that_would_escape_is_refused(text):
    assert list(player.problems(text))


def test_a_command_keeps_its_line_exit_code_and_output():
    block = Block(10, "console", None, "$ grid place x  # exit 3\nnothing fits\n$ ls\n")

    assert player.commands(block) == [
        player.Command(10, "grid place x", 3, "nothing fits\n"),
        player.Command(12, "ls", 0, ""),
    ]
