"""The state of a job, kept where it ended and put back where it goes on: real files."""

import errno
import os
import shutil

import msgspec
import pytest

from distributed_grid.model.across import Epoch, Origin, Saved
from distributed_grid.model.artifact import ASKED, ManifestId
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import Preempt as Manners
from distributed_grid.wire.keeper import Acknowledge, Preempt, Started
from tests.unit.agent.housing_lab import run_in_lab
from tests.unit.artifacts.lab import picture, plant

SAVES = Manners(command=("save",))
SAVED = {"count": "7", "deep/model": "weights", "link": ("count",)}


@pytest.fixture
def lab(tmp_path, clean_env):
    return lambda test: run_in_lab(test, tmp_path, clean_env)


def folder_of(lab, attempt="one"):
    return lab.saved / lab.jobs[attempt].spec.id


async def given_way(lab, attempt="one"):
    """It runs, saves something, and gives way; its end as it is told."""
    await lab.started()
    await lab.keeper.send(Preempt(attempt=attempt))
    return (await lab.reports())[-1]


def kept(lab, tree, number=1):
    """A state that somebody has."""
    packed = lab.files.keep(str(tree), owner="test", amount=ASKED)
    return Saved(manifest=packed.id, number=number, node=f"node-{number}")


def a_guest(lab, *states, **wishes):
    origin = Origin(
        home=NodeId("a" * 64), job=JobId("b" * 64), epoch=Epoch(), attempt="one", saved=states
    )
    return lab.a_run(preempt=SAVES, origin=origin, **wishes)


@pytest.mark.rows("S0-71")
def test_what_it_saved_is_in_the_store_before_its_end_is_told(lab):
    async def test(lab):
        await lab.runner.send(lab.a_run(abroad=False, preempt=SAVES))
        tree = plant(folder_of(lab), SAVED)
        end = await given_way(lab)

        assert end.how == "preempted"
        back = lab.saved / "back"
        lab.files.put_back(ManifestId(end.saved), str(back))
        assert picture(back) == picture(tree)
        assert lab.store.status().bytes_pinned == 0  # Whoever knows jobs pins it.
        await lab.runner.send(Acknowledge(upto=end.number))
        assert tree.exists()  # It goes on here, maybe.

    lab(test)


@pytest.mark.parametrize(
    ("wishes", "entries"),
    [({"preempt": SAVES}, {}), ({}, SAVED), ({"preempt": SAVES}, None)],
)
def test_nothing_is_kept_of_who_saves_nothing(lab, wishes, entries):
    async def test(lab):
        await lab.runner.send(lab.a_run(abroad=False, **wishes))
        if entries is not None:
            plant(folder_of(lab), entries)
        end = await given_way(lab)

        assert (end.saved, end.note) == ("", "")

    lab(test)


def test_nothing_is_kept_of_one_that_ended_well(lab):
    async def test(lab):
        run = lab.a_run(abroad=False, preempt=SAVES, command="true", retries=3)
        plant(folder_of(lab), SAVED)
        await lab.runner.send(run)

        assert (await lab.reports())[-1].saved == ""

    lab(test)


def test_what_cannot_travel_is_told_by_name_and_the_end_counts(lab):
    async def test(lab):
        await lab.runner.send(lab.a_run(abroad=False, preempt=SAVES))
        os.mkfifo(plant(folder_of(lab), {"count": "7"}) / "pipe")
        end = await given_way(lab)
        assert end.saved
        assert end.note == "of its state stay behind: pipe (a pipe)"

        await lab.runner.send(lab.a_run("two", abroad=False, preempt=SAVES))
        (folder_of(lab) / "count").unlink()
        await lab.keeper.send(Preempt(attempt="two"))
        end = (await lab.reports())[-1]
        assert end.saved == ""
        assert "pipe" in end.note

    lab(test)


@pytest.mark.parametrize("part", ["keep", "sync"])
def test_a_state_that_is_too_large_stays_behind_and_that_is_told(lab, part):
    async def test(lab):
        def full(*_args, **_words):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        if part == "keep":
            lab.store.bytes_max = 1
        else:
            lab.store.sync = full
        await lab.runner.send(lab.a_run(abroad=False, preempt=SAVES))
        plant(folder_of(lab), SAVED)
        end = await given_way(lab)

        assert (end.how, end.saved) == ("preempted", "")
        assert end.note.startswith("its state stays behind: ")
        assert lab.store.status().bytes_pinned == 0

    lab(test)


