"""Where the keeper waits for the next end."""

import os
from dataclasses import dataclass

import pytest

from distributed_grid.edges.runner.foresight import SOON_NS, Foresight
from distributed_grid.wire.keeper import Run, Slot
from tests.keeper_lab import JOB, KeeperLab, wait_until

ANYWHERE = ()


@dataclass
class Process:
    """As an attempt, of which a process runs."""

    run: Run
    pid: int
    started_ns: int = 0


def a_process(pid: int, core: int, started_ns: int = 0) -> Process:
    run = Run(
        attempt=str(pid), job=JOB, argv=("true",), env={}, cwd="/", output_dir="/o",
        scratch_dir="/s", slot=Slot(cores=(core,)),
    )  # fmt: skip
    return Process(run, pid, started_ns)


@pytest.fixture
def seen() -> Foresight:
    return Foresight(2)


def test_the_oldest_is_waited_for_on_its_core(seen):
    first, second = a_process(11, core=0), a_process(12, core=1)
    seen.started(first)
    seen.started(second)

    assert seen.cores(5, running_count=2) == (0,)
    first.pid = 0  # It has ended, and nothing came after it.
    assert seen.cores(5, running_count=2) == (1,)
    second.pid = 13  # The next one, of which nothing was told.
    assert seen.cores(5, running_count=2) == ANYWHERE


def test_who_runs_for_longer_is_not_waited_for(seen):
    seen.started(a_process(11, core=0, started_ns=0))
    seen.started(a_process(12, core=1, started_ns=1_000))

    assert seen.cores(SOON_NS - 1, running_count=2) == (0,)
    assert seen.cores(SOON_NS, running_count=2) == (1,)
    assert seen.cores(SOON_NS + 1_000, running_count=2) == ANYWHERE


def test_while_a_core_is_free_the_keeper_waits_anywhere(seen):
    seen.started(a_process(11, core=0))

    assert seen.cores(5, running_count=1) == ANYWHERE
    assert seen.cores(5, running_count=2) == (0,)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is nowhere else to wait")
def test_the_keeper_does_not_stay_on_the_core_of_a_job_that_goes_on(lab: KeeperLab) -> None:
    everywhere = os.sched_getaffinity(0)
    slot = Slot(cores=(min(everywhere),))
    lab.send(lab.a_run("true", attempt="short", indices=tuple(range(50)), slot=slot))
    lab.send(lab.a_run("sleep", "60", attempt="long", slot=Slot(cores=(max(everywhere),))))
    lab.started("long")
    lab.ended("short")

    wait_until(lambda: os.sched_getaffinity(lab.pid) == everywhere)
