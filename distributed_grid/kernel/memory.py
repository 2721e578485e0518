"""What a node remembers beside jobs and leases: bookings, accounts, the owner's word on lending.

Lives here: these as bytes and back. Never here: writing them to disk (`edges.store`).
Invariant: a booking that was acknowledged is saved; of the accounts at most the last moments are
lost in a crash, which nobody notices.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from distributed_grid.kernel.fairness import SavedAccounts
from distributed_grid.kernel.habits import Habits
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.lending import Words
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.unusable import about
from distributed_grid.model.booking import Booking
from distributed_grid.model.bounds import Moment, Most, Signed

ACCOUNTS: Final = "accounts"
BOOKINGS: Final = "bookings"
DRAINING: Final = "draining"
_NOW: Final = b"now"
LENDING: Final = "lending"
ACCOUNTS_MS: Final = 30_000  # Between two savings; ten seconds of use more or less are no matter.


class SavedLending(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's word, and what was learnt of his habits."""

    paused_until_ms: Moment | None = None
    habits: Most[Signed] = ()
    words: Words = ()


_encode: Final = msgspec.msgpack.Encoder().encode


class Memory:
    """Saves and restores the parts of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._saved_ms = 0
        self._saved_version = host.accounts.version

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """Begin where the last one left off."""
        if ACCOUNTS in meta:
            with about("meta", ACCOUNTS):
                saved = msgspec.msgpack.decode(meta[ACCOUNTS], type=SavedAccounts)
                self._host.accounts.restore(saved)
        with about("meta", BOOKINGS):
            for booking in msgspec.msgpack.decode(
                meta.get(BOOKINGS, _encode(())), type=Most[Booking]
            ):
                self._host.bookings.restore(booking)
        self._host.is_draining = bool(meta.get(DRAINING))
        self._host.is_left_now = meta.get(DRAINING) == _NOW
        if LENDING in meta:
            with about("meta", LENDING):
                word = msgspec.msgpack.decode(meta[LENDING], type=SavedLending)
                self._host.lending.paused_until_ms = word.paused_until_ms
                self._host.lending.habits = Habits(word.habits)
                self._host.lending.words = word.words

    def save_bookings(self, ready: Ready) -> None:
        """They have changed."""
        ready.save_meta[BOOKINGS] = _encode(tuple(self._host.bookings))

    def save_draining(self, ready: Ready) -> None:
        """The owner wants this node to be left, or no longer."""
        word = _NOW if self._host.is_left_now else b"1"
        ready.save_meta[DRAINING] = word if self._host.is_draining else b""

    def save_lending(self, ready: Ready) -> None:
        """The owner has spoken."""
        lending = self._host.lending
        ready.save_meta[LENDING] = _encode(
            SavedLending(
                paused_until_ms=lending.paused_until_ms,
                habits=lending.habits.bins,
                words=lending.words,
            )
        )

    def save_accounts(self, now_ms: int, ready: Ready) -> None:
        """Now and then, if somebody has used something."""
        version = self._host.accounts.version
        if version != self._saved_version and now_ms - self._saved_ms >= ACCOUNTS_MS:
            self._saved_version, self._saved_ms = version, now_ms
            ready.save_meta[ACCOUNTS] = _encode(self._host.accounts.saved())
            self.save_lending(ready)