@pytest.mark.rows("S0-71")
def test_a_guest_finds_the_newest_state_before_it_starts_and_that_is_told(lab, tmp_path):
    tree = plant(tmp_path / "tree", SAVED)

    async def test(lab):
        newest = kept(lab, tree, 2)
        old = kept(lab, plant(tmp_path / "old", {"count": "1"}), 1)
        await lab.runner.send(a_guest(lab, newest, old))
        run = await lab.started()

        assert picture(folder_of(lab)) == picture(tree)
        assert run.cwd == "/scratch"  # Of files it has none.
        started = (await lab.reports(Started))[-1]
        assert started.resumed == "as attempt 2 on node-2 saved it"
        assert lab.fetch.let_gone == [(newest.manifest, "one:state")]

    lab(test)


@pytest.mark.rows("S0-71")
def test_if_the_newest_is_gone_it_goes_on_from_the_one_before_and_says_so(lab, tmp_path):
    old = plant(tmp_path / "old", {"count": "1"})

    async def test(lab):
        newest, before = kept(lab, plant(tmp_path / "tree", SAVED), 2), kept(lab, old, 1)
        lab.fetch.gone.add(newest.manifest)
        await lab.runner.send(a_guest(lab, newest, before))
        await lab.started()

        assert picture(folder_of(lab)) == picture(old)
        words = (await lab.reports(Started))[-1].resumed
        assert words.startswith("as attempt 1 on node-1 saved it; ")
        assert "that of attempt 2 on node-2 cannot be had: " in words

    lab(test)


@pytest.mark.parametrize(
    ("here", "word"), [({}, "none: it begins anew; "), (SAVED, "as it was left here; ")]
)
def test_if_none_can_be_had_it_begins_with_what_is_here_or_anew(lab, tmp_path, here, word):
    async def test(lab):
        lost = kept(lab, plant(tmp_path / "tree", {"count": "9"}))
        shutil.rmtree(f"{lab.store.root}/chunks")  # The manifest is here, and nothing of it.
        lab.store.open()
        await lab.runner.send(a_guest(lab, lost))
        plant(folder_of(lab), here)
        await lab.started()

        words = (await lab.reports(Started))[-1].resumed
        assert words.startswith(f"{word}that of attempt 1 on node-1 cannot be had: ")
        assert {one.name for one in folder_of(lab).iterdir()} == {
            name.partition("/")[0] for name in here
        }

    lab(test)


def test_a_disk_without_room_for_it_is_a_loss_so_that_it_goes_on_elsewhere(lab, tmp_path):
    async def test(lab):
        state = kept(lab, plant(tmp_path / "tree", SAVED))
        run = a_guest(lab, state)
        nowhere = f"{lab.saved}/nowhere/{run.job}"
        await lab.runner.send(msgspec.structs.replace(run, checkpoint_dir=nowhere))
        end = (await lab.reports())[-1]

        assert end.how == "lost"
        assert "No such file" in end.note
        assert lab.said == []

    lab(test)


def test_one_that_gives_way_while_its_state_comes_never_started(lab, tmp_path):
    async def test(lab):
        lab.fetch.gate.clear()
        await lab.runner.send(a_guest(lab, kept(lab, plant(tmp_path / "tree", SAVED))))
        await lab.runner.send(Preempt(attempt="one"))
        end = (await lab.reports())[-1]

        assert (end.how, end.saved) == ("preempted", "")
        assert lab.said == []

    lab(test)


def test_what_is_put_back_replaces_all_that_was_there(lab, tmp_path):
    tree = plant(tmp_path / "tree", SAVED)

    async def test(lab):
        state = kept(lab, tree)
        there = plant(tmp_path / "there", {"count": "1", "later": "x"})
        plant(tmp_path / "there.made", {"half": "of a life that was cut short"})
        lab.files.put_back(ManifestId(state.manifest), str(there))

        assert picture(there) == picture(tree)
        assert not (tmp_path / "there.made").exists()

    lab(test)
