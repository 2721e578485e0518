"""Looks at directories of people, which may be on a disk that is gone.

Lives here: threads for that, and how long anybody waits. Never here: what is looked for (`edges`).
Invariant: a look that never ends costs one thread, and holds up nobody but those who look at that
directory, and those for a second.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

LOOKERS: Final = 16  # Looks at once; a directory that does not answer keeps one of them busy.
PATIENCE_S: Final = 1.0  # A directory of millions on a slow disk is opened by then.


class Looking:
    """One look at a time at each directory, each in a thread of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKERS, thread_name_prefix="looking")
        self._under_way: dict[str, asyncio.Future[bool]] = {}
        self._overdue: set[str] = set()  # Where somebody waited in vain; nobody else has to.

    async def at(self, directory: str, look: Callable[[str], bool]) -> bool | None:
        """What a look tells; None: nothing for a second, and maybe never."""
        if directory in self._overdue or len(self._overdue) >= LOOKERS:
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while others := self._in_the_way(directory):
                    await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
                loop = asyncio.get_running_loop()
                work = loop.run_in_executor(self._threads, look, directory)
                self._under_way[directory] = work
                work.add_done_callback(lambda _: self._ended(directory))
                return await asyncio.shield(work)
        except TimeoutError:
            self._overdue.update({directory} & self._under_way.keys())
            return None

    def _ended(self, directory: str) -> None:
        del self._under_way[directory]
        self._overdue.discard(directory)

    def _in_the_way(self, directory: str) -> list[asyncio.Future[bool]]:
        if directory in self._under_way:
            return [self._under_way[directory]]
        return list(self._under_way.values()) if len(self._under_way) >= LOOKERS else []
