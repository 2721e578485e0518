"""Any node answers for any job: three nodes, real questions, canned agents."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent import asking, awaiting_elsewhere, finding, following, remote
from distributed_grid.agent.anywhere import Anywhere
from distributed_grid.agent.remote import Remote
from distributed_grid.errors import Ambiguous, MeshUnreachable, NotFound
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.api import Jobs, StoryLine
from distributed_grid.wire.questions import Question
from tests.agent_stand_in import CannedAgent, a_view, an_attempt
from tests.questions_lab import Town

NO_FILTER = dict(state="", name="", user="", limit=100, before_ms=0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Waits that people have are short here."""
    monkeypatch.setattr(awaiting_elsewhere, "AGAIN_S", 0.01)
    monkeypatch.setattr(following, "AGAIN_S", 0.01)
    monkeypatch.setattr(following, "LOOK_S", 0.02)


def questions(town: Town, operation: str = "") -> list[Question]:
    return [
        message
        for _, _, message in town.lanes.said
        if isinstance(message, Question) and operation in ("", message.operation)
    ]


# --- Finding --------------------------------------------------------------------------------------


async def test_alone_nothing_is_asked_of_anybody():
    town = Town("desk")
    view = town.desk.has(a_view("build"))

    assert await town.desk.grid.job("build") == view
    assert await town.desk.grid.wait("build", timeout_ms=5) == view
    assert (await town.desk.grid.jobs(**NO_FILTER)).jobs == (view,)
    with pytest.raises(NotFound):
        await town.desk.grid.job("other")
    assert town.lanes.said == []


async def test_who_has_just_started_looks_for_a_job_once_it_has_met_somebody():
    town = Town("desk", "attic")
    view = town.attic.has(a_view("train"))
    town.desk.dead.add(town.attic.me)
    asked = [
        asyncio.create_task(town.desk.grid.job("train")),
        asyncio.create_task(town.desk.grid.wait(view.id, timeout_ms=5)),
    ]
    await asyncio.sleep(0)
    town.desk.dead.clear()

    assert [(await one).id for one in asked] == [view.id, view.id]


async def test_an_own_job_is_not_asked_about_elsewhere():
    town = Town("desk", "attic")
    view = town.desk.has(a_view("build"))
    word = f"id:{view.id}"

    assert await town.desk.grid.job(word) == view
    assert await town.desk.grid.wait(word, timeout_ms=5) == view
    assert (await town.desk.grid.wait_many((word,), timeout_ms=5)).jobs == (view,)
    assert (await town.desk.grid.explain(word)).id == view.id
    assert (await town.desk.grid.cancel(word)).state == "cancelled"
    assert town.lanes.said == []


async def test_a_job_of_another_node_is_found_by_id_name_and_prefix():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train"))

    for word in (view.id, f"id:{view.id}", "train", "name:train", view.id[:8]):
        found = await town.desk.grid.job(word)
        assert (found.id, found.home, found.user) == (view.id, town.cellar.me, "ada@cellar")


async def test_who_answered_for_a_job_is_asked_first_the_next_time():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train"))
    await town.desk.grid.job(view.id)
    before = len(questions(town))
    await town.desk.grid.job(view.id)

    assert len(questions(town)) - before == 1
    del town.cellar.agent.views[view.id]
    town.attic.has(view)  # It was taken over meanwhile.
    assert (await town.desk.grid.job(view.id)).home == town.attic.me


async def test_a_job_that_nobody_knows_is_not_asked_for_again_at_once():
    town = Town("desk", "attic", "cellar")
    for _ in range(5):
        with pytest.raises(NotFound):
            await town.desk.grid.job("ghost")

    assert len(questions(town)) == 2
    town.late_s = finding.NOBODY_S + 1
    town.attic.has(a_view("ghost"))
    assert (await town.desk.grid.job("ghost")).name == "ghost"


async def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(finding, "WORDS_MAX", 3)
    monkeypatch.setattr(finding, "HINTS_MAX", 3)
    town = Town("desk", "attic")
    for number in range(6):
        town.attic.has(a_view(f"job{number}"))
        await town.desk.grid.job(f"job{number}")
        with pytest.raises(NotFound):
            await town.desk.grid.job(f"ghost{number}")

    assert len(town.desk.grid._finding._hints) == len(town.desk.grid._finding._nobody) == 3


