"""A job that looks for room on other nodes: whom it has asked, and who had better not be asked now.

Lives here: what is remembered of a job's search. Never here: whom to ask (`asking`).
Invariant: nobody who said no, or took it and did not begin, is asked before his time.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.entries import Asked
from distributed_grid.kernel.across.hands import unready
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord

GIVEN_BACK_MAX: Final = 1_000  # More are asked once too often, and give it back once more.
ANSWER_MS: Final = 2_000  # After so long nobody waits for an answer any more.


class GivenBack:
    """Who took a job and did not begin. Jobs cease to look for room meanwhile, and look again."""

    def __init__(self) -> None:
        self._until_ms: dict[tuple[JobId, NodeId], int] = {}

    def note(self, job: JobId, node: NodeId, until_ms: int, now_ms: int) -> None:
        """It is not asked again before."""
        kept = {key: at for key, at in self._until_ms.items() if at > now_ms}
        kept.pop((job, node), None)
        while len(kept) >= GIVEN_BACK_MAX:
            del kept[next(iter(kept))]
        self._until_ms = kept | {(job, node): until_ms}

    def by(self, job: JobId, now_ms: int) -> set[NodeId]:
        """Who is not asked for one job now."""
        found = self._until_ms.items()
        return {node for (of, node), until_ms in found if of == job and until_ms > now_ms}


class Wish(msgspec.Struct):
    """A job that looks for room."""

    job: Job
    given_back: GivenBack
    since_ms: int | None = None  # When it first looked around.
    asked: dict[NodeId, Asked] = {}
    refused: dict[NodeId, int] = {}  # Until when it is not asked again.
    why: dict[NodeId, tuple[str, ...]] = {}
    settled_ms: int = 0  # Until when it stays in the lines in which it stands.
    patient_ms: int = 0  # Until when it asks nobody: it may have an attempt after all.
    is_content: bool = False  # It has waited for the place that it would like: another will do.

    def is_cleared_by(self, node: NodeId | None = None) -> bool:
        """Whether others give way for it somewhere, but for this node."""
        return any(one.is_clearing for other, one in self.asked.items() if other != node)

    def has_had(self, lease: str) -> bool:
        """Whether an attempt was begun in this lease: one lease is for one of them."""
        return any(one.lease == lease for one in self.job.attempts)

    def is_hopeful(self, now_ms: int) -> bool:
        """Whether somebody was asked a moment ago, and has not answered yet."""
        asked = self.asked.values()
        return any(one.position is None and now_ms - one.at_ms < ANSWER_MS for one in asked)

    def unready(self, now_ms: int) -> set[NodeId]:
        """Who had it, and could not begin."""
        gave_back = self.given_back.by(self.job.spec.id, now_ms)
        return gave_back | unready(self.job, self.since_ms, now_ms)

    def not_now(self, now_ms: int) -> set[NodeId]:
        """Who is not asked now: those who were, who refused, and who could not begin."""
        refused = {node for node, until_ms in self.refused.items() if until_ms > now_ms}
        return refused | self.asked.keys() | self.unready(now_ms)


def leases_of(spec: JobSpec, record: NodeRecord | None) -> int:
    """How many to ask a node for: of an array, as many as it has room for."""
    if spec.array is None or record is None:
        return 1
    fits = record.total.cpu_milli // max(spec.request.cpu_milli, 1)
    return max(1, min(fits, spec.array.width or fits))
