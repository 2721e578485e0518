"""What a job leaves behind comes home from the node that ran it, before its end counts.

Lives here: between a report and the kernel. Never here: writing among files of people
(`edges.artifacts`), what the end means (`kernel`).
Invariant: whoever waits for a job finds its outputs in place when it has ended; what was left as it
was is told in the story. A report whose outputs cannot be had yet is not heard yet: its owner says
it again. Of what a living owner has lost that is told after some tries, and the end counts; so with
the state that it saved: without it, it can still begin anew.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from distributed_grid.agent.fetching import Fetching
from distributed_grid.agent.housing import SHORT, in_words, outputs_of
from distributed_grid.agent.setting_out import nothing
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.edges.artifacts import ArtifactError, Brought, Files, Refused
from distributed_grid.errors import GridError
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Node, NodeEvent, Noted
from distributed_grid.kernel.resuming import WHAT
from distributed_grid.model.artifact import ManifestId, is_id
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Begun, Report
from distributed_grid.wire.keeper import HAVING_RUN

REMEMBERED_MAX: Final = 10_000  # Attempts whose outputs are in place.
NS_OF_MS: Final = 1_000_000
STATE_TRIES: Final = 5  # Its owner says it again each second, and is given up when it is dead.
OUTPUT_TRIES: Final = 5  # The same, of outputs whose owner is there and will never have them.
CHANGED: Final = "has changed here meanwhile or did not travel"
FOR_GOOD: Final = frozenset({"unknown", "gone", "malformed", "too-large"})  # Else: later.


class Bringing:
    """What jobs of this node left behind elsewhere."""

    def __init__(
        self,
        node: Node,
        files: Files,
        fetching: Fetching,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._node, self._files, self._fetching = node, files, fetching
        self._clock_ms = clock_ms
        self.step: Callable[[NodeEvent], Awaitable[None]] = nothing
        self.coming: dict[JobId, ManifestId] = {}  # What is being fetched, for people who look.
        self._under_way: set[str] = set()
        self._tried: dict[str, int] = {}  # By lease, and what: how often it could not be had.
        self._done: dict[str, None] = {}

    def wants(self, report: Report) -> bool:
        """Whether something is to be brought before this is heard."""
        is_any = bool(_outputs(report) or _states(report))
        return is_any and report.lease not in self._done

    def back(self, report: Report) -> Begun | None:
        """What to hear first of one that was given up and has ended: that it was not lost.

        Else another one would begin while its outputs come; one that runs already goes on.
        """
        job = self._node.coordinator.jobs.get(report.job)
        if job is None or any(one.state == "running" for one in job.live_attempts):
            return None
        if not any(one.lease == report.lease and one.state == "lost" for one in job.attempts):
            return None
        at_ms = report.ends[0].started_ms
        return Begun(job=report.job, lease=report.lease, pid=0, at_ms=at_ms, resumed=report.resumed)

    async def brought(self, peer: NodeId, report: Report) -> bool:
        """Bring what a report names; whether it can be heard now."""
        job = self._node.coordinator.jobs.get(report.job)
        if job is None or job.spec.work is None or report.lease in self._done:
            return True
        if report.lease in self._under_way:
            return False  # It is said again until it was heard.
        self._under_way.add(report.lease)
        try:
            for manifest in _states(report):
                await self._bring_state(peer, ManifestId(manifest), job, report.lease)
            for manifest in _outputs(report):
                self.coming[job.spec.id] = ManifestId(manifest)
                told = await self._bring(peer, ManifestId(manifest), job, report)
                await self._note(job, "outputs", told)
        except NotFetched:
            return False  # The next time, or never if that node is dead: then it runs again.
        finally:
            self._under_way.discard(report.lease)
            self.coming.pop(job.spec.id, None)
        for what in (report.lease, outputs_of(report.lease)):
            self._tried.pop(what, None)
        self._done[report.lease] = None
        while len(self._done) > REMEMBERED_MAX:
            del self._done[next(iter(self._done))]
        return True

    async def _note(self, job: Job, what: str, told: str) -> None:
        if told:
            now_ms = self._clock_ms()
            await self.step(Noted(now_ms=now_ms, job=job.spec.id, what=what, detail=told))

    async def _bring_state(self, peer: NodeId, manifest: ManifestId, job: Job, lease: str) -> None:
        """Keep what an attempt saved, for the next one; its node may be on its way out."""
        owner = f"bringing:{lease}"
        try:
            await self._fetching.have_from(peer, manifest, owner=owner)
        except (NotFetched, ArtifactError) as error:
            if isinstance(error, NotFetched) and not self._is_given_up(lease, STATE_TRIES):
                raise
            await self._note(job, WHAT, f"not brought here: {error.message}")
        finally:
            self._fetching.let_go(manifest, owner=owner)  # `pinning` keeps it from now on.

    def _is_given_up(self, what: str, tries: int) -> bool:
        """Whether something could not be had once too often."""
        tried = self._tried.pop(what, 0) + 1
        self._tried[what] = min(tried, tries)
        while len(self._tried) > REMEMBERED_MAX:
            del self._tried[next(iter(self._tried))]
        return tried >= tries

    async def _bring(self, peer: NodeId, manifest: ManifestId, job: Job, report: Report) -> str:
        work = job.spec.work
        assert work is not None, "asked before"
        end = report.ends[-1]
        is_retried = end.how not in HAVING_RUN or (end.code and job.failures < job.spec.retries)
        if is_retried and job.progress is None and not job.is_stopping:
            return ""  # It is tried again: what counts is what that leaves behind.
        owner = f"bringing:{report.lease}"
        try:
            if work.is_abroad:  # Its directory is elsewhere: they stay as long as this agent.
                await self._fetching.have_from(peer, manifest, owner=f"kept:{job.spec.id}")
                here = self._node.coordinator.node
                return f"kept on {here}, not in {work.cwd} of where it was submitted: grid outputs"
            await self._fetching.have_from(peer, manifest, owner=owner)
            spec = job.spec
            is_all = spec.brings_changes and not spec.outputs
            brought = await asyncio.to_thread(
                self._files.bring,
                manifest,
                work.cwd,
                globs=None if is_all else spec.outputs,
                since_ns=(job.submitted_ms + 1) * NS_OF_MS - 1,
                overwrite=spec.overwrite,
                base=spec.ship.manifest if spec.ship is not None else "",
                beside=f"grid-{spec.id[:SHORT]}",
            )
        except NotFetched as error:
            is_for_good = error.reason in FOR_GOOD and self._fetching.is_alive(peer)
            if not is_for_good or not self._is_given_up(outputs_of(report.lease), OUTPUT_TRIES):
                raise
            return f"not brought back, they are lost: {error.message}"
        except GridError as error:  # Also a glob that means nothing: the end counts all the same.
            again = (
                f"they stay where it ran while there is room: grid outputs {job.spec.id[:SHORT]}"
            )
            return f"not brought back: {error.message}; {again}"
        finally:
            self._fetching.let_go(manifest, owner=owner)
        return _in_words(brought)


def _outputs(report: Report) -> list[str]:
    return [end.outputs for end in report.ends if is_id(end.outputs)]


def _states(report: Report) -> list[str]:
    return [end.saved for end in report.ends if is_id(end.saved)]


def _in_words(brought: Brought) -> str:
    count = len(brought.written)
    told = [f"{count} {'file' if count == 1 else 'files'} written"] if count else []
    if brought.unchanged:
        told.append(f"{len(brought.unchanged)} as before")
    if brought.beside:
        pairs = tuple(Refused(path, name) for path, name in brought.beside)
        told.append(f"kept beside what {CHANGED}: {in_words(pairs)}")
    if brought.conflicts:
        told.append(f"left as here: {in_words(brought.conflicts)}")
    return ", ".join(told)
