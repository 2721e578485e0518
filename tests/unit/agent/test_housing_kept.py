"""Outputs that could not be collected: the end is told, and what there is stays for people."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent import housing
from distributed_grid.edges.artifacts import CacheFull, TooMuch
from distributed_grid.kernel.jobs import Attempt
from distributed_grid.model.artifact import UNASKED
from distributed_grid.wire.keeper import Acknowledge, Started
from tests.builders import a_job
from tests.unit.agent.housing_lab import run_in_lab
from tests.unit.artifacts.lab import picture, plant

DAY_MS = 86_400_000
JOB = a_job("job").id


@pytest.fixture
def lab(tmp_path, clean_env):
    return lambda test: run_in_lab(test, tmp_path, clean_env)


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", {"result": "days of work", "d/e": "1"})


def full(*_, **__):
    raise CacheFull(wanted=1, bytes_max=1, pinned=1, why="the disk is full")


def too_much(root, **_):
    raise TooMuch(root, size_bytes=2, files=1, amount=UNASKED)


def broken_disk(*_, **__):
    raise OSError(5, "Input/output error")


async def ended(lab, tree, attempt="one", outputs=("*",)):
    """It has run, and its end is told."""
    run = lab.a_run(attempt, ship=lab.shipped(tree), outputs=outputs, command="true")
    await lab.runner.send(run)
    return (await lab.reports())[-1]


async def settled(lab):
    """Until nothing is done beside."""
    while others := [task for task in lab.runner._tasks if task is not lab.runner._pump]:
        await asyncio.wait(others)


async def saved(lab, end):
    """Its end is saved; what is in its place then."""
    await lab.runner.send(Acknowledge(upto=end.number))
    await settled(lab)
    return sorted(path.name for path in lab.root.iterdir())


@pytest.mark.parametrize("glob", [".", "./", "/etc/*", "a/../..", "a\0b"])
def test_a_glob_that_means_nothing_is_told_and_the_end_counts(lab, tree, glob):
    """Others send what they like: it must not stop this agent, now or when it begins again."""

    async def test(lab):
        first = await ended(lab, tree, outputs=(glob,))
        await lab.runner.close()
        lab.connect()
        again = (await lab.reports())[-1]

        assert (first.code, first.outputs) == (0, "")
        assert "its outputs stay behind: expected a path or a glob" in first.note
        assert again == first

    lab(test)


def test_a_mistake_of_ours_is_raised_to_whoever_waits_for_a_report(lab, tree):
    """At a start nobody else would notice: the agent would wait for ever for what was repeated."""

    async def test(lab):
        def mistaken(*_, **__):
            raise RuntimeError("a mistake")

        lab.files.collect = mistaken
        run = lab.a_run(ship=lab.shipped(tree), outputs=("*",), command="true")
        await lab.runner.send(run)
        await lab.reports(Started)

        with pytest.raises(RuntimeError, match="a mistake"):
            await asyncio.wait_for(lab.runner.receive(), 10)
        assert [str(error) for error in lab.broken] == ["a mistake"]
        lab.broken.clear()

    lab(test)


@pytest.mark.parametrize("trouble", [full, too_much, broken_disk])
def test_what_could_not_be_collected_is_there_after_its_end_is_saved(lab, tree, trouble):
    async def test(lab):
        lab.files.collect = trouble
        end = await ended(lab, tree)
        (name,) = await saved(lab, end)

        assert picture(lab.root / name) == picture(tree)
        assert f"they are in {lab.root}/{name} on its machine, for up to 7 days" in end.note
        assert lab.said[-1] == Acknowledge(upto=end.number)
        assert not lab.files._spares._made

    lab(test)


def test_the_note_names_the_machine(lab, tree):
    async def test(lab):
        lab.files.collect = full
        run = lab.a_run(ship=lab.shipped(tree), outputs=("*",), command="true")
        attempt = Attempt(number=1, lease="one", node="attic", granted_ms=0)
        lab.jobs["one"].attempts.append(attempt)
        await lab.runner.send(run)
        end = (await lab.reports())[-1]

        assert "-one on attic, for up to 7 days" in end.note

    lab(test)


def test_it_has_its_new_name_before_the_keeper_forgets_the_end(lab, tree):
    async def test(lab):
        lab.files.collect = full
        end = await ended(lab, tree)
        seen = []
        send = lab.runner._inner.send

        async def looking(message):
            seen.extend(path.name for path in lab.root.iterdir())
            await send(message)

        lab.runner._inner.send = looking
        await saved(lab, end)

        assert seen == [f"kept-{end.ended_ms}-{JOB}-one"]

    lab(test)


def test_what_was_not_saved_is_collected_again_after_a_crash(lab, tree):
    async def test(lab):
        collect, lab.files.collect = lab.files.collect, full
        await ended(lab, tree)
        await lab.runner.close()
        lab.files.collect = collect  # Somebody has made room.
        lab.connect()
        end = (await lab.reports())[-1]

        assert (bool(end.outputs), end.note) == (True, "")
        assert await saved(lab, end) == []

    lab(test)


def test_of_a_directory_with_nothing_in_it_nothing_is_kept(lab):
    async def test(lab):
        lab.files.collect = full
        await lab.runner.send(lab.a_run(outputs=("*",), command="true"))
        end = (await lab.reports())[-1]

        assert "they are in" not in end.note
        assert await saved(lab, end) == []

    lab(test)


def test_the_last_few_stay_through_a_start(lab, monkeypatch):
    monkeypatch.setattr(housing, "KEPT_MAX", 3)

    async def test(lab):
        names = [f"kept-{at_ms}-{at_ms}" for at_ms in (9, 10, 100, 1_000)]  # By age, not by name.
        plant(lab.root, {f"{name}/result": "1" for name in [*names, "gone", "kept-x-y"]})
        await lab.runner.tidy()

        assert {path.name for path in lab.root.iterdir()} == set(names[1:])

    lab(test)


def test_too_old_ones_go_also_while_the_agent_runs(lab, tree):
    async def test(lab):
        late_ms = 8 * DAY_MS
        lab.ground = msgspec.structs.replace(lab.ground, clock_ms=lambda: late_ms)
        lab.connect()
        plant(lab.root, {"kept-5-old/a": "1", f"kept-{late_ms}-new/a": "1"})
        end = await ended(lab, tree)

        assert await saved(lab, end) == [f"kept-{late_ms}-new"]

    lab(test)


def test_too_many_go_when_another_is_kept(lab, tree, monkeypatch):
    monkeypatch.setattr(housing, "KEPT_MAX", 2)

    async def test(lab):
        lab.files.collect = full
        ends = [await ended(lab, tree, attempt) for attempt in ("one", "two", "three")]
        left = await saved(lab, ends[-1])

        assert left == sorted(f"kept-{end.ended_ms}-{JOB}-{end.attempt}" for end in ends)[-2:]

    lab(test)


def test_a_disk_that_cannot_be_looked_at_is_looked_at_the_next_time(lab, tree):
    async def test(lab):
        end = await ended(lab, tree)
        lab.files.folders = broken_disk
        await lab.runner.send(Acknowledge(upto=end.number))
        await settled(lab)

        assert not lab.broken

    lab(test)
