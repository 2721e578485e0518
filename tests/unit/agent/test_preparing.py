"""Who is stopped while its directory is made leaves none, however often it is told."""

import asyncio
import threading
from functools import partial

import pytest

from distributed_grid.wire.keeper import Run, Stop
from tests.unit.agent.housing_lab import run_in_lab
from tests.unit.artifacts.lab import plant


@pytest.fixture
def lab(tmp_path):
    return partial(run_in_lab, tmp_path=tmp_path, environ={})


@pytest.mark.parametrize("work", ["unpack", "make"])
@pytest.mark.parametrize("stops", [1, 3])
def test_the_directory_does_not_appear_after_it_was_removed(lab, tmp_path, work, stops):
    tree = plant(tmp_path / "tree", {"a": "1"})
    (tmp_path / "work" / "one").mkdir(parents=True)  # Of an attempt that was cut short.

    async def test(lab):
        begun, goes_on = threading.Event(), threading.Event()
        real = getattr(lab.files, work)

        def slow(*words):
            if threading.current_thread() is threading.main_thread():
                return real(*words)  # At once, which does not go: there is one.
            begun.set()
            assert goes_on.wait(20)
            return real(*words)

        setattr(lab.files, work, slow)
        wishes = {"ship": lab.shipped(tree)} if work == "unpack" else {"outputs": ("**",)}
        await lab.runner.send(lab.a_run(**wishes))
        await asyncio.to_thread(begun.wait)
        for _ in range(stops):
            await lab.runner.send(Stop(attempt="one"))
            await asyncio.sleep(0.01)
        is_waiting = bool(lab.runner.stage("one"))  # Its thread is still at it.
        goes_on.set()
        (end,) = await lab.reports()

        assert (is_waiting, end.how, end.attempt) == (True, "stopped", "one")
        await lab.removed()

    lab(test)


def test_who_needs_an_empty_directory_waits_for_no_thread(lab, tmp_path):
    async def test(lab):
        await lab.runner.send(lab.a_run(outputs=("**",)))

        assert not lab.runner.stage("one"), "at the keeper"
        assert [run.cwd for run in lab.said if isinstance(run, Run)] == [
            str(tmp_path / "work" / "one")
        ]
        assert list((tmp_path / "work" / "one").iterdir()) == []

    lab(test)
