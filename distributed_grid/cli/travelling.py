"""How far the files of a job are, or why it waits, in one line of the terminal for who waits.

Lives here: when to look, and what is shown. Never here: who counts (`agent.transits`).
Invariant: without a terminal nothing is asked and nothing is written; nothing goes to stdout. What
cannot be found out is not shown: the job is what counts.
"""

import sys
import time
from typing import Final

from distributed_grid.cli.tell import live, wipe
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller
from distributed_grid.errors import GridError, NotFound
from distributed_grid.model.job import JobSpec

LOOK_S: Final = 0.5  # While something moves; and before the first look: most jobs begin at once.
WAITING_S: Final = 2.0  # While it waits for something else.
RUNNING_S: Final = 5.0  # While it runs: it may have to begin anew, and its outputs travel, too.
NEVER_S: Final = 3_600.0


class Travelling:
    """Tells a person where the files are; a `Meanwhile` of whoever asks the agent."""

    def __init__(self, agent: Caller, spec: JobSpec) -> None:
        self._agent, self._spec = agent, spec
        self._is_on = sys.stderr.isatty()
        self._is_looking = False
        self._next_s = time.monotonic() + LOOK_S

    def due_s(self) -> float:
        """In how many seconds to look."""
        if not self._is_on or self._is_looking:
            return NEVER_S
        return max(self._next_s - time.monotonic(), 0)

    def look(self) -> None:
        """Look, and show what there is."""
        self._is_looking = True
        try:
            self._next_s = time.monotonic() + self._shown()
        except GridError:  # Whoever waits for the job will hear of it, too.
            self._next_s = time.monotonic() + RUNNING_S
        finally:
            self._is_looking = False

    def _shown(self) -> float:
        """Show how far it is; until when that will do."""
        name = self._spec.name
        try:
            view = self._agent.run(calls.job(f"id:{self._spec.id}"))
        except NotFound:  # The agent takes its files before it takes the job.
            live(f"grid: {name}: its files are packed")
            return LOOK_S
        if view.transits:
            live(f"grid: {name}: {view.transits[0]}")
            return LOOK_S
        if view.state == "waiting":
            why = self._agent.run(calls.explain(f"id:{self._spec.id}"))
            live(f"grid: {name} waits: {why.summary}")
            return WAITING_S
        wipe()
        return RUNNING_S
