"""The agent with a store and a runner in memory: order of writes, waits, troubles, restarts."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from distributed_grid.agent.loop import Agent, Place
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.edges.store import StoreFull
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.errors import NotFound
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import Node
from distributed_grid.model.job import After, Work
from distributed_grid.wire.api import NodeStatus
from tests.node_world import FOUR_CORES, a_job

STATUS = NodeStatus(
    id="", name="here", node_class="workstation", version="0", pid=1, keeper_pid=2, since_ms=0,
    data_dir="/d", cpu_milli_total=4_000, cpu_milli_free=4_000, memory_bytes_total=1 << 30,
    memory_bytes_free=1 << 30, gpus_total=0, gpus_free_milli=0, jobs_waiting=0, jobs_running=0,
)  # fmt: skip
SECOND_MS = 1_000


class Full(MemoryStore):
    """A store in memory that can be told to be full."""

    is_full = False

    async def commit(self, writes, *, within_s: float = 0) -> None:
        if self.is_full:
            raise StoreFull("memory")
        await super().commit(writes)


def made(store, runner, tmp_path, at_step=lambda _: None, kernel: type[Node] = Node) -> Agent:
    numbers = iter(range(10_000))
    paths = Paths(output_root=str(tmp_path), scratch_root=str(tmp_path))
    node = kernel(
        name="here",
        ledger=Ledger(FOUR_CORES),
        paths=paths,
        new_lease_id=lambda: f"lease-{id(runner)}-{next(numbers)}",
    )
    place = Place(paths=paths, status=STATUS)
    return Agent(node, store, runner, place, clock_ms=lambda: SECOND_MS, at_step=at_step)


@asynccontextmanager
async def running(agent: Agent):
    await agent.restore()
    task = asyncio.create_task(agent.run())
    while agent.node.hello is None:
        await asyncio.sleep(0)
    try:
        yield agent
    finally:
        agent.stop()
        await task


def work(*argv: str) -> Work:
    return Work(argv=argv, cwd="/")


async def test_a_job_runs_and_its_end_is_told_after_it_was_saved(tmp_path):
    steps = []
    store = MemoryStore()
    async with running(made(store, MemoryRunner(), tmp_path, steps.append)) as agent:
        steps.clear()
        job = a_job("one", work=work("true"))
        await agent.submit((job,))
        view = await agent.wait("one", timeout_ms=5_000)

        row = await store.job(job.id)
        assert (view.state, row.state) == ("succeeded", "succeeded")
        assert steps.index("saved") < steps.index("told")


async def test_waiting_gives_up_when_its_time_is_over(tmp_path):
    async with running(made(MemoryStore(), MemoryRunner(), tmp_path)) as agent:
        await agent.submit((a_job("long", work=work("sleep", "9")),))

        view = await agent.wait("long", timeout_ms=1)
        assert view.state in ("waiting", "running")
        await agent.cancel("long")
        assert (await agent.wait("long", timeout_ms=5_000)).state == "cancelled"


async def test_a_full_store_refuses_new_jobs_and_recovers(tmp_path, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.carrying.RETRY_S", 0)
    monkeypatch.setattr("distributed_grid.agent.loop.TICK_S", 0)
    store = Full()
    async with running(made(store, MemoryRunner(), tmp_path)) as agent:
        store.is_full = True
        with pytest.raises(StoreFull):
            await agent.submit((a_job("first", work=work("sleep", "9")),))
        with pytest.raises(StoreFull):
            await agent.submit((a_job("second", work=work("true")),))
        store.is_full = False
        first = await agent.wait("first", timeout_ms=5_000)
        assert first.state == "cancelled"
        while agent._hands.trouble is not None:
            await asyncio.sleep(0)
        await agent.submit((a_job("third", work=work("true")),))
        assert (await agent.wait("third", timeout_ms=5_000)).state == "succeeded"


async def test_a_new_agent_goes_on_where_the_old_one_stopped(tmp_path):
    store, runner = MemoryStore(), MemoryRunner()
    async with running(made(store, runner, tmp_path)) as agent:
        await agent.submit((a_job("long", work=work("sleep", "9")),))
    async with running(made(store, runner.connect(), tmp_path)) as agent:
        assert (await agent.cancel("long")).name == "long"
        assert (await agent.wait("long", timeout_ms=5_000)).state == "cancelled"


async def test_finished_jobs_are_found_in_the_store_and_can_be_waited_for(tmp_path):
    store, runner = MemoryStore(), MemoryRunner()
    before = a_job("before", work=work("true"))
    async with running(made(store, runner, tmp_path)) as agent:
        await agent.submit((before,))
        await agent.wait("before", timeout_ms=5_000)
    async with running(made(store, runner.connect(), tmp_path)) as agent:
        assert (await agent.job("before")).state == "succeeded"
        after = a_job("after", work=work("true"), after=(After(job=before.id),))
        await agent.submit((after,))
        assert (await agent.wait("after", timeout_ms=5_000)).state == "succeeded"
        page = await agent.jobs(state="", name="", user="", limit=1, before_ms=0)
        assert page.more
        assert (await agent.jobs(state="failed", name="", user="", limit=9, before_ms=0)).jobs == ()
        with pytest.raises(NotFound):
            await agent.job("ghost")


async def test_output_is_followed_to_its_end(tmp_path):
    async with running(made(MemoryStore(), MemoryRunner(), tmp_path)) as agent:
        job = a_job("long", work=work("sleep", "9"))
        await agent.submit((job,))
        folder = tmp_path / job.id
        folder.mkdir()
        (folder / "stdout.1").write_bytes(b"older ")
        (folder / "stdout").write_bytes(b"newer")
        parts = agent.logs("long", stream="stdout", index=-1, follow=True, offset=0)

        assert await anext(parts) == b"older "
        assert await anext(parts) == b"newer"
        await agent.cancel("long")
        assert [part async for part in parts] == []


async def test_events_are_numbered_and_a_reader_that_does_not_read_is_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.watchers.EVENTS_UNREAD_MAX", 1)
    async with running(made(MemoryStore(), MemoryRunner(), tmp_path)) as agent:
        lazy = agent.events(after=None)
        waiting = asyncio.ensure_future(anext(lazy))
        await asyncio.sleep(0)
        for number in range(4):
            await agent.submit((a_job(f"job-{number}", work=work("true")),))
            await agent.wait(f"job-{number}", timeout_ms=5_000)
        first = await waiting
        assert first.name == "job.submitted"
        rest = [event async for event in lazy]
        assert len(rest) < 9

        kept = agent.events(after=(first.epoch, first.number))
        assert (await anext(kept)).number == first.number + 1


async def test_the_status_and_the_metrics_tell_what_is_free(tmp_path):
    async with running(made(MemoryStore(), MemoryRunner(), tmp_path)) as agent:
        await agent.submit((a_job("long", cpus=3_000, work=work("sleep", "9")),))
        while (await agent.job("long")).state != "running":
            await asyncio.sleep(0)
        status = await agent.status()

        assert (status.cpu_milli_free, status.jobs_running) == (1_000, 1)
        assert b'grid_cpu_milli{kind="free"} 1000' in agent.metrics()


def test_the_folders_of_a_guest_that_began_as_an_own_job_are_not_taken_for_forgotten():
    from distributed_grid.agent.tidying import Remembered

    paths = Paths(output_root="/o", scratch_root="/s")
    node = Node(name="n", ledger=Ledger(FOUR_CORES), paths=paths, new_lease_id=lambda: "x")
    for job in (
        Job(spec=a_job("own"), submitted_ms=1),
        Job(spec=a_job("guest"), submitted_ms=1, output_of="before"),
    ):
        node.coordinator.jobs[job.spec.id] = job
    known = Remembered(node)

    assert all(name in known for name in (a_job("own").id, a_job("guest").id, "before"))
    assert "forgotten" not in known


async def test_output_of_forgotten_jobs_is_removed(tmp_path):
    from distributed_grid.agent.tidying import remove_output

    store = MemoryStore()
    known, forgotten = tmp_path / "known", tmp_path / "forgotten"
    known.mkdir()
    forgotten.mkdir()

    assert await remove_output(str(tmp_path), {"known"}, store) == 1
    assert known.exists()
    assert not forgotten.exists()