async def test_who_does_not_answer_is_named_and_nobody_believes_that_there_is_none(monkeypatch):
    monkeypatch.setattr(remote, "LOOK_S", 0.05)
    monkeypatch.setattr(asking, "LINK_S", 600)
    town = Town("desk", "attic", "cellar")
    town.lanes.cut.add(frozenset((town.desk.me, town.cellar.me)))
    with pytest.raises(NotFound) as caught:
        await town.desk.grid.job("ghost")

    assert "cellar did not answer" in str(caught.value)
    town.lanes.mend(town.desk.me, town.cellar.me)
    town.cellar.has(a_view("ghost"))
    assert (await town.desk.grid.job("ghost")).name == "ghost"


async def test_of_a_copy_the_home_is_asked_and_the_copy_serves_if_that_is_gone():
    town = Town("desk", "attic", "cellar")
    view = a_view("train", state="running", submitted_ms=5)
    town.cellar.has(view)
    town.desk.holds(msgspec.structs.replace(view, state="waiting"), town.cellar)

    assert (await town.desk.grid.job("train")).state == "running"
    town.kill("cellar")
    assert (await town.desk.grid.job("train")).state == "waiting"


async def test_a_guest_by_its_name_is_the_job_it_belongs_to():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train", state="running"))
    guest = a_view("train", id="9" * 32, guest_of=view.id, home=town.cellar.me, state="running")
    town.desk.agent.views[guest.id] = guest

    assert (await town.desk.grid.job("train")).id == view.id
    town.attic.holds(view, town.cellar)
    town.kill("cellar")
    assert (await town.desk.grid.job("train")).id == view.id  # From who holds a copy.
    town.kill("attic")
    assert (await town.desk.grid.job("train")).id == guest.id  # Better than nothing.


async def test_a_cancelled_job_whose_executor_is_gone_says_so():
    town = Town("desk", "attic", "cellar")
    attempts = (an_attempt(node="cellar", state="running"),)
    view = town.desk.has(a_view("train", state="running", attempts=attempts))
    town.kill("cellar")
    cancelling = msgspec.structs.replace(view, story=(StoryLine(at_ms=1, what="cancel asked"),))
    town.desk.agent.views[view.id] = cancelling
    town.desk.agent.cancel = town.desk.agent.job

    assert (await town.desk.grid.cancel(view.id)).reason == "cancelling (cellar unreachable)"
    assert (await town.attic.grid.cancel(view.id)).reason == "cancelling (cellar unreachable)"
    assert (await town.attic.grid.job(view.id)).reason == "cancelling (cellar unreachable)"


async def test_any_holder_takes_a_cancel_if_the_home_is_gone():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train", state="running"))
    town.attic.holds(view, town.cellar)
    known = await town.desk.grid.job("train")
    assert known.home == town.cellar.me
    town.kill("cellar")

    assert (await town.desk.grid.cancel("train")).name == "train"
    assert town.attic.agent.cancelled == ["train"]
    assert (await town.attic.grid.cancel("train")).name == "train"
    assert len(town.attic.agent.cancelled) == 2


def unheard(member, node):
    """A member's questions to a node that change something are lost; nobody has noticed yet."""
    ask = member.remote.ask

    async def lost(peer, operation, *args, **kwargs):
        if operation == "cancel" and peer == node:
            raise MeshUnreachable(member.name_of(peer), why="gone")
        return await ask(peer, operation, *args, **kwargs)

    member.remote.ask = lost


async def test_a_cancel_that_the_home_does_not_hear_is_told_to_those_who_hold_its_record():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train", holders=(town.attic.me,)))
    town.attic.holds(view, town.cellar)
    unheard(town.desk, town.cellar.me)

    assert (await town.desk.grid.cancel("train")).state == "cancelled"
    assert (town.attic.agent.cancelled, town.cellar.agent.cancelled) == (["train"], [])


