"""The seam through which an agent runs processes.

Lives here: the promise. Never here: how it is kept (`keeper` is the process that spawns and reaps,
`agent_link` the agent's end of the line to it, `memory` a stand-in without processes).
Invariant: whoever runs processes decides nothing about which, where or when.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

from distributed_grid.wire.keeper import Ended, Hello, Started, ToKeeper

Report = Started | Ended

KEEPER_FD: Final = "GRID_KEEPER_FD"  # The variable that names the agent's end of the socket pair.
REFUSED_CODE: Final = 78  # Of an agent that cannot work here, and said why (EX_CONFIG).
LOCK_FILE: Final = "keeper.lock"
PID_FILE: Final = "keeper.pid"
SOCKET_FILE: Final = "keeper.sock"
JOURNAL_FILE: Final = "keeper.journal"


class Runner(Protocol):
    """Starts and ends attempts, and tells how they ended.

    Every attempt that was sent with `Run` is answered by `Started` and `Ended` reports, the last of
    which says `is_last`; also when it could not be started. Reports are numbered upwards and come
    again, to whoever connects next, until they are acknowledged. A `Run` of an attempt that has
    work left and a `Stop` of one that has none change nothing. The iteration ends, and `send`
    raises `RunnerGone`, when the keeper is gone; there is no way back then but a new keeper.
    """

    hello: Hello

    async def send(self, message: ToKeeper) -> None:
        """Hand over a message; waits only while the keeper does not read."""
        ...

    async def receive(self) -> tuple[Report, ...]:
        """What has arrived, at least one report; nothing once the keeper is gone."""
        ...

    def __aiter__(self) -> AsyncIterator[Report]: ...

    async def close(self) -> None:
        """Hang up. Jobs go on; a keeper starts the next agent unless it was told to quit."""
        ...
