"""What an attempt needs before its process: files, a Python environment, a directory, its state.

Lives here: one attempt on its way to the keeper. Never here: where files come from (`fetching`),
what is done with what it leaves behind (`housing`).
Invariant: a process starts only after everything it was promised is there; whoever is stopped
before that never started, and that is what its home hears.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from distributed_grid.agent.setting_out import manifests_of
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.edges.artifacts import CacheError, CannotUnpack, Files, Pythons
from distributed_grid.errors import GridError
from distributed_grid.model.across import Saved
from distributed_grid.model.artifact import ManifestId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.keeper import (
    Deadline,
    Ended,
    How,
    Preempt,
    Resume,
    Run,
    Stop,
    StopIndex,
    Suspend,
    Withdraw,
    untold_end,
)

TRIES: Final = 2  # What made room for others between arriving and being used is fetched once more.
OUR_FAULT: Final = (NotFetched, CacheError, CannotUnpack)  # Elsewhere, or later, it may go well.

STARTING, RECEIVING, UNPACKING, BUILDING = (
    "being started",
    "receiving its files",
    "unpacking its files",
    "building its Python environment",
)

ToAttempt = Stop | Preempt | Suspend | Resume | Deadline | StopIndex | Withdraw


class Fetch(Protocol):
    """Sees to it that files are here."""

    async def have(self, manifest: ManifestId, spec: JobSpec, *, owner: str) -> None:
        """Get them, and keep them for somebody. Raises NotFetched, CacheError."""
        ...

    def let_go(self, manifest: ManifestId, *, owner: str) -> None:
        """Somebody needs them no longer."""
        ...


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt is prepared with."""

    root: str  # Where directories of attempts are.
    files: Files
    fetch: Fetch
    pythons: Pythons
    clock_ms: Callable[[], int]


def needs_files(spec: JobSpec) -> bool:
    """Whether it has a directory of its own here: a copy of one elsewhere, or to be sent back."""
    is_abroad = spec.work is not None and spec.work.is_abroad
    return is_abroad and (spec.ship is not None or bool(spec.outputs) or spec.brings_changes)


