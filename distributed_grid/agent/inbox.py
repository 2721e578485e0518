"""What other nodes have said and waits for its step: each in its turn, each on its account.

Lives here: whose words come next, and when there are too many. Never here: what they mean.
Invariant: of one sender's words the order stays; nobody waits behind who says much, and what has
no room is dropped: it will be said again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from distributed_grid.kernel.accounts import LIMITS, ByteAccounts, Rank
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.job_lane import JobMessage

WORD_BYTES: Final = 1 << 10  # Of a word in memory, beside those that it had on the way.
STEP_WORDS_MAX: Final = 64  # In one step: others get their turn after some milliseconds.
STEP_BYTES_MAX: Final = 1 << 20


class Inbox:
    """The words of all peers."""

    def __init__(self, rank: Callable[[NodeId], Rank]) -> None:
        self.accounts = ByteAccounts(LIMITS["messages"])
        self.dropped = 0
        self._rank = rank
        self._of: dict[NodeId, deque[tuple[JobMessage, int]]] = {}  # Whose turn is next, first.
        self._news = asyncio.Event()

    def put(self, peer: NodeId, word: JobMessage, size: int) -> None:
        """A peer has said something, in so many bytes."""
        size += WORD_BYTES
        if not self.accounts.has_room(peer, self._rank(peer), size):
            self.dropped += 1
            return
        self.accounts.add(peer, size)
        self._of.setdefault(peer, deque()).append((word, size))
        self._news.set()

    async def some(self) -> list[tuple[NodeId, JobMessage]]:
        """What may be heard in one step, once there is something."""
        while not self._of:
            self._news.clear()
            await self._news.wait()
        words: list[tuple[NodeId, JobMessage]] = []
        left = STEP_BYTES_MAX
        while self._of and left > 0 and len(words) < STEP_WORDS_MAX:
            peer, waiting = next(iter(self._of.items()))
            del self._of[peer]
            word, size = waiting.popleft()
            if waiting:
                self._of[peer] = waiting
            self.accounts.add(peer, -size)
            words.append((peer, word))
            left -= size
        return words