async def test_a_cancel_that_nobody_can_take_names_who_is_gone():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train", holders=("f" * 64,)))
    unheard(town.desk, town.cellar.me)
    with pytest.raises(MeshUnreachable, match="cellar"):
        await town.desk.grid.cancel(view.id)


async def test_requeue_and_force_go_to_the_home_or_to_a_holder():
    town = Town("desk", "attic", "cellar")
    view = town.cellar.has(a_view("train", state="lost"))
    town.attic.holds(view, town.cellar)
    here, there = town.desk.grid.across, town.cellar.agent.across

    assert (await here.requeue("train")).state == "waiting"
    assert (await here.force("train")).state == "waiting"
    assert there.asked == [("requeue", "train"), ("force", "train")]
    town.kill("cellar")
    await here.requeue("train")
    assert town.attic.agent.across.asked == [("requeue", "train")]
    own = town.desk.has(a_view("mine"))
    await here.requeue(own.id)
    await here.force(own.id)
    assert town.desk.agent.across.asked == [("requeue", "mine"), ("force", "mine")]


# --- Lists ----------------------------------------------------------------------------------------


async def test_jobs_of_all_nodes_are_one_list_each_once_newest_first():
    town = Town("desk", "attic", "cellar")
    one = town.desk.has(a_view("one", submitted_ms=10))
    two = town.attic.has(a_view("two", submitted_ms=30, state="running"))
    three = town.cellar.has(a_view("three", submitted_ms=20))
    town.desk.holds(msgspec.structs.replace(two, state="waiting"), town.attic)
    guest = a_view("two", id="9" * 32, guest_of=two.id, home=town.attic.me)
    town.cellar.agent.views[guest.id] = guest
    page = await town.desk.grid.jobs(**NO_FILTER)

    assert [(view.name, view.state) for view in page.jobs] == [
        ("two", "running"),
        ("three", "succeeded"),
        ("one", "succeeded"),
    ]
    assert [view.home for view in page.jobs] == [town.attic.me, town.cellar.me, town.desk.me]
    assert [view.user for view in page.jobs] == ["ada@attic", "ada@cellar", "ada"]
    assert (page.more, page.missing) == (False, ())
    assert {view.id for view in page.jobs} == {one.id, two.id, three.id}


async def test_a_list_is_cut_at_its_limit_and_says_so():
    town = Town("desk", "attic")
    for number in reversed(range(5)):
        town.desk.has(a_view(f"a{number}", submitted_ms=number))
        town.attic.has(a_view(f"b{number}", submitted_ms=number + 100))
    page = await town.desk.grid.jobs(**{**NO_FILTER, "limit": 3})

    assert [view.name for view in page.jobs] == ["b4", "b3", "b2"]
    assert page.more


async def test_an_attempt_is_not_listed_for_a_job_that_its_home_did_not_list(monkeypatch):
    monkeypatch.setattr(remote, "LOOK_S", 0.05)
    town = Town("desk", "attic")
    guest = a_view("two", id="9" * 32, guest_of="2" * 64, home=town.attic.me, submitted_ms=30)
    town.desk.agent.views[guest.id] = guest
    assert (await town.desk.grid.jobs(**NO_FILTER)).jobs == ()

    town.lanes.cut.add(frozenset((town.desk.me, town.attic.me)))
    assert [view.id for view in (await town.desk.grid.jobs(**NO_FILTER)).jobs] == [guest.id]


async def test_a_list_names_who_did_not_answer_in_time(monkeypatch):
    monkeypatch.setattr(remote, "LOOK_S", 0.05)
    town = Town("desk", "attic", "cellar")
    town.attic.has(a_view("two"))
    town.lanes.cut.add(frozenset((town.desk.me, town.cellar.me)))
    page = await town.desk.grid.jobs(**NO_FILTER)

    assert [view.name for view in page.jobs] == ["two"]
    assert page.missing == ("cellar",)


