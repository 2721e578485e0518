"""Where Grid keeps things on a machine: data, configuration, the socket.

Lives here: the paths, as a function of the environment. Never here: making directories, locks
(`edges.home`).
Invariant: the same environment gives the same paths, in the agent and in everyone who calls it.

With `GRID_HOME` everything is below it. Else the XDG places count. The socket is in the data
directory, so that cron jobs and other logins, which have no XDG_RUNTIME_DIR or another one, find
the agent too; only where that path is too long for a socket the runtime directory is used.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from distributed_grid.errors import BadValue, GridError

# A socket's path has 108 bytes on Linux and 104 on macOS, the final zero included.
SOCKET_PATH_BYTES_MAX: Final = 103


class SocketPathTooLong(GridError):
    """There is no place for the socket whose path is short enough."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: the path of a socket has at most {SOCKET_PATH_BYTES_MAX} bytes, "
            f"this one {len(path.encode(errors='surrogateescape'))}",
            remedy="Choose a shorter data directory (GRID_HOME), or set XDG_RUNTIME_DIR",
        )


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """The places of one agent."""

    data: str  # A directory; what must outlive the agent.
    config: str  # A directory.
    socket: str  # The agent's, on which everyone calls it.

    @property
    def database(self) -> str:
        """The store."""
        return f"{self.data}/grid.db"

    @property
    def lock(self) -> str:
        """Held by the agent as long as it lives."""
        return f"{self.data}/agent.lock"

    @property
    def agent_pid(self) -> str:
        """The agent's process id."""
        return f"{self.data}/agent.pid"

    @property
    def keeper_pid(self) -> str:
        """The keeper's process id."""
        return f"{self.data}/keeper.pid"

    @property
    def name(self) -> str:
        """A file with the name that was given to this node."""
        return f"{self.data}/name"

    @property
    def agent_log(self) -> str:
        """What a detached agent says."""
        return f"{self.data}/agent.log"

    @property
    def jobs(self) -> str:
        """A directory with one for each job: its output and its scratch space."""
        return f"{self.data}/jobs"


def locate(environ: Mapping[str, str], *, user_home: str, data_dir: str | None = None) -> Home:
    """The places of the agent of this environment, or of the one in `data_dir`."""
    grid_home = _absolute(environ.get("GRID_HOME"))
    for path, name in ((environ.get("GRID_HOME"), "GRID_HOME"), (data_dir, "the data directory")):
        if path and not path.startswith("/"):
            raise BadValue(path, expected=f"{name} as an absolute path", remedy="Begin it with /")
    config = (
        grid_home or f"{_absolute(environ.get('XDG_CONFIG_HOME')) or f'{user_home}/.config'}/grid"
    )
    data = data_dir or grid_home
    if data is None:
        data = f"{_absolute(environ.get('XDG_DATA_HOME')) or f'{user_home}/.local/share'}/grid"
    data = data.rstrip("/") or "/"
    return Home(data=data, config=config, socket=_socket(data, environ, is_own=data_dir is None))


def _absolute(path: str | None) -> str | None:
    # The XDG specification: a path that is not absolute is to be ignored.
    return path.rstrip("/") or "/" if path and path.startswith("/") else None


def _socket(data: str, environ: Mapping[str, str], *, is_own: bool) -> str:
    path = f"{data}/agent.sock"
    if _fits(path):
        return path
    runtime = _absolute(environ.get("XDG_RUNTIME_DIR"))
    # Shared by all data directories of a user, so only the usual one may use it.
    if runtime and is_own and "GRID_HOME" not in environ and _fits(f"{runtime}/grid/agent.sock"):
        return f"{runtime}/grid/agent.sock"
    raise SocketPathTooLong(path)


def _fits(path: str) -> bool:
    return len(path.encode(errors="surrogateescape")) <= SOCKET_PATH_BYTES_MAX
