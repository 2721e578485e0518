"""Waiting for jobs of other nodes, through broken links and takeovers."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent import asking, awaiting_elsewhere
from distributed_grid.errors import NotFound
from distributed_grid.model.ids import JobId
from distributed_grid.wire.api import Jobs
from tests.agent_stand_in import CannedAgent, a_view
from tests.questions_lab import Town, settled


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Waits that people have are short here."""
    monkeypatch.setattr(awaiting_elsewhere, "AGAIN_S", 0.01)
    monkeypatch.setattr(asking, "LINK_S", 1.0)


class Waits(CannedAgent):
    """Whose jobs end when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    async def wait(self, word, *, timeout_ms):
        return (await self.wait_many((word,), timeout_ms=timeout_ms, whole=True)).jobs[0]

    async def wait_many(self, words, *, timeout_ms, whole=False):
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while any([(await self.job(word)).state == "running" for word in words]):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass
        views = [await self.job(word) for word in words]
        over = [view for view in views if whole or view.state != "running"]
        return Jobs(jobs=tuple(over), more=len(over) < len(views))

    def end(self, job: str) -> None:
        self.views[JobId(job)] = msgspec.structs.replace(self.views[JobId(job)], state="succeeded")
        self.changed.set()


@pytest.fixture
def waiting_town(monkeypatch):
    monkeypatch.setattr("tests.questions_lab.CannedAgent", Waits)
    return Town("desk", "attic", "cellar")


async def test_a_wait_ends_with_the_job_wherever_that_is(waiting_town):
    town = waiting_town
    view = town.attic.has(a_view("train", state="running"))
    waiting = asyncio.create_task(town.desk.grid.wait("train", timeout_ms=20_000))
    await settled()
    assert not waiting.done()
    town.attic.agent.end(view.id)

    assert (await waiting).state == "succeeded"


async def test_a_wait_is_over_when_its_time_is(waiting_town):
    waiting_town.attic.has(a_view("train", state="running"))
    assert (await waiting_town.desk.grid.wait("train", timeout_ms=30)).state == "running"


async def test_a_wait_outlives_broken_links_and_a_takeover(waiting_town):
    town = waiting_town
    view = town.attic.has(a_view("train", state="running"))
    one = asyncio.create_task(town.desk.grid.wait("train", timeout_ms=20_000))
    many = asyncio.create_task(town.desk.grid.wait_many((view.id,), timeout_ms=20_000))
    await settled()
    town.part("desk", "attic")
    await settled()
    town.kill("attic")
    await asyncio.sleep(0.05)  # Nobody knows it for a while.
    town.cellar.has(msgspec.structs.replace(view, submitted_ms=7))
    await asyncio.sleep(0.05)
    town.cellar.agent.end(view.id)

    assert ((await one).state, (await one).home) == ("succeeded", town.cellar.me)
    assert [found.state for found in (await many).jobs] == ["succeeded"]


async def test_a_job_that_this_node_takes_over_is_awaited_here(waiting_town):
    town = waiting_town
    view = town.attic.has(a_view("train", state="running"))
    town.desk.holds(view, town.attic)
    one = asyncio.create_task(town.desk.grid.wait("train", timeout_ms=20_000))
    many = asyncio.create_task(town.desk.grid.wait_many((view.id,), timeout_ms=20_000))
    await settled()
    town.kill("attic")
    await asyncio.sleep(0.05)  # It has a copy, and nobody looks after the job.
    town.desk.has(view)
    await asyncio.sleep(0.05)
    town.desk.agent.end(view.id)

    assert (await one).state == "succeeded"
    assert len((await many).jobs) == 1


async def test_a_copy_that_says_it_has_ended_is_believed(waiting_town):
    town = waiting_town
    view = town.attic.has(a_view("train", state="running"))
    town.desk.holds(view, town.attic)
    many = asyncio.create_task(town.desk.grid.wait_many((view.id,), timeout_ms=20_000))
    await settled()
    town.kill("attic")
    town.desk.holds(msgspec.structs.replace(view, state="succeeded"), town.attic)

    assert [found.state for found in (await many).jobs] == ["succeeded"]


async def test_a_job_that_nobody_knows_any_more_is_not_awaited_for_ever(waiting_town, monkeypatch):
    monkeypatch.setattr(awaiting_elsewhere, "TAKEOVER_S", 0.05)
    town = waiting_town
    town.attic.has(a_view("train", state="running"))
    waiting = asyncio.create_task(town.desk.grid.wait("train", timeout_ms=20_000))
    await settled()
    town.kill("attic")

    with pytest.raises(NotFound):
        await waiting


async def test_many_jobs_of_many_nodes_are_awaited_together(waiting_town, monkeypatch):
    monkeypatch.setattr(awaiting_elsewhere, "IDS_MAX", 2)
    town = waiting_town
    views = []
    for number, member in enumerate(list(town.members.values()) * 3):
        views.append(member.has(a_view(f"job{number}", state="running")))
    words = tuple(f"id:{view.id}" for view in views)
    waiting = asyncio.create_task(town.desk.grid.wait_many(words, timeout_ms=20_000))
    await settled(500)
    for member in town.members.values():
        for job in list(member.agent.views):
            member.agent.end(job)
    page = await waiting

    assert [view.id for view in page.jobs] == [view.id for view in views]
    assert not page.more
    some = await town.desk.grid.wait_many(words[:2], timeout_ms=0)
    assert len(some.jobs) == 2


async def test_those_that_have_not_ended_in_time_are_left_out(waiting_town):
    town = waiting_town
    ended = town.attic.has(a_view("one"))
    running = town.attic.has(a_view("two", state="running"))
    page = await town.desk.grid.wait_many((running.id, ended.id), timeout_ms=30)

    assert [view.id for view in page.jobs] == [ended.id]
    assert page.more
    with pytest.raises(NotFound):
        await town.desk.grid.wait_many((ended.id, "ghost"), timeout_ms=30)
