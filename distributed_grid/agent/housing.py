"""Attempts that live in a directory of their own: a `Runner` around the line to the keeper.

Lives here: what is prepared before it is handed on, what is collected before its end is told, and
directories that nobody needs any more. Never here: preparing one (`preparing`), deciding anything.
Invariant: an end is told only after what the attempt left behind is in the store and durable; its
directory goes only after the end is saved, so that a crash in between collects it again. One whose
outputs could not be collected is kept for people: the last few, for some days. So is, for one day,
what is more than comes back by itself.

Reports are numbered, and an acknowledgement covers all that came before: while one is held back,
nothing from its number on is acknowledged.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import msgspec

from distributed_grid.agent.preparing import Ground, Preparing, ToAttempt, needs_files
from distributed_grid.edges.artifacts import ArtifactError, Changed, Chunks, Packed, Refused
from distributed_grid.edges.runner import Report, Runner
from distributed_grid.errors import GridError
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.resuming import is_kept, to_restore
from distributed_grid.model import bytesize
from distributed_grid.model.across import Saved
from distributed_grid.model.artifact import ASKED, RETURNED, Manifest, ManifestId
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.keeper import (
    HAVING_RUN,
    Acknowledge,
    Ended,
    Hello,
    Quit,
    Run,
    Started,
    ToKeeper,
)

SHORT: Final = 12  # Characters of an id, for people.
TOLD_MAX: Final = 3  # Names in a sentence; nobody reads more.
KEPT: Final = "kept"  # How directories begin whose outputs could not be collected.
KEPT_MAX: Final = 8  # Such directories: a full disk must not stay full for ever.
KEPT_DAYS: Final = 7  # Who has not come for them by then does not want them.
# One that was told to stop, or gave way in the midst of its indices, also leaves what it wrote.
LEAVING: Final = HAVING_RUN | {"stopped", "preempted"}
LEFT: Final = "left"  # How directories begin that hold more than comes back by itself:
LEFT_DAYS: Final = 1
LEFT_MAX: Final = 1_000  # so many.
HANDED_S: Final = 3_600.0  # What somebody asks for of them stays in the store so long.
MS_OF_DAY: Final = 86_400_000

FindJob = Callable[[str], Job | None]  # By attempt.


class Housing:
    """A `Runner` for which files are there before a process, and are seen to after it."""

    def __init__(
        self,
        inner: Runner,
        ground: Ground,
        chunks: Chunks,
        *,
        job_of: FindJob,
        broke: Callable[[BaseException], None],
        state_in: Callable[[Job], str] = lambda _job: "",
    ) -> None:
        """`state_in`: the directory in which a job saves its state; empty: that stays here."""
        self.hello: Hello = inner.hello
        self._inner, self._ground, self._chunks = inner, ground, chunks
        self._job_of, self._broke, self._state_in = job_of, broke, state_in
        self._coming: dict[str, Preparing] = {}
        self._going: dict[str, Preparing] = {}  # At the keeper.
        self._housed: set[str] | None = None  # Attempts with a directory; None: not looked yet.
        self._reports: list[Report] = []
        self._news = asyncio.Event()
        self._is_over = False
        self._error: BaseException | None = None  # A mistake of ours.
        self._pump: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: dict[int, str] = {}  # Reports by number that were not handed on yet.
        self._handed_on: dict[int, str] = {}  # Those that were, and are not saved yet.
        # Attempts whose directory is kept: under which name, and which paths of it (none: all).
        self._staying: dict[str, tuple[str, frozenset[bytes]]] = {}
        self._upto = self._acknowledged = 0

    # To the keeper

    async def send(self, message: ToKeeper) -> None:
        """Hand over a message, at once or when everything is there."""
        if isinstance(message, Acknowledge):
            await self._acknowledge(message.upto)
        elif isinstance(message, Quit):
            await self._inner.send(message)
        elif isinstance(message, Run):
            job = self._job_of(message.attempt)
            saved = to_restore(job) if job is not None and message.checkpoint_dir else ()
            if job is None or not (needs_files(job.spec) or job.spec.python_env or saved):
                await self._inner.send(message)
            else:
                await self._prepare(message, job.spec, saved)
        elif (one := self._coming.get(message.attempt)) is not None:
            one.told(message)
        else:
            await self._inner.send(message)

    async def _prepare(self, run: Run, spec: JobSpec, saved: tuple[Saved, ...]) -> None:
        one = self._coming[run.attempt] = Preparing(run, spec, self._ground, saved)
        housed = await self._all_housed()
        if needs_files(spec):
            housed.add(run.attempt)
        ready = one.made_at_once()  # As of most that bring no files: none waits for a thread.
        if ready is not None:
            await self._start(one, [ready])
        else:
            one.begin(self._start, self._end, self._broke)

    async def _start(self, one: Preparing, words: list[Run | ToAttempt]) -> None:
        self._coming.pop(one.run.attempt, None)
        self._going[one.run.attempt] = one
        for word in words:
            await self._inner.send(word)

    def _end(self, one: Preparing, ends: list[Ended]) -> None:
        """It ended before it began."""
        self._coming.pop(one.run.attempt, None)
        one.let_go()
        self._hand_on(ends)
        if self._housed is not None and one.run.attempt in self._housed:
            self._housed.discard(one.run.attempt)
            self._beside(self._remove(one.folder))

    def stage(self, attempt: str) -> str:
        """What is being done for one that has not begun; empty: nothing."""
        one = self._coming.get(attempt)
        return one.stage if one is not None else ""

    def is_collecting(self, attempt: str) -> bool:
        """Whether its process has ended, and what it left behind is being kept."""
        return attempt in self._held.values()

    # From the keeper

    async def receive(self) -> tuple[Report, ...]:
        """What has arrived, at least one report; nothing once the keeper is gone.

        Raises a mistake of ours: a report that never comes must not be waited for.
        """
        if self._pump is None:
            self._pump = self._beside(self._listen())
        while not self._reports and not self._is_over:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        reports, self._reports = tuple(self._reports), []
        for report in reports:
            if attempt := self._held.pop(report.number, None):
                self._handed_on[report.number] = attempt
        return reports

    async def __aiter__(self) -> AsyncIterator[Report]:
        while reports := await self.receive():
            for report in reports:
                yield report

    async def _listen(self) -> None:
        try:
            while reports := await self._inner.receive():
                await self._sort(reports)
        finally:
            self._is_over = True
            self._news.set()

    async def _sort(self, reports: tuple[Report, ...]) -> None:
        housed = await self._all_housed()
        now: list[Report] = []
        for report in reports:
            if isinstance(report, Started):
                now.append(self._with_words(report))
                continue
            if not report.is_last:
                now.append(report)
                continue
            one = self._going.pop(report.attempt, None)
            if one is not None:
                one.let_go()
            else:  # An earlier agent began it.
                self._ground.pythons.left(report.attempt)
            if report.attempt in housed or self._state_of(report):
                self._held[report.number] = report.attempt
                self._beside(self._leave(report))
            else:
                now.append(report)
        self._hand_on(now)

    async def _leave(self, report: Ended) -> None:
        """An attempt is over: what it leaves behind is kept, then its end is told."""
        job = self._job_of(report.attempt)
        spec = job.spec if job is not None else None
        is_brought = spec is not None and (bool(spec.outputs) or spec.brings_changes)
        if job is not None and is_brought and report.how in LEAVING:
            report = await asyncio.to_thread(self._collected, report, job)
        if folder := self._state_of(report):
            report = await asyncio.to_thread(self._with_state, report, folder)
        self._hand_on([report])

    def _with_words(self, report: Started) -> Started:
        one = self._going.get(report.attempt)
        words = one.resumed if one is not None else ""
        return msgspec.structs.replace(report, resumed=words) if words else report

    def _state_of(self, report: Ended) -> str:
        """Where the state is that another attempt goes on from; empty: there is none to keep."""
        job = self._job_of(report.attempt)
        return self._state_in(job) if job is not None and is_kept(job, report) else ""

    def _with_state(self, report: Ended, folder: str) -> Ended:
        """Put what it has saved into the store, durably; `pinning` keeps it there."""
        files, owner = self._ground.files, f"saved:{report.attempt}"
        if not files.has_entries(folder):
            return report
        try:
            packed = files.keep(folder, owner=owner, amount=ASKED)
            try:
                self._sync(packed.id)
            finally:
                self._chunks.unpin(packed.id, owner)
        except (ArtifactError, OSError) as error:
            why = error.message if isinstance(error, ArtifactError) else error.strerror
            note = _noted(report.note, f"its state stays behind: {why}")
            return msgspec.structs.replace(report, note=note)
        left = f"of its state stay behind: {in_words(packed.refused)}" if packed.refused else ""
        saved = packed.id if packed.entries else ""
        return msgspec.structs.replace(report, saved=saved, note=_noted(report.note, left))

    def _sync(self, manifest: ManifestId) -> Manifest | None:
        """Make files durable that were packed just now."""
        read = self._chunks.manifest(manifest)
        self._chunks.sync([bytes.fromhex(manifest), *(read.chunks if read else [])])
        return read

    def _collected(self, report: Ended, job: Job) -> Ended:
        folder, globs = f"{self._ground.root}/{report.attempt}", job.spec.outputs
        files, owner = self._ground.files, outputs_of(report.attempt)
        changed: Changed | None = None
        manifest: Manifest | None = None
        packed = Packed(id=ManifestId(""), files=0, content_bytes=0)
        try:
            changed = self._changed(folder, job.spec)
            if changed is None or changed.coming:
                only = changed.coming if changed is not None else None
                packed = files.collect(folder, owner=owner, amount=ASKED, globs=globs, only=only)
                manifest = self._sync(packed.id)
        except (GridError, OSError) as error:  # Also a glob of others that means nothing.
            why = error.message if isinstance(error, GridError) else error.strerror
            only = changed.coming | changed.left if changed is not None else frozenset()
            where = self._keep(report, job, only) if files.has_entries(folder) else ""
            note = _noted(report.note, f"its outputs stay behind: {why}{where}")
            return msgspec.structs.replace(report, note=note)
        is_something = manifest is not None and bool(manifest.files or manifest.links)
        left = _left_out(packed)
        if changed is not None and changed.left:
            left = _noted(left, self._leave_more(report, job, changed))
        elif globs and not is_something and not left and report.code == 0:  # Else its end says it.
            left = f"nothing matched {' '.join(globs)}: no outputs"
        return msgspec.structs.replace(
            report, outputs=packed.id if is_something else "", note=_noted(report.note, left)
        )

    def _changed(self, folder: str, spec: JobSpec) -> Changed | None:
        """What it made or changed; None: that is not what counts. Raises GridError, OSError."""
        if not spec.brings_changes:
            return None
        base, amount = spec.ship.manifest if spec.ship else "", ASKED if spec.outputs else RETURNED
        return self._ground.files.changed(folder, base=base, amount=amount, globs=spec.outputs)

    def _keep(self, report: Ended, job: Job, only: frozenset[bytes]) -> str:
        """Its directory stays when its end is saved; where somebody finds it, in words."""
        kept, node = self._stays(KEPT, report, job, only)
        return f"; they are in {kept} on {node}, for up to {KEPT_DAYS} days: {_command(job)}"

    def _leave_more(self, report: Ended, job: Job, changed: Changed) -> str:
        """The same of what is more than comes back by itself."""
        _, node = self._stays(LEFT, report, job, changed.left)
        size, count = bytesize.text(changed.left_bytes), len(changed.left)
        told = f"{size} of its outputs stay behind ({count} file{'' if count == 1 else 's'})"
        most = f"{bytesize.text(RETURNED.bytes_max)} in {RETURNED.files_max} files come back"
        return f"{told}, for a day on {node}, as at most {most}: {_command(job)}"

    def _stays(self, word: str, report: Ended, job: Job, only: frozenset[bytes]) -> tuple[str, str]:
        """Where it will be, and on which node."""
        kept = f"{self._ground.root}/{word}-{report.ended_ms}-{_job_of(job)}-{report.attempt}"
        self._staying[report.attempt] = kept, only
        node = next((one.node for one in job.attempts if one.id == report.attempt), "its machine")
        return kept, node

    async def kept(self, job: JobId) -> tuple[ManifestId, ...]:
        """What stays here of a job, for whoever asks for it. Raises ArtifactError, OSError."""
        names = await asyncio.to_thread(self._ground.files.folders, self._ground.root)
        found: list[ManifestId] = []
        for name in sorted(one for one in names if _kept_ms(one) and f"-{job}-" in one):
            folder, owner = f"{self._ground.root}/{name}", f"handed:{name}"
            packed = await asyncio.to_thread(
                self._ground.files.keep, folder, owner=owner, amount=ASKED
            )
            loop = asyncio.get_running_loop()
            loop.call_later(HANDED_S, self._chunks.unpin, packed.id, owner)
            found.append(packed.id)
        return tuple(found)

    def _hand_on(self, reports: list[Report] | list[Ended]) -> None:
        if reports:
            self._reports += reports
            self._news.set()

    async def _acknowledge(self, upto: int) -> None:
        """What was handed on up to there is saved; but not what is held back."""
        self._upto = max(self._upto, upto)
        saved = [self._handed_on.pop(one) for one in list(self._handed_on) if one <= upto]
        for attempt in saved:
            (await self._all_housed()).discard(attempt)
            await self._leave_folder(attempt)
        if saved:
            self._beside(self._tidy_kept())
        most = min(self._upto, min(self._held, default=self._upto + 1) - 1)
        if most > self._acknowledged:
            self._acknowledged = most
            await self._inner.send(Acknowledge(upto=most))

    # Directories

    async def _leave_folder(self, attempt: str) -> None:
        """Its end is saved: its directory goes, or stays under another name.

        That it has before the keeper forgets the end: the next agent would take it for one that
        nobody needs.
        """
        folder = f"{self._ground.root}/{attempt}"
        kept, only = self._staying.pop(attempt, ("", frozenset()))
        if kept:
            await asyncio.to_thread(self._ground.files.set_aside, folder, kept, only)
        else:
            self._beside(self._remove(folder))

    async def _all_housed(self) -> set[str]:
        if self._housed is None:
            names = await asyncio.to_thread(self._ground.files.folders, self._ground.root)
            self._housed = self._housed or set(names)
        return self._housed

    async def tidy(self) -> None:
        """After a start: directories of attempts that are over are of no use."""
        housed = await self._all_housed()
        known = {*self._coming, *self._going, *self._held.values(), *self._handed_on.values()}
        for name in sorted(housed):
            if name not in known and _kept_ms(name) is None and self._job_of(name) is None:
                housed.discard(name)
                await self._remove(f"{self._ground.root}/{name}")
        for user in self._ground.pythons.users() - known:
            if self._job_of(user) is None:
                self._ground.pythons.left(user)
        await self._tidy_kept()

    async def _tidy_kept(self) -> None:
        """Of those that are kept for people the oldest go; looked for, as people remove some."""
        try:
            names = await asyncio.to_thread(self._ground.files.folders, self._ground.root)
        except OSError:
            return  # The next time will do.
        all_kept = sorted((at, name) for name in names if (at := _kept_ms(name)) is not None)
        for word, days, most in ((KEPT, KEPT_DAYS, KEPT_MAX), (LEFT, LEFT_DAYS, LEFT_MAX)):
            kept = [one for one in all_kept if one[1].startswith(word)]
            before_ms = self._ground.clock_ms() - days * MS_OF_DAY
            for number, (at_ms, name) in enumerate(kept):
                if at_ms < before_ms or number < len(kept) - most:
                    await self._remove(f"{self._ground.root}/{name}")

    async def _remove(self, folder: str) -> None:
        await asyncio.to_thread(self._ground.files.remove, folder)

    # Ending

    async def close(self) -> None:
        """Hang up."""
        for one in list(self._coming.values()):
            await one.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._inner.close()

    def _beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._error = error
            self._news.set()
            self._broke(error)


def outputs_of(attempt: str) -> str:
    """Who keeps what an attempt left behind."""
    return f"outputs:{attempt}"


def in_words(refused: tuple[Refused, ...]) -> str:
    """Some of them, by name."""
    named = ", ".join(f"{one.path} ({one.why})" for one in refused[:TOLD_MAX])
    more = len(refused) - TOLD_MAX
    return f"{named} and {more} more" if more > 0 else named


def _left_out(packed: Packed) -> str:
    return f"of its outputs stay behind: {in_words(packed.refused)}" if packed.refused else ""


def _kept_ms(name: str) -> int | None:
    """When the attempt ended whose directory is kept under this name; None: it is another one."""
    word, _, rest = name.partition("-")
    at_ms = rest.partition("-")[0]
    return int(at_ms) if word in (KEPT, LEFT) and at_ms.isdecimal() else None


def _job_of(job: Job) -> JobId:
    """As people call it."""
    return job.spec.origin.job if job.spec.origin is not None else job.spec.id


def _command(job: Job) -> str:
    return f"grid outputs {_job_of(job)[:SHORT]}"


def _noted(before: str, more: str) -> str:
    return "; ".join(filter(None, (before, more)))
