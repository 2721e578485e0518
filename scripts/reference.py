"""Writes docs/reference/cli.md from the commands themselves: `make reference`.

Lives here: the shape of the page. Never here: words about a command (they stand beside it).
Invariant: the page depends on the commands alone, not on the machine or the terminal.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from distributed_grid.cli.commands import grid

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
HEAD = """\
# The commands

<!-- Written by `make reference` from the commands themselves; change those. -->

Every command prints data on stdout and talk on stderr.
Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 nothing fits or not found, 4 no agent,
5 not permitted.
"""


WIDTH = 100  # As wide as our prose.


def cli_page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_section(grid, _context(grid, None, "grid"))])


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    """A heading and the help of this command, then the same for those below it."""
    yield f"## {context.command_path}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            if not below.hidden:
                yield from _section(below, _context(below, context, name))


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    return click.Context(command, parent=parent, info_name=name, **settings)


def main() -> int:
    """Write the page, if it is not what it should be already."""
    page = cli_page()
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
        print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
