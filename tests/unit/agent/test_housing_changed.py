"""What a job made or changed is collected unasked; what is more than that stays here for a day."""

import msgspec
import pytest

from distributed_grid.agent import housing
from distributed_grid.edges.artifacts import CacheFull
from distributed_grid.model.artifact import Amount
from distributed_grid.model.ids import JobId
from distributed_grid.wire.keeper import Acknowledge, Run
from tests.builders import a_job
from tests.unit.agent.housing_lab import run_in_lab
from tests.unit.agent.test_housing_kept import settled
from tests.unit.artifacts.lab import plant

JOB = a_job("job").id
ENDED_MS = 1
DAY_MS = 86_400_000


@pytest.fixture
def lab(tmp_path, clean_env):
    return lambda test: run_in_lab(test, tmp_path, clean_env)


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", {"in": "1", "d/same": "1"})


@pytest.fixture
def little(monkeypatch):
    """Ten bytes come back by themselves."""
    monkeypatch.setattr(housing, "RETURNED", Amount(bytes_max=10, files_max=100))


async def ended(lab, tree, made, **wishes):
    """It has run and left these files, and its end is told."""
    send = lab.keeper.send

    async def working(message):
        if isinstance(message, Run):
            plant(lab.root / "one", made)
        await send(message)

    lab.keeper.send = working
    wishes = {"brings_changes": True, "ship": lab.shipped(tree), **wishes}
    await lab.runner.send(lab.a_run(command="true", **wishes))
    return (await lab.reports())[-1]


def collected(lab, end):
    manifest = lab.store.manifest(end.outputs)
    folders = manifest.folder_paths()
    return {
        f"{folders[file.folder].decode()}/{file.name.decode()}" if file.folder >= 0 else file.name.decode()
        for file in manifest.files
    }  # fmt: skip


def test_nothing_is_collected_of_a_job_that_wrote_nothing_and_no_word_lost(lab, tree):
    async def test(lab):
        end = await ended(lab, tree, {})

        assert (end.code, end.outputs, end.note) == (0, "", "")

    lab(test)


@pytest.mark.parametrize(
    ("outputs", "found"),
    [((), {"in", "out/model", "junk"}), (("out/**", "d"), {"out/model"})],
)
def test_only_what_changed_is_collected_and_of_that_what_was_asked_for(lab, tree, outputs, found):
    async def test(lab):
        made = {"in": "2", "out/model": "m", "junk": "j", "d/same": "1"}
        end = await ended(lab, tree, made, outputs=outputs)

        assert collected(lab, end) == found
        assert end.note == ""

    lab(test)


def test_a_job_that_brings_nothing_leaves_nothing(lab, tree):
    async def test(lab):
        end = await ended(lab, tree, {"in": "2"}, brings_changes=False)

        assert (end.outputs, end.note) == ("", "")

    lab(test)


@pytest.mark.usefixtures("little")
def test_what_is_more_stays_for_a_day_and_whoever_asks_gets_it(lab, tree):
    async def test(lab):
        end = await ended(lab, tree, {"in": "22", "large": "x" * 50, "out/huge": "x" * 60})
        assert collected(lab, end) == {"in"}
        told = "110 B of its outputs stay behind (2 files), for a day on its machine, as at most"
        assert end.note.startswith(told)
        assert end.note.endswith(f": grid outputs {JOB[:12]}")

        await lab.runner.send(Acknowledge(upto=end.number))
        await settled(lab)
        (kept,) = lab.root.iterdir()
        assert kept.name == f"left-{ENDED_MS}-{JOB}-one"
        names = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
        assert names == {"large", "out/huge"}
        (found,) = await lab.runner.kept(JobId(JOB))
        assert {file.name for file in lab.store.manifest(found).files} == {b"large", b"huge"}
        assert await lab.runner.kept(JobId("f" * 64)) == ()

    lab(test)


@pytest.mark.usefixtures("little")
def test_it_goes_after_a_day_and_not_before(lab, tree):
    async def test(lab):
        end = await ended(lab, tree, {"large": "x" * 50})
        await lab.runner.send(Acknowledge(upto=end.number))
        await settled(lab)
        for now_ms, count in ((ENDED_MS + DAY_MS, 1), (ENDED_MS + DAY_MS + 1, 0)):
            lab.runner._ground = msgspec.structs.replace(lab.ground, clock_ms=lambda at=now_ms: at)
            await lab.runner.tidy()
            assert len(list(lab.root.iterdir())) == count

    lab(test)


def test_on_a_full_disk_what_changed_stays_here_and_is_told(lab, tree):
    async def test(lab):
        def full(*_, **__):
            raise CacheFull(wanted=1, bytes_max=1, pinned=1, why="the disk is full")

        lab.files.collect = full
        end = await ended(lab, tree, {"in": "2", "new": "n"})
        assert "its outputs stay behind" in end.note
        assert "the disk is full" in end.note
        await lab.runner.send(Acknowledge(upto=end.number))
        await settled(lab)
        (kept,) = lab.root.iterdir()
        names = {path.name for path in kept.rglob("*") if path.is_file()}
        assert names == {"in", "new"}

    lab(test)
