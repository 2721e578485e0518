"""Between a request and its acknowledgement."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent import submitting
from distributed_grid.agent.carrying import Carrying
from distributed_grid.agent.submitting import Submitting
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.errors import Ambiguous, NeverFits, NotFound, TooFewCopies
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import View
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Where
from tests.across_world import Room
from tests.node_world import PATHS, a_job

ONE_CORE = Inventory(cores=((0, 0),), cpu_milli=1_000, memory_bytes=1 << 30)
BIG = a_job("big", cpus=4_000)


class Late:
    """Somebody has joined, and tells what it has only at this look."""

    def __init__(self, room: Room, tells_at: int) -> None:
        self.looks, self._room, self._tells_at = 0, room, tells_at

    @property
    def is_unsure(self) -> bool:
        self.looks += 1
        if self.looks == self._tells_at:
            self._room.look()
        return self.looks <= self._tells_at

    has_copies: int | None = None

    async def copies(self, _jobs, *, wanted: int) -> int:
        await asyncio.sleep(0)
        return wanted if self.has_copies is None else self.has_copies


class Slow:
    """Files that do not get anywhere else while somebody waits."""

    def __init__(self) -> None:
        self.transplanting, self.heard, self.left = self, set(), False

    async def taken(self, jobs, *, has_files: bool):
        return jobs, frozenset(spec.id for spec in jobs if has_files)

    def submitted(self, jobs) -> None:
        self.heard |= jobs

    async def hastened(self, _jobs) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True


def a_counter(room: Room, across: Late, luggage=None) -> Submitting:
    async def nothing(_message) -> None:
        pass

    node, store = room[0].node, MemoryStore()
    hands = Carrying(node, store, Watchers(), PATHS, to_keeper=nothing, clock_ms=lambda: 1_000)
    return Submitting(
        node, store, hands, clock_ms=lambda: room[0].now_ms, cancel=nothing, across=across,
        luggage=luggage,
    )  # fmt: skip


@pytest.fixture
def room(monkeypatch) -> Room:
    """A small node, and one of which nothing is known yet."""
    monkeypatch.setattr(submitting, "UNSURE_S", 0)
    made = Room(2, ONE_CORE)
    unknown = {made[1].me: Peer(id=made[1].me, name=made[1].name)}
    made[0].step(View(now_ms=made[0].now_ms, peers=unknown, own=made[0].record))
    return made


async def test_who_has_just_joined_is_given_a_moment_to_tell_what_it_has(room):
    across = Late(room, tells_at=3)
    taken = await a_counter(room, across).submit((BIG,))

    assert taken.ids == (BIG.id,)
    assert across.looks == 3


async def test_what_fits_nowhere_is_refused_once_all_have_told(room):
    across = Late(room, tells_at=2)
    with pytest.raises(NeverFits):
        await a_counter(room, across).submit((a_job("huge", cpus=64_000),))
    assert across.looks == 3


async def test_who_never_tells_is_not_waited_for_for_long(room):
    across = Late(room, tells_at=10**6)
    with pytest.raises(NeverFits):
        await a_counter(room, across).submit((BIG,))
    assert across.looks == submitting.UNSURE_LOOKS


async def test_who_is_refused_for_want_of_copies_leaves_nobody_waiting(room):
    across = Late(room, tells_at=0)
    counter = a_counter(room, across, luggage := Slow())
    across.has_copies = 1
    with pytest.raises(TooFewCopies):
        await counter.submit((a_job("small", copies=2),))
    await asyncio.sleep(0)

    assert luggage.heard == {a_job("small").id}
    assert luggage.left


# Nodes are named

ATTIC, BARN = NodeId("ab12cd" + "0" * 58), NodeId("ab12ce" + "0" * 58)


@pytest.fixture
def named(room) -> Room:
    """A room in which the first node sees two others, one of which does not answer."""
    peers = {
        ATTIC: Peer(id=ATTIC, name="attic", record=replaced(room[1].record, ATTIC, "attic")),
        BARN: Peer(id=BARN, name="barn", is_alive=False),
    }
    room[0].step(View(now_ms=room[0].now_ms, peers=peers, own=room[0].record))
    return room


def replaced(record, node, name):
    return msgspec.structs.replace(record, id=node, name=name)


async def taken(room: Room, spec, across=None):
    """How a job is known once it was taken."""
    await a_counter(room, across or Late(room, tells_at=0)).submit((spec,))
    return room[0].job(spec).spec


@pytest.mark.parametrize("word", ["attic", "ab12cd", "AB12CD00", ATTIC])
async def test_a_node_is_named_by_its_name_its_id_or_the_beginning_of_that(named, word):
    wanted = await taken(named, a_job("there", cpus=4_000, require=Where(nodes=(word,))))
    avoided = await taken(named, a_job("not-there", avoid=Where(nodes=(word, "barn"))))

    meant = "attic" if word == "attic" else ATTIC
    assert wanted.require.nodes == (meant,)
    assert avoided.avoid.nodes == (meant, "barn")


@pytest.mark.parametrize("part", ["require", "avoid"])
async def test_a_beginning_that_two_share_is_refused(named, part):
    with pytest.raises(Ambiguous) as caught:
        await taken(named, a_job("job", **{part: Where(nodes=("ab12",))}))
    assert caught.value.matches == (ATTIC[:12], BARN[:12])


@pytest.mark.parametrize("word", ["nosuchnode", "ffff", "ab1"])
async def test_whoever_avoids_nobody_has_mistyped_somebody(named, word):
    with pytest.raises(NotFound) as caught:
        await taken(named, a_job("job", avoid=Where(nodes=("attic", word))))
    assert (caught.value.kind, caught.value.name) == ("node", word)
    assert "--wait-for-capacity" in caught.value.remedy
    with pytest.raises(NeverFits, match=word):
        await taken(named, a_job("job", require=Where(nodes=(word,))))


async def test_who_waits_may_avoid_or_want_one_that_is_yet_to_join(named):
    for part in ("require", "avoid"):
        job = a_job(part, wait_for_capacity=True, **{part: Where(nodes=("nosuchnode",))})
        assert await taken(named, job) == job


async def test_a_whole_id_may_be_of_somebody_who_has_left(named):
    job = a_job("job", avoid=Where(nodes=("f" * 64,)))

    assert await taken(named, job) == job


async def test_who_is_alone_may_say_so_in_any_words(room):
    room[0].node.part(room[0].now_ms)
    job = a_job("job", avoid=Where(nodes=("nosuchnode",)))

    assert await taken(room, job) == job


async def test_a_job_said_again_avoids_whom_it_avoided_then(named):
    job = a_job("job", avoid=Where(nodes=("barn", "ab12cd")))
    then = await taken(named, job)
    own = named[0].record
    named[0].step(View(now_ms=named[0].now_ms, peers={}, own=own))  # Both have left.

    assert await taken(named, job) == then
    assert then.avoid.nodes == ("barn", ATTIC)


async def test_one_who_joins_later_does_not_change_what_a_job_said_again_means(named):
    job = a_job("job", wait_for_capacity=True, avoid=Where(nodes=("cafe",)))
    then, own, cafe = await taken(named, job), named[0].record, NodeId("cafe" + "0" * 60)
    late = {cafe: Peer(id=cafe, name="loft")}
    named[0].step(View(now_ms=named[0].now_ms, peers=late, own=own))

    assert await taken(named, job) == then == job


async def test_who_has_just_joined_is_given_a_moment_to_be_known(room):
    across = Late(room, tells_at=3)
    own = room[0].record
    room[0].step(View(now_ms=room[0].now_ms, peers={}, own=own))
    spec = await taken(room, a_job("job", avoid=Where(nodes=("node-2",))), across)

    assert spec.avoid.nodes == ("node-2",)
    assert across.looks == 3
