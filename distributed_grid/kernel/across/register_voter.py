"""A voter on at-most-once jobs: promises, what it accepted, leases it renews.

Lives here: one node's votes. Never here: counting them (`register_candidate`, `register_chair`,
`register_lease`), the disk.
Invariant: no vote is given that a crash, an empty disk or an old one could undo. So every vote is
durable and counted, and told only when so many of the others remember the count that, after a
start, those who must be asked include one who does.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from distributed_grid.kernel.accounts import LIMITS, ByteAccounts, Rank
from distributed_grid.kernel.across.register_effects import AGAIN_US, WAIT_US, Effects, NewStore
from distributed_grid.kernel.across.register_sets import is_recollected, is_remembered, members_of
from distributed_grid.model.across import Epoch
from distributed_grid.model.bounds import Count, Name, OrNone, Table
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    Member,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
    Recollect,
    Recollected,
    RegisterMessage,
    Renewal,
    RenewLeases,
    Sets,
    Standing,
    Written,
)

VOTE_BYTES: Final = 1 << 10  # Of the votes on one job, beside its record.
STORES_MAX: Final = (
    8  # Of one node that are remembered: who loses more disks than that has no luck.
)
HELD_US: Final = 10_000_000  # Who asked for a vote has asked again by then, or has gone.

STORE: Final = "vote/store"
JOB: Final = "vote/job/"
REMEMBERED: Final = "vote/remembered/"
FLOORS: Final = "vote/floors"
ANSWERED: Final = -1  # In the place of a floor: in this life.
STRANGERS: Final = NodeId("")  # All who never answered, to a store of before there were floors.

Chance = Callable[[int], int]


class Store(msgspec.Struct, frozen=True):
    """What this node's disk is called, and how many votes were made durable on it."""

    id: Name
    count: Count = 0
    secret: Name = ""  # For tags, by which it knows its own counts again. Empty: an old one.


class Told(msgspec.Struct, frozen=True, array_like=True):
    """How many votes a store of another node has told of, and with which tag."""

    count: Count = 0
    tag: Name = ""


class Kept(msgspec.Struct, frozen=True):
    """The votes on one job."""

    promised: Epoch = Epoch()
    # Of the question that got the promise: asked again, it gets the same answer. -1: of none.
    ask: OrNone = -1
    written: Written | None = None


class Held(msgspec.Struct, frozen=True):
    """An answer that waits until others remember that it was given."""

    answer: Promised | Accepted
    sets: Sets
    count: int
    since_us: int


class Leased(msgspec.Struct, frozen=True):
    """To whom this voter said yes last on a job, and when: until it is over nobody else may run."""

    lease: str
    node: NodeId
    at_us: int


