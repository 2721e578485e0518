"""Attempts that live in a directory of their own: prepared before, collected after, real files."""

import asyncio
import errno
import os
import sys
import threading

import msgspec
import pytest

from distributed_grid.agent.preparing import needs_files
from distributed_grid.model.artifact import ManifestId
from distributed_grid.model.job import Shipment, Work
from distributed_grid.wire.keeper import (
    Acknowledge,
    Preempt,
    Quit,
    Run,
    Started,
    Stop,
    Suspend,
    Withdraw,
)
from tests.builders import a_job
from tests.unit.agent.housing_lab import run_in_lab
from tests.unit.artifacts.lab import picture, plant


@pytest.fixture
def lab(tmp_path, clean_env):
    return lambda test: run_in_lab(test, tmp_path, clean_env)


def test_a_directory_is_there_before_the_process_and_gone_after_its_end_is_saved(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1", "d/b": "2", "link": ("d",), "e": None})

    async def test(lab):
        ship = lab.shipped(tree)
        await lab.runner.send(lab.a_run(ship=ship))
        told = await lab.started()
        assert told.cwd == f"{lab.root}/one"
        assert picture(lab.root / "one") == picture(tree)

        end = await lab.over()
        assert (lab.root / "one").exists()
        await lab.runner.send(Acknowledge(upto=end.number))
        await lab.removed()
        assert lab.fetch.let_gone == [(ship.manifest, "one")]

    lab(test)


def test_what_needs_nothing_is_handed_on_as_it_is(lab):
    async def test(lab):
        run = lab.a_run(abroad=False, ship=Shipment(manifest="0" * 64, size_bytes=1, files=1))
        await lab.runner.send(run)
        assert await lab.started() == run
        await lab.runner.send(Suspend(attempt="one"))
        assert lab.said[-1] == Suspend(attempt="one")
        assert [type(one) for one in await lab.reports(Started)] == [Started]
        await lab.runner.send(Quit(stop_jobs=True))
        assert lab.said[-1] == Quit(stop_jobs=True)

    lab(test)


@pytest.mark.parametrize(
    ("word", "how"),
    [
        (Stop(attempt="one"), "stopped"),
        (Withdraw(attempt="one"), "stopped"),
        (Preempt(attempt="one"), "preempted"),
    ],
)
def test_one_that_is_stopped_while_its_files_come_never_started(lab, tmp_path, word, how):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        lab.fetch.gate.clear()
        await lab.runner.send(lab.a_run(ship=lab.shipped(tree)))
        await asyncio.sleep(0)
        while not lab.fetch.asked:
            await asyncio.sleep(0.01)
        assert lab.runner.stage("one") == "receiving its files"
        await lab.runner.send(word)
        (end,) = await lab.reports()

        assert (end.how, end.code, end.is_last) == (how, 125, True)
        assert "receiving its files" in end.note
        assert not [one for one in lab.said if isinstance(one, Run)]
        assert not lab.runner.stage("one")
        await lab.removed()

    lab(test)


@pytest.mark.parametrize("is_known", [True, False])
def test_one_that_is_stopped_in_the_same_breath_never_started_either(lab, tmp_path, is_known):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        if is_known:
            await lab.runner.tidy()  # It need not look again: nothing waits between both.
        run = lab.a_run(ship=lab.shipped(tree))
        sending = asyncio.ensure_future(lab.runner.send(run))
        await asyncio.sleep(0)
        await lab.runner.send(Stop(attempt="one"))
        (end,) = await lab.reports()
        await sending

        assert (end.how, end.attempt) == ("stopped", "one")
        assert not lab.said

    lab(test)


def test_what_is_said_meanwhile_is_said_after_the_start(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        lab.fetch.gate.clear()
        await lab.runner.send(lab.a_run(ship=lab.shipped(tree)))
        await lab.runner.send(Suspend(attempt="one"))
        assert not lab.said
        lab.fetch.gate.set()
        await lab.started()
        await lab.reports(Started)

        assert [type(one) for one in lab.said] == [Run, Suspend]

    lab(test)


def test_files_that_nobody_has_are_a_loss_and_not_a_failure_of_the_job(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        lab.fetch.lacks = True
        await lab.runner.send(lab.a_run(ship=lab.shipped(tree), indices=(3, 4)))
        (end,) = await lab.reports()

        assert (end.how, end.index) == ("lost", -1)
        assert "does not send the files" in end.note

    lab(test)


def test_a_disk_that_does_not_work_is_no_failure_of_the_job(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        lab.files.unpack = full
        await lab.runner.send(lab.a_run(ship=lab.shipped(tree)))
        (end,) = await lab.reports()
        assert (end.how, end.note) == ("lost", "No space left on device")
        del lab.files.unpack
        lab.files.collect = full
        await lab.runner.send(
            lab.a_run("two", ship=lab.shipped(tree), outputs=("*",), command="true")
        )
        end = (await lab.reports())[-1]
        assert end.code == 0
        assert end.note.startswith("its outputs stay behind: No space left on device; they are in ")

    lab(test)


def test_outputs_are_in_the_store_before_the_end_is_told(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"out/a": "1", "b.txt": "2", "c": "3"})

    async def test(lab):
        await lab.runner.send(
            lab.a_run(ship=lab.shipped(tree), outputs=("out/*", "*.txt"), command="true")
        )
        end = (await lab.reports())[-1]
        manifest = lab.store.manifest(ManifestId(end.outputs))

        assert {file.name for file in manifest.files} == {b"a", b"b.txt"}
        assert lab.store.status().bytes_pinned

    lab(test)


@pytest.mark.parametrize(
    ("outputs", "command", "told"),
    [
        (("*.csv", "out/*"), "true", "nothing matched *.csv out/*: no outputs"),
        (("*.csv",), "false", ""),
        (("**",), "sleep", ""),
    ],
)
def test_no_outputs_of_a_job_that_leaves_nothing_or_was_stopped(lab, outputs, command, told):
    async def test(lab):
        await lab.runner.send(lab.a_run(outputs=outputs, command=command))
        await lab.started()
        end = await lab.over()

        assert (end.outputs, end.note) == ("", told)

    lab(test)


def test_outputs_that_cannot_travel_are_told_and_the_end_counts(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1", "b": "2"})

    async def test(lab):
        collect = lab.files.collect

        def meanwhile(root, **words):
            os.mkfifo(f"{root}/pipe")
            return collect(root, **words)

        lab.files.collect = meanwhile
        await lab.runner.send(lab.a_run(ship=lab.shipped(tree), outputs=("**",), command="true"))
        end = (await lab.reports())[-1]
        assert end.outputs
        assert "stay behind: pipe (a pipe)" in end.note

        lab.files.collect = lambda root, **_: collect(f"{root}/nowhere", **_)
        await lab.runner.send(
            lab.a_run("two", ship=lab.shipped(tree), outputs=("**",), command="true")
        )
        end = (await lab.reports())[-1]
        assert (end.code, end.outputs) == (0, "")
        assert "its outputs stay behind" in end.note

    lab(test)


def test_nothing_after_an_end_that_is_held_back_is_acknowledged(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        collect, gate = lab.files.collect, threading.Event()

        def slowly(*args, **words):
            gate.wait(10)
            return collect(*args, **words)

        lab.files.collect = slowly
        run = lab.a_run("one", ship=lab.shipped(tree), outputs=("*",), command="true")
        await lab.runner.send(run)
        await lab.reports(Started)
        await lab.runner.send(lab.a_run("two", abroad=False, command="true"))
        later = (await lab.reports())[-1]
        assert later.attempt == "two"
        await lab.runner.send(Acknowledge(upto=later.number))
        assert max(one.upto for one in lab.said if isinstance(one, Acknowledge)) == 1
        gate.set()
        end = (await lab.reports())[-1]
        assert end.attempt == "one"
        assert end.number < later.number
        await lab.runner.send(Acknowledge(upto=end.number))
        assert lab.said[-1] == Acknowledge(upto=later.number)
        await lab.removed()

    lab(test)


def test_after_a_crash_outputs_are_collected_again(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"a": "1"})

    async def test(lab):
        run = lab.a_run(ship=lab.shipped(tree), outputs=("*",), command="true")
        await lab.runner.send(run)
        first = (await lab.reports())[-1]
        await lab.runner.close()
        lab.connect()  # It was not acknowledged: the next agent hears it again.
        again = (await lab.reports())[-1]

        assert first.outputs
        assert again == first
        await lab.runner.send(Acknowledge(upto=again.number))
        await lab.removed()

    lab(test)


def test_directories_of_attempts_that_are_over_go_at_the_next_start(lab):
    async def test(lab):
        plant(lab.root, {"gone/a": "1", "one/b": "2"})
        lab.a_run("one", outputs=("*",))
        await lab.runner.tidy()

        assert [path.name for path in lab.root.iterdir()] == ["one"]

    lab(test)


def test_the_environment_comes_first_in_the_path(lab, tmp_path):
    tree = plant(tmp_path / "tree", {"requirements.txt": ""})

    async def test(lab):
        recipe = lab.files.pack_recipe(str(tree), "requirements.txt", owner="test")
        await lab.runner.send(lab.a_run(abroad=False, python_env=recipe.id))
        told = await lab.started()
        first, second = told.env["PATH"].split(":")

        assert told.env["VIRTUAL_ENV"] == first.removesuffix("/bin")
        assert second == "/usr/bin"
        assert told.cwd == "/scratch"
        await lab.over()

    lab(test)


def test_a_python_that_is_not_here_fails_every_index(lab, tmp_path):
    text = "[project]\nname = 'x'\nversion = '1'\nrequires-python = '>=9'\n"
    tree = plant(tmp_path / "tree", {"pyproject.toml": text})

    async def test(lab):
        recipe = lab.files.pack_recipe(str(tree), "pyproject.toml", owner="test")
        await lab.runner.send(lab.a_run(python_env=recipe.id, indices=(5, 7)))
        ends = await lab.reports()

        assert [(one.how, one.code, one.index, one.is_last) for one in ends] == [
            ("failed", 125, 5, False),
            ("failed", 125, 7, True),
        ]
        assert "wants Python >=9" in ends[0].note
        assert f"{sys.version_info.major}.{sys.version_info.minor}" in ends[0].note

    lab(test)


def test_only_what_is_abroad_needs_files():
    ship = Shipment(manifest="0" * 64, size_bytes=1, files=1)
    here, there = (Work(argv=("x",), cwd="/", is_abroad=is_abroad) for is_abroad in (False, True))
    spec = a_job("job")
    for work, words, needed in (
        (None, {"ship": ship}, False),
        (here, {"ship": ship}, False),
        (there, {}, False),
        (there, {"ship": ship}, True),
        (there, {"outputs": ("*",)}, True),
    ):
        assert needs_files(msgspec.structs.replace(spec, work=work, **words)) == needed
