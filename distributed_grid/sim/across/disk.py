"""The disk of one machine: what was synced, what an old copy held, and ways to lose it.

Lives here: transactions on jobs, leases, the rest by name, and records held for others. Never here:
when a sync is over (`machine`), when something is lost (`faults`).
Invariant: a batch is there whole or not at all once the disk is opened again, as the product's
store promises (SQLite, one transaction a batch). A start loads what an agent loads, and no more.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from distributed_grid.kernel.across.register_voter import STORE, Store
from distributed_grid.kernel.across.restoring import is_loaded
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Node
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.lease import Lease

_encode = msgspec.msgpack.Encoder().encode
_job = msgspec.msgpack.Decoder(Job).decode
_lease = msgspec.msgpack.Decoder(Lease).decode
_store = msgspec.msgpack.Decoder(Store).decode
_TABLES: Final = ("jobs", "leases", "meta", "held")

# (table, key, bytes or None, in a word): what one transaction changes.
Change = tuple[str, str, bytes | None, str]


def changes_of(ready: Ready, node: Node) -> list[Change]:
    """What must be durable, as things stand now: what was delayed writes nothing old."""
    rows = ready.save_jobs or ready.drop_jobs or ready.save_leases or ready.drop_leases
    if not (rows or ready.save_meta or ready.save_held):
        return []  # As most steps.
    leases = node.ledger.leases
    found: list[Change] = [("jobs", job_id, None, "") for job_id in ready.drop_jobs]
    found += [
        ("jobs", job_id, _encode(job), "guest" if job.is_guest else job.state)
        for job_id, job in ready.save_jobs.items()
    ]
    found += [("leases", one.id, _encode(one), "") for one in ready.save_leases if one.id in leases]
    found += [("leases", one, None, "") for one in ready.drop_leases if one not in leases]
    found += [("meta", name, value, "") for name, value in node.newest(ready.save_meta).items()]
    found += [("held", job_id, value, "") for job_id, value in ready.save_held.items()]
    return found


class Disk:
    """Everything that survives a crash."""

    def __init__(self) -> None:
        self.store_id = 0  # A new disk is a new store.
        self.is_full = False
        self.is_tearing = False  # The next transaction is interrupted by a crash.
        self._tables: dict[str, dict[str, bytes]] = {name: {} for name in _TABLES}
        self.words: dict[str, str] = {}  # Of jobs: their state, as of the bytes.
        self._copy: tuple[dict[str, dict[str, bytes]], dict[str, str]] | None = None
        self._saved_ms = 0  # When something was last written.
        self._torn: list[Change] = []  # What stood where a torn batch was written.

    @property
    def jobs(self) -> dict[str, bytes]:
        """Those of this node, and its guests."""
        return self._tables["jobs"]

    @property
    def leases(self) -> dict[str, bytes]:
        """What was granted here."""
        return self._tables["leases"]

    @property
    def held(self) -> dict[str, bytes]:
        """Records kept for others."""
        return self._tables["held"]

    @property
    def meta(self) -> dict[str, bytes]:
        """Everything else, by name."""
        return self._tables["meta"]

    @property
    def voting_store(self) -> set[str]:
        """What voters call it, once it has a name."""
        return {_store(self.meta[STORE]).id} if STORE in self.meta else set()

    def has(self, job: JobId) -> bool:
        """Whether the job would not be forgotten if only this disk were left."""
        torn = {(table, key): value for table, key, value, _ in self._torn}
        return any(
            torn.get((table, job), self._tables[table].get(job)) is not None
            for table in ("jobs", "held")
        )

    def save(self, changes: list[Change], now_ms: int = 0) -> None:
        """One transaction is durable."""
        assert not self.is_full, "the agent waits until there is room"
        self._saved_ms = now_ms
        self._write(changes)

    def tear(self, changes: list[Change], count: int) -> None:
        """A crash in the middle of a transaction: only so many changes have been written."""
        self._torn = [
            (table, key, self._tables[table].get(key), self.words.get(key, ""))
            for table, key, _, _ in changes
        ]
        self._write(changes[:count])

    def open(self) -> None:
        """After a crash: what was torn is as if it had never begun."""
        self._write(list(reversed(self._torn)))
        self._torn = []

    def _write(self, changes: list[Change]) -> None:
        for table, key, value, word in changes:
            if value is None:
                self._tables[table].pop(key, None)
            else:
                self._tables[table][key] = value
            if table == "jobs":
                self.words[key] = word

    def restore(self, node: Node, now_ms: int) -> None:
        """What a new agent begins with."""
        leases = {lease: _lease(data) for lease, data in self.leases.items()}
        jobs = [job for job in map(_job, self.jobs.values()) if is_loaded(job, now_ms)]
        held = {JobId(job): NodeId("") for job in self.held}
        away_ms = max(0, now_ms - self._saved_ms) if self._saved_ms else 0
        node.restore(jobs, leases, dict(self.meta), held=held, now_ms=now_ms, away_ms=away_ms)

    def history(self, wanted: Iterable[JobId]) -> tuple[Job, ...]:
        """Jobs that are over, as an agent looks them up when it has forgotten them."""
        found = (_job(self.jobs[job]) for job in wanted if job in self.jobs)
        return tuple(job for job in found if job.is_finished)

    def forget_finished(self) -> None:
        """As an agent does with the oldest jobs, now and then."""
        self._write(
            [("jobs", job.spec.id, None, "") for job in self.history(map(JobId, self.jobs))]
        )

    # Losing it

    @property
    def has_copy(self) -> bool:
        """Whether there is something to put back."""
        return self._copy is not None

    def keep_copy(self) -> None:
        """What a snapshot or a backup would hold."""
        self.open()
        self._copy = ({name: dict(rows) for name, rows in self._tables.items()}, dict(self.words))

    def restore_copy(self) -> None:
        """Somebody puts the old disk back."""
        assert self._copy is not None, "there is one"
        tables, words = self._copy
        self._tables = {name: dict(rows) for name, rows in tables.items()}
        self.words, self._torn = dict(words), []

    def erase(self) -> None:
        """A new disk. The key is elsewhere."""
        self.store_id += 1
        self._tables = {name: {} for name in _TABLES}
        self.words, self._torn = {}, []