class Preparing:
    """One attempt, from the kernel's word to the keeper's."""

    def __init__(
        self, run: Run, spec: JobSpec, ground: Ground, saved: tuple[Saved, ...] = ()
    ) -> None:
        """`saved`: the states that it may begin with, the newest first."""
        self.run, self.spec = run, spec
        self.resumed = ""  # With which of them it begins, in words.
        self._saved = saved
        self.stage = STARTING
        self.environment = ""  # The key of one that it uses.
        self._ground = ground
        self._later: list[ToAttempt] = []  # Said meanwhile: the keeper hears it after the start.
        self._until_boot_us = run.until_boot_us  # Moved while it is prepared.
        self._how: How | None = None  # As what it ends before it began.
        self._task: asyncio.Task[None] | None = None

    @property
    def folder(self) -> str:
        """Its directory."""
        return f"{self._ground.root}/{self.run.attempt}"

    def made_at_once(self) -> Run | None:
        """What the keeper is told, if nothing but an empty directory is needed; else None."""
        files = self._ground.files
        if self.spec.ship or self.spec.python_env or self._saved:
            return None
        try:
            files.make(self.folder)
        except CannotUnpack:
            return None  # There is one of an attempt that was cut short, or no room.
        return msgspec.structs.replace(self.run, cwd=self.folder)

    def begin(
        self,
        start: Callable[["Preparing", list[Run | ToAttempt]], Awaitable[None]],
        end: Callable[["Preparing", list[Ended]], None],
        broke: Callable[[BaseException], None],
    ) -> None:
        """Go to work beside everything else; one of both is called when it is over."""

        async def work() -> None:
            try:
                ready = await self._made()
            except OUR_FAULT as error:
                end(self, self._ends("lost", error.message))
            except GridError as error:
                end(self, self._ends("failed", error.message))
            except OSError as error:  # A disk that is full, or does not work.
                end(self, self._ends("lost", error.strerror or str(error)))
            else:
                ready = msgspec.structs.replace(ready, until_boot_us=self._until_boot_us)
                await start(self, [ready, *self._later])

        def over(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if task.cancelled() and self._how is not None:  # Maybe before its first step.
                end(self, self._ends(self._how, f"stopped while it was {self.stage}"))
            elif error is not None:
                broke(error)

        self._task = asyncio.get_running_loop().create_task(work())
        self._task.add_done_callback(over)
        if self._how is not None:
            self._task.cancel()

    def told(self, message: ToAttempt) -> None:
        """The kernel wants something of an attempt that has not begun."""
        if isinstance(message, Stop | Preempt | Withdraw):
            self._how = "preempted" if isinstance(message, Preempt) else "stopped"
            if self._task is not None:
                self._task.cancel()
        elif isinstance(message, Deadline):
            self._until_boot_us = max(self._until_boot_us, message.until_boot_us)
        else:
            self._later.append(message)

    async def close(self) -> None:
        """The agent ends; the next one hears that it never started."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def let_go(self) -> None:
        """Nothing of it is needed any more."""
        ground, owner = self._ground, self.run.attempt
        for manifest in manifests_of(self.spec):
            ground.fetch.let_go(manifest, owner=owner)
        if self.environment:
            ground.pythons.let_go(self.environment, owner)

    async def _made(self) -> Run:
        run = self.run
        if needs_files(self.spec):
            await self._house()
            run = msgspec.structs.replace(run, cwd=self.folder)
        if self.spec.python_env:
            run = msgspec.structs.replace(run, env=await self._with_python(run.env))
        if self._saved:
            await self._restore()
        self.stage = STARTING
        return run

    async def _house(self) -> None:
        files = self._ground.files
        if not files.is_missing(self.folder):  # Of an attempt that was cut short.
            await asyncio.to_thread(files.remove, self.folder)
        if self.spec.ship is None:
            await _in_thread(files.make, self.folder)
        else:
            await self._unpacked(ManifestId(self.spec.ship.manifest), self.folder)

    async def _restore(self) -> None:
        """Put the state of its job into its directory: the newest that can be had."""
        ground, folder = self._ground, self.run.checkpoint_dir
        owner = f"{self.run.attempt}:state"
        gone = ""
        for one in self._saved:
            manifest, whose = ManifestId(one.manifest), f"attempt {one.number} on {one.node}"
            try:
                await self._unpacked(manifest, folder, unpack=ground.files.put_back, owner=owner)
            except (NotFetched, CannotUnpack) as error:
                if isinstance(error, CannotUnpack) and not error.lacking:
                    raise  # It is there, and there is no room for it: elsewhere it may go well.
                gone += f"; that of {whose} cannot be had: {error.message}"
            else:
                self.resumed = f"as {whose} saved it{gone}"
                return
            finally:
                ground.fetch.let_go(manifest, owner=owner)
        is_left = await asyncio.to_thread(ground.files.has_entries, folder)
        self.resumed = f"{'as it was left here' if is_left else 'none: it begins anew'}{gone}"

    async def _unpacked(
        self,
        manifest: ManifestId,
        folder: str,
        *,
        unpack: Callable[[ManifestId, str], object] | None = None,
        owner: str = "",
    ) -> None:
        ground = self._ground
        for tries in range(TRIES):
            self.stage = RECEIVING
            await ground.fetch.have(manifest, self.spec, owner=owner or self.run.attempt)
            self.stage = UNPACKING
            try:
                await _in_thread(partial(unpack or ground.files.unpack, manifest), folder)
            except CannotUnpack as error:
                if not error.lacking or tries + 1 == TRIES:
                    raise
            else:
                return

    async def _with_python(self, env: dict[str, str]) -> dict[str, str]:
        ground, folder = self._ground, f"{self.folder}.env"
        await asyncio.to_thread(ground.files.remove, folder)
        try:
            await self._unpacked(ManifestId(self.spec.python_env), folder)
            self.stage = BUILDING
            built = await ground.pythons.ready_from(folder, user=self.run.attempt)
        finally:
            await asyncio.to_thread(ground.files.remove, folder)
        self.environment = built.key
        path = f"{built.path}/bin:{env.get('PATH', '/usr/bin:/bin')}"
        return {**env, "PATH": path, "VIRTUAL_ENV": built.path}

    def _ends(self, how: How, note: str) -> list[Ended]:
        """What its home hears; of a chunk that failed, each index has."""
        end = untold_end(self.run.attempt, how, self._ground.clock_ms(), note=note)
        if how != "failed" or not self.run.indices:
            return [end]
        last = self.run.indices[-1]
        return [
            msgspec.structs.replace(end, index=index, is_last=index == last)
            for index in self.run.indices
        ]


async def _in_thread(work: Callable[[str], object], folder: str) -> None:
    """Make a directory; who is cancelled meanwhile, however often, waits until that has ended.

    Else it would be there after it was removed.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work, folder)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if failure := cancelled or running.exception():
        raise failure
