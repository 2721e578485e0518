"""Python's calls on two machines: an Executor, a module that only one has, what calls print."""

import itertools
import logging
import os
import sys
import threading
import time

import pytest

from distributed_grid import Executor
from distributed_grid.client.cluster import connect
from tests.mesh_jobs import PLAIN
from tests.mesh_lab import MeshLab

pytestmark = pytest.mark.slow

PATIENCE_S = 120


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        desk = made.member("desk", config=PLAIN).up()
        made.member("barn", config=PLAIN).up("--join", desk.ticket())
        made.settled(made.members)
        yield made


@pytest.fixture
def desk(lab):
    return lab["desk"]


@pytest.fixture
def cluster(desk):
    with connect(desk.home / "agent.sock") as made:
        yield made


def place(number):
    """Where it ran, after a while."""
    threading.Event().wait(0.05)
    return number, "barn" if "GRID_JOB_SOCKET" in os.environ else "desk"


def needy(number):
    """What needs a module that there is only on the machine of the caller."""
    threading.Event().wait(0.05)
    if "GRID_JOB_SOCKET" in os.environ:
        sys.modules["wave"] = None
    import wave  # noqa: F401

    return place(number)


def test_an_executor_gets_workers_on_the_other_machine(desk, cluster):
    seen, until = set(), time.monotonic() + PATIENCE_S
    with Executor(cluster=cluster, cwd=desk.dir) as executor:
        while seen != {"desk", "barn"} and time.monotonic() < until:
            found = list(executor.map(place, range(40)))
            assert [number for number, _ in found] == list(range(40))
            seen |= {where for _, where in found}

    assert seen == {"desk", "barn"}


def test_calls_whose_module_a_machine_lacks_run_where_it_is(desk, cluster, caplog):
    until, found = time.monotonic() + PATIENCE_S, []
    with (
        caplog.at_level(logging.WARNING, "distributed_grid"),
        cluster.map(needy, itertools.count(), cwd=desk.dir) as results,
    ):
        for result in results:
            found.append(result)
            if (caplog.messages and len(found) > 40) or time.monotonic() > until:
                break

    assert found == [(number, "desk") for number in range(len(found))]
    [told] = [message for message in caplog.messages if "gets no more calls" in message]
    assert told.startswith("barn gets no more calls of map:needy: ModuleNotFoundError: ")
    assert "'wave'" in told or "wave" in told
    assert "Install what is missing for the Python of its agent" in told


def test_a_module_that_no_machine_has_is_raised(desk, cluster):
    def hopeless(_):
        import no_machine_has_this  # noqa: F401

    with pytest.raises(ModuleNotFoundError, match="no_machine_has_this"):
        list(cluster.map(hopeless, range(4), cwd=desk.dir))
