"""Accounts that compete: the users of a machine, or the projects of one user.

Lives here: use over weight, who is active, and where somebody who comes back begins. Never here:
what is charged, and why (`fairness`).
Invariant: whoever becomes active starts at no less than the lowest use of the active, minus a
credit. So nobody saves up idle time for ever, and nobody who was away has to catch up.
"""

from bisect import bisect_left, insort

from distributed_grid.model.milli import WHOLE


class Account:
    """What one has spent, and holds now."""

    __slots__ = ("held_micro", "holds", "name", "spent", "weight_milli")

    def __init__(self, name: str, weight_milli: int, spent: int = 0) -> None:
        self.name, self.weight_milli, self.spent = name, weight_milli, spent
        self.holds = 0  # Jobs that wait or run; at 0 it is idle.
        self.held_micro = 0  # Of the machine, now.

    @property
    def use(self) -> int:
        """What it has spent, over its weight: that is what is compared."""
        return self.spent * WHOLE // self.weight_milli


class Siblings:
    """Accounts by name, the active ones by their use."""

    def __init__(self, *, credit: int, floor: int = 0) -> None:
        self.accounts: dict[str, Account] = {}
        self._credit = credit
        self._active: list[tuple[int, str]] = []
        self._floor = floor

    @property
    def floor(self) -> int:
        """The lowest use of the active: virtual time. It never goes back, and stays when all go.

        If it went back, each newcomer could begin below the last one.
        """
        return max(self._floor, self._active[0][0]) if self._active else self._floor

    def hold(self, account: Account) -> bool:
        """One more job waits or runs; tells whether that changed what the account has used."""
        account.holds += 1
        if account.holds > 1:
            return False
        self._floor = self.floor
        before, least = account.spent, (self._floor - self._credit) * account.weight_milli
        account.spent = max(before, -(-least // WHOLE))
        insort(self._active, (account.use, account.name))
        return account.spent != before

    def release(self, account: Account) -> bool:
        """One job less; tells whether the account is idle now."""
        assert account.holds, "somebody left who was not there"
        account.holds -= 1
        if account.holds:
            return False
        self._floor = self.floor  # While it counts.
        del self._active[self._place(account)]
        return True

    def charge(self, account: Account, amount: int) -> None:
        """Let an active account spend, or give back."""
        del self._active[self._place(account)]
        account.spent += amount
        insort(self._active, (account.use, account.name))

    def _place(self, account: Account) -> int:
        return bisect_left(self._active, (account.use, account.name))

    def check(self) -> None:
        """Re-derive what must be true."""
        active = sorted((a.use, a.name) for a in self.accounts.values() if a.holds)
        assert active == self._active, "active accounts are not in order"
        for name, account in self.accounts.items():
            assert account.name == name, "an account under another name"
            assert account.spent >= 0, "somebody has spent less than nothing"
            assert account.holds or not account.held_micro, "somebody idle holds something"
