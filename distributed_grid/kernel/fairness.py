"""Who has used how much of this machine: the accounts by which medium work is shared out.

Lives here: charging users and their projects for what they hold, over their weights. Never here:
the order of those who wait (`waiting`), what a request takes (`dominance`).
Invariant: a lease that has ended has cost exactly its part of the machine times its time; one that
runs, no less than a quantum.

What is spent is counted in millionths of the machine times milliseconds; use is that over the
weight. A grant pays a quantum ahead, so that several places that are free at one instant are shared
out; the end settles it. Whoever waits must have `joined`, once for each job, and `left` when that
no longer waits; a lease counts by itself.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from distributed_grid.kernel.dominance import WHOLE_MICRO, dominant_micro
from distributed_grid.kernel.siblings import Account, Siblings
from distributed_grid.model.bounds import Most, Name, Weighed
from distributed_grid.model.milli import WHOLE
from distributed_grid.model.priority import Weights
from distributed_grid.model.resources import Request, Resources

QUANTUM_MS: Final = 60_000  # Long against a decision, short against a day of work.
CREDIT_MS: Final = 600_000  # Of the whole machine: enough to be prompt, too little to hoard.
OWED_MAX: Final = 1_024  # Users of other nodes only; what the oldest of them used is forgiven.
IDLE_MAX: Final = 10_000  # Pairs of user and project that neither wait nor run; some 2 MiB.


class SavedAccounts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that must survive a restart."""

    floor: Weighed = 0
    users: Most[tuple[Name, Weighed, Weighed]] = ()  # Name, spent, floor of its projects.
    projects: Most[tuple[Name, Name, Weighed]] = ()  # User, name, spent; longest idle first.
    paid_ms: Most[tuple[Name, Weighed]] = ()  # By lease, of those that ran.


class _Pair:
    """A user and one of its projects; both pay."""

    __slots__ = ("mine", "project", "projects", "user")

    def __init__(self, mine: Account, projects: Siblings, project: Account) -> None:
        self.mine, self.projects, self.project = mine, projects, project
        self.user = mine.name


class _Held(msgspec.Struct):
    """A lease that runs."""

    pair: _Pair
    micro: int
    begun_ms: int
    paid_ms: int = 0


