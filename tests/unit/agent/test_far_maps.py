"""Workers of a map on another node than its home: what they say crosses the question lane."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from distributed_grid.agent import far_maps
from distributed_grid.agent.far_maps import FarMaps, FarWorkers
from distributed_grid.agent.kept_map import Abroad, worker_name
from distributed_grid.agent.maps import Maps
from distributed_grid.agent.questions import Asker, Questions
from distributed_grid.agent.remote import Remote
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.errors import BadValue, MeshUnreachable, NotFound, NotPermitted, Overloaded
from distributed_grid.kernel.jobs import FAILED, PENDING, RUNNING, SUCCEEDED, Attempt, Job, Progress
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array
from distributed_grid.web.asked import Asked
from distributed_grid.wire.api import Submitted
from distributed_grid.wire.maps import (
    FeedMap,
    MapCall,
    MapFunction,
    MapOutcome,
    OpenMap,
    TakeCalls,
    TakenCalls,
    WantValue,
)
from distributed_grid.wire.questions import PART_BYTES_MAX, Question
from tests.agent_stand_in import CannedAgent
from tests.mesh_stand_in import hashed
from tests.node_world import a_job
from tests.questions_lab import Lanes

HOME, GUEST, OTHER = (NodeId(hashed(name)) for name in ("desk", "barn", "attic"))
NAMES = {HOME: "desk", GUEST: "barn", OTHER: "attic"}
LEASE = "ab" * 16


def workers_job(indices: int = 2, **fields) -> Job:
    """The job of workers, as its home has it: one attempt of two workers, on the guest."""
    spec = a_job("map:f", array=Array(start=0, stop=indices))
    attempt = Attempt(
        number=1,
        lease=LEASE,
        host=GUEST,
        node="barn",
        granted_ms=1,
        state="running",
        indices=tuple(range(indices)),
    )
    job = Job(spec=spec, submitted_ms=1, attempts=[attempt], progress=Progress.of(spec.array))
    job.progress.states[:] = bytes([RUNNING] * indices)
    for name, value in fields.items():
        setattr(job, name, value)
    return job


class TwoNodes:
    """A home with a map, and a node that runs workers of it."""

    def __init__(self) -> None:
        self.lanes, self.broke = Lanes(), []
        self.job = workers_job()
        self.coordinator = SimpleNamespace(jobs={}, attempts=SimpleNamespace(here={}))
        self.submitted = []

        async def submit(jobs):
            self.submitted += jobs
            self.coordinator.jobs.setdefault(jobs[0].id, self.job)
            return Submitted(ids=tuple(job.id for job in jobs))

        async def cancel(job):
            pass

        self.maps = Maps(lambda: self.coordinator, submit=submit, cancel=cancel)
        self.workers = FarWorkers(self.maps)
        self.homes = {self.job.spec.id: HOME}
        at_home = CannedAgent()
        at_home.maps = self.maps
        self._node(HOME, Asked(at_home, workers=self.workers))
        own = CannedAgent()
        own.maps = Maps(lambda: SimpleNamespace(jobs={}), submit=submit, cancel=cancel)
        asks = self._node(GUEST, Asked(own))
        self.remote = Remote(asks, self, user="ada")
        self.far = FarMaps(own, self.remote, self.homes.get)

    def _node(self, me: NodeId, answering: Asked) -> Questions:
        made = Questions(
            self.lanes.way(me),
            answering=answering,
            asker=lambda peer: Asker(peer, NAMES[peer], ("worker",)),
            blame=lambda *told: self.broke.append(told),
        )
        self.lanes.nodes[me] = made
        return made

    # The mesh as the guest sees it

    me = GUEST
    live = {HOME: "desk"}  # noqa: RUF012
    is_member = True

    def name_of(self, node: NodeId) -> str:
        return NAMES[node]

    def is_own(self, word: str) -> bool:
        return False

    # What happens

    async def begin(self, *items: bytes, retries: int = 1) -> None:
        await self.maps.open(OpenMap(map="m", workers=self.job.spec))
        await self.feed(*items, retries=retries)

    async def feed(self, *items: bytes, after: int = 0, retries: int = 1):
        calls = tuple(MapCall(number, item) for number, item in enumerate(items))
        function = MapFunction(number=1, data=b"f", retries=retries) if items else None
        return await self.maps.feed("m", FeedMap(after=after, calls=calls, function=function))

    def ask(self, index: int = 0, **fields):
        usual = {"worker": worker_name(LEASE, index), "job": self.job.spec.id, "most": 1}
        return self.far.take("m", TakeCalls(**{**usual, **fields}))


async def test_a_worker_elsewhere_gets_calls_and_its_results_come_home():
    two = TwoNodes()
    await two.begin(b"1", b"2")

    taken = await two.ask()
    assert (taken.function.data, [call.data for call in taken.calls]) == (b"f", [b"1"])
    again = await two.ask(outcomes=(MapOutcome(0, "returned", b"one"),), function=1)
    assert (again.function, [call.data for call in again.calls]) == (None, [b"2"])
    news = await two.feed()
    assert [(one.number, one.data) for one in news.outcomes] == [(0, b"one")]
    assert two.broke == []


async def test_what_is_longer_than_a_message_travels_in_parts():
    two = TwoNodes()
    item, result = b"i" * 1_000_000, b"r" * (5 * PART_BYTES_MAX + 1)
    await two.begin(item)

    taken = await two.ask()
    assert taken.calls[0].data == item
    await two.ask(outcomes=(MapOutcome(0, "returned", result),), most=0)
    assert (await two.feed()).outcomes[0].data == result
    assert two.workers._uploads == {}


async def test_a_map_of_this_node_is_not_asked_for_elsewhere():
    two = TwoNodes()
    own = TakenCalls(calls=(MapCall(7, b"own"),))

    class Own:
        async def take(self, map_id, wanted):
            return own

    two.far._own.maps = Own()
    assert await two.ask() == own
    assert two.lanes.said == []


async def test_everything_else_of_a_map_is_its_own_agents_affair():
    two = TwoNodes()
    two.far._own.maps = two.maps
    await two.far.open(OpenMap(map="m", workers=two.job.spec))
    assert (await two.far.feed("m", FeedMap(after=0))).workers == 2
    holding = two.far.hold("m")
    assert await anext(holding) == b"\n"
    await holding.aclose()
    await two.far.close("m")
    with pytest.raises(NotFound):
        await two.far.feed("m", FeedMap(after=0))


async def test_a_worker_whose_home_nobody_knows_is_told_that_there_is_no_map():
    two = TwoNodes()
    two.homes.clear()
    with pytest.raises(NotFound):
        await two.ask()


async def test_a_home_that_cannot_be_reached_is_told_as_that():
    two = TwoNodes()
    await two.begin(b"1")
    two.live = {}
    with pytest.raises(MeshUnreachable, match="desk"):
        await two.ask()


async def test_a_home_that_goes_while_it_is_told_a_long_result():
    two = TwoNodes()
    await two.begin(b"1")
    asked = asyncio.create_task(two.ask(outcomes=(MapOutcome(0, "returned", b"r" * 200_000),)))
    while not two.lanes.said:
        await asyncio.sleep(0)
    two.lanes.lose(GUEST, HOME)
    with pytest.raises(MeshUnreachable, match="desk"):
        await asked


@pytest.mark.parametrize("worker", ["nobody.0", f"{LEASE}.2", ""])
async def test_nobody_but_its_workers_takes_the_calls_of_a_map(worker):
    two = TwoNodes()
    await two.begin(b"secret")
    with pytest.raises(NotPermitted, match="only workers of a map"):
        await two.ask(worker=worker)


async def test_a_node_that_runs_no_worker_of_it_takes_nothing():
    two = TwoNodes()
    two.job.attempts[0].host = OTHER
    await two.begin(b"secret")
    with pytest.raises(NotPermitted):
        await two.ask()


class TwoStores:
    """The large values of both nodes, without their disks."""

    def __init__(self) -> None:
        self.fails = False

    def path(self, map_id, value):
        return f"/here/{map_id}/{value}"

    async def packed(self, map_id, value):
        return f"manifest-of-{map_id}-{value}"

    async def brought(self, home, manifest):
        if self.fails:
            raise NotFetched(home, reason="unknown", detail="it does not answer")
        return f"/there/{NAMES[home]}/{manifest}"

    async def forget(self, map_id):
        pass


async def test_a_large_value_is_brought_from_the_home_of_its_map():
    two = TwoNodes()
    await two.begin(b"1")
    wanted = WantValue(job=two.job.spec.id, value="v")
    with pytest.raises(NotFound):  # Without a store for them.
        await two.far.value("m", wanted)
    two.maps._values = two.far._values = TwoStores()

    assert (await two.far.value("m", wanted)).path == "/there/desk/manifest-of-m-v"
    assert (await two.maps.value("m", wanted)).path == "/here/m/v"
    two.far._values.fails = True
    with pytest.raises(MeshUnreachable, match="desk"):  # Whoever asked asks again.
        await two.far.value("m", wanted)


async def test_nobody_but_nodes_of_its_workers_gets_the_values_of_a_map():
    two = TwoNodes()
    two.maps._values = two.far._values = TwoStores()
    await two.begin(b"secret")
    two.homes["f" * 64] = HOME
    with pytest.raises(NotPermitted):
        await two.far.value("m", WantValue(job="f" * 64, value="v"))
    two.job.attempts[0].host = OTHER
    with pytest.raises(NotPermitted):
        await two.far.value("m", WantValue(job=two.job.spec.id, value="v"))
    with pytest.raises(NotFound):
        await two.maps.value_far(GUEST, "another", WantValue(job=two.job.spec.id, value="v"))


async def test_a_map_that_is_over_lets_its_workers_end():
    two = TwoNodes()
    await two.begin(b"1")
    await two.maps.close("m")
    assert await two.ask() == TakenCalls()
    two.maps._over.clear()
    with pytest.raises(NotFound):
        await two.ask()


async def test_nodes_that_cannot_run_a_function_get_no_more_workers_of_it():
    two = TwoNodes()
    await two.begin(b"1")
    taken = await two.ask()
    returned = tuple(call.number for call in taken.calls)
    await two.ask(returned=returned, most=0, unable="ModuleNotFoundError: No module named 'here'")

    news = await two.feed()
    assert news.waiting == 1  # Whoever can runs it.
    assert news.unable == (("barn", "ModuleNotFoundError: No module named 'here'"),)
    assert await two.ask() == TakenCalls()
    more = msgspec.structs.replace(two.job.spec, id="c" * 64)
    await two.maps.open(OpenMap(map="m", workers=more))
    await two.maps.open(OpenMap(map="m", workers=more))
    assert [spec.avoid.nodes for spec in two.submitted] == [(), (GUEST,), ()]
    two.coordinator.jobs["c" * 64] = workers_job(spec=two.submitted[1])
    await two.maps.open(OpenMap(map="m", workers=more))  # Begun again: as it was submitted.
    assert two.submitted[-1].avoid.nodes == (GUEST,)


# --- Ends of workers elsewhere --------------------------------------------------------------------


def told(two: TwoNodes) -> None:
    two.maps.changed([two.job.spec.id])


async def test_a_worker_that_died_elsewhere_is_replaced_and_its_call_run_again():
    two = TwoNodes()
    await two.begin(b"1")
    await two.ask()
    told(two)
    assert (await two.feed()).waiting == 0
    attempt = two.job.attempts[0]
    attempt.ended_indices, two.job.progress.states[0] = 1, PENDING
    told(two)
    told(two)

    assert (await two.feed()).waiting == 1
    assert (await two.ask(0)).calls == ()  # The dead get nothing.
    assert (await two.ask(1)).calls[0].data == b"1"


async def test_a_call_that_kills_its_worker_again_and_again_is_told_as_dead():
    two = TwoNodes()
    await two.begin(b"1", retries=0)
    await two.ask()
    attempt = two.job.attempts[0]
    attempt.ended_indices, two.job.progress.states[0] = 1, FAILED
    attempt.how, attempt.exit_code = "signalled", 137
    told(two)

    [outcome] = (await two.feed()).outcomes
    assert (outcome.how, outcome.data) == ("died", b"signalled 137")


async def test_a_node_that_is_lost_gives_its_calls_to_others_without_blame():
    two = TwoNodes()
    await two.begin(b"1", b"2")
    await two.ask(0)
    await two.ask(1)
    two.job.attempts[0].state, two.job.attempts[0].note = "lost", "barn is dead"
    told(two)
    told(two)

    news = await two.feed()
    assert (news.waiting, news.outcomes, news.failure) == (2, (), "")


async def test_workers_that_ended_in_peace_are_nobodys_death():
    two = TwoNodes()
    await two.begin(b"1")
    attempt, progress = two.job.attempts[0], two.job.progress
    attempt.ended_indices, progress.states[0] = 1, SUCCEEDED
    told(two)
    attempt.ended_indices, progress.states[1], attempt.state = 2, SUCCEEDED, "ended"
    told(two)

    assert (await two.feed()).failure == ""
    two.job.state = "succeeded"
    told(two)
    assert two.maps._of_job == {}


def test_an_attempt_that_was_dropped_before_its_end_was_seen_is_lost():
    abroad, job = Abroad(), workers_job()
    assert list(abroad.look(job)) == []
    job.attempts.clear()

    assert [(one.worker, one.how) for one in abroad.look(job)] == [
        (f"{LEASE}.0", "lost"),
        (f"{LEASE}.1", "lost"),
    ]
    assert list(abroad.look(job)) == []


# --- What a stranger may say ----------------------------------------------------------------------


async def says(two: TwoNodes, operation: str, body: bytes = b"", **query: str) -> bytes:
    question = Question(number=1, operation=operation, query=query, body=body)
    return await two.workers.answer(Asker(GUEST, "barn", ("worker",)), question)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"size": "x", "offset": "0"},
        {"size": "0", "offset": "0"},
        {"size": "9" * 12, "offset": "0"},
        {"size": "10", "offset": "1"},
        {"size": "10", "offset": str(PART_BYTES_MAX)},
        {"size": "11", "offset": "0"},
    ],
)
async def test_parts_that_do_not_fit_together_are_refused(query):
    with pytest.raises(BadValue):
        await says(TwoNodes(), "take_part", b"x" * 10, upload="u", **query)


async def test_parts_of_another_whole_are_refused():
    two = TwoNodes()
    await says(two, "take_part", b"x" * 10, upload="u", size="10", offset="0")
    with pytest.raises(BadValue):
        await says(two, "take_part", b"x" * 9, upload="u", size="9", offset="0")


async def test_what_lacks_a_part_or_cannot_be_read_is_refused():
    two = TwoNodes()
    size = str(PART_BYTES_MAX + 1)
    await says(two, "take_part", b"x" * PART_BYTES_MAX, upload="u", size=size, offset="0")
    with pytest.raises(Overloaded, match="tell them again"):
        await says(two, "take_calls", map="m", upload="u")
    with pytest.raises(Overloaded):
        await says(two, "take_calls", map="m", upload="never begun")
    with pytest.raises(BadValue):
        await says(two, "take_calls", b"\xc1", map="m")


async def test_what_is_put_together_is_bounded_and_forgotten_when_nobody_goes_on(monkeypatch):
    two, now_s = TwoNodes(), [0.0]
    two.workers = FarWorkers(two.maps, clock_s=lambda: now_s[0])
    monkeypatch.setattr(far_maps, "UPLOADS_MAX", 2)
    for word in ("a", "b"):
        await says(two, "take_part", b"x", upload=word, size="1", offset="0")
    with pytest.raises(Overloaded):
        await says(two, "take_part", b"x", upload="c", size="1", offset="0")
    monkeypatch.setattr(far_maps, "UPLOADS_MAX", 9)
    monkeypatch.setattr(far_maps, "ROOM_BYTES", 2)
    with pytest.raises(Overloaded):
        await says(two, "take_part", b"x", upload="c", size="1", offset="0")
    now_s[0] = 61.0
    await says(two, "take_part", b"x", upload="c", size="1", offset="0")
    assert len(two.workers._uploads) == 1


async def test_an_agent_without_maps_has_none_for_others():
    two = TwoNodes()
    two._node(HOME, Asked(CannedAgent()))
    with pytest.raises(NotFound):
        await two.ask()


async def test_an_answer_that_cannot_be_read_is_no_map(monkeypatch):
    two = TwoNodes()

    async def junk(*_args, **_fields):
        return b"\xc1"

    monkeypatch.setattr(two.remote, "ask_bytes", junk)
    with pytest.raises(NotFound):
        await two.ask()
