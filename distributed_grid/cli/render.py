"""How things look on a terminal: tables, colours, progress. The only file that knows rich.

Lives here: consoles and tables. Never here: what is in them.
Data goes to stdout, talk to stderr; colour and boxes only where the terminal can show them.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 100_000  # Wider than any row: the longest cells are commands, cut at 1,000.
CUT_COLUMNS_MIN = 12  # Of a cell that may be cut: less tells nothing.
RULE_COLUMNS_MAX = 100  # As wide as our prose.


def out() -> Console:
    """The console for data."""
    return _console(stderr=False)


def talk() -> Console:
    """The console for words that are not data."""
    return _console(stderr=True)


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    cut: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> Table:
    """A table; a column whose name ends in '#' is a number and stands to the right.

    Where it is wider than the terminal, cells of the columns `cut` are cut, then columns are left
    out in the order of `spare`. Without either, its cells are wrapped.
    """
    made = Table(
        title=title, title_justify="left", title_style="bold", box=_box(), header_style="bold cyan"
    )
    # Not str: a name such as [/x] is no markup.
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    kept = _fitting(columns, cells, cut, spare)
    is_cut = bool(cut or spare)
    for name in kept:
        made.add_column(
            name.removesuffix("#"),
            justify="right" if name.endswith("#") else "left",
            no_wrap=is_cut and name not in cut,
        )
    for row in cells:
        shown = [cell for name, cell in zip(columns, row, strict=True) if name in kept]
        for cell in shown:
            cell.no_wrap, cell.overflow = is_cut, "ellipsis" if is_cut else None
        made.add_row(*shown)
    return made


def _fitting(
    columns: Sequence[str], cells: list[list[Text]], cut: Sequence[str], spare: Sequence[str]
) -> list[str]:
    """The columns for which the terminal has room."""
    wide = {
        name: max(len(name.removesuffix("#")), *(row[at].cell_len for row in cells), 0)
        for at, name in enumerate(columns)
    }
    least = wide | {name: min(wide[name], CUT_COLUMNS_MIN) for name in cut if name in wide}
    kept, room = list(columns), out().width
    for name in spare:
        if sum(least[one] + 3 for one in kept) < room:  # Each has two blanks and a line.
            break
        if name in kept:
            kept.remove(name)
    return kept


def rule(console: Console, title: str) -> None:
    """A line across, with words in it."""
    console.print(Rule(title), width=min(console.width, RULE_COLUMNS_MAX))


def progress(console: Console) -> Progress:
    """A progress bar that vanishes when done, and stays silent where there is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _console(*, stderr: bool) -> Console:
    # Into a pipe or a file nothing is wrapped or cut: other programs read it.
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_COLUMNS
    return Console(stderr=stderr, highlight=False, soft_wrap=False, width=width)


def _box() -> box.Box:
    utf8 = (sys.stdout.encoding or "").lower().startswith("utf")
    return box.ASCII if os.environ.get("TERM") == "dumb" or not utf8 else box.SIMPLE_HEAD
