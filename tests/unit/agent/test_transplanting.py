"""A directory that nobody named gets to a second machine while its job runs or waits."""

import asyncio
import os
from functools import partial

import msgspec
import pytest

from distributed_grid.agent.pinning import Pinning
from distributed_grid.agent.setting_out import SettingOut
from distributed_grid.agent.transplanting import AGAIN_MS, LARGE_MS, YOUNG_MS
from distributed_grid.kernel.node import Packed, Submit
from distributed_grid.model.artifact import UNASKED, Amount
from distributed_grid.model.job import Work
from tests.node_world import a_job, fill
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.artifacts.lab import plant


class Made(Lab):
    """And somebody who submits."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self.events = []
        self.looks = 0
        pack = self.files[0].pack

        def counted(*words, **more):
            self.looks += 1
            return pack(*words, **more)

        self.files[0].pack = counted
        self.transplanting.beside = self.setting_out.later

    async def step(self, event):
        self.events.append(event)
        self.home.step(event)
        self.room.settle()

    async def submit(self, *specs):
        rooted = await self.transplanting.rooted(specs)
        self.home.step(Submit(now_ms=self.home.now_ms, jobs=specs, rooted=rooted))
        self.room.settle()
        self.transplanting.submitted(rooted)
        return [self.home.job(spec) for spec in specs]

    async def hastened(self, *jobs):
        return await self.transplanting.hastened(frozenset(job.spec.id for job in jobs))

    async def copied(self):
        while self.ships[0].progress():
            await asyncio.sleep(0.01)

    async def settled(self, *jobs):
        """Until the files of these are elsewhere."""
        while any(job.rooted for job in jobs):
            await self.transplanting.look()
            await self.copied()

    def pass_time(self, by_ms):
        self.home.now_ms += by_ms


@pytest.fixture
def lab(tmp_path):
    return partial(in_a_lab, lambda: Made(tmp_path))


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", {"a": "1", "d/b": "2"})


def test_after_a_moment_it_is_packed_copied_and_the_mark_goes(lab, tree):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        assert job.rooted == lab.home.me
        await lab.transplanting.look()
        assert lab.looks == 0, "most jobs have ended by then"
        lab.pass_time(YOUNG_MS)
        lab.link.down()
        await lab.transplanting.look()
        await lab.transplanting.look()
        assert (job.rooted, lab.looks) == (lab.home.me, 1), "it is packed, and nobody else has it"
        lab.link.up()
        await lab.copied()
        await lab.transplanting.look()
        assert (job.rooted, job.spec.ship.files) == ("", 2)
        events = len(lab.events)
        await lab.transplanting.look()
        assert (len(lab.events), lab.looks) == (events, 1)

        record = lab.host.node.across.guarding.find(job.spec.id)
        assert lab.host.me in job.guardians
        there = Pinning(
            lab.host.node,
            lab.ships[1],
            SettingOut(lab.host.node, lab.files[1], lab.stores[1], clock_ms=lab.now_ms),
            reach=lab.reached.append,
        )
        assert record is not None
        assert (job.spec.ship.manifest, f"job:{job.spec.id}") in set(there._wanted())

    lab(test)


def test_many_jobs_share_one_look_and_few_steps(lab, tree):
    async def test(lab):
        jobs = await lab.submit(*(lab.a_spec(tree, f"job-{at}") for at in range(100)))
        lab.pass_time(YOUNG_MS)
        await lab.settled(*jobs)

        assert lab.looks == 1
        assert len({job.spec.ship for job in jobs}) == 1
        assert len(lab.events) <= 4

    lab(test)


def test_what_was_submitted_later_is_looked_at_again_but_not_at_once(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.transplanting.YOUNG_MS", 0)

    async def test(lab):
        look = lab.setting_out.looked

        async def slow(job):
            lab.pass_time(10)
            return await look(job)

        lab.setting_out.looked = slow
        [first] = await lab.submit(lab.a_spec(tree, "first"))
        await lab.transplanting.look()
        lab.pass_time(1)
        plant(tree, {"a": "changed"})
        [second] = await lab.submit(lab.a_spec(tree, "second"))
        await lab.transplanting.look()
        assert second.spec.ship is None, "the directory rests"
        assert lab.looks == 1
        lab.pass_time(1_000)
        await lab.settled(first, second)
        assert second.spec.ship != first.spec.ship
        assert lab.looks == 2

    lab(test)


def test_one_that_has_ended_costs_no_look(lab, tree):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        lab.home.drain()
        lab.pass_time(YOUNG_MS)
        await lab.transplanting.look()
        assert (job.state, lab.looks, lab.events) == ("succeeded", 0, [])

    lab(test)


def test_what_may_not_travel_keeps_the_mark_and_is_tried_again(lab, tree):
    os.mkfifo(tree / "pipe")

    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        lab.pass_time(YOUNG_MS)
        for _ in range(3):
            await lab.transplanting.look()
        assert (job.rooted, job.spec.ship, lab.looks) == (lab.home.me, None, 1)
        assert "pipe" in await lab.transplanting.hurry(job)
        (tree / "pipe").unlink()
        lab.pass_time(AGAIN_MS)
        await lab.settled(job)
        assert job.spec.ship is not None

    lab(test)


def test_an_empty_directory_and_what_needs_none_are_not_marked(lab, tmp_path, tree):
    empty = plant(tmp_path / "empty", {})

    async def test(lab):
        specs = (
            lab.a_spec(empty, "empty"),
            lab.a_spec(tmp_path / "nowhere", "nowhere"),
            a_job("image", work=Work(argv=("true",), cwd=str(tree), image="alpine")),
            a_job("nothing", work=None),
        )
        assert await lab.transplanting.rooted(specs) == frozenset()
        full = lab.a_spec(tree, "full")
        assert await lab.transplanting.rooted((*specs, full)) == {full.id}
        assert await lab.transplanting.rooted((full,)) == {full.id}
        lab.home.node.part(lab.home.now_ms)
        assert await lab.transplanting.rooted((full,)) == frozenset()

    lab(test)


def test_an_empty_one_that_seemed_full_loses_its_mark_without_files(lab, tmp_path):
    tree = plant(tmp_path / "ignored", {".gridignore": "*\n", "a.log": "x"})

    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        assert job.rooted
        lab.pass_time(YOUNG_MS)
        await lab.transplanting.look()
        assert (job.rooted, job.spec.ship) == ("", None)

    lab(test)


def test_what_left_before_is_only_copied(lab, tree):
    async def test(lab):
        fill(lab.home)
        [job] = await lab.submit(lab.a_spec(tree))
        (start, *_) = await lab.told(job.spec)
        assert start.spec.ship == job.spec.ship
        assert [type(event) for event in lab.events] == [Packed], "before the start was said"
        lab.pass_time(YOUNG_MS)
        await lab.transplanting.look()
        assert lab.looks == 1

    lab(test)


def test_after_a_start_it_goes_on_where_it_was(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.transplanting.YOUNG_MS", 0)
    monkeypatch.setattr("distributed_grid.agent.transplanting.LOOK_S", 0.01)

    async def test(lab):
        lab.transplanting.submitted = lambda _: None
        one, other = await lab.submit(lab.a_spec(tree, "one"), lab.a_spec(tree, "other"))
        del lab.transplanting.submitted
        await lab.setting_out.packed((other.spec.id,), await lab.setting_out.looked(other))
        running = asyncio.ensure_future(lab.transplanting.run())
        await lab.pinning.copy(other)
        while one.rooted or other.rooted:
            await asyncio.sleep(0.01)
        running.cancel()
        assert one.spec.ship == other.spec.ship

    lab(test)


def test_who_asks_has_it_packed_now(lab, tree):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        assert await lab.transplanting.hurry(job) == ""
        assert lab.looks == 1
        await lab.copied()
        assert await lab.transplanting.hurry(job) == ""
        assert job.rooted == ""
        assert await lab.transplanting.hurry(job) == ""

    lab(test)


def test_the_copy_is_not_where_it_runs_if_there_is_another(lab, tree):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        assert lab.pinning._guardian(job, None) == lab.host.me
        [attempt] = job.live_attempts
        attempt.host = lab.host.me
        assert lab.pinning._guardian(job, None) == lab.host.me, "there is no other"
        third = lab.home.node.across.peers[lab.host.me]
        third = msgspec.structs.replace(third, id="f" * 64)
        lab.home.node.across.peers = {**lab.home.node.across.peers, third.id: third}
        job.guardians = (lab.host.me, third.id)
        assert lab.pinning._guardian(job, None) == third.id
        attempt.host = ""

    lab(test)


def test_who_is_lost_with_what_it_runs_keeps_nothing_for_it_if_there_is_another(lab, tree):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        assert await lab.transplanting.hurry(job) == ""
        await lab.copied()
        assert await lab.transplanting.hurry(job) == ""
        [attempt] = job.live_attempts
        attempt.host = lab.host.me
        assert lab.pinning.bytes_to_spread(job) == lab.pinning.bytes_left(job) == 0
        there = lab.home.node.across.peers
        third = msgspec.structs.replace(there[lab.host.me], id="f" * 64)
        lab.home.node.across.peers = {**there, third.id: third}
        job.guardians = (lab.host.me, third.id)

        assert lab.pinning.bytes_left(job) == 0
        assert lab.pinning.bytes_to_spread(job) == job.spec.ship.size_bytes
        attempt.host = ""
        assert lab.pinning.bytes_to_spread(job) == 0

    lab(test)


def test_a_small_one_is_elsewhere_before_its_job_is_acknowledged(lab, tree):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))

        assert await lab.hastened(job)
        assert (job.rooted, job.spec.ship.files, lab.looks) == ("", 2, 1)
        [said_again] = await lab.submit(job.spec)
        assert await lab.hastened(said_again)
        assert lab.looks == 1

    lab(test)


def test_those_who_submit_while_it_rests_are_not_kept_waiting(lab, tree, monkeypatch):
    async def test(lab):
        [first] = await lab.submit(lab.a_spec(tree, "first"))
        monkeypatch.setattr(lab.files[0], "is_within", slow(lab, lab.files[0].is_within))
        assert await lab.hastened(first)
        [second] = await lab.submit(lab.a_spec(tree, "second"))

        assert not await lab.hastened(second)
        assert lab.looks == 1
        lab.pass_time(YOUNG_MS + 200)
        await lab.settled(second)
        [third] = await lab.submit(lab.a_spec(tree, "third"))
        lab.pass_time(1_000)
        assert await lab.hastened(third)

    lab(test)


def slow(lab, look):
    def looked(*words):
        lab.pass_time(10)
        return look(*words)

    return looked


@pytest.mark.parametrize(
    "amount", [Amount(bytes_max=1, files_max=9), Amount(bytes_max=9, files_max=1)]
)
def test_nobody_waits_for_a_large_one_and_it_is_not_measured_each_time(
    lab, tree, amount, monkeypatch
):
    async def test(lab):
        monkeypatch.setattr("distributed_grid.agent.transplanting.SMALL", amount)
        [first] = await lab.submit(lab.a_spec(tree, "first"))
        assert not await lab.hastened(first)
        monkeypatch.setattr("distributed_grid.agent.transplanting.SMALL", UNASKED)
        [second] = await lab.submit(lab.a_spec(tree, "second"))
        assert not await lab.hastened(second)
        assert lab.looks == 0
        lab.pass_time(LARGE_MS)

        assert await lab.hastened(second)

    lab(test)


def test_nobody_waits_longer_than_a_moment_nor_for_what_has_ended(lab, tree, monkeypatch):
    async def test(lab):
        monkeypatch.setattr("distributed_grid.agent.transplanting.SMALL_S", 0.05)
        lab.link.down()
        [job] = await lab.submit(lab.a_spec(tree))
        assert not await lab.hastened(job)
        monkeypatch.setattr("distributed_grid.agent.transplanting.SMALL_S", 20.0)
        lab.pass_time(AGAIN_MS)
        waiting = asyncio.ensure_future(lab.hastened(job))
        await asyncio.sleep(0)
        lab.home.end(job.spec)

        assert await waiting

    lab(test)


def test_many_at_once_and_what_may_not_travel_are_not_waited_for(lab, tree):
    async def test(lab):
        jobs = await lab.submit(*(lab.a_spec(tree, f"job-{at}") for at in range(65)))
        assert not await lab.hastened(*jobs)
        assert lab.looks == 0
        os.mkfifo(tree / "pipe")
        assert not await lab.hastened(jobs[0])
        assert lab.looks == 1

    lab(test)


def test_who_has_ended_while_its_directory_was_measured_costs_no_look(lab, tree, monkeypatch):
    async def test(lab):
        [job] = await lab.submit(lab.a_spec(tree))
        measure = lab.files[0].is_within

        def measured(*words):
            lab.home.end(job.spec)
            return measure(*words)

        monkeypatch.setattr(lab.files[0], "is_within", measured)
        assert await lab.hastened(job)
        await asyncio.gather(*lab.tasks)
        assert lab.looks == 0

    lab(test)
