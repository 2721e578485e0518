"""Pauses that end together: whoever looks around now and then does it in one wake.

Lives here: who rests until which beat. Never here: what beats (`mesh`).
Invariant: nobody rests for longer than it wanted and one beat; without beats it is a plain sleep.

A process that wakes finds its caches cold, among thirty agents at any rate: each wake costs more
than what most of them look at.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

SHORT_S: Final = 0.25  # Whoever rests for less wants it exactly.

Rest = Callable[[float], Awaitable[None]]  # For so many seconds, or about as many.


class Resting(NamedTuple):
    """Somebody who rests."""

    until_s: float
    over: asyncio.Future[None]


class Pace:
    """The beats of one agent."""

    def __init__(self) -> None:
        self._resting: list[Resting] = []
        self._beat_s = 0.0  # Between two of them; 0: there are none.

    def begin(self, beat_s: float) -> None:
        """There are beats from now on, about so far apart."""
        self._beat_s = beat_s

    def end(self) -> None:
        """There are none any more: whoever rests looks around, and sleeps by itself."""
        self._beat_s = 0.0
        for one in self._resting:
            _wake(one)
        self._resting = []

    def beat(self) -> None:
        """Wake whoever has rested for long enough."""
        now_s = asyncio.get_running_loop().time()
        if any(one.until_s <= now_s for one in self._resting):
            left = [one for one in self._resting if one.until_s > now_s]
            for one in self._resting:
                if one.until_s <= now_s:
                    _wake(one)
            self._resting = left

    async def rest(self, seconds: float) -> None:
        """About so long: until the beat that is nearest."""
        if not self._beat_s or seconds < SHORT_S:
            await asyncio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        self._resting.append(Resting(loop.time() + seconds - self._beat_s / 2, over))
        await over


def _wake(one: Resting) -> None:
    if not one.over.done():  # It was cancelled.
        one.over.set_result(None)
