"""After a start: nothing that was begun goes on before the other holders were asked about it.

Lives here: the questions of a restarted node, and what follows from the answers. Never here: what
the answers contain (`meeting` joins it).
Invariant: a job that is in doubt is not placed, and its record is not copied to anybody.
"""

from typing import Final, Literal

import msgspec

from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import INQUIRED_MAX, Inquiry

TAKEOVER_MS: Final = 3_000  # Three positions: by then somebody else has taken over, if anybody.
AGAIN_MS: Final = 1_000  # Who has not answered is asked again.

Outcome = Literal[
    "same",  # It goes on as it was.
    "anew",  # Nobody answered: it goes on under a new epoch, in case somebody took it over.
    "untracked",  # Nobody knows it any more after so long: a person may say that it runs again.
]


class Doubt(msgspec.Struct):
    """A job that may have gone on without this node."""

    names: frozenset[NodeId]  # Who holds its record.
    since_ms: int
    must_be_known: bool  # This node was away for too long: somebody must say that it is unfinished.
    is_voted_on: bool = False  # If nobody answers, its voters are who must let it go on.
    answered: set[NodeId] = set()
    is_known: bool = False

    def outcome(self, now_ms: int) -> Outcome | None:
        """What follows by now; None: wait."""
        is_late = now_ms >= self.since_ms + TAKEOVER_MS
        if self.must_be_known:
            if self.is_known:
                return "same"
            return "untracked" if self.answered >= self.names else None
        if self.answered >= self.names or (is_late and self.answered):
            return "same"
        if not is_late:
            return None
        return "same" if self.is_voted_on else "anew"


class Returning:
    """The jobs that are in doubt since this start."""

    def __init__(self) -> None:
        self.doubts: dict[JobId, Doubt] = {}
        self._asked_ms: int | None = None

    def settle(self, job: JobId) -> None:
        """It is no longer in doubt."""
        self.doubts.pop(job, None)

    def is_unsure(self, job: JobId) -> bool:
        """Whether this node was away for so long that its own word is worth nothing."""
        doubt = self.doubts.get(job)
        return doubt is not None and doubt.must_be_known

    def answered(self, job: JobId, node: NodeId, *, is_known: bool) -> None:
        """A holder says what it has."""
        doubt = self.doubts.get(job)
        if doubt is not None and node in doubt.names:
            doubt.answered.add(node)
            doubt.is_known = doubt.is_known or is_known

    def tick(self, now_ms: int, ready: Ready) -> list[tuple[JobId, Outcome]]:
        """Ask whoever has not answered; tell what is decided."""
        decided = [
            (job, outcome)
            for job, doubt in self.doubts.items()
            if (outcome := doubt.outcome(now_ms)) is not None
        ]
        for job, _ in decided:
            self.settle(job)
        if self.doubts and (self._asked_ms is None or now_ms - self._asked_ms >= AGAIN_MS):
            self._asked_ms = now_ms
            self._ask(ready)
        return decided

    def _ask(self, ready: Ready) -> None:
        asked: dict[NodeId, list[JobId]] = {}
        for job, doubt in self.doubts.items():
            for node in doubt.names - doubt.answered:
                asked.setdefault(node, []).append(job)
        inquire(asked, ready)


def inquire(questions: dict[NodeId, list[JobId]], ready: Ready, *, is_short: bool = False) -> None:
    """Ask each node for its jobs, many in one message."""
    for node in sorted(questions):
        jobs = questions[node]
        for start in range(0, len(jobs), INQUIRED_MAX):
            some = tuple(jobs[start : start + INQUIRED_MAX])
            ready.send.append((node, Inquiry(jobs=some, is_short=is_short)))
