"""Python's calls on two machines: an Executor, a module that only one has, what calls print."""

import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.environment import learning_path
from distributed_grid import Executor
from distributed_grid.client.cluster import connect
from tests.mesh_jobs import PLAIN
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

PATIENCE_S = 120
ROOT = Path(__file__).parents[2]
LARGE_BYTES = 52 << 20  # More than fits into a request.


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


def test_calls_under_way_on_both_machines_survive_the_death_of_the_agent(desk, cluster, tmp_path):
    noted = str(tmp_path / "noted")

    def note(number):
        found = place(number)
        with open(noted, "a") as file:  # noqa: PTH123
            file.write(f"{number}\n")
        return found

    with Executor(cluster=cluster, cwd=desk.dir) as executor:
        until = time.monotonic() + PATIENCE_S
        while "barn" not in {where for _, where in executor.map(place, range(40))}:
            assert time.monotonic() < until
        futures = [executor.submit(note, n) for n in range(200)]
        futures[20].result(PATIENCE_S)
        desk.kill("agent")
        found = [future.result(PATIENCE_S) for future in futures]
        again = executor.submit(abs, -1).result(PATIENCE_S)

    assert [number for number, _ in found] == list(range(200))
    assert again == 1
    ran = Counter(Path(noted).read_text().split())
    assert len(ran) == 200
    # What a worker had done and could not tell may be run by another one too: a batch of each.
    assert max(ran.values()) <= 2, ran


def test_what_workers_elsewhere_write_is_in_the_log_of_the_map(desk, cluster):
    def talk(number):
        found = place(number)
        print("here", *found)
        return found

    def logs():
        asked = [
            desk("logs", "--index", str(n), name) for name in ("talk", "talk.2") for n in range(2)
        ]
        return "".join(one.stdout for one in asked)

    until, seen = time.monotonic() + PATIENCE_S, set()
    with cluster.map(talk, itertools.count(), cwd=desk.dir, name="talk", prints=False) as results:
        for _, where in results:
            seen.add(where)
            if seen == {"desk", "barn"} or time.monotonic() > until:
                break
        meanwhile = logs()
        while "barn" not in meanwhile and time.monotonic() < until:
            meanwhile = logs()

    assert "desk" in meanwhile
    assert "barn" in meanwhile
    assert "barn" in logs()


def test_a_large_array_travels_once_to_a_machine_and_each_call_has_its_own(lab, desk, cluster):
    barn = lab["barn"]
    before = barn.figure("grid_files_received_bytes_total")
    large = np.random.default_rng(7).integers(1 << 62, size=LARGE_BYTES // 8)
    told = large[:1_000].tolist()

    def change(number):
        found = place(number)
        large[number] += 1  # Of this process: the function is read once.
        return found, int(large[number]), large.nbytes

    def look(array, number):
        array[0] += 1  # Of this call.
        return int(array[0]), int(array[number])

    until, seen = time.monotonic() + PATIENCE_S, {}
    with cluster.map(change, range(1_000), cwd=desk.dir) as results:
        for (number, where), value, size in results:
            assert (value, size) == (told[number] + 1, LARGE_BYTES)
            seen[where] = seen.get(where, 0) + 1
            enough = len(seen) == 2 and min(seen.values()) > 10
            if enough or time.monotonic() > until:
                break
    with Executor(cluster=cluster, cwd=desk.dir) as executor:
        found = [executor.submit(look, large, n).result(PATIENCE_S) for n in range(1, 5)]
        mapped = list(cluster.map(look, [large] * 4, range(1, 5), cwd=desk.dir))

    assert found == mapped == [(told[0] + 1, told[n]) for n in range(1, 5)]
    assert set(seen) == {"desk", "barn"}
    travelled = barn.figure("grid_files_received_bytes_total") - before
    assert LARGE_BYTES <= travelled < 1.1 * LARGE_BYTES
    cluster.close()
    awaited(lambda: not list((desk.home / "values").iterdir()), lambda: "values are left")


def test_scikit_learn_runs_on_both_machines(desk):
    done = subprocess.run(
        [sys.executable, ROOT / "tests/mesh/learning_program.py", desk.home / "agent.sock"],
        cwd=desk.dir,
        env={**desk.env, "PYTHONPATH": f"{ROOT}{os.pathsep}{learning_path()}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["grid"] == found["here"]
    assert found["workers"] == [4, 3]
    assert found["wide"] == 2
    assert found["seen"] == ["barn", "desk"]
    assert (found["picky"], found["late"]) == ("LookupError", "ZeroDivisionError")
    assert found["after"] == [1, 2]
