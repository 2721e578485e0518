"""The `grid` command: one file per noun, loaded only when it is called.

Lives here: how it starts, the way errors become one line and an exit code.
Never here: the list of commands (`commands`), what one does (its own file), how tables look
(`render`).

click costs a start as much as Python itself, and the most used command needs none of it: so `run`
without options goes past it.
"""

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, Final

from distributed_grid.cli import project
from distributed_grid.cli.tell import is_unwritten, lose, sentence, tell
from distributed_grid.errors import EXIT_GRID, GridError

EXIT_INTERRUPTED: Final = 130  # Ctrl-C, as in a shell.
OF_JOBS: Final = ("run", "run-shared", "wait")  # 1 would be taken for the job's own code.
OPTION_VARIABLES: Final = ("GRID_LOG_FORMAT", "GRID_LOG_LEVEL", "_GRID_COMPLETE")


def main() -> None:
    """Run `grid`; every error of ours is one line on stderr and an exit code."""
    try:
        with _ending_at_once():
            _open_standard_streams()
            code = _exit_code()
            sys.stdout.flush()
    except OSError as error:
        # The reader has gone (`grid place … | head`), or its disk is full: no traceback, and none
        # at interpreter exit.
        if is_unwritten(error):
            lose(sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            tell(f"grid: {sentence(error)}")
        code = EXIT_GRID if sys.argv[1:2] and sys.argv[1] in OF_JOBS else 1
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
        is_plain = is_plain_run(words) and project.found() is None
        return _plain_run(words) if is_plain else _commanded()
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

    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # Loaded: it may be raised again.
        signal.signal(signal.SIGINT, signal.default_int_handler)
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
        with _ending_at_once():
            return importlib.import_module(module)
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _ending_at_once() -> Iterator[None]:
    """Ctrl-C ends the process without a word, as long as nothing was begun.

    A KeyboardInterrupt would be raised anywhere: C code that makes types swallows it, leaves half a
    type behind, and crashes over that later.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # Somebody heeds or ignores it already.
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
