"""What a node says of files that move, from packing to what comes home."""

import asyncio
from functools import partial

import msgspec
import pytest

from distributed_grid.agent.preparing import BUILDING, RECEIVING, STARTING, UNPACKING
from distributed_grid.agent.transits import Transits
from distributed_grid.kernel.jobs import Attempt
from distributed_grid.model.artifact import ASKED
from distributed_grid.model.transit import Transit
from distributed_grid.wire.across_api import Pack
from tests.node_world import fill
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.agent.test_luggage import report_of
from tests.unit.artifacts.lab import noise, plant


class House:
    """What `Housing` says of attempts."""

    def __init__(self):
        self.stages = {}
        self.collecting = set()

    def stage(self, attempt):
        return self.stages.get(attempt, "")

    def is_collecting(self, attempt):
        return attempt in self.collecting


@pytest.fixture
def lab(tmp_path):
    def made():
        lab = Lab(tmp_path)
        lab.house = House()
        lab.transits = [
            Transits(ship, lab.setting_out, lab.house, lab.bringing, name_of=lambda n: n or "desk")
            for ship in lab.ships
        ]
        return lab

    return partial(in_a_lab, made)


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", {"a": noise(3_000_000, seed=1), "b": "2"})


def live(job, **facts):
    """A copy of a job, with an attempt that holds a lease."""
    usual = {"number": 1, "lease": "lease", "node": "attic", "granted_ms": 1}
    return msgspec.structs.replace(job, attempts=[Attempt(**{**usual, **facts})])


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_a_job_whose_start_waits_for_its_directory_is_packed(lab, tree):
    async def test(lab):
        fill(lab.home)
        lab.home.submit(spec := lab.a_spec(tree))
        job = lab.home.job(spec)
        assert lab.transits[0].of(job) == ()
        lab.setting_out.to_peer(lab.host.me, lab.start(spec))
        assert [str(one) for one in lab.transits[0].of(job)] == ["desk is packing its directory"]
        await asyncio.gather(*lab.tasks)
        assert lab.transits[0].of(job) == ()

    lab(test)


def test_what_is_sent_is_counted_by_both_ends_until_it_is_there(lab, tree):
    async def test(lab):
        packed = (await lab.setting_out.pack(Pack(directory=str(tree)))).ship
        lab.home.submit(spec := lab.a_spec(tree, ship=packed))
        job = live(lab.home.job(spec), host=lab.host.me)
        job.guardians = (lab.host.me,)
        sent = await lab.ships[0].ship(lab.host.me, packed.manifest)
        (first,) = lab.transits[0].of(job)
        assert first == Transit(
            doing="receiving", node="attic", bytes_total=packed.size_bytes, files=2
        )
        job.attempts = []
        assert [one.doing for one in lab.transits[0].of(job)] == ["copying"]

        guest = live(lab.home.job(spec))
        lab.house.stages["lease"] = RECEIVING
        await until(lambda: lab.ships[1].coming(packed.manifest))
        there = {one.bytes_total for one in lab.transits[1].of(guest)}
        assert there >= {packed.size_bytes}
        await sent.over.wait()
        assert lab.ships[1].coming(packed.manifest) is None
        assert lab.transits[0].of(job) == ()

    lab(test)


def test_what_came_of_it_counts(lab, tree):
    async def test(lab):
        packed = lab.files[0].pack(str(tree), owner="test", amount=ASKED)
        fetching = asyncio.ensure_future(lab.ships[1].fetch(lab.home.me, packed.id))
        seen = set()
        while not fetching.done():
            seen.add(lab.ships[1].coming(packed.id))
            await asyncio.sleep(0)
        counts = sorted(one[0] for one in seen if one is not None)

        assert {one[1] for one in seen if one} == {packed.content_bytes}
        assert counts[0] == 0
        assert 0 < counts[-1] <= packed.content_bytes

    lab(test)


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        (RECEIVING, ["attic is receiving its files"]),
        (UNPACKING, ["attic is unpacking its files"]),
        (BUILDING, ["attic is building its Python environment"]),
        (STARTING, []),
        ("", []),
    ],
)
def test_what_is_done_before_a_process_is_told(lab, tree, stage, says):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree))
        lab.house.stages["lease"] = stage
        job = live(lab.home.job(spec))
        assert [str(one) for one in lab.transits[0].of(job)] == says
        job = live(job, state="running")
        assert lab.transits[0].of(job) == ()

    lab(test)


def test_what_is_left_behind_is_collected_and_brought(lab, tree, tmp_path):
    left = plant(tmp_path / "left", {"out.bin": noise(3_000_000, seed=2)})

    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        job = live(lab.home.job(spec), state="running")
        lab.house.collecting.add("lease")
        assert [one.doing for one in lab.transits[0].of(job)] == ["collecting"]
        lab.house.collecting.clear()
        bringing = asyncio.ensure_future(
            lab.bringing.brought(lab.host.me, report_of(lab, spec, left))
        )
        await until(lambda: lab.transits[0].of(job) and lab.transits[0].of(job)[0].bytes_total)
        (told,) = lab.transits[0].of(job)
        assert (told.doing, told.node, told.bytes_total) == ("bringing", "desk", 3_000_000)
        assert await bringing
        assert lab.transits[0].of(job) == ()

    lab(test)


def test_nothing_is_said_of_a_job_that_has_ended(lab, tree):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree))
        job = live(lab.home.job(spec))
        lab.house.stages["lease"] = BUILDING
        assert lab.transits[0].of(job)
        job.state = "cancelled"
        assert lab.transits[0].of(job) == ()

    lab(test)
