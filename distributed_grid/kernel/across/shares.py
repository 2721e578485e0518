"""Fair shares across owners: what each user borrowed lately is told to all, and counts everywhere.

Lives here: what was borrowed on this node, fading; what others tell of theirs. Never here: accounts
and the order that follows from them (`kernel.fairness`), spreading it (`kernel.mesh`).
Invariant: what another node tells is charged once, never more than that node can have lent in the
time, and never puts a user further behind than a credit. So shares are within what was not told yet
and one job of the weights.

A user is told as `name@node`, with the node that certified it; on that node itself it is `name`.
What an owner uses of its own machine is nobody's loan, and does not count.
"""

from itertools import islice
from typing import Final

import msgspec

from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.host import Host
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh_records import USERS_MAX

STEP_MS: Final = 10_000  # What was used fades in steps that everybody counts alike:
KEPT_OF_1024: Final = 1_013  # so much is kept in each. After eleven minutes half is left.
STEPS_MAX: Final = 360  # An hour unheard of: what it tells then is where counting begins again.
HEARD_MAX: Final = 16  # Nodes that are listened to in one view; of more, the others in the next.
KNOWN_MAX: Final = 4 * USERS_MAX  # Users of one node of whom is known what they had used there.
_CORE_MS: Final = 10**9  # Millionths of a machine times its thousandths of cores, for one core-ms.

Usage = tuple[tuple[str, int], ...]  # User, milliseconds of a core, the greatest first.


class Told(msgspec.Struct):
    """What a node has told so far."""

    step: int
    used: dict[str, int]


class Shares:
    """One node's part in sharing fairly with others."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.name = ""  # As others call this node; empty: not known yet.
        self._used: dict[str, int] = {}
        self._step = 0
        self._at_ms: int | None = None
        self._told: dict[NodeId, Told] = {}
        self._peers: Peers = NOBODY
        self._unheard: dict[
            NodeId, None
        ] = {}  # Who has told something new, the first of them first.

    # What is borrowed here

    def tick(self, now_ms: int) -> None:
        """Count what is held now for the time since the last look."""
        before_ms, self._at_ms = self._at_ms, now_ms
        if before_ms is None:
            self._step = now_ms // STEP_MS
            return
        passed_ms = min(now_ms - before_ms, STEP_MS)  # Asleep for longer: nothing ran.
        whole = self._host.ledger.total.cpu_milli
        for lease in self._host.borrowers:
            user, micro = self._host.accounts.holder(lease)
            name = user if "@" in user else f"{user}@{self.name}"
            amount = micro * whole * passed_ms // _CORE_MS
            self._used[name] = self._used.get(name, 0) + amount
        step = now_ms // STEP_MS
        if step != self._step:
            steps, self._step = step - self._step, step
            faded = {user: fade(used, steps) for user, used in self._used.items()}
            self._used = {user: used for user, used in faded.items() if used}

    def told(self) -> tuple[int, Usage]:
        """For the others: those who have used most, and as of when."""
        if not self.name or not self._used:
            return 0, ()  # At rest nothing changes, and nothing is told.
        most = sorted(self._used.items(), key=lambda one: (-one[1], one[0]))
        return self._step, tuple(most[:USERS_MAX])

    # What is borrowed elsewhere

    def see(self, peers: Peers, name: str) -> None:
        """What the others tell, and how they call this node."""
        self.name = name
        before, self._peers = self._peers, peers
        for node in before.keys() - peers.keys():
            self._told.pop(node, None)
        for node, peer in peers.items():
            was = before.get(node)
            if was is None or (was.usage is not peer.usage and _said(was) != _said(peer)):
                self._unheard[node] = None
        for node in list(islice(self._unheard, HEARD_MAX)):
            del self._unheard[node]
            if node in peers and peers[node].usage_step:
                self._hear(peers[node])

    def _hear(self, peer: Peer) -> None:
        told, usage = self._told.get(peer.id), dict(peer.usage)
        steps = peer.usage_step - told.step if told is not None else -1
        if told is None or not 0 <= steps <= STEPS_MAX:  # New, or started again.
            self._told[peer.id] = Told(peer.usage_step, usage)
            return
        known = told.used  # Fades only from step to step.
        if steps:
            known = {user: fade(used, steps) for user, used in known.items()}
        # As much as all its cores could do in the time; a step more, because steps are coarse.
        most = peer.record.total.cpu_milli * (steps + 1) * STEP_MS // 1_000 if peer.record else 0
        for user, used in usage.items():
            more = min(used - known.get(user, 0), most)
            if more > 0:
                most -= more
                self._charge(user, more)
        # Whoever is no longer listed may be again, with what is known already.
        known = {user: used for user, used in known.items() if used and user not in usage}
        kept = sorted(known.items(), key=lambda one: (-one[1], one[0]))[:KNOWN_MAX]
        self._told[peer.id] = Told(peer.usage_step, usage | dict(kept))

    def _charge(self, user: str, core_ms: int) -> None:
        whole = max(self._host.ledger.total.cpu_milli, 1)
        mine = f"@{self.name}"
        local = user.removesuffix(mine)
        self._host.accounts.charge_elsewhere(local, core_ms * _CORE_MS // whole)


def _said(peer: Peer) -> tuple[int, Usage]:
    return peer.usage_step, peer.usage


def fade(used: int, steps: int) -> int:
    """What is left of it after so many steps; the same for whoever computes it."""
    for _ in range(steps):
        if not used:
            break
        used = used * KEPT_OF_1024 >> 10
    return used
