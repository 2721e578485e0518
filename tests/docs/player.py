"""Plays one page as its reader would: writes its files, runs its commands and its Python, in order.

    python -m tests.docs.player docs/start.md FOLDER

Lives here: what is run, and how output is compared. Never here: Markdown (`pages`).
Invariant: one process per page, so that what a page registers or imports is gone with it.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs import pages
from tests.docs.pages import ROOT, Block

RUN_AS_COMMANDS = "console"
RUN_AS_PYTHON = frozenset({"python", "pycon"})
INERT = frozenset({"diff", "ini", "json", "markdown", "mermaid", "text", "toml", "yaml"})
COMMAND_SECONDS_MAX = 120

# Commands that a test of the docs must not run (they run the tests, or change the machine), each
# with the file that does the real thing.
ELSEWHERE = {
    "git clone": ".ci/run",  # Runs in a fresh clone.
    "make bench": "tests/speed/test_placement_benchmark.py",
    "make check": ".ci/run",
    "make demo": "tests/e2e/test_demo.py",
    "make docs": ".ci/run",
    "make e2e": ".ci/run",
    "make edge": "tests/e2e/test_setup.py",
    "make format": "tests/e2e/test_setup.py",
    "make mesh": ".ci/run",
    "make rows": "tests/tidy/test_rows.py",
    "make rows-audit": "tests/tidy/test_rows.py",
    "make setup": "tests/e2e/test_setup.py",
    "make test": ".ci/run",
    "make unit": "tests/e2e/test_setup.py",
    "pip install": "scripts/setup",
}


class Command(NamedTuple):
    """One `$ ` line with the output the page shows; '' means the page shows none."""

    line: int
    words: str
    exit_code: int
    expected: str


class Wrong(Exception):
    """The page says something that is not so."""


def problems(text: str) -> Iterator[str]:
    """What would let a command escape, without running anything."""
    for block in pages.blocks(text):
        known = block.language in INERT | RUN_AS_PYTHON | {RUN_AS_COMMANDS}
        if not known:
            yield f"{block.line}: block of {block.language or 'no language'}: use console or an inert one"
        if block.title is not None and Path(block.title).name != block.title:
            yield f"{block.line}: title {block.title}: a plain file name is needed"
        if block.language == RUN_AS_COMMANDS:
            yield from _console_problems(block)
    for line in pages.prose(text):
        if re.match(r"^\s*(?:\$ |>>> )", line.text):
            yield f"{line.number}: a command outside a fence is never run"


def _console_problems(block: Block) -> Iterator[str]:
    if not block.body.startswith("$ "):
        yield f"{block.line}: a console block begins with a command: $ …"
    for command in commands(block):
        if re.match(r"(?:cd|export)\b", command.words):
            yield f"{command.line}: {command.words}: does not carry over to the next line"


def commands(block: Block) -> list[Command]:
    """The commands of a console block, each with what follows it."""
    found: list[Command] = []
    for number, line in enumerate(block.body.splitlines(), start=block.line):
        if line.startswith("$ "):
            words, _, code = line[2:].partition("  # exit ")
            found.append(Command(number, words, int(code or 0), ""))
        elif found and line.startswith("> ") and found[-1].words.endswith("\\"):
            words, _, code = line[2:].partition("  # exit ")
            last = found[-1]
            found[-1] = last._replace(words=f"{last.words}\n{words}", exit_code=int(code or 0))
        elif found:
            found[-1] = found[-1]._replace(expected=found[-1].expected + line + "\n")
    return found


def runs_elsewhere(words: str) -> str | None:
    """The file that runs this command for real, if the docs must not."""
    return ELSEWHERE.get(" ".join(shlex.split(words, comments=True)[:2]))


def matches(expected: str, got: str) -> bool:
    """Like doctest: `…` or `...` in a line is anything, alone on a line any number of lines."""
    pattern = ""
    for line in expected.strip("\n").splitlines():
        if line.strip() in {"…", "..."}:
            pattern += r"(?:.*\n)*?"
        else:
            parts = re.split(r"…|\.\.\.", line.rstrip())
            pattern += ".*".join(map(re.escape, parts)) + r" *\n"
    return re.fullmatch(pattern, got.strip("\n") + "\n") is not None


def play(page: Path, folder: Path) -> None:
    """Run everything on the page, in order; raises Wrong at the first untruth."""
    for entry in ROOT.iterdir():  # The reader stands in a checkout.
        if not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    exclude = folder / ".git/info/exclude"  # Its jobs take along what the page writes, no links.
    exclude.parent.mkdir(parents=True)
    exclude.write_text("".join(f"/{entry.name}\n" for entry in ROOT.iterdir()), encoding="utf-8")
    os.chdir(folder)
    sys.path.insert(0, str(folder))  # A module that the page writes can be imported by the page.
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for block in pages.blocks(page.read_text(encoding="utf-8")):
        if block.title is not None:
            Path(block.title).unlink(missing_ok=True)
            Path(block.title).write_text(block.body, encoding="utf-8")
        elif block.language == RUN_AS_COMMANDS:
            for command in commands(block):
                _run(command)
        elif block.language in RUN_AS_PYTHON:
            _python(block, namespace, page.name)


def _run(command: Command) -> None:
    if runs_elsewhere(command.words):
        return
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    story = f"line {command.line}: $ {command.words}\n{done.stdout}"
    if done.returncode != command.exit_code:
        raise Wrong(f"{story}exit {done.returncode}, the page says {command.exit_code}")
    if command.expected.strip() and not matches(command.expected, done.stdout):
        raise Wrong(f"{story}--- is not what the page shows:\n{command.expected}")


def _python(block: Block, namespace: dict[str, Any], name: str) -> None:
    if ">>> " in block.body:
        _doctest(block, namespace, name)
        return
    # Empty lines first, so that a traceback names the line of the page.
    source = "\n" * (block.line - 1) + block.body
    try:
        exec(compile(source, name, "exec"), namespace)
    except Exception as error:
        raise Wrong(f"line {block.line}: {traceback.format_exc()}") from error


def _doctest(block: Block, namespace: dict[str, Any], name: str) -> None:
    test = doctest.DocTestParser().get_doctest(block.body, namespace, name, name, block.line - 1)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    story = io.StringIO()
    result = doctest.DocTestRunner(optionflags=flags).run(test, out=story.write, clear_globs=False)
    namespace.update(test.globs)
    if result.failed:
        raise Wrong(story.getvalue())


def main() -> int:
    """Play the page named on the command line in the folder named after it."""
    page, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            play(page, folder)
        except Wrong as wrong:
            print(f"{page.name}: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
