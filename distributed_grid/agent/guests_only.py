"""What a guest of the mesh may ask: about the jobs that it submitted, and nothing else.

Lives here: the operations of `Operations` that guests have, each behind one check. Never here: who
is a guest (`questions`).
Invariant: of a job that is not its own a guest cannot even tell that it exists.
"""

from collections.abc import AsyncIterator

import msgspec

from distributed_grid.agent import Operations
from distributed_grid.agent.questions import Asker
from distributed_grid.errors import NotFound
from distributed_grid.model.ids import JobId
from distributed_grid.wire.across_api import OutputPlace, Outputs, Safety
from distributed_grid.wire.api import Explanation, Jobs, JobView


class GuestsOnly:
    """The operations of one agent, as one guest has them; under the names of `Operations`."""

    def __init__(self, own: Operations, asker: Asker) -> None:
        self._own, self._asker = own, asker

    @property
    def across(self) -> "GuestsOnly":
        """Those of `AcrossOperations` are here, too."""
        return self

    async def job(self, word: str) -> JobView:
        """A job of its own."""
        view = await self._own.job(word)
        if not self._is_theirs(view):
            raise NotFound("job", word)
        return view

    async def jobs(self, *, state: str, name: str, user: str, limit: int, before_ms: int) -> Jobs:
        """Of a page those that are its own."""
        page = await self._own.jobs(
            state=state, name=name, user=user, limit=limit, before_ms=before_ms
        )
        theirs = tuple(view for view in page.jobs if self._is_theirs(view))
        return msgspec.structs.replace(page, jobs=theirs)

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        """The job once it has ended, or as it is when the time is over."""
        return await self._own.wait(await self._word(word), timeout_ms=timeout_ms)

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        """Those of the jobs that have ended."""
        ids = tuple([await self._word(word) for word in words])
        return await self._own.wait_many(ids, timeout_ms=timeout_ms)

    async def cancel(self, word: str) -> JobView:
        """The job, cancelled or being cancelled."""
        return await self._own.cancel(await self._word(word))

    async def explain(self, word: str) -> Explanation:
        """Why it is where it is."""
        return await self._own.explain(await self._word(word))

    async def logs(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int, attempt: int = 0
    ) -> AsyncIterator[bytes]:
        """Its output."""
        named = await self._word(word)
        parts = self._own.logs(
            named, stream=stream, index=index, follow=follow, offset=offset, attempt=attempt
        )
        async for part in parts:
            yield part

    async def requeue(self, word: str) -> JobView:
        """Run it again."""
        return await self._own.across.requeue(await self._word(word))

    async def rerun(self, word: str, *, new: JobId, only_failed: bool) -> JobView:
        """Submit it once more."""
        named = await self._word(word)
        return await self._own.across.rerun(named, new=new, only_failed=only_failed)

    async def cancel_index(self, word: str, *, index: int) -> JobView:
        """Cancel one index of it."""
        return await self._own.across.cancel_index(await self._word(word), index=index)

    async def force(self, word: str) -> JobView:
        """Go on with it."""
        return await self._own.across.force(await self._word(word))

    async def output(self, word: str, *, index: int) -> OutputPlace:
        """Where its output is."""
        return await self._own.across.output(await self._word(word), index=index)

    async def outputs(self, word: str) -> Outputs:
        """The files it left behind."""
        return await self._own.across.outputs(await self._word(word))

    async def safe(self, word: str, *, timeout_ms: int) -> Safety:
        """Once it is on a second machine."""
        return await self._own.across.safe(await self._word(word), timeout_ms=timeout_ms)

    async def _word(self, word: str) -> str:
        return f"id:{(await self.job(word)).id}"

    def _is_theirs(self, view: JobView) -> bool:
        return view.home == self._asker.node or view.user.endswith(f"@{self._asker.name}")
