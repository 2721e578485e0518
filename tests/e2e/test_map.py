"""`map` and `call` against a real agent: order, errors, deaths, and nothing left behind.

Calls that wait for an event nobody sets stand for work that takes so long.
"""

import asyncio
import ctypes
import itertools
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed_grid.client.async_cluster import connect_async
from distributed_grid.client.cluster import Cluster, connect
from distributed_grid.errors import BadValue, CallFailed, MapEnded, NotPicklable, WorkerDied

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0

pytestmark = pytest.mark.slow


class Agent:
    """A real agent in a directory of its own."""

    def __init__(self, data: Path, env: dict[str, str]) -> None:
        self.data, self.env = data, env
        self.socket = str(data / "agent.sock")

    def grid(self, *words: str) -> str:
        command = [sys.executable, "-m", "distributed_grid", *words]
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def pid(self) -> int:
        return int((self.data / "agent.pid").read_text())

    def workers(self) -> list[int]:
        """Processes that serve maps of this agent."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"distributed_grid.client.worker" in words and self.socket.encode() in words:
                    found.append(int(folder.name))
        return found


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    data = tmp_path_factory.mktemp("map") / "d"
    kept = {name: os.environ[name] for name in os.environ if name.startswith("COVERAGE_")}
    env = kept | {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(data.parent),
        "GRID_HOME": str(data),
        "PYTHONPATH": str(ROOT),
    }
    made = Agent(data, env)
    made.grid("up", "--detach")
    try:
        yield made
        wait_until(lambda: not made.workers(), "no worker is left behind")
    finally:
        made.grid("down", "--stop-jobs")


@pytest.fixture
def cluster(agent: Agent) -> Iterator[Cluster]:
    with connect(agent.socket) as made:
        yield made


def wait_until(is_true, what: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < until_s, f"waited {PATIENCE_S} s in vain: {what}"
        threading.Event().wait(0.02)  # Looks again; nothing is concluded from the time.


def doubled(number: int) -> int:
    return 2 * number


def test_a_function_of_a_module_a_lambda_and_a_closure(cluster):
    offset = 7

    assert list(cluster.map(doubled, range(10))) == [2 * n for n in range(10)]
    assert list(cluster.map(lambda n: n + 1, [1, 2, 3])) == [2, 3, 4]
    assert list(cluster.map(lambda n: n + offset, [1])) == [8]
    assert list(cluster.map(doubled, [])) == []


def test_several_iterables_are_taken_together_until_the_shortest_ends(cluster):
    assert list(cluster.map(pow, [2, 3, 4], [5, 2])) == [32, 9]
    assert list(cluster.map(pow, itertools.count(), (n for n in [2, 2, 2]))) == [0, 1, 4]
    assert dict(cluster.map(max, [1, 5], [4, 2], [3, 9], ordered=False)) == {0: 4, 1: 9}


def test_the_async_map_takes_several_iterables_too(agent):
    async def powers():
        async with connect_async(agent.socket) as cluster:
            return [found async for found in cluster.map(pow, [2, 3, 4], [5, 2])]

    assert asyncio.run(powers()) == [32, 9]


def test_a_function_that_is_submitted_as_a_job_is_refused_with_what_to_use(cluster):
    for words in ((doubled, 3), (doubled,), ("echo", "hi")):
        with pytest.raises(BadValue, match=r"Executor\(\)\.submit, or for cluster\.call"):
            cluster.submit(*words)


def test_one_call_with_any_arguments(cluster):
    assert cluster.call(divmod, 7, 2) == (3, 1)
    assert cluster.call(lambda *a, **k: (a, k), 1, two=2) == ((1,), {"two": 2})
    with pytest.raises(ZeroDivisionError):
        cluster.call(divmod, 1, 0)


def test_results_are_in_order_or_as_they_complete(cluster):
    def slow_first(number: int) -> int:
        threading.Event().wait(0.5 if number == 0 else 0.001)
        return number

    assert list(cluster.map(slow_first, range(20), workers=2)) == list(range(20))
    pairs = list(cluster.map(slow_first, range(20), ordered=False, workers=2))

    assert pairs[0][0] != 0, "a slow call does not hold up the others"
    assert sorted(pairs) == [(n, n) for n in range(20)]


def test_calls_behind_a_slow_one_are_given_to_others(cluster):
    def sometimes_slow(number: int) -> float:
        threading.Event().wait(3 if number == 500 else 0)
        return time.time()

    times = list(cluster.map(sometimes_slow, range(600), workers=2))

    late = [number for number, at in enumerate(times) if at > times[500] - 1 and number != 500]
    assert len(late) < 5, "the rest of the batch waited for the slow call"


def test_items_may_come_from_an_endless_generator(cluster):
    with cluster.map(doubled, itertools.count()) as results:
        assert [next(results) for _ in range(3_000)] == [2 * n for n in range(3_000)]


def test_a_generator_that_waits_for_results_gets_them(cluster):
    seen: list[int] = []

    def items() -> Iterator[int]:
        yield 1
        while len(seen) < 1 and time.monotonic() < until_s:
            yield 0
        yield 2

    until_s = time.monotonic() + PATIENCE_S
    for result in cluster.map(doubled, items()):
        seen.append(result)  # noqa: PERF402  # Each as it comes: the generator looks at it.

    assert seen[0] == 2
    assert seen[-1] == 4


def test_an_exception_comes_back_as_it_was_with_the_remote_traceback(cluster):
    def picky(number: int) -> int:
        if number == 3:
            raise KeyError("three")
        return number

    results = cluster.map(picky, range(6))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three") as caught:
        next(results)

    assert "in picky" in str(caught.value.__cause__)
    assert "call 3 of map:picky" in caught.value.__notes__[0]
    assert list(results) == [4, 5], "the other calls go on"


def test_an_exception_that_cannot_travel_is_a_call_failed(cluster):
    def worse(number: int) -> None:
        class Odd(Exception):
            def __init__(self, one: int, two: int) -> None:
                super().__init__("odd")
                self.lock = threading.Lock()

        if number == 0:
            raise Odd(1, 2)
        if number == 1:
            sys.exit("bye")
        raise StopIteration

    odd, left, stopped = cluster.map(worse, range(3), return_exceptions=True)

    for index, error in enumerate((odd, left, stopped)):
        assert isinstance(error, CallFailed)
        assert error.index == index
        assert "in worse" in error.remote_traceback
    assert "Odd: odd" in str(odd)
    assert "SystemExit: bye" in str(left)


def test_what_cannot_travel_fails_alone_and_is_named(cluster):
    lock = threading.Lock()
    with pytest.raises(NotPicklable, match="function"):
        cluster.map(lambda _: lock, [1])

    bad_item = list(cluster.map(doubled, [1, lock, 3], return_exceptions=True))
    bad_result = list(
        cluster.map(lambda n: threading.Lock() if n == 1 else n, range(3), return_exceptions=True)
    )

    assert (bad_item[0], bad_item[2]) == (2, 6)
    assert isinstance(bad_item[1], NotPicklable)
    assert (bad_item[1].index, bad_item[1].what) == (1, "item")
    assert (bad_result[0], bad_result[2]) == (0, 2)
    assert isinstance(bad_result[1], NotPicklable)
    assert (bad_result[1].index, bad_result[1].what) == (1, "result")


def test_an_item_that_kills_its_worker_fails_alone(cluster, tmp_path):
    def deadly(number: int) -> int:
        with (tmp_path / f"{number}").open("a") as file:
            file.write("x")
        if number == 5:
            os._exit(3)
        if number == 9:
            ctypes.string_at(0)
        return number

    results = list(cluster.map(deadly, range(12), return_exceptions=True, retries=1))

    assert [n for n, r in enumerate(results) if isinstance(r, WorkerDied)] == [5, 9]
    assert [r for r in results if not isinstance(r, Exception)] == [
        n for n in range(12) if n not in (5, 9)
    ]
    assert (results[5].index, results[5].tries) == (5, 2)
    assert len((tmp_path / "5").read_text()) == 2, "tried once more than its one retry"


def test_without_retries_a_deadly_call_runs_once(cluster, tmp_path):
    def deadly(number: int) -> None:
        with (tmp_path / "runs").open("a") as file:
            file.write("x")
        os._exit(3)

    with pytest.raises(WorkerDied, match="once"):
        list(cluster.map(deadly, [1], retries=0))
    assert (tmp_path / "runs").read_text() == "x"


def test_a_call_that_takes_too_much_memory_fails_alone(cluster):
    def hungry(megabytes: int) -> int:
        return len(bytearray(os.urandom(1 << 20) * megabytes))

    results = list(cluster.map(hungry, [1, 400, 2], memory="200MiB", return_exceptions=True))

    assert (results[0], results[2]) == (1 << 20, 2 << 20)
    assert isinstance(results[1], WorkerDied | MemoryError)


def test_many_items_are_read_with_bounded_memory(cluster):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = 0

    def items() -> Iterator[bytes]:
        nonlocal taken
        for number in range(20_000):
            taken = number
            yield b"x" * 10_000  # 200 MB in all.

    total = 0
    for number, size in enumerate(cluster.map(len, items())):
        total += size
        assert taken - number <= 10_000, "items are taken far ahead of results"

    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert total == 200_000_000
    assert grown_kb < 120_000, "the window was not bounded"


def test_a_reader_may_pause_for_longer_than_workers_stay(agent, cluster):
    results = cluster.map(lambda n: bytes(100_000 + n), range(400), workers=2)
    got = [len(next(results))]
    wait_until(lambda: not agent.workers(), "workers with nothing to do go home")
    got += [len(result) for result in results]

    assert got == [100_000 + n for n in range(400)]


def test_big_results_do_not_pile_up_when_the_first_is_late(cluster, agent):
    def big(number: int) -> bytes:
        threading.Event().wait(1 if number == 0 else 0)
        return bytes(4 << 20)

    sizes = [len(result) for result in cluster.map(big, range(40), workers=2)]

    assert sizes == [4 << 20] * 40
    status = Path(f"/proc/{agent.pid}/status").read_text()
    [peak_kb] = [int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line]
    assert peak_kb < 300_000, "the agent holds some tens of megabytes of results, not all"


def test_a_result_beyond_the_limit_is_refused_with_its_size(cluster):
    with pytest.raises(NotPicklable, match="bytes"):
        cluster.call(bytes, 60 << 20)


def test_two_maps_at_once_share_the_machine(cluster):
    one = cluster.map(doubled, itertools.count())
    two = cluster.map(lambda n: n - 1, itertools.count())
    pairs = list(itertools.islice(zip(one, two, strict=True), 500))
    one.close()
    two.close()

    assert pairs == [(2 * n, n - 1) for n in range(500)]


def test_the_next_map_finds_its_workers_warm(cluster):
    first = set(cluster.map(lambda _: os.getpid(), range(20)))
    second = set(cluster.map(lambda _: os.getpid(), range(20)))

    assert first & second


def test_workers_are_an_ordinary_job(cluster):
    list(cluster.map(lambda _: print("said by a call"), range(4), name="talk"))
    [view] = cluster.jobs(name="talk")
    ended = cluster.wait(view, timeout=PATIENCE_S)

    assert ended.state == "succeeded"
    assert ended.array is not None
    said = b"".join(cluster.logs(view, index=n) for n in range(ended.array.total))
    assert said == b"said by a call\n" * 4


def test_closing_ends_the_workers(agent, cluster):
    results = cluster.map(lambda n: threading.Event().wait(60 * n), range(4), workers=2)
    next(results)
    wait_until(lambda: len(agent.workers()) > 0, "workers run")
    results.close()

    wait_until(lambda: not agent.workers(), "workers are stopped")
    assert list(results) == []


def test_dropping_the_iterator_ends_the_workers(agent, cluster):
    results = cluster.map(lambda n: threading.Event().wait(60 * n), range(4), workers=2)
    next(results)
    del results

    wait_until(lambda: not agent.workers(), "workers are stopped")


def test_cancelling_the_job_ends_the_map(agent, cluster):
    results = cluster.map(
        lambda n: threading.Event().wait(60 * n), range(4), workers=2, name="doomed"
    )
    next(results)
    with connect(agent.socket) as other:
        other.cancel("doomed")

    with pytest.raises(MapEnded, match="cancelled"):
        next(results)


def test_workers_that_cannot_start_end_the_map(cluster):
    with pytest.raises(MapEnded, match="do not start"):
        list(cluster.map(doubled, range(3), env={"PYTHONHOME": "/nonexistent"}))


def test_impossible_wishes_are_refused_at_once(cluster):
    for wrong in ({"workers": 0}, {"chunk": 0}, {"retries": -1}):
        with pytest.raises(BadValue):
            cluster.map(doubled, [1], **wrong)


CLIENT = """
    import sys
    import threading, time
    from distributed_grid import connect
    with connect(sys.argv[1]) as cluster:
        results = cluster.map(lambda n: threading.Event().wait(60 * n), range(4), workers=2)
        next(results)
        print("begun", flush=True)
        next(results)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_client_that_dies_leaves_nothing(agent, how, tmp_path):
    script = tmp_path / "client.py"
    script.write_text(textwrap.dedent(CLIENT))
    with subprocess.Popen(
        [sys.executable, str(script), agent.socket],
        env=agent.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"begun\n"
        client.send_signal(how)
        client.wait(timeout=PATIENCE_S)

    wait_until(lambda: not agent.workers(), "workers are stopped")


def test_a_map_goes_on_when_the_agent_is_killed(agent, cluster):
    def slowly(number: int) -> int:
        threading.Event().wait(0.01)
        return number

    results = cluster.map(slowly, range(400), workers=2)
    got = [next(results) for _ in range(20)]
    os.kill(agent.pid, signal.SIGKILL)
    got += results

    assert got == list(range(400))


def test_the_async_twin(agent):
    async def numbers():
        for number in range(300):
            yield number

    async def main() -> None:
        async with connect_async(agent.socket) as cluster:
            assert [r async for r in cluster.map(doubled, numbers())] == [2 * n for n in range(300)]
            both = await asyncio.gather(cluster.call(divmod, 7, 2), cluster.call(lambda: "second"))
            assert both == [(3, 1), "second"]
            with pytest.raises(ZeroDivisionError):
                await cluster.call(lambda: 1 / 0)
            pairs = [pair async for pair in cluster.map(doubled, range(9), ordered=False)]
            assert sorted(pairs) == [(n, 2 * n) for n in range(9)]
            async with cluster.map(lambda n: threading.Event().wait(60 * n), range(3)) as results:
                await anext(results)

    asyncio.run(main())
    wait_until(lambda: not agent.workers(), "workers are stopped")
