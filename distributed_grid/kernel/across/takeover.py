"""Whose turn it is: records whose home is dead, and who of their holders looks after them next.

Lives here: when this node takes a job over. Never here: what follows (`meeting`).
Invariant: of an unfinished record somebody is always responsible. The first name on its list that
lives takes over, a second for each position later; whoever stands behind hands it the record, in
case it has none, and goes on itself if that is refused or not answered. Before, the other holders
are asked what they know: the last word may have reached only one of them.
"""

import heapq
from typing import Final

import msgspec

from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.returning import inquire
from distributed_grid.kernel.across.shelf import Kept, Shelf
from distributed_grid.kernel.across.verdicts import Verdicts
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.unusable import about
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Copy

POSITION_MS: Final = 1_000  # Between one name on the list and the next.
ASKED_MS: Final = 1_000  # For what the other holders know; who is silent for longer has no say.
HANDED_MAX: Final = 3  # Times that an earlier name is handed the record before it is passed over.
PATIENCE_MS: Final = 10_000  # It has the record, and sees the home alive: look again later.
TAKEN_MAX: Final = 256  # In one tick: a dead home may leave thousands.


class Turn(msgspec.Struct):
    """How far this node is with a record that may become its own."""

    due_ms: int
    since_ms: int  # Since when its home is dead, or knows nothing of it.
    handed: int = 0  # Times that the earlier name was handed the record.
    handed_to: NodeId = NodeId("")
    passed: set[NodeId] = set()  # Earlier names that live, and do not take it.
    asked_until_ms: int = 0  # 0: nobody was asked yet.
    silent: set[NodeId] = set()  # Those that were asked and have not answered.


class Takeovers:
    """Every record whose home is dead in this node's view."""

    def __init__(self, shelf: Shelf, verdicts: Verdicts) -> None:
        self._shelf = shelf
        self._verdicts = verdicts
        self.turns: dict[JobId, Turn] = {}
        self._line: list[tuple[int, JobId]] = []  # A heap; what no longer holds is passed over.
        self._questions: dict[NodeId, list[JobId]] = {}

    def watch(self, job: JobId, now_ms: int, *, is_disowned: bool = False) -> None:
        """The home of this job is dead, or knows nothing of it."""
        if job not in self.turns:
            self.turns[job] = Turn(due_ms=now_ms, since_ms=now_ms if is_disowned else -1)
            self._put(job, now_ms)
        elif is_disowned and self.turns[job].since_ms < 0:
            self.turns[job].since_ms = now_ms

    def forget(self, job: JobId) -> None:
        """It is looked after."""
        self.turns.pop(job, None)

    def heard(self, job: JobId, node: NodeId, *, takes: bool | None, now_ms: int) -> None:
        """An answer: it has the record now, or not (None: only what it knows)."""
        turn = self.turns.get(job)
        if turn is None:
            return
        turn.silent.discard(node)
        if turn.asked_until_ms and not turn.silent:
            self._again(job, turn, now_ms)
        if takes is False:
            turn.passed.add(node)
            self._again(job, turn, now_ms)
        elif takes and node == turn.handed_to:
            turn.handed = 0
            self._again(job, turn, now_ms + PATIENCE_MS)

    def due(self, now_ms: int, ready: Ready) -> list[Kept]:
        """The records that are this node's to look after from now on."""
        mine: list[Kept] = []
        while self._line and self._line[0][0] <= now_ms and len(mine) < TAKEN_MAX:
            due_ms, job = heapq.heappop(self._line)
            turn = self.turns.get(job)
            if turn is None or turn.due_ms != due_ms:
                continue
            kept = self._shelf.unfinished.get(job)
            if kept is None:
                self.forget(job)  # It has ended meanwhile, on whosever word.
                continue
            with about("record", job):
                is_mine = self._is_mine(job, kept, turn, now_ms, ready)
            if is_mine:
                self.forget(job)
                mine.append(kept)
        inquire(self._questions, ready)
        self._questions.clear()
        return mine

    def _is_mine(self, job: JobId, kept: Kept, turn: Turn, now_ms: int, ready: Ready) -> bool:
        """Look at one; if it is not to be taken over now, it is looked at again or forgotten."""
        since_ms = self._since_ms(kept, turn, now_ms)
        if since_ms is None:
            if self._verdicts.sees(kept.home):
                self.forget(job)  # It lives; its next death begins another turn.
            else:
                self._again(job, turn, now_ms + POSITION_MS)  # It restarts, or we just have.
            return False
        position = self._position(kept)
        if now_ms < since_ms + position * POSITION_MS:
            self._again(job, turn, since_ms + position * POSITION_MS)
            return False
        earlier = self._earlier(kept, turn, position, now_ms)
        if earlier is not None:
            self._hand(kept, turn, earlier, now_ms, ready)
            return False
        if not turn.asked_until_ms:
            self._ask(kept, turn, now_ms)
        if turn.silent and now_ms < turn.asked_until_ms:
            self._again(job, turn, turn.asked_until_ms)
            return False
        return True

    def _since_ms(self, kept: Kept, turn: Turn, now_ms: int) -> int | None:
        if turn.since_ms >= 0:
            return turn.since_ms
        if kept.home == self._verdicts.me:
            return now_ms  # Its home is this node, which has lost it and was handed it again.
        return self._verdicts.gone_since_ms(kept.home, now_ms)

    def _position(self, kept: Kept) -> int:
        """On the list; whoever is not, or no longer, comes after all names."""
        me = self._verdicts.me
        if kept.home == me:
            return 0
        return kept.guardians.index(me) if me in kept.guardians else len(kept.guardians)

    def _earlier(self, kept: Kept, turn: Turn, position: int, now_ms: int) -> NodeId | None:
        """The first name before this node's own that might take it."""
        for node in kept.guardians[:position]:
            is_out = node in turn.passed or node == kept.home
            if not is_out and not self._verdicts.is_gone(node, now_ms):
                return node
        return None

    def _hand(self, kept: Kept, turn: Turn, node: NodeId, now_ms: int, ready: Ready) -> None:
        if turn.handed_to != node:
            turn.handed_to, turn.handed = node, 0
        if turn.handed == HANDED_MAX:
            turn.passed.add(node)
            self._again(kept.job, turn, now_ms)
            return
        turn.handed += 1
        record = self._shelf.find(kept.job)
        if record is not None:
            ready.send.append((node, Copy(record=encode(record))))
        self._again(kept.job, turn, now_ms + POSITION_MS)

    def _ask(self, kept: Kept, turn: Turn, now_ms: int) -> None:
        record = self._shelf.find(kept.job)
        names = {*(record.holders if record else ())} - {self._verdicts.me, kept.home}
        turn.silent = {node for node in names if self._verdicts.sees(node)}
        turn.asked_until_ms = now_ms + ASKED_MS
        for node in turn.silent:
            self._questions.setdefault(node, []).append(kept.job)

    def _again(self, job: JobId, turn: Turn, at_ms: int) -> None:
        turn.due_ms = at_ms
        self._put(job, at_ms)

    def _put(self, job: JobId, at_ms: int) -> None:
        heapq.heappush(self._line, (at_ms, job))
