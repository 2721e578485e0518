"""How far the files of a job are, and why it waits, for who waits for it.

Lives here: when to look, and what is shown. Never here: who counts (`agent.transits`), the words of
a reason (`client.why_waiting`).
Invariant: nothing goes to stdout. Without a terminal nothing is asked in the first seconds, and
each reason is told once. What cannot be found out is not shown: the job is
what counts.
"""

import time
from collections.abc import Sequence
from typing import Final

from distributed_grid.cli.foreground import BEGIN_S
from distributed_grid.cli.tell import live, tell, wipe
from distributed_grid.cli.text import state
from distributed_grid.client import calls, why_waiting
from distributed_grid.client.blocking import Caller
from distributed_grid.errors import GridError, NotFound

LOOK_S: Final = 0.5  # While something moves.
RUNNING_S: Final = 5.0  # While it runs: it may be suspended, or begin anew, or outputs travel.
NEVER_S: Final = 3_600.0
JOBS_MAX: Final = 16  # Of those that somebody waits for: more would fill a page.


class Travelling:
    """Tells a person where files are and why jobs wait; a `Meanwhile` of whoever asks the agent.

    Jobs are words of the agent; `name` is the name of one that is not known there yet.
    """

    def __init__(
        self, agent: Caller, words: Sequence[str], name: str, *, from_s: float, has_line: bool
    ) -> None:
        self._agent, self._words, self._name = agent, list(words[:JOBS_MAX]), name
        self._has_line = has_line  # Of a terminal, to be written again and again.
        self._news = why_waiting.News()
        self._is_looking = False
        self._from_s, self._next_s = from_s, from_s

    def due_s(self) -> float:
        """In how many seconds to look."""
        if self._is_looking or not self._words:
            return NEVER_S
        return max(self._next_s - time.monotonic(), 0)

    def look(self) -> None:
        """Look, and show what there is."""
        self._is_looking = True
        try:
            next_s = min([self._shown(word) for word in list(self._words)], default=NEVER_S)
        except GridError:  # Whoever waits for the job will hear of it, too.
            next_s = RUNNING_S
        finally:
            self._is_looking = False
        self._next_s = time.monotonic() + next_s

    def _shown(self, word: str) -> float:
        """Show how far one is; until when that will do."""
        try:
            view = self._agent.run(calls.job(word))
        except NotFound:  # The agent takes its files before it takes the job.
            return self._say(f"{self._name}: its files are packed", LOOK_S)
        if view.transits:
            return self._say(f"{view.name}: {view.transits[0]}", LOOK_S)
        if view.state == "waiting":
            why = self._agent.run(calls.explain(word))
            told = why_waiting.sentence(view.name, why)
            return self._say(f"{view.name} waits: {why.summary}", why_waiting.LOOK_S, told)
        if state(view) == "suspended":
            summary = self._agent.run(calls.explain(word)).summary
            return self._say(f"{view.name}: {summary}", why_waiting.LOOK_S)
        wipe()
        return RUNNING_S

    def _say(self, line: str, next_s: float, told: str = "") -> float:
        """A line for a terminal; after some seconds, what stays."""
        if self._has_line:
            live(f"grid: {line}")
        is_time = time.monotonic() - self._from_s >= BEGIN_S
        if is_time and (told or not self._has_line) and (news := self._news.of(told or line)):
            tell(f"grid: {news}")
        return next_s if self._has_line else why_waiting.LOOK_S
