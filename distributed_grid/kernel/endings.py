"""How a process ended, in words.

Lives here: the reason that people read when nobody noted a better one.
"""

from typing import Final

from distributed_grid.wire.keeper import Ended

# The numbers are those of Linux and macOS alike; others are told as numbers.
SIGNALS: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
}


def in_words(report: Ended) -> str:
    """Why a process did not end well."""
    if report.how == "exited":
        return f"exit code {report.code}"
    if report.how == "signalled":
        number = report.code - 128
        return f"killed by {SIGNALS.get(number, f'signal {number}')} (exit {report.code})"
    return f"{report.how} (exit {report.code})"
