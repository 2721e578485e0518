"""`Executor` against a real agent: as `concurrent.futures` has it, and over all that goes wrong."""

import asyncio
import concurrent.futures
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from distributed_grid import Executor
from distributed_grid.client.cluster import Cluster, connect
from distributed_grid.errors import NoAgent, NotPicklable
from tests.agent_lab import AgentLab
from tests.keeper_lab import wait_until

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[AgentLab]:
    made = AgentLab()
    try:
        yield made.up()
    finally:
        made.close()


@pytest.fixture
def cluster(lab: AgentLab) -> Iterator[Cluster]:
    with connect(lab.home / "agent.sock") as made:
        yield made


@pytest.fixture
def executor(cluster: Cluster) -> Iterator[Executor]:
    with Executor(cluster=cluster) as made:
        yield made


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "grid-executor"]


def until_there(path) -> None:
    while not os.path.exists(path):  # noqa: PTH110
        threading.Event().wait(0.01)


def test_calls_of_many_functions_come_back_with_their_results(executor):
    offset = 7
    futures = [executor.submit(lambda n: n + offset, n) for n in range(500)]
    futures.append(executor.submit(pow, 2, 10))
    futures.append(executor.submit(sorted, [3, 1, 2], reverse=True))

    assert isinstance(executor, concurrent.futures.Executor)
    found = [future.result(PATIENCE_S) for future in futures]
    assert found == [n + 7 for n in range(500)] + [1024, [3, 2, 1]]


def test_wait_as_completed_and_callbacks_work_on_its_futures(executor):
    called = []
    futures = [executor.submit(abs, -n) for n in range(20)]
    for future in futures:
        future.add_done_callback(called.append)
    done, waiting = concurrent.futures.wait(futures, PATIENCE_S)

    assert (done, waiting) == (set(futures), set())
    assert set(concurrent.futures.as_completed(futures)) == set(futures)
    wait_until(lambda: len(called) == 20)


def test_map_takes_several_iterables_chunks_and_a_timeout(executor, tmp_path):
    assert list(executor.map(pow, [2, 3, 4], [5, 2])) == [32, 9]
    assert list(executor.map(pow, range(100), [2] * 100, chunksize=7)) == [
        n * n for n in range(100)
    ]
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(abs, [1], chunksize=0)
    late = executor.map(until_there, [str(tmp_path / "go")], timeout=0.01)
    with pytest.raises(TimeoutError):
        next(late)
    (tmp_path / "go").touch()


def test_a_result_that_takes_too_long_is_a_timeout_and_comes_later(executor, tmp_path):
    future = executor.submit(until_there, str(tmp_path / "go"))
    with pytest.raises(TimeoutError):
        future.result(0.01)
    (tmp_path / "go").touch()

    assert future.result(PATIENCE_S) is None


def test_who_waits_for_one_call_is_not_told_of_another(cluster, tmp_path):
    with Executor(1, cluster=cluster) as executor, ThreadPoolExecutor(4) as waiting:
        gates = [str(tmp_path / name) for name in "abcd"]
        futures = [executor.submit(until_there, gate) for gate in gates]
        found = [waiting.submit(future.exception, PATIENCE_S) for future in futures]
        for gate, future in zip(gates, futures, strict=True):
            (tmp_path / gate).touch()
            assert future.result(PATIENCE_S) is None

        assert [one.result() for one in found] == [None] * 4


def test_what_is_not_begun_can_be_cancelled_and_what_runs_cannot(cluster, tmp_path):
    with Executor(1, cluster=cluster) as executor:
        futures = [executor.submit(until_there, str(tmp_path / "go")) for _ in range(20)]
        wait_until(futures[0].running)
        last = futures[-1].cancel(), futures[-1].cancelled()
        first = futures[0].cancel()
        (tmp_path / "go").touch()
        rest = [future.result(PATIENCE_S) for future in futures[:-1]]

    assert (last, first, rest) == ((True, True), False, [None] * 19)


def test_shutdown_cancels_what_is_not_begun_if_told_and_finishes_the_rest(cluster, tmp_path):
    executor = Executor(1, cluster=cluster)
    futures = [executor.submit(until_there, str(tmp_path / "go")) for _ in range(20)]
    wait_until(futures[0].running)
    executor.shutdown(wait=False, cancel_futures=True)
    (tmp_path / "go").touch()
    executor.shutdown()

    assert futures[0].result(0) is None
    assert futures[-1].cancelled()
    assert all(future.done() for future in futures)


def test_an_exception_has_the_traceback_of_the_worker_as_its_cause(executor):
    def picky(number):
        return 1 / number

    with pytest.raises(ZeroDivisionError) as caught:
        executor.submit(picky, 0).result(PATIENCE_S)

    text = "".join(traceback.format_exception(caught.value))
    assert "return 1 / number" in str(caught.value.__cause__)
    assert "in picky" in text


def test_the_initializer_runs_before_the_first_call_of_a_worker(cluster):
    def begin(word):
        sys.grid_word = word

    def look(_):
        return sys.grid_word

    with Executor(cluster=cluster, initializer=begin, initargs=("ready",)) as executor:
        assert set(executor.map(look, range(20))) == {"ready"}


