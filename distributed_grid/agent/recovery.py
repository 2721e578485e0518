"""The kernel's memory from what is on disk: at a start, and after a step that broke off.

Lives here: in which order it is put together, and what is left out of it. Never here: steps
(`blast_door`), what the disk has (`edges.store`).
Invariant: what cannot be used is named and left out, and stays on disk; the rest goes on.

After a step that broke off it is as if the agent had died and started, only that its process, its
line to the keeper, its links, and those who wait stay. What was decided and not handed to the disk
yet is lost as in a crash; what was handed over is waited for, and counts.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from distributed_grid.agent.blast_door import in_words
from distributed_grid.agent.keeper_book import KeeperBook
from distributed_grid.agent.records import job_of, lease_of
from distributed_grid.edges.store import (
    DropMeta,
    Remembered,
    SetMeta,
    Store,
    StoreError,
    Write,
)
from distributed_grid.kernel.across.restoring import is_loaded
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Met, Node, View
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.kernel.unusable import Kind, Unusable, about
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.lease import Lease

ASIDE: Final = "aside/"  # Before the names of single values that were left out.


class Recovery:
    """One agent's way back."""

    def __init__(
        self,
        node: Node,
        store: Store,
        book: KeeperBook,
        *,
        clock_ms: Callable[[], int],
        publish: Callable[[Happened], None],
    ) -> None:
        self.aside: dict[tuple[str, str], str] = {}  # What was left out: kind and name, and why.
        self.join: Callable[[], int] = lambda: 0  # The other nodes; for how long this one was away.
        self.look: Callable[[], View | None] = lambda: None  # At them, as they are now.
        self.restored: Callable[[], None] = lambda: None
        self._node, self._store, self._book = node, store, book
        self._clock_ms, self._publish = clock_ms, publish
        self._to_move: list[Write] = []

    async def restore(self, remembered: Remembered) -> None:
        """Begin where the store left off."""
        away_ms = self.join()
        while True:
            try:
                self._fill(remembered, away_ms)
                break
            except Unusable as bad:
                self._leave_out(bad, remembered)
            self._node.forget()
            self.join()  # For how long it was away is known.
        await self._move()

    async def rebuild(self, error: Exception) -> list[Ready]:
        """A step broke off: begin again, in the same process. Answers what is to be carried out."""
        self._publish(
            Happened(name="agent.mended", at_ms=self._clock_ms(), fields={"why": in_words(error)})
        )
        with contextlib.suppress(StoreError):  # What could not be written was never promised.
            await self._store.commit([])
        remembered = await self._store.load_all()
        if isinstance(error, Unusable):
            self._leave_out(error, remembered)
        while True:
            self._node.forget()
            try:
                self._fill(remembered, self.join())
                readies = self._met()
                break
            except Unusable as bad:
                self._leave_out(bad, remembered)
        await self._move()
        return readies

    def _met(self) -> list[Ready]:
        """Greet the keeper again, in its own words, and look at the others."""
        hello, now_ms = self._node.hello, self._clock_ms()
        if hello is None:
            return []
        met = Met(now_ms=now_ms, hello=self._book.hello(hello), reports=tuple(self._book.reports))
        view = self.look()
        return [self._node.step(one) for one in (met, view) if one is not None]

    def _fill(self, remembered: Remembered, away_ms: int) -> None:
        node = self._node
        jobs, leases = self._read(remembered)
        senders = {
            JobId(job): NodeId(sender)
            for job, sender in remembered.held.items()
            if ("record", job) not in self.aside
        }
        out = tuple(name for kind, name in self.aside if kind == "meta")
        meta = {name: body for name, body in remembered.meta.items() if not name.startswith(out)}
        node.restore(
            jobs,
            leases,
            meta,
            held=senders,
            now_ms=self._clock_ms(),
            away_ms=away_ms,
        )
        for job in node.across.guarding.unread if node.across is not None else ():
            self._name("record", job, "this version cannot read it")
        self.restored()

    def _read(self, remembered: Remembered) -> tuple[list[Job], dict[str, Lease]]:
        jobs: list[Job] = []
        leases: dict[str, Lease] = {}
        for row in (*remembered.jobs, *remembered.latest):
            if ("job", row.id) not in self.aside:
                with self._unless_unusable(), about("job", row.id):
                    jobs.append(job_of(row))
        jobs = [job for job in jobs if is_loaded(job, self._clock_ms())]
        for lease, record in remembered.leases.items():
            with self._unless_unusable(), about("lease", lease):
                leases[lease] = lease_of(record)
        return jobs, leases

    @contextlib.contextmanager
    def _unless_unusable(self) -> Iterator[None]:
        try:
            yield
        except Unusable as bad:
            self._name(bad.kind, bad.name, bad.why)

    def _leave_out(self, bad: Unusable, remembered: Remembered) -> None:
        """The next try goes without it. Raises it again if that was so already."""
        if (bad.kind, bad.name) in self.aside:
            raise bad
        self._name(bad.kind, bad.name, in_words(bad))
        if bad.kind == "meta":  # Its place is needed: what is saved next has the same name.
            for name, body in remembered.meta.items():
                if name.startswith(bad.name):
                    self._to_move += [SetMeta(ASIDE + name, body), DropMeta(name)]

    def _name(self, kind: Kind, name: str, why: str) -> None:
        if (kind, name) not in self.aside:
            self.aside[kind, name] = why
            fields = {"kind": kind, "id": name, "why": why}
            told = Happened(name="store.set_aside", at_ms=self._clock_ms(), fields=fields)
            self._publish(told)

    async def _move(self) -> None:
        if self._to_move:
            with contextlib.suppress(StoreError):  # Else they are left out the next time, too.
                await self._store.commit(self._to_move)
            self._to_move = []
