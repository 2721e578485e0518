"""The order in which everybody who waits would be served, if all ran equally long.

Lives here: the accounts as they would be after each grant. Never here: what is really charged
(`fairness`), who comes next now (`waiting`).
Invariant: it is the order that one gets by granting the first, charging a quantum, and looking
again.

A user's own jobs come in an order that no other user changes, each with what the user will have
used by then; so the order of all is one sort by these, and nothing has to be played through. The
same holds for the projects of a user.
"""

from collections.abc import Collection, Iterable
from itertools import accumulate

from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.fairness import Accounts
from distributed_grid.kernel.groups import Claim, Purse, Spot
from distributed_grid.model.milli import WHOLE


class Forecast:
    """Purses that are charged for those who would have been served so far."""

    def __init__(
        self, accounts: Accounts, claims: Iterable[Claim], purses: Collection[Purse]
    ) -> None:
        self._accounts, self._purses = accounts, purses
        for claim in claims:
            claim.quantum = accounts.dominant_micro(claim.key[1]) * accounts.quantum_ms
        for purse in purses:
            purse.ahead = 0

    def by_age(self, spots: list[Spot]) -> list[Entry]:
        """These, given by age, as they are."""
        for spot in spots:
            spot.purse.ahead += spot.claim.quantum
        return [spot.entry for spot in spots]

    def shared_out(self, spots: list[Spot]) -> list[Entry]:
        """These, given by age, so that whoever has used least comes first."""
        for spot in spots:
            spot.purse.waiting.append(spot)
        ahead: dict[str, int] = {}
        users: dict[str, list[tuple[int, Spot, int]]] = {}
        for purse in self._purses:
            user = purse.key[0]
            ahead[user] = ahead.get(user, 0) + purse.ahead
            if purse.waiting:
                users.setdefault(user, []).extend(self._of_project(purse))
        keyed: list[tuple[int, int, Spot]] = []
        for user, waiting in users.items():
            waiting.sort()
            keyed += self._of_user(user, ahead[user], waiting)
        keyed.sort()
        return [spot.entry for _, _, spot in keyed]

    def _of_project(self, purse: Purse) -> Iterable[tuple[int, Spot, int]]:
        """Each with what its project will have used by then, and what it costs."""
        waiting, purse.waiting = purse.waiting, []
        quanta = [spot.claim.quantum for spot in waiting]
        before = self._accounts.project_spent(*purse.key) + purse.ahead
        purse.ahead += sum(quanta)
        weight_milli = self._accounts.weights.project(purse.key[1])
        return zip(_uses(before, quanta, weight_milli), waiting, quanta, strict=False)

    def _of_user(
        self, user: str, ahead: int, waiting: list[tuple[int, Spot, int]]
    ) -> Iterable[tuple[int, int, Spot]]:
        """Each with what its user and its project will have used by then."""
        before = self._accounts.user_spent(user) + ahead
        project_uses, spots, quanta = zip(*waiting, strict=True)
        uses = _uses(before, quanta, self._accounts.weights.user(user))
        return zip(uses, project_uses, spots, strict=False)


def _uses(before: int, costs: Iterable[int], weight_milli: int) -> Iterable[int]:
    """What is used before each of these, and after the last, over the weight."""
    spent = accumulate(costs, initial=before)
    if weight_milli == WHOLE:
        return spent  # As with nearly everybody.
    return [one * WHOLE // weight_milli for one in spent]