def test_an_initializer_that_raises_breaks_the_executor(cluster):
    def begin():
        raise OSError("no licence")

    with Executor(1, cluster=cluster, initializer=begin) as executor:
        future = executor.submit(abs, -1)
        with pytest.raises(concurrent.futures.BrokenExecutor, match="OSError: no licence"):
            future.result(PATIENCE_S)
        with pytest.raises(concurrent.futures.BrokenExecutor):
            executor.submit(abs, -1)
    with pytest.raises(TypeError, match="initializer"):
        Executor(cluster=cluster, initializer=3)


def test_an_event_loop_runs_calls_in_it(executor):
    async def both():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, abs, -n) for n in (1, 2)))

    assert asyncio.run(both()) == [1, 2]


def test_what_cannot_be_pickled_fails_alone(executor):
    lock = threading.Lock()
    futures = [
        executor.submit(lambda: lock),
        executor.submit(abs, lock),
        executor.submit(threading.Lock),
        executor.submit(abs, -1),
    ]

    assert futures[3].result(PATIENCE_S) == 1
    for future in futures[:3]:
        assert isinstance(future.exception(PATIENCE_S), NotPicklable)


def test_after_shutdown_nothing_is_taken(cluster):
    executor = Executor(cluster=cluster)
    assert executor.submit(abs, -1).result(PATIENCE_S) == 1
    executor.shutdown()
    executor.shutdown()

    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(abs, -1)


def test_collected_without_shutdown_it_finishes_and_leaves_no_thread(cluster):
    before = threads()
    executor = Executor(cluster=cluster)
    futures = [executor.submit(abs, -n) for n in range(100)]
    del executor
    gc.collect()

    assert [future.result(PATIENCE_S) for future in futures] == list(range(100))
    wait_until(lambda: threads() == before)
    wait_until(lambda: not cluster.jobs(name="executor", state="running"))


def test_a_forked_child_is_refused_with_a_sentence_and_harms_nobody(executor):
    assert executor.submit(abs, -1).result(PATIENCE_S) == 1
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            executor.submit(abs, -1)
        except RuntimeError as error:
            os.write(told, str(error).encode())
        executor.shutdown()
        os._exit(0)
    os.close(told)
    with os.fdopen(heard, "rb") as said:
        text = said.read().decode()
    os.waitpid(child, 0)

    assert "forked" in text
    assert "make one of its own" in text
    assert executor.submit(abs, -2).result(PATIENCE_S) == 2


def test_calls_go_on_when_the_agent_is_killed(lab, executor):
    def slowly(number):
        threading.Event().wait(0.01)
        return number

    futures = [executor.submit(slowly, n) for n in range(200)]
    assert futures[5].result(PATIENCE_S) == 5
    os.kill(lab.pid(), signal.SIGKILL)

    assert [future.result(PATIENCE_S) for future in futures] == list(range(200))


def test_large_arguments_survive_that_too_and_go_with_the_executor(lab, cluster):
    large = np.arange(1 << 18)

    def slowly(array, number):
        threading.Event().wait(0.01)
        return int(array[number] + large[number])

    with Executor(cluster=cluster) as executor:
        futures = [executor.submit(slowly, large, n) for n in range(100)]
        assert futures[5].result(PATIENCE_S) == 10
        assert len(list((lab.home / "values").glob("*/*/data"))) == 1
        os.kill(lab.pid(), signal.SIGKILL)
        found = [future.result(PATIENCE_S) for future in futures]

    assert found == [2 * n for n in range(100)]
    wait_until(lambda: not list((lab.home / "values").iterdir()))


def test_its_workers_can_be_ended_whatever_they_do(cluster, tmp_path):
    executor = Executor(1, cluster=cluster)
    futures = [executor.submit(until_there, str(tmp_path / "never")) for _ in range(9)]
    wait_until(futures[0].running)
    executor.terminate_workers()

    for future in futures:
        assert isinstance(future.exception(PATIENCE_S), concurrent.futures.BrokenExecutor)
    with pytest.raises(RuntimeError):
        executor.submit(abs, -1)
    wait_until(lambda: not cluster.jobs(name="executor", state="running"))


def test_without_an_agent_the_future_says_so(tmp_path):
    with connect(tmp_path / "none.sock") as nowhere, Executor(cluster=nowhere) as executor:
        error = executor.submit(abs, -1).exception(PATIENCE_S)

    assert isinstance(error, NoAgent)


def test_at_the_end_of_a_program_what_was_submitted_is_done(lab, tmp_path):
    program = lab.dir / "program.py"
    program.write_text(
        "import pathlib\nfrom distributed_grid import Executor\n"
        "executor = Executor()\n"
        f"executor.submit(pathlib.Path({str(tmp_path / 'done')!r}).touch)\n"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, program], env=lab.env, capture_output=True, timeout=PATIENCE_S, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "done").exists()


def test_many_short_calls_are_sent_together(executor):
    began_s = time.monotonic()
    futures = [executor.submit(abs, -n) for n in range(5_000)]

    assert [future.result(PATIENCE_S) for future in futures] == list(range(5_000))
    assert time.monotonic() - began_s < PATIENCE_S
