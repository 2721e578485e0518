"""A directory on a disk that is gone holds up nobody: it counts as filled, and costs one thread."""

import asyncio
import threading
from functools import partial

import pytest

from distributed_grid.agent import looking
from distributed_grid.agent.looking import Looking
from distributed_grid.agent.transplanting import AGAIN_MS, YOUNG_MS
from distributed_grid.edges.artifacts import CannotShip
from distributed_grid.kernel.node import Submit
from distributed_grid.model.job import Where
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.artifacts.lab import plant

HUNG_S = 20.0  # Longer than anything here takes, unless it waits for that.
PATIENCE_S = 0.5
QUICK_S = 0.3  # Nobody waited: there is room for a machine that others use, too.


class Made(Lab):
    """And a disk that does not answer before `answers` is set."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self.answers = threading.Event()
        self.looks = []
        files = self.files[0]
        for name in ("may_travel", "is_within", "pack"):
            setattr(files, name, partial(self.look, getattr(files, name)))
        self.transplanting.beside = self.setting_out.later

    def look(self, real, directory, *words, **more):
        self.looks.append(str(directory))
        if "dead" in str(directory):
            self.answers.wait(HUNG_S)
        return real(directory, *words, **more)

    async def answered(self):
        self.answers.set()
        while self.transplanting._looking._under_way:
            await asyncio.sleep(0.01)

    async def submit(self, *specs):
        rooted = await self.transplanting.rooted(specs)
        self.home.step(Submit(now_ms=self.home.now_ms, jobs=specs, rooted=rooted))
        self.room.settle()
        self.transplanting.submitted(rooted)
        return rooted


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "PATIENCE_S", PATIENCE_S)

    async def test_and_let_go(test, lab):
        try:
            await test(lab)
        finally:
            lab.answers.set()

    return lambda test: in_a_lab(lambda: Made(tmp_path), partial(test_and_let_go, test))


@pytest.fixture
def alive(tmp_path):
    return plant(tmp_path / "alive", {"a": "1"})


@pytest.fixture
def dead(tmp_path):
    return plant(tmp_path / "dead", {"a": "1"})


async def seconds(work):
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await work
    return loop.time() - began_s


def test_a_job_from_a_disk_that_is_gone_is_taken_and_stays_here(lab, dead, alive):
    async def test(lab):
        spec, other = lab.a_spec(dead, "dead"), lab.a_spec(alive, "alive")
        rooted = await lab.submit(spec, other)

        assert rooted == {spec.id, other.id}
        assert lab.home.job(spec).rooted == lab.home.me

    lab(test)


def test_hung_looks_do_not_hold_up_what_comes_from_elsewhere(lab, tmp_path, alive):
    async def test(lab):
        several = [lab.a_spec(tmp_path / f"dead-{number}", f"{number}") for number in range(15)]
        rooted = lab.transplanting.rooted
        hanging = asyncio.ensure_future(asyncio.gather(*(rooted([one]) for one in several)))
        await asyncio.sleep(0.05)
        waited_s = await seconds(rooted([lab.a_spec(alive)]))
        others_s = await seconds(asyncio.to_thread(int))

        assert max(waited_s, others_s) < QUICK_S
        assert await hanging == [{one.id} for one in several]

    lab(test)


def test_a_submission_waits_once_however_many_of_its_directories_are_gone(lab, tmp_path):
    async def test(lab):
        several = [lab.a_spec(tmp_path / f"dead-{number}", f"{number}") for number in range(5)]

        assert await seconds(lab.transplanting.rooted(several)) < 2 * PATIENCE_S

    lab(test)


def test_a_directory_that_does_not_answer_costs_one_thread_and_one_wait(lab, dead):
    async def test(lab):
        specs = [lab.a_spec(dead, f"{number}") for number in range(40)]
        await asyncio.gather(*(lab.transplanting.rooted([spec]) for spec in specs))
        lab.transplanting._filled.clear()
        waited_s = await seconds(lab.transplanting.rooted(specs))

        assert lab.looks == [str(dead)]
        assert waited_s < QUICK_S

    lab(test)


def test_as_many_as_there_are_threads_may_be_gone_and_everyone_is_answered(
    lab, tmp_path, alive, monkeypatch
):
    monkeypatch.setattr(looking, "LOOKERS", 2)

    async def test(lab):
        looking = lab.transplanting._looking = Looking()
        files = lab.files[0]
        dead = [str(tmp_path / f"dead-{number}") for number in range(3)]
        found = await asyncio.gather(*(looking.at(one, files.may_travel) for one in dead))
        assert found == [None] * 3
        assert await looking.at(str(alive), files.may_travel) is None
        await lab.answered()
        assert await looking.at(str(alive), files.may_travel)
        assert not await looking.at(dead[0], files.may_travel)
        assert lab.looks == [*dead[:2], str(alive), dead[0]], "the third never began"

    lab(test)


def test_what_does_not_answer_is_not_packed_and_the_others_are(lab, dead, alive):
    async def test(lab):
        gone, there = lab.a_spec(dead, "gone"), lab.a_spec(alive, "there")
        rooted = await lab.submit(gone, there)
        assert not await lab.transplanting.hastened(frozenset({gone.id}))
        lab.home.now_ms += YOUNG_MS
        while lab.home.job(there).rooted:
            await lab.transplanting.look()
            await asyncio.sleep(0.01)
        assert "does not answer" in await lab.transplanting.hurry(lab.home.job(gone))
        assert lab.looks.count(str(dead)) == 1
        await lab.answered()
        lab.home.now_ms += AGAIN_MS
        while any(map(lab.transplanting._rooted, rooted)):
            await lab.transplanting.look()
            await asyncio.sleep(0.01)

    lab(test)


def test_a_job_that_must_leave_a_disk_that_is_gone_is_refused(lab, dead):
    async def test(lab):
        spec = lab.a_spec(dead, "leaves", require=Where(nodes=(lab.room[1].name,)))
        with pytest.raises(CannotShip, match="does not answer"):
            await lab.setting_out.taken((spec,))

    lab(test)
