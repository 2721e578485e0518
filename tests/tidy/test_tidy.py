"""Is the house clean? Every rule on every file, and every rule seen to bite."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy import rules
from tests.tidy.rules import MARKDOWN_RULES, PYTHON_RULES, TEXT_RULES, File, Rule

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT_SUFFIXES = frozenset(
    {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".cfg", ".c", ""}
)
# Copies of what kernels print, byte for byte: their spaces are not ours to trim.
VERBATIM = ("tests/trees/",)


def files() -> Iterator[Path]:
    """What is in the checkout, without what was made in it. Works without git, too."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        made = any(
            (part.startswith(".") and part not in {".ci", ".gitignore"})
            or part in {"build", "dist", "__pycache__"}
            or part.endswith(".egg-info")
            for part in parts
        )
        if not made and path.is_file() and path.suffix in TEXT_SUFFIXES:
            yield path


def problems(rule: Rule, *, suffix: str | None) -> list[str]:
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if (suffix is None or path.suffix == suffix) and not name.startswith(VERBATIM):
            file = File(name, path.read_text(encoding="utf-8"))
            found += [f"{name}:{problem}" for problem in rule(file)]
    return found


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.__name__)
def test_every_text_file_keeps_the_rule(rule):
    found = problems(rule, suffix=None)

    assert not found, "\n".join(found)


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.__name__)
def test_every_python_file_keeps_the_rule(rule):
    found = problems(rule, suffix=".py")

    assert not found, "\n".join(found)


@pytest.mark.parametrize("rule", MARKDOWN_RULES, ids=lambda rule: rule.__name__)
def test_every_page_keeps_the_rule(rule):
    found = problems(rule, suffix=".md")

    assert not found, "\n".join(found)


def test_the_walk_sees_this_file_and_the_package():
    names = {path.relative_to(ROOT).as_posix() for path in files()}

    assert {"tests/tidy/test_tidy.py", "distributed_grid/errors.py", "Makefile", ".ci/run"} <= names
    assert not any(name.startswith(".venv") for name in names)


KERNEL = "distributed_grid/kernel/placement/score.py"
OPEN = "TO" + "DO"
LONG = "a" * 101
BROKEN: list[tuple[Rule, str, str]] = [
    (rules.no_trailing_space, "a.md", "word \n"),
    (rules.no_trailing_space, "a.md", "no end"),
    (rules.nothing_postponed, "a.py", f"# {OPEN}: later\n"),
    (rules.no_machine_paths, "a.md", f"see /{'work'}/main\n"),
    (rules.no_machine_paths, "a.md", f"see `/{'home'}/ada/grid`\n"),
    (rules.no_registry_hosts, "a.sh", f"curl https://{'py'}pi.org/simple\n"),
    (rules.no_registry_hosts, "a.sh", f"docker pull {'ghcr'}.io/grid\n"),
    (rules.no_drawers, "distributed_grid/utils.py", ""),
    (rules.no_drawers, "distributed_grid/common/size.py", ""),
    (rules.says_what_it_is, "distributed_grid/size.py", "SIZE = 1\n"),
    (rules.short_enough, "a.py", "x = 1\n" * 401),
    (rules.short_functions, "a.py", "def f():\n" + "    x = 1\n" * 60),
    (rules.decides_without_waiting, KERNEL, "async def f(): ...\n"),
    (rules.no_hidden_dice, "a.py", "import random\nx = random.random()\n"),
    (rules.no_hidden_dice, "a.py", "from random import choice\n"),
    (rules.no_sleep_in_tests, "tests/a.py", "import time\ntime.sleep(1)\n"),
    (rules.no_sleep_in_tests, "tests/a.py", "from time import sleep\n"),
    (rules.integers_only, KERNEL, "x = 0.5\n"),
    (rules.integers_only, KERNEL, "def f(x: float) -> None: ...\n"),
    (rules.integers_only, KERNEL, "x = np.float64(1)\n"),
    (rules.integers_only, KERNEL, "x = 3 / 2\n"),
    (rules.numpy_at_home, "distributed_grid/cli/place.py", "import numpy as np\n"),
    (rules.numpy_at_home, "distributed_grid/cli/place.py", "from numpy.linalg import norm\n"),
    (rules.readable_prose, "a.py", f"# {LONG}\n"),
    (rules.readable_prose, "a.py", f'"""Title.\n\n{LONG}\n"""\n'),
    (rules.one_title, "a.md", "# One\n\n# Two\n"),
    (rules.one_title, "a.md", "## None\n"),
]
FINE: list[tuple[Rule, str, str]] = [
    (rules.nothing_postponed, "a.py", f"# {OPEN} (#12): later\n"),
    (rules.no_machine_paths, "a.md", "docs/work/plan.md and $HOME/grid and /home/ alone\n"),
    (rules.says_what_it_is, "tests/unit/test_size.py", "SIZE = 1\n"),
    (rules.says_what_it_is, "tests/__init__.py", ""),
    (rules.short_enough, "a.py", '"""Title."""\n\nimport re\n\n# Why.\n' + "x = 1\n" * 400),
    (rules.short_functions, "a.py", "def f():\n" + "    x = 1\n" * 59),
    (rules.decides_without_waiting, "distributed_grid/agent/loop.py", "async def f(): ...\n"),
    (rules.no_hidden_dice, "a.py", "import random\nx = random.Random(7).random()\n"),
    (rules.no_sleep_in_tests, "distributed_grid/edges/x.py", "import time\ntime.sleep(1)\n"),
    (rules.integers_only, KERNEL, "x = 3 // 2\n"),
    (rules.integers_only, "distributed_grid/kernel/liveness.py", "x = 0.5\n"),
    (rules.numpy_at_home, "distributed_grid/kernel/placement/columns.py", "import numpy as np\n"),
    (rules.readable_prose, "a.py", f'x = "{LONG}"\n'),
    (rules.readable_prose, "a.py", f"# https://example.org/{LONG}\n"),
    (rules.readable_prose, "a.py", f"x = {'1 + ' * 20}1  # noqa: A001  {LONG}\n"),
    (rules.one_title, "a.md", "# One\n\n```sh\n# not a title\n```\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_rule_notices_what_breaks_it(rule, path, text):
    assert list(rule(File(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), FINE)
def test_a_rule_lets_good_work_pass(rule, path, text):
    assert list(rule(File(path, text))) == []


def test_every_rule_was_seen_to_bite():
    seen = {rule for rule, _, _ in BROKEN}

    assert seen == {*TEXT_RULES, *PYTHON_RULES, *MARKDOWN_RULES}


def test_every_allowed_float_is_still_there():
    stale = {
        (path, place)
        for path, place in rules.FLOATS_ALLOWED
        if place
        not in {found for found, _, _ in rules.floats(ast.parse((ROOT / path).read_text("utf-8")))}
    }

    assert stale == set()