async def test_a_user_has_the_name_of_its_node_elsewhere():
    town = Town("desk", "attic", "cellar")
    await town.desk.grid.jobs(**{**NO_FILTER, "user": "ada"})
    await town.desk.grid.jobs(**{**NO_FILTER, "user": "bob@attic"})
    asked = {
        (member.name, filters["user"])
        for member in town.members.values()
        for what, filters in member.agent.asked
        if what == "jobs"
    }

    assert ("attic", "ada@desk") in asked
    assert ("cellar", "ada@desk") in asked
    assert ("attic", "bob") in asked
    assert ("cellar", "bob@attic") in asked
    town.cellar.has(a_view("mine", user="ada@desk"))
    assert (await town.desk.grid.job("mine")).user == "ada"


# --- Guests of the mesh ---------------------------------------------------------------------------


async def test_a_guest_sees_its_own_jobs_and_no_others():
    town = Town("desk", "attic", desk=("guest",))
    town.attic.has(a_view("theirs", user="bob", state="running"))
    town.attic.has(a_view("ours", user="ada@desk", state="running"))
    grid = town.desk.grid

    assert (await grid.job("ours")).user == "ada"
    assert [view.name for view in (await grid.jobs(**NO_FILTER)).jobs] == ["ours"]
    for ask in (grid.job, grid.cancel, grid.explain, grid.across.requeue, grid.across.force):
        with pytest.raises(NotFound):
            await ask("theirs")
    with pytest.raises(NotFound):
        await anext(grid.logs("theirs", stream="stdout", index=-1, follow=False, offset=0))
    assert town.attic.agent.cancelled == []
    town.attic.agent.write("ours", b"words")
    read = grid.logs("ours", stream="stdout", index=-1, follow=False, offset=0)
    assert [part async for part in read] == [b"words"]
    assert (await grid.cancel("ours")).state == "cancelled"
    assert (await grid.explain("ours")).summary == "it waits for cores"
    assert (await grid.across.requeue("ours")).state == "waiting"
    assert (await grid.across.force("ours")).state == "waiting"
    assert (await grid.across.safe("ours", timeout_ms=1)).is_safe
    town.attic.has(a_view("ours", user="ada@desk"))
    assert (await grid.wait("ours", timeout_ms=1_000)).state == "succeeded"
    assert len((await grid.wait_many(("ours",), timeout_ms=1_000)).jobs) == 1


# --- Nodes ----------------------------------------------------------------------------------------


async def test_a_node_is_asked_by_name_id_or_prefix():
    town = Town("desk", "attic", "cellar")
    across = town.desk.grid.across

    for word in ("attic", town.attic.me, town.attic.me[:8]):
        assert (await across.drain(word, timeout_ms=5)).name == "attic"
    await across.drain("attic", timeout_ms=5, now=True)
    assert town.attic.agent.across.asked.pop() == ("drain", 5, "now")
    assert (await across.undrain("attic")).state == "open"
    assert [what for what, *_ in town.attic.agent.across.asked] == ["drain"] * 3 + ["undrain"]
    assert (await across.drain("desk", timeout_ms=5)).name == "desk"
    assert (await across.undrain("desk")).name == "desk"
    with pytest.raises(NotFound):
        await across.drain("nobody", timeout_ms=5)
    for node in ("desk", "attic"):
        assert (await across.status_of(node)).cpu_milli_total == 8_000
        assert (await across.sharing_of(node)).is_enabled
        assert (await across.queue_of(node, limit=5)).total == 0


async def test_two_nodes_of_one_name_are_told_apart_by_id():
    town = Town("desk", "attic", "cellar")
    town.cellar.name = "attic"

    with pytest.raises(Ambiguous):
        await town.desk.grid.across.drain("attic", timeout_ms=0)
    assert (await town.desk.grid.across.drain(town.attic.me, timeout_ms=0)).state == "drained"


async def test_whether_a_job_is_safe_is_asked_of_its_home():
    town = Town("desk", "attic")
    own, other = town.desk.has(a_view("mine")), town.attic.has(a_view("theirs"))
    across = town.desk.grid.across

    assert (await across.safe(own.id, timeout_ms=9)).id == own.id
    assert (await across.safe("mine", timeout_ms=9)).id == own.id
    assert (await across.safe("theirs", timeout_ms=9)).id == other.id
    assert town.attic.agent.across.asked == [("safe", "theirs", 9)]
    assert (await across.output(own.id, index=3)).node == ""
    assert (await across.output("theirs", index=-1)).node == town.attic.me
    assert (await across.snapshot()).nodes == ()


