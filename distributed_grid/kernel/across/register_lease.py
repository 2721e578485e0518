"""The leases of at-most-once attempts that run, or are to run, on this node.

Lives here: renewing them with the voters, and how long each lasts. Never here: starting and
ending processes: the keeper holds the deadline, and this only moves it.
Invariant: a lease ends 0.95 TTL after the moment before a question was sent that majorities of all
sets answered with yes; no process starts before, and the clock goes on while the machine sleeps.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from distributed_grid.kernel.across.register_effects import (
    AGAIN_US,
    LEASE_US,
    RENEW_US,
    Effects,
    Extend,
    GaveUp,
    Lapsed,
    MayRun,
)
from distributed_grid.kernel.across.register_sets import is_carried, members_of
from distributed_grid.kernel.across.register_voter import Chance
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    RENEWALS_MAX,
    LeasesRenewed,
    Member,
    RegisterMessage,
    Renewal,
    RenewLeases,
    Standing,
)

PATIENCE_US: Final = 30_000_000  # To get a first lease: three TTLs, then another node may try.
ROUNDS_MAX: Final = 8  # Questions whose answers still count: they are sent within one TTL.
LEASE: Final = "vote/lease/"


class Begun(msgspec.Struct, frozen=True):
    """A lease whose process was let start, for the next life of the agent."""

    job: JobId
    fence: Fence
    standing: Standing


class Tenure:
    """One lease."""

    def __init__(
        self, job: JobId, lease: str, fence: Fence, standing: Standing, now_us: int
    ) -> None:
        self.job = job
        self.lease = lease
        self.fence = fence
        self.standing = standing  # The newest seen.
        self.since_us = now_us
        self.has_begun = False
        self.until_us = 0
        self.due_us = now_us  # To ask again.
        self.rounds: dict[int, set[Member]] = {}  # By when they were sent: who said yes.

    def renewal(self) -> Renewal:
        """What a voter is asked."""
        return Renewal(self.job, self.lease, self.fence, self.standing.version)

    def asked(self, now_us: int) -> None:
        """A question goes out now."""
        self.rounds[now_us] = set()
        while len(self.rounds) > ROUNDS_MAX:
            del self.rounds[next(iter(self.rounds))]
        self.due_us = now_us + AGAIN_US

    def granted(self, member: Member, sent_us: int, now_us: int) -> bool:
        """A voter said yes to a question; whether the lease is longer now, and not yet over."""
        if sent_us not in self.rounds:
            return False
        self.rounds[sent_us].add(member)
        until_us = sent_us + LEASE_US
        if until_us <= max(self.until_us, now_us):
            return False
        if not is_carried(self.standing.sets, self.rounds[sent_us]):
            return False
        self.until_us = until_us
        self.due_us = sent_us + RENEW_US
        return True

    def learn(self, standing: Standing, now_us: int) -> None:
        """A voter knows a newer standing: other sets, or a new fence for this attempt."""
        if standing.version > self.standing.version:
            self.standing = standing
            self.due_us = now_us
        if standing.lease == self.lease and standing.attempt > self.fence:
            self.fence = standing.attempt
            self.due_us = now_us

    @property
    def is_replaced(self) -> bool:
        """Whether a later attempt was named: it would be in vain to start this one."""
        return self.standing.lease != self.lease and self.standing.attempt > self.fence


class Leases:
    """All leases of one node."""

    def __init__(self, chance: Chance) -> None:
        self._life = chance(1 << 62)
        self._tenures: dict[str, Tenure] = {}

    def start(self, saved: Mapping[str, bytes], running: Mapping[str, int], now_us: int) -> Effects:
        """Once, with what earlier lives saved, and the deadlines of what the keeper runs."""
        effects = Effects()
        for key, body in saved.items():
            if not key.startswith(LEASE):
                continue
            lease = key.removeprefix(LEASE)
            begun = _decode(body)
            if lease not in running:
                effects.save[key] = None
                self._give_back(lease, begun.standing, now_us, effects)
                continue
            tenure = Tenure(begun.job, lease, begun.fence, begun.standing, now_us)
            self._tenures[lease] = tenure
            tenure.has_begun, tenure.until_us = True, running[lease]
        self._renew(now_us, effects)
        return effects

    def begin(self, job: JobId, standing: Standing, now_us: int) -> Effects:
        """An attempt is to start here. Said again: it may have a new fence."""
        effects = Effects()
        tenure = self._tenures.get(standing.lease)
        if tenure is None:
            tenure = Tenure(job, standing.lease, standing.attempt, standing, now_us)
            self._tenures[standing.lease] = tenure
        else:
            tenure.learn(standing, now_us)
        self._renew(now_us, effects)
        return effects

    def over(self, lease: str, now_us: int) -> Effects:
        """Its process has ended, or will not start; those who vote may let another run at once."""
        effects = Effects(save={LEASE + lease: None})
        tenure = self._tenures.pop(lease, None)
        if tenure is not None:
            self._give_back(lease, tenure.standing, now_us, effects)
        return effects

    def _give_back(self, lease: str, standing: Standing, now_us: int, effects: Effects) -> None:
        word = RenewLeases(life=self._life, sent_us=now_us, renewals=(), over=(lease,))
        effects.send += [(member.node, word) for member in members_of(standing.sets)]

    def hear(self, sender: NodeId, message: RegisterMessage, now_us: int) -> Effects:
        """What a voter answers."""
        effects = Effects()
        if not isinstance(message, LeasesRenewed) or message.life != self._life:
            return effects
        member = Member(sender, message.store)
        for lease, standing in message.standings:
            tenure = self._tenures.get(lease)
            if tenure:
                tenure.learn(standing, now_us)
        for lease in message.renewed:
            tenure = self._tenures.get(lease)
            if tenure and tenure.granted(member, message.sent_us, now_us):
                self._extend(tenure, effects)
        self._renew(now_us, effects)
        return effects

    def tick(self, now_us: int) -> Effects:
        """Each 100 ms."""
        effects = Effects()
        for lease, tenure in list(self._tenures.items()):
            if tenure.has_begun and now_us >= tenure.until_us:
                del self._tenures[lease]
                effects.save[LEASE + lease] = None
                effects.happened.append(Lapsed(job=tenure.job, lease=lease))
            elif not tenure.has_begun and (
                tenure.is_replaced or now_us - tenure.since_us >= PATIENCE_US
            ):
                effects.add(self.over(lease, now_us))
                effects.happened.append(GaveUp(job=tenure.job, lease=lease))
        self._renew(now_us, effects)
        return effects

    def _extend(self, tenure: Tenure, effects: Effects) -> None:
        if tenure.has_begun:
            effects.happened.append(Extend(lease=tenure.lease, until_boot_us=tenure.until_us))
            return
        tenure.has_begun = True
        effects.save[LEASE + tenure.lease] = _encode(
            Begun(tenure.job, tenure.fence, tenure.standing)
        )
        run = MayRun(
            job=tenure.job, lease=tenure.lease, fence=tenure.fence, until_boot_us=tenure.until_us
        )
        effects.happened.append(run)

    def _renew(self, now_us: int, effects: Effects) -> None:
        """Ask for all at once as soon as one of them is due."""
        tenures = self._tenures.values()
        if not any(now_us >= tenure.due_us for tenure in tenures):
            return
        for_node: dict[NodeId, list[Renewal]] = {}
        for tenure in tenures:
            tenure.asked(now_us)
            for member in members_of(tenure.standing.sets):
                for_node.setdefault(member.node, []).append(tenure.renewal())
        for node, renewals in for_node.items():
            for first in range(0, len(renewals), RENEWALS_MAX):
                part = tuple(renewals[first : first + RENEWALS_MAX])
                question = RenewLeases(life=self._life, sent_us=now_us, renewals=part)
                effects.send.append((node, question))


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Begun).decode
