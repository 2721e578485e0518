"""The rules of the house that no linter knows, each a function from one file to its problems.

Lives here: rules about Python sources and about every text file. Never here: rules about links
(tests/docs/test_pages.py), about imports (pyproject.toml), about what the formatter can mend.
Invariant: a rule is pure; it sees a path inside the checkout and the text, nothing else.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

LINES_MAX = 400  # Of code. Beyond this nobody keeps a file in one head; aim for 120.
FUNCTION_LINES_MAX = 60  # A function fits on a screen.
COLUMNS_MAX = 100
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Drawers: names under which anything can be put.
DRAWERS = frozenset(
    {"base", "common", "helper", "helpers", "manager", "misc", "shared", "tools", "util", "utils"}
)

PACKAGE = "distributed_grid/"
INTEGERS_ONLY = tuple(PACKAGE + name for name in ("model/", "wire/", "kernel/placement/"))
NO_AWAIT = tuple(PACKAGE + name for name in ("kernel/", "model/", "wire/"))
# (file, top-level name) -> why it may divide or meet a float: no decision rests on one.
_READS = "a file may hold a float; its shortest form is read digit by digit"
_SHOWS = "words for people; nothing is computed from them"
_EXACT = "fractions, which divide exactly"
FLOATS_ALLOWED = {
    ("distributed_grid/kernel/placement/skew.py", "SkewMonitor"): _EXACT,
    ("distributed_grid/kernel/placement/skew.py", "_trie_shares"): _EXACT,
    ("distributed_grid/model/bytesize.py", "text"): _SHOWS,
    ("distributed_grid/model/duration.py", "text"): _SHOWS,
    ("distributed_grid/model/milli.py", "number"): _SHOWS,
    ("distributed_grid/model/milli.py", "written"): _READS,
}

POSTPONED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!\s*\(#\d+\))")
PRAGMA = re.compile(r"\s*#\s*(?:noqa|type: ignore|pragma:|fmt:|shellcheck).*$")
URL = re.compile(r"https?://\S+")
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/[a-z][\w-]*)/")
REGISTRY = re.compile(
    r"\b(?:(?:pypi|pythonhosted|npmjs|gcr|ghcr|quay|crates|docker)\.(?:org|com|io)"
    r"|pypi\.python|registry\.[a-z]\w*\.[a-z]+)\b"
)


class File(NamedTuple):
    """One file of the checkout."""

    path: str
    text: str

    def code_lines(self) -> list[str]:
        """Without blank lines, imports, docstrings and comments."""
        prose: set[int] = set()
        for node in ast.walk(self.tree()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                prose.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        return [
            line
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#") and number not in prose
        ]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def is_package(self) -> bool:
        return self.path.startswith(PACKAGE)

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    def tree(self) -> ast.Module:
        return ast.parse(self.text)


Rule = Callable[[File], Iterator[str]]


# --- Every text file -----------------------------------------------------------------------------


def no_trailing_space(file: File) -> Iterator[str]:
    for number, line in _lines(file):
        if line != line.rstrip():
            yield f"{number}: trailing whitespace"
    if file.text and not file.text.endswith("\n"):
        yield "the last line has no end"


def nothing_postponed(file: File) -> Iterator[str]:
    for number, line in _lines(file):
        if POSTPONED.search(line):
            yield f"{number}: postponed work without an issue number"


def no_machine_paths(file: File) -> Iterator[str]:
    for number, line in _lines(file):
        if MACHINE_PATH.search(line):
            yield f"{number}: a path of somebody's machine"


def no_registry_hosts(file: File) -> Iterator[str]:
    for number, line in _lines(file):
        if REGISTRY.search(line):
            yield f"{number}: the host of a registry (pip's own settings choose it)"


# --- Python --------------------------------------------------------------------------------------


def no_drawers(file: File) -> Iterator[str]:
    words = [*PurePosixPath(file.path).parent.parts, file.stem.removeprefix("test_")]
    for word in DRAWERS.intersection(words):
        yield f"{word!r} is a drawer: name the thing inside"


def says_what_it_is(file: File) -> Iterator[str]:
    # The names of tests are sentences already; an empty __init__ has nothing to say.
    if (
        file.text.strip()
        and not file.stem.startswith("test_")
        and not ast.get_docstring(file.tree())
    ):
        yield "the module has no docstring: say what lives here, and what never does"


def short_enough(file: File) -> Iterator[str]:
    count = len(file.code_lines())
    if count > LINES_MAX:
        yield f"{count} lines of code, at most {LINES_MAX}"


def short_functions(file: File) -> Iterator[str]:
    for node in ast.walk(file.tree()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"


def decides_without_waiting(file: File) -> Iterator[str]:
    if not file.path.startswith(NO_AWAIT):
        return
    for node in ast.walk(file.tree()):
        if isinstance(node, ast.AsyncFunctionDef):
            yield f"{node.lineno}: async def {node.name}: the kernel never waits"


def no_hidden_dice(file: File) -> Iterator[str]:
    allowed = {"Random", "SystemRandom"}
    for node in ast.walk(file.tree()) if "random" in file.text else ():
        match node:
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if name not in allowed:
                yield f"{node.lineno}: random.{name}: take a random.Random as an argument"
            case ast.ImportFrom(module="random", names=names):
                for alias in names:
                    if alias.name not in allowed:
                        yield f"{node.lineno}: {alias.name} of random: take a random.Random"
            case _:
                pass


def no_sleep_in_tests(file: File) -> Iterator[str]:
    if not file.is_test or "sleep" not in file.text:
        return
    for node in ast.walk(file.tree()):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                yield f"{node.lineno}: a sleep: wait for what you expect"
            case ast.ImportFrom(module="time", names=names) if any(
                a.name == "sleep" for a in names
            ):
                yield f"{node.lineno}: a sleep: wait for what you expect"
            case _:
                pass


def integers_only(file: File) -> Iterator[str]:
    if not file.path.startswith(INTEGERS_ONLY):
        return
    for place, line, what in floats(file.tree()):
        if (file.path, place) not in FLOATS_ALLOWED:
            yield f"{line}: {what}: machines must agree here, use integers with a unit"


def floats(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """(top-level name, line, what) of everything that is a float or makes one."""
    for top in tree.body:
        for node in ast.walk(top):
            match node:
                case ast.Constant(value=float()):
                    what = f"the float {node.value}"
                case ast.Name(id="float"):
                    what = "the type float"
                case ast.Attribute(attr=name) if name.startswith(("float", "double")):
                    what = f"the type {name}"
                case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                    what = "a true division"
                case _:
                    continue
            yield getattr(top, "name", ""), node.lineno, what


def numpy_at_home(file: File) -> Iterator[str]:
    if not file.is_package or file.path.startswith(PACKAGE + "kernel/placement/"):
        return
    if "numpy" not in file.text:
        return
    for node in ast.walk(file.tree()):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        if any(name.split(".")[0] == "numpy" for name in names):
            yield f"{node.lineno}: numpy outside kernel/placement"


def readable_prose(file: File) -> Iterator[str]:
    """Comments and docstrings wrap at 100 columns; code is the formatter's affair."""
    lines = file.text.splitlines()
    if all(len(line) <= COLUMNS_MAX for line in lines):
        return
    prose = set(_comment_lines(file)) | set(_docstring_lines(file.tree()))
    for number in sorted(prose):
        line = URL.sub("", PRAGMA.sub("", lines[number - 1]))
        if len(line) > COLUMNS_MAX:
            yield f"{number}: {len(line)} columns of prose, at most {COLUMNS_MAX}"


def _comment_lines(file: File) -> Iterator[int]:
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0]


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


# --- Markdown ------------------------------------------------------------------------------------


def one_title(file: File) -> Iterator[str]:
    titles = [line for line in _outside_fences(file.text) if line.startswith("# ")]
    if len(titles) != 1:
        yield f"{len(titles)} titles, exactly one is needed"


def _outside_fences(text: str) -> Iterator[str]:
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def _lines(file: File) -> Iterator[tuple[int, str]]:
    return enumerate(file.text.split("\n"), start=1)


TEXT_RULES: tuple[Rule, ...] = (
    no_trailing_space,
    nothing_postponed,
    no_machine_paths,
    no_registry_hosts,
)
PYTHON_RULES: tuple[Rule, ...] = (
    no_drawers,
    says_what_it_is,
    short_enough,
    short_functions,
    decides_without_waiting,
    no_hidden_dice,
    no_sleep_in_tests,
    integers_only,
    numpy_at_home,
    readable_prose,
)
MARKDOWN_RULES: tuple[Rule, ...] = (one_title,)