class Accounts:
    """What every user has used, and within it every project."""

    def __init__(
        self,
        total: Resources,
        weights: Weights,
        *,
        credit_ms: int = CREDIT_MS,
        quantum_ms: int = QUANTUM_MS,
    ) -> None:
        self.total, self.weights, self.quantum_ms = total, weights, quantum_ms
        self._credit = credit_ms * WHOLE_MICRO
        self._users = Siblings(credit=self._credit)
        self._projects: dict[str, Siblings] = {}  # By user.
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._idle: dict[tuple[str, str], None] = {}  # Longest first.
        self._held: dict[str, _Held] = {}  # By lease.
        self._paid_ms: dict[str, int] = {}  # Of leases that ran before a restart.
        self._owed: dict[str, int] = {}  # Of users not known here: what they used elsewhere.
        self._changed: dict[str, int] = {}  # User to version, oldest first.
        self.version = 0  # Goes up whenever somebody's use changes.

    def dominant_micro(self, request: Request) -> int:
        """How much of this machine a request is, in millionths."""
        return dominant_micro(self.total, request)

    def user_use(self, user: str) -> int:
        """What a user has used, over its weight; of a stranger nothing is known."""
        account = self._users.accounts.get(user)
        return account.use if account else 0

    def project_use(self, user: str, project: str) -> int:
        """What a user has used for a project, over the project's weight."""
        pair = self._pairs.get((user, project))
        return pair.project.use if pair else 0

    def user_spent(self, user: str) -> int:
        """What a user has used, before its weight."""
        account = self._users.accounts.get(user)
        return account.spent if account else 0

    def project_spent(self, user: str, project: str) -> int:
        """What a user has used for a project, before the project's weight."""
        pair = self._pairs.get((user, project))
        return pair.project.spent if pair else 0

    def share_milli(self, user: str, project: str | None = None) -> int:
        """The part of the machine that a user holds now, or a project of it, over the weight."""
        if project is None:
            account = self._users.accounts.get(user)
        else:
            pair = self._pairs.get((user, project))
            account = pair.project if pair else None
        return account.held_micro // account.weight_milli if account else 0

    def changed_since(self, version: int) -> Iterator[str]:
        """The users whose use has changed after a version, newest first."""
        for user in reversed(self._changed):
            if self._changed[user] <= version:
                return
            yield user

    # Jobs come and go

    def joined(self, user: str, project: str) -> None:
        """One more job of a project waits."""
        self._join(self._pairs.get((user, project)) or self._open(user, project))

    def left(self, user: str, project: str) -> None:
        """One job less waits."""
        self._leave(self._pairs[user, project])

    def begin(self, lease_id: str, user: str, project: str, request: Request, now_ms: int) -> None:
        """A lease is granted: pay a quantum ahead. After a restart: go on where it was."""
        if lease_id in self._held:
            return
        pair = self._pairs.get((user, project)) or self._open(user, project)
        self._join(pair)
        held = _Held(pair, self.dominant_micro(request), now_ms)
        self._held[lease_id] = held
        pair.mine.held_micro += held.micro
        pair.project.held_micro += held.micro
        if lease_id in self._paid_ms:
            held.paid_ms = self._paid_ms.pop(lease_id)
        else:
            self._pay(held, self.quantum_ms)

    def end(self, lease_id: str, now_ms: int) -> None:
        """A lease is over: settle what was paid ahead. Of one that is not held, nothing."""
        held = self._held.pop(lease_id, None)
        if held is None:
            return
        self._pay(held, max(0, now_ms - held.begun_ms))
        held.pair.mine.held_micro -= held.micro
        held.pair.project.held_micro -= held.micro
        self._leave(held.pair)

    def tick(self, now_ms: int) -> None:
        """Let those pay that run longer than they have paid for."""
        for held in self._held.values():
            if now_ms - held.begun_ms > held.paid_ms:
                self._pay(held, now_ms - held.begun_ms)

    # Elsewhere

    def holder(self, lease_id: str) -> tuple[str, int]:
        """Who holds a lease, and how much of the machine it is, in millionths."""
        held = self._held[lease_id]
        return held.pair.user, held.micro

    def charge_elsewhere(self, user: str, amount: int) -> None:
        """A user has used something on another node: it counts here as if it had been here.

        It puts nobody further behind the lowest of the active than a credit; so what was used
        where nobody else wanted it is forgiven, as it would be here.
        """
        account = self._users.accounts.get(user)
        if account is None:
            owed = min(self._owed.pop(user, 0) + amount, self._credit)
            self._owed[user] = owed  # Last, and so the last to be forgotten.
            if len(self._owed) > OWED_MAX:
                del self._owed[next(iter(self._owed))]
            return
        most = (self._users.floor + self._credit) * account.weight_milli // WHOLE
        more = min(amount, most - account.spent)
        if more <= 0:
            return
        if account.holds:
            self._users.charge(account, more)
        else:
            account.spent += more
        self._touch(user)

    # Across a restart

    def saved(self) -> SavedAccounts:
        """What `restore` needs."""
        active = (names for names, pair in self._pairs.items() if pair.project.holds)
        return SavedAccounts(
            floor=self._users.floor,
            users=tuple(
                (user, self.user_spent(user), projects.floor)
                for user, projects in self._projects.items()
            ),
            projects=tuple(
                (*names, self.project_spent(*names)) for names in (*self._idle, *active)
            ),
            paid_ms=tuple((lease_id, held.paid_ms) for lease_id, held in self._held.items()),
        )

    def restore(self, saved: SavedAccounts) -> None:
        """Start from what was saved; then `begin` the leases that still run, `joined` the rest."""
        assert not self._pairs, "accounts are restored before they are used"
        self._users = Siblings(credit=self._credit, floor=saved.floor)
        self._paid_ms = dict(saved.paid_ms)
        users = {user: (spent, floor) for user, spent, floor in saved.users}
        for user, project, spent in saved.projects[-IDLE_MAX:]:
            if user not in self._projects:
                self._projects[user] = Siblings(credit=self._credit, floor=users[user][1])
            pair = self._open(user, project)
            pair.mine.spent, pair.project.spent = users[user][0], spent
            self._idle[user, project] = None
            self._touch(user)

    def check(self) -> None:
        """Re-derive what must be true."""
        self._users.check()
        assert self._users.accounts.keys() == self._projects.keys(), "a user without projects"
        assert self._changed.keys() <= self._projects.keys(), "remembers changes of a stranger"
        versions = list(self._changed.values())
        assert versions == sorted(set(versions)), "changes are not in order"
        for user, projects in self._projects.items():
            projects.check()
            mine, its = self._users.accounts[user], projects.accounts
            assert its, "a user without projects"
            assert mine.holds == sum(a.holds for a in its.values()), "jobs are miscounted"
            assert mine.held_micro == sum(a.held_micro for a in its.values()), "held by nobody"
            assert all((user, name) in self._pairs for name in its), "a project without a pair"
        held = dict.fromkeys(self._pairs, 0)
        for lease in self._held.values():
            held[lease.pair.user, lease.pair.project.name] += lease.micro
        for names, pair in self._pairs.items():
            assert pair.project.held_micro == held[names], "held without a lease"
            assert bool(pair.project.holds) != (names in self._idle), "the idle are miscounted"
        assert len(self._idle) <= IDLE_MAX, "remembers without bound"
        assert len(self._owed) <= OWED_MAX, "remembers strangers without bound"
        assert not self._owed.keys() & self._projects.keys(), "a stranger who is known"

    def _open(self, user: str, project: str) -> _Pair:
        """The accounts of a new pair."""
        projects = self._projects.setdefault(user, Siblings(credit=self._credit))
        mine = self._users.accounts.get(user)
        if mine is None:
            mine = Account(user, self.weights.user(user), self._owed.pop(user, 0))
            self._users.accounts[user] = mine
        its = projects.accounts[project] = Account(project, self.weights.project(project))
        pair = self._pairs[user, project] = _Pair(mine, projects, its)
        return pair

    def _join(self, pair: _Pair) -> None:
        if not pair.project.holds:
            self._idle.pop((pair.user, pair.project.name), None)
        is_project_lifted = pair.projects.hold(pair.project)
        if self._users.hold(pair.mine) or is_project_lifted:
            self._touch(pair.user)

    def _leave(self, pair: _Pair) -> None:
        self._users.release(pair.mine)
        if pair.projects.release(pair.project):
            self._idle[pair.user, pair.project.name] = None
            if len(self._idle) > IDLE_MAX:
                self._forget(*next(iter(self._idle)))

    def _pay(self, held: _Held, ms: int) -> None:
        """Charge as if a lease had been held for so long, whatever was paid before."""
        amount = held.micro * (ms - held.paid_ms)
        held.paid_ms = ms
        self._users.charge(held.pair.mine, amount)
        held.pair.projects.charge(held.pair.project, amount)
        self._touch(held.pair.user)

    def _touch(self, user: str) -> None:
        self.version += 1
        self._changed.pop(user, None)
        self._changed[user] = self.version

    def _forget(self, user: str, project: str) -> None:
        del self._idle[user, project], self._pairs[user, project]
        projects = self._projects[user].accounts
        del projects[project]
        if not projects:
            del self._projects[user], self._users.accounts[user]
            self._changed.pop(user, None)
