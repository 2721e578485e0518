"""The disk of one machine: what was saved, what an old copy held, and ways to lose it.

Lives here: transactions by key. Never here: when something is lost (`faults`).
Invariant: a batch is there whole or not at all once the disk is opened again. That is what the
product's store promises (SQLite, one transaction a batch): a crash may tear a write in the middle,
and the journal, which was written before, puts back what stood there.
"""

from collections.abc import Mapping


class Disk:
    """Keys and bytes."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.is_full = False
        self.is_tearing = False  # The next transaction is interrupted by a crash.
        self.copy: dict[str, bytes] | None = None  # Of earlier; to come back one day.
        self._journal: dict[str, bytes | None] = {}  # What stood where a torn batch was written.

    def save(self, changes: Mapping[str, bytes | None]) -> None:
        """One transaction."""
        assert not self.is_full, "the agent waits until there is room"
        for name, value in changes.items():
            self._put(name, value)

    def tear(self, changes: Mapping[str, bytes | None], count: int) -> None:
        """A crash in the middle of a transaction: only so many changes have been written."""
        self._journal = {name: self.kept.get(name) for name in changes}
        for name in list(changes)[:count]:
            self._put(name, changes[name])

    def open(self) -> None:
        """After a crash: what was torn is as if it had never begun."""
        for name, value in self._journal.items():
            self._put(name, value)
        self._journal = {}

    def _put(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.kept.pop(name, None)
        else:
            self.kept[name] = value

    def keep_copy(self) -> None:
        """What a snapshot or a backup would hold."""
        self.open()
        self.copy = dict(self.kept)

    def restore_copy(self) -> None:
        """Somebody puts the old disk back."""
        assert self.copy is not None
        self.kept, self._journal = dict(self.copy), {}

    def erase(self) -> None:
        """A new disk. The key is elsewhere."""
        self.kept, self._journal = {}, {}