async def test_the_rest_is_this_agents_own():
    town = Town("desk", "attic")
    grid, agent = town.desk.grid, town.desk.agent

    assert (await grid.status()).name == "desk"
    assert await grid.sharing() == agent.lends
    assert (await grid.queue(limit=1)).total == 0
    assert grid.metrics() == agent.metrics()
    assert grid.mesh is agent.mesh
    assert len([event async for event in grid.events(after=(0, 0))]) == 3
    await grid.down(stop_jobs=False)
    assert agent.is_stopping.is_set()
    assert town.lanes.said == []


async def test_an_answer_that_is_none_is_told_as_such():
    town = Town("desk", "attic")
    town.attic.has(a_view("train"))

    with pytest.raises(MeshUnreachable, match=r"attic.*cannot be read"):
        await town.desk.remote.ask(town.attic.me, "status", Jobs)
    with pytest.raises(MeshUnreachable, match="not there"):
        await town.desk.remote.ask("f" * 64, "status", Jobs)
    with pytest.raises(MeshUnreachable, match="not there"):
        await anext(town.desk.remote.stream("f" * 64, "logs", {}))


class NoMesh:
    """The surroundings of a node in no mesh: to ask for its id would load keys and libraries."""

    def __init__(self) -> None:
        self.live: dict[NodeId, str] = {}
        self.is_member = False

    @property
    def me(self) -> NodeId:
        raise AssertionError("nobody needs an id here")

    def name_of(self, node: NodeId) -> str:
        raise AssertionError("nobody needs a name here")

    def is_own(self, word: str) -> bool:
        raise AssertionError("all there is is here")


async def test_in_no_mesh_every_operation_is_the_agents_own():
    agent = CannedAgent(a_view("build"))
    agent.write("build", b"words")
    grid = Anywhere(agent, Remote(None, NoMesh(), user="ada"), clock_s=lambda: 0)
    across = grid.across

    assert (await grid.job("build")).name == "build"
    assert (await grid.jobs(**NO_FILTER)).jobs[0].name == "build"
    assert (await grid.wait("build", timeout_ms=1)).state == "succeeded"
    assert len((await grid.wait_many(("build",), timeout_ms=1)).jobs) == 1
    assert (await grid.cancel("build")).state == "cancelled"
    assert (await grid.explain("build")).position == 2
    read = grid.logs("build", stream="stdout", index=-1, follow=True, offset=0)
    assert [part async for part in read] == [b"words"]
    assert (await across.requeue("build")).state == "waiting"
    assert (await across.force("build")).state == "waiting"
    assert (await across.output("build", index=-1)).attempt == 1
    assert (await across.safe("build", timeout_ms=1)).is_safe
    assert (await across.drain("desk", timeout_ms=1)).state == "drained"
    assert (await across.undrain("desk")).state == "open"
    assert (await across.status_of("desk")).name == "desk"
    assert (await across.sharing_of("desk")).node == "desk"
    assert (await across.queue_of("desk", limit=1)).total == 0
    assert (await grid.locate("build")).view.name == "build"
    with pytest.raises(NotFound):
        await grid.locate("ghost")


async def test_a_link_that_breaks_while_somebody_asks_is_not_the_end_of_the_question():
    town = Town("desk", "attic")
    view = town.attic.has(a_view("train"))
    asked = asyncio.create_task(town.desk.grid.explain(view.id))
    while not questions(town, "explain"):
        await asyncio.sleep(0)
    town.part("desk", "attic")

    assert (await asked).id == view.id
    assert len(questions(town, "explain")) == 2


async def test_a_word_that_nothing_can_be_called_is_not_sent_to_anybody():
    town = Town("desk", "attic")

    with pytest.raises(NotFound):
        await town.desk.grid.job("x" * 600)
    assert (await town.desk.grid.jobs(**{**NO_FILTER, "name": "x" * 600})).jobs == ()
    assert town.lanes.said == []
