"""Where the agent of this machine listens, and whether it is about to come back.

Lives here: the places (`model.home`) of this process's environment. Never here: connecting.
"""
# pathlib would cost every `grid run` some milliseconds.
# ruff: noqa: PTH100, PTH111, PTH118, PTH120, PTH123

import os

from distributed_grid.model.home import Home, locate


def home_of(data_dir: str | None) -> Home:
    """The places of the agent in this directory, or of the usual one."""
    told = os.path.abspath(data_dir) if data_dir else None
    return locate(os.environ, user_home=os.path.expanduser("~"), data_dir=told)


def is_coming_back(socket: str) -> bool:
    """Whether a keeper lives beside this socket: it starts the agent again within a second."""
    try:
        with open(os.path.join(os.path.dirname(socket), "keeper.pid"), "rb") as file:
            pid = int(file.read(32))
        os.kill(pid, 0)
    except (OSError, ValueError, OverflowError):
        return False
    return pid > 0
