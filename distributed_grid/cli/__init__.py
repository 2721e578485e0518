"""The `grid` command: one file per noun, loaded only when it is called.

Lives here: how it starts, the way errors become one line and an exit code.
Never here: the list of commands (`commands`), what one does (its own file), how tables look
(`render`).

click costs a start as much as Python itself, and the most used command needs none of it: so `run`
without options goes past it.
"""

import gc
import importlib
import os
import sys
from typing import Any, Final

from distributed_grid.cli.tell import tell
from distributed_grid.errors import GridError

EXIT_INTERRUPTED: Final = 130  # Ctrl-C, as in a shell.
OPTION_VARIABLES: Final = ("GRID_LOG_FORMAT", "GRID_LOG_LEVEL", "_GRID_COMPLETE")


def main() -> None:
    """Run `grid`; every error of ours is one line on stderr and an exit code."""
    _open_standard_streams()
    try:
        code = _exit_code()
        sys.stdout.flush()
    except OSError as error:
        # The reader has gone (`grid place … | head`), or its disk is full: no traceback, and none
        # at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            tell(f"grid: cannot write: {error.strerror}. Make room, or write elsewhere.")
        code = 1
    gc.freeze()  # The memory goes back with the process: no need to look through it first.
    sys.exit(code)


def _open_standard_streams() -> None:
    """What was closed (`>&-`) leads nowhere: else the next socket would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115  (Python made it None)
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115


def _exit_code() -> int:
    words = sys.argv[1:]
    try:
        return _plain_run(words) if is_plain_run(words) else _commanded()
    except GridError as error:
        tell(f"grid: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def is_plain_run(words: list[str]) -> bool:
    """Whether it is `grid run CMD…` without any option, which needs nothing of click to be read."""
    has_word = len(words) > 1 and words[0] == "run" and not words[1].startswith("-")
    return has_word and not any(name in os.environ for name in OPTION_VARIABLES)


def _plain_run(words: list[str]) -> int:
    running = loaded("distributed_grid.cli.running")
    code: int = running.run(running.Told(words=tuple(words[1:])))
    return code


def _commanded() -> int:
    commands = loaded("distributed_grid.cli.commands")
    import click

    try:
        code = commands.grid(prog_name="grid", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def loaded(module: str) -> Any:
    """A module, loaded now."""
    was_enabled = gc.isenabled()
    gc.disable()  # Nothing dies while modules load; looking for it would cost milliseconds.
    try:
        return importlib.import_module(module)
    finally:
        if was_enabled:
            gc.enable()