class Voter:
    """All votes of one node."""

    def __init__(self, node: NodeId, chance: Chance) -> None:
        self.me = Member(node, "")
        self.stores: dict[NodeId, str] = {}  # As heard, if in one voice: whom to name as a member.
        self._chance = chance
        self._life = 0
        self._count = 0
        self._secret = ""
        # Of others: how many votes the disk had at the first start since they answered last.
        self._floors: dict[NodeId, int] = {}
        self._jobs: dict[JobId, Kept] = {}
        self._accounts = ByteAccounts(LIMITS["votes"])
        self._charged: dict[JobId, tuple[NodeId, int]] = {}  # By job: to whom, and how much.
        self._remembered: dict[NodeId, dict[str, Told]] = {}
        self.is_new = False  # The store was made in this life: nobody remembers more of it.
        self.answered: set[Member] = set()  # In this life.
        self._confirmed: dict[Member, int] = {}
        self._held: dict[tuple[JobId, NodeId], Held] = {}
        self._asked: dict[NodeId, tuple[int, int]] = {}  # When, and with which count.
        self._leased: dict[JobId, Leased] = {}
        # Who is asked for the name of its store: by which question, and what was heard since.
        self._naming: dict[NodeId, tuple[int, str]] = {}

    def start(self, saved: Mapping[str, bytes], now_us: int) -> Effects:
        """Once, with what earlier lives saved: take it up, and ask what others remember of it."""
        effects = Effects()
        self._life = self._chance(1 << 62)
        for key, body in saved.items():
            if key.startswith(JOB):
                job = JobId(key.removeprefix(JOB))
                self._jobs[job] = _decode_kept(body)
                self._charge(job, self._jobs[job].promised.node, len(body) + VOTE_BYTES)
            elif key.startswith(REMEMBERED):
                node = NodeId(key.removeprefix(REMEMBERED))
                self._remembered[node] = {
                    name: one
                    if isinstance(one, Told)
                    else Told(one)  # From before there were tags.
                    for name, one in _decode_remembered(body).items()
                }
        if STORE in saved:
            store = _decode_store(saved[STORE])
            self.me = Member(self.me.node, store.id)
            self._count, self._secret = store.count, store.secret
            self._lower(saved.get(FLOORS), effects)
        else:
            self._begin_store(effects)
        for job, kept in self._jobs.items():
            if kept.written and (standing := kept.written.standing).lease:
                # To whom it said yes is not written down: it may have been within this moment.
                self._leased[job] = Leased(standing.lease, standing.node, now_us)
            self._is_voting(kept.written.standing.sets if kept.written else (), now_us, effects)
        return effects

    def meet(self, node: NodeId, now_us: int) -> Effects:
        """Ask a node for the name of its store."""
        effects = Effects()
        if node in self._naming:
            self._ask_name(node, effects)
        else:
            self._ask(node, now_us, effects)
        return effects

    def hear_of(self, node: NodeId, store: str) -> Effects:
        """A node has said what its store is called, in an answer to somebody else here."""
        effects = Effects()
        if node != self.me.node:
            self._hear_of(node, store, effects)
        return effects

    def written(self, job: JobId) -> Written | None:
        """What this node has accepted last: where a takeover begins."""
        kept = self._jobs.get(job)
        return kept.written if kept else None

    @property
    def jobs(self) -> list[JobId]:
        """Those that it has votes on."""
        return list(self._jobs)

    def has(self, job: JobId) -> bool:
        """Whether it has votes on this one."""
        return job in self._jobs

    def company(self, job: JobId) -> list[NodeId]:
        """Who else knows of a job that it has votes on: who asked last, and those who vote too."""
        kept = self._jobs[job]
        members = members_of(kept.written.standing.sets) if kept.written else ()
        nodes = {kept.promised.node: None} | {member.node: None for member in members}
        return [node for node in nodes if node != self.me.node]

    def promised(self, job: JobId) -> Epoch:
        """The highest epoch that this node has promised to obey."""
        return self._jobs.get(job, Kept()).promised

    def forget(self, job: JobId) -> Effects:
        """The job is over, and its summary is kept elsewhere for as long as anybody may ask."""
        self._jobs.pop(job, None)
        self._leased.pop(job, None)
        self._charge(job, self.me.node, 0)
        return Effects(save={JOB + job: None})

    def hear(self, sender: NodeId, message: RegisterMessage, now_us: int) -> Effects:
        """What a coordinator, an executor or another voter says."""
        effects = Effects()
        match message:
            case Prepare():
                self._prepare(sender, message, now_us, effects)
            case Accept():
                self._accept(sender, message, now_us, effects)
            case RenewLeases():
                self._renew(sender, message, now_us, effects)
            case Recollect():
                self._remember(sender, message, effects)
            case Recollected():
                self._recollected(sender, message, now_us, effects)
            case _:
                pass  # For whoever asked.
        return effects

    def tick(self, now_us: int) -> Effects:
        """Now and then: ask again who has not confirmed."""
        effects = Effects()
        for key, held in list(self._held.items()):
            if now_us - held.since_us >= HELD_US:
                del self._held[key]
            else:
                self._spread(held.sets, now_us, effects)
        return effects

    # Votes

    def _prepare(self, sender: NodeId, asked: Prepare, now_us: int, effects: Effects) -> None:
        kept = self._jobs.get(asked.job, Kept())
        is_repeat = (asked.epoch, asked.ask) == (kept.promised, kept.ask)
        is_refused = not is_repeat and asked.epoch <= kept.promised
        if is_refused or self.me not in members_of(asked.sets) or not self._has_room(sender, asked):
            refusal = NotPromised(
                job=asked.job, epoch=asked.epoch, ask=asked.ask, store=self.me.store,
                promised=kept.promised, written=kept.written,
            )  # fmt: skip
            effects.send.append((sender, refusal))
            return
        if not self._is_voting(_concerned(asked, kept), now_us, effects):
            return
        if not is_repeat:
            kept = Kept(asked.epoch, asked.ask, kept.written)
            self._keep(asked.job, kept, sender, effects)
        answer = Promised(
            job=asked.job, epoch=asked.epoch, ask=asked.ask, store=self.me.store,
            written=kept.written,
        )  # fmt: skip
        self._answer(sender, answer, asked.sets, now_us, effects)

    def _accept(self, sender: NodeId, asked: Accept, now_us: int, effects: Effects) -> None:
        kept = self._jobs.get(asked.job, Kept())
        version = asked.written.standing.version
        members = members_of(asked.sets)
        if self.me not in members:
            if any(member.node == self.me.node for member in members):
                self._ask(sender, now_us, effects)  # It means a store that is lost: it hears so.
            return
        if not self._has_room(sender, asked):
            return
        if version.epoch < kept.promised:
            refusal = NotAccepted(
                job=asked.job, ask=asked.ask, version=version, store=self.me.store,
                promised=kept.promised,
            )  # fmt: skip
            effects.send.append((sender, refusal))
            return
        if not self._is_voting(_concerned(asked, kept), now_us, effects):
            return
        if kept.written is None or version > kept.written.standing.version:
            ask = kept.ask if version.epoch == kept.promised else -1
            kept = Kept(version.epoch, ask, asked.written)
            self._keep(asked.job, kept, sender, effects)
        elif version < kept.written.standing.version:
            return  # Late: its writer has moved on.
        answer = Accepted(job=asked.job, ask=asked.ask, version=version, store=self.me.store)
        self._answer(sender, answer, asked.sets, now_us, effects)

    def _has_room(self, sender: NodeId, asked: Prepare | Accept) -> bool:
        on_whose, before = self._charged.get(asked.job, (sender, 0))
        after = max(before, VOTE_BYTES)
        if isinstance(asked, Accept):
            after = VOTE_BYTES + len(asked.written.value)
        rank: Rank = "own" if sender == self.me.node else "member"
        more = after - (before if on_whose == sender else 0)
        return self._accounts.has_room(sender, rank, more)

    def _keep(self, job: JobId, kept: Kept, sender: NodeId, effects: Effects) -> None:
        """Remember votes, on the account of who asked for them."""
        self._jobs[job] = kept
        effects.save[JOB + job] = body = _encode(kept)
        self._charge(job, sender, len(body) + VOTE_BYTES)
        self._count_vote(effects)

    def _charge(self, job: JobId, sender: NodeId, size: int) -> None:
        on_whose, before = self._charged.pop(job, (sender, 0))
        self._accounts.add(on_whose, -before)
        self._accounts.add(sender, size)
        if size:
            self._charged[job] = (sender, size)

    def check(self) -> None:
        """Re-derive what must be true."""
        self._accounts.check(self._charged.values())
        assert self._jobs.keys() == self._charged.keys(), "votes on nobody's account"

    def _is_voting(self, sets: Sets, now_us: int, effects: Effects) -> bool:
        """Whether enough of the others were asked since the start; if not, ask them."""
        if self.is_new or is_recollected(sets, self.me, self.answered):
            return True
        for member in members_of(sets):
            if member != self.me and member not in self.answered:
                self._ask(member.node, now_us, effects)
        return False

    # Leases

    def _renew(self, sender: NodeId, asked: RenewLeases, now_us: int, effects: Effects) -> None:
        for job, leased in list(self._leased.items()):
            if leased.node == sender and leased.lease in asked.over:
                del self._leased[job]
        renewed: list[str] = []
        standings: list[tuple[str, Standing]] = []
        for renewal in asked.renewals:
            kept = self._jobs.get(renewal.job)
            if kept is None or kept.written is None:
                continue  # It was not told yet, or has lost its store: no word on this.
            standing = kept.written.standing
            may_go_on = self._may_go_on(sender, renewal, kept.promised, standing)
            is_free = self._is_free(renewal, now_us)
            if may_go_on and not (is_free and self._is_voting(standing.sets, now_us, effects)):
                continue
            if may_go_on:
                renewed.append(renewal.lease)
                self._leased[renewal.job] = Leased(renewal.lease, sender, now_us)
            if not may_go_on or standing.version > renewal.version:
                standings.append((renewal.lease, standing))
        answer = LeasesRenewed(
            life=asked.life, sent_us=asked.sent_us, store=self.me.store,
            renewed=tuple(renewed), standings=tuple(standings),
        )  # fmt: skip
        effects.send.append((sender, answer))

    def _may_go_on(
        self, node: NodeId, renewal: Renewal, promised: Epoch, standing: Standing
    ) -> bool:
        if self.me not in members_of(standing.sets):
            return False  # It was a voter once.
        # Of a later write this voter has yet to hear: who was named in it, others can say.
        named = (standing.attempt, standing.lease, standing.node)
        return renewal.fence.epoch >= promised and (renewal.fence, renewal.lease, node) == named

    def _is_free(self, renewal: Renewal, now_us: int) -> bool:
        """Whether none but this attempt may still run, whatever its home has been told."""
        last = self._leased.get(renewal.job)
        return last is None or last.lease == renewal.lease or now_us - last.at_us >= WAIT_US

    # The store

    def _begin_store(self, effects: Effects) -> None:
        self._secret = f"{self._chance(1 << 128):032x}"
        self.me = Member(self.me.node, blake2b(self._secret.encode(), digest_size=16).hexdigest())
        self._count, self.is_new = 0, True
        self._floors = {}
        effects.save[FLOORS] = _encode(self._floors)
        for of_the_old in (self._held, self._confirmed, self._asked):
            of_the_old.clear()
        effects.save[STORE] = _encode(Store(self.me.store, 0, self._secret))
        effects.happened.append(NewStore(member=self.me))

    def _count_vote(self, effects: Effects) -> None:
        self._count += 1
        effects.save[STORE] = _encode(Store(self.me.store, self._count, self._secret))

    def _answer(
        self, to: NodeId, answer: Promised | Accepted, sets: Sets, now_us: int, effects: Effects
    ) -> None:
        held = Held(answer, sets, self._count, now_us)
        if self._is_confirmed(held):
            effects.send.append((to, answer))
        else:
            self._held[answer.job, to] = held
            self._spread(sets, now_us, effects)

    def _is_confirmed(self, held: Held) -> bool:
        remember = {member for member, count in self._confirmed.items() if count >= held.count}
        return is_remembered(held.sets, self.me, remember)

    def _spread(self, sets: Sets, now_us: int, effects: Effects) -> None:
        for member in members_of(sets):
            if member != self.me and self._confirmed.get(member, -1) < self._count:
                self._ask(member.node, now_us, effects)

    def _ask(self, node: NodeId, now_us: int, effects: Effects) -> None:
        told, (asked_us, asked) = self._told(node), self._asked.get(node, (0, -1))
        if node == self.me.node or (asked == told and now_us - asked_us < AGAIN_US):
            return  # A member of this node's own is an older store of it.
        self._asked[node] = (now_us, told)
        self._recollect(node, self._life, effects)

    def _recollect(self, node: NodeId, life: int, effects: Effects) -> None:
        count = self._told(node)
        tag = self._tag(node, count)
        question = Recollect(life=life, store=self.me.store, count=count, tag=tag)
        effects.send.append((node, question))

    def _tag(self, node: NodeId, count: int) -> str:
        """What only this store can say of a count that it told a node."""
        if not self._secret:
            return ""
        key = self._secret.encode()
        return blake2b(f"{node} {count}".encode(), key=key, digest_size=16).hexdigest()

    def _told(self, node: NodeId) -> int:
        """How many votes a node hears of: before its first answer, those that the disk had.

        Votes on other jobs count, too. Told with them, who remembers that the disk had more than it
        was found with would remember less than it hears, and would not know that it is old; in this
        life, or in a later one.
        """
        floor = self._floors.get(node, self._floors.get(STRANGERS, 0))
        return self._count if floor == ANSWERED else floor

    def _lower(self, saved: bytes | None, effects: Effects) -> None:
        """After a start: whoever has answered since the last one is to be asked again."""
        before = _decode_floors(saved) if saved is not None else {STRANGERS: self._count}
        self._floors = {
            node: self._count if floor == ANSWERED else floor for node, floor in before.items()
        }
        if saved is None or self._floors != before:
            effects.save[FLOORS] = _encode(self._floors)

    def _hear_of(self, node: NodeId, store: str, effects: Effects) -> None:
        """What a node's store is called. A late word is of a store that it may have lost since.

        So whoever has two names has none until it was asked: its answer is the last word.
        """
        if node in self._naming:
            self._naming[node] = self._naming[node][0], store
        elif self.stores.setdefault(node, store) != store:
            del self.stores[node]
            self._ask_name(node, effects)

    def _ask_name(self, node: NodeId, effects: Effects) -> None:
        """By a question of its own, which no late answer is to: its number stands for a life."""
        number = self._chance(1 << 62)
        self._naming[node] = number, ""
        self._recollect(node, number, effects)

    def _named(self, node: NodeId, store: str, effects: Effects) -> None:
        """Its answer; should something else have been heard meanwhile, it is asked once more."""
        if self._naming[node][1] in ("", store):
            del self._naming[node]
            self.stores[node] = store
        else:
            self._ask_name(node, effects)

    def _remember(self, sender: NodeId, told: Recollect, effects: Effects) -> None:
        self._hear_of(sender, told.store, effects)
        stores = self._remembered.setdefault(sender, {})
        if told.store not in stores or told.count > stores[told.store].count:
            stores[told.store] = Told(told.count, told.tag)
            while len(stores) > STORES_MAX:
                del stores[next(iter(stores))]
            effects.save[REMEMBERED + sender] = _encode(stores)
        known = stores[told.store]
        answer = Recollected(
            life=told.life, store=told.store, count=known.count, by=self.me.store, tag=known.tag
        )
        effects.send.append((sender, answer))

    def _recollected(
        self, sender: NodeId, told: Recollected, now_us: int, effects: Effects
    ) -> None:
        if sender in self._naming and told.life == self._naming[sender][0]:
            self._named(sender, told.by, effects)
            return
        self._hear_of(sender, told.by, effects)
        if (told.life, told.store) != (self._life, self.me.store):
            return  # An answer to an earlier life.
        if told.count > self._told(sender):
            if told.tag == self._tag(sender, told.count):  # Else anybody could take its votes.
                self._begin_store(effects)  # The disk is older than what was promised on it.
            return
        if self._floors.get(sender) != ANSWERED:
            self._floors[sender] = ANSWERED
            effects.save[FLOORS] = _encode(self._floors)
        member = Member(sender, told.by)
        self.answered.add(member)
        self._confirmed[member] = max(told.count, self._confirmed.get(member, 0))
        for (job, to), held in list(self._held.items()):
            if self._is_confirmed(held):
                del self._held[job, to]
                effects.send.append((to, held.answer))
            elif told.count < held.count:
                self._spread(held.sets, now_us, effects)


def _concerned(asked: Prepare | Accept, kept: Kept) -> Sets:
    """Who may remember more of a voter than it does. Without the old voters, if a person says."""
    old = kept.written.standing.sets if kept.written and not asked.is_forced else ()
    return (*asked.sets, *old)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_kept: Final = msgspec.msgpack.Decoder(Kept).decode
_decode_store: Final = msgspec.msgpack.Decoder(Store).decode
_decode_floors: Final = msgspec.msgpack.Decoder(Table[NodeId, OrNone]).decode
_decode_remembered: Final = msgspec.msgpack.Decoder(Table[Name, Count | Told]).decode
