"""The blocking and the async client are one: the same suite on both, over real sockets."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import distributed_grid
from distributed_grid.client import patience
from distributed_grid.client.exchange import BadAnswer, Gathering
from distributed_grid.errors import Ambiguous, Closed, GridError, NeverFits, NoAgent, NotFound
from tests.agent_stand_in import (
    CannedAgent,
    a_view,
    an_array,
    answering,
    hangs_up,
    http,
    read_request,
    says,
    serving,
    stays_silent,
)


class Blocking:
    """The blocking client."""

    def __init__(self, path: str, answer_s: float = 30) -> None:
        self.cluster = distributed_grid.connect(path, answer_s=answer_s)

    def __call__(self, what: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.cluster, what)(*args, **kwargs)

    def all(self, what: str, *args: Any, **kwargs: Any) -> list[Any]:
        return list(getattr(self.cluster, what)(*args, **kwargs))

    def close(self) -> None:
        self.cluster.close()


class Awaited:
    """The async client, in a loop of its own."""

    def __init__(self, path: str, answer_s: float = 30) -> None:
        self.loop = asyncio.new_event_loop()
        self.cluster = self.loop.run_until_complete(self._connect(path, answer_s))

    async def _connect(self, path: str, answer_s: float) -> Any:
        return distributed_grid.connect_async(path, answer_s=answer_s)

    def __call__(self, what: str, *args: Any, **kwargs: Any) -> Any:
        return self.loop.run_until_complete(getattr(self.cluster, what)(*args, **kwargs))

    def all(self, what: str, *args: Any, **kwargs: Any) -> list[Any]:
        async def gather() -> list[Any]:
            return [item async for item in getattr(self.cluster, what)(*args, **kwargs)]

        return self.loop.run_until_complete(gather())

    def close(self) -> None:
        self.loop.run_until_complete(self.cluster.close())
        self.loop.close()


@pytest.fixture(params=[Blocking, Awaited], ids=["blocking", "async"])
def client(request):
    made = []

    def make(path: str, **options: Any) -> Any:
        made.append(request.param(path, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def door(tmp_path) -> Path:
    return tmp_path / "agent.sock"


def deaf(connection: socket.socket) -> None:
    """Close before anything is read, as the backlog of a killed agent does: a reset."""
    connection.recv(1)


def ok(value: object) -> bytes:
    return http(msgspec.json.encode(value))


def test_a_job_goes_in_and_its_end_and_its_output_come_out(client, door):
    agent = CannedAgent()
    agent.write("echo", b"hello\n", b"\xff\x00")
    agent.write("echo", b"oops\n", stream="stderr")
    with serving(agent, door) as path:
        grid = client(path)
        job = grid("submit", ["echo", "hello"], cpus=2, env={"A": "b"})

        assert grid("wait", job).exit_code == 0
        assert grid("logs", job) == b"hello\n\xff\x00"
        assert grid("logs", job, "stderr") == b"oops\n"
        assert b"".join(grid.all("follow", job)) == b"hello\n\xff\x00"
    (spec,) = agent.submitted
    assert (spec.id, spec.name, spec.work.argv) == (job.id, "echo", ("echo", "hello"))
    assert spec.work.env["A"] == "b"


def test_every_operation_has_its_answer(client, door):
    agent = CannedAgent(a_view(), an_array(), a_view("old", state="failed", exit_code=3))
    with serving(agent, door) as path:
        grid = client(path)

        assert grid("job", "old").exit_code == 3
        assert [job.name for job in grid("jobs", state="failed")] == ["sweep", "old"]
        assert grid("cancel", "old").state == "cancelled"
        assert grid("explain", "old").position == 2
        assert grid("status").name == "desk"
        assert [event.number for event in grid.all("events", after=1)] == [2, 3]
    assert agent.cancelled == ["old"]


def test_a_job_can_come_after_others_by_name_or_handle(client, door):
    agent = CannedAgent(a_view())
    with serving(agent, door) as path:
        grid = client(path)
        first = grid("submit", ["a"], after="build:any")
        grid("submit", ["b"], after=[first])

    assert [(after.job, after.when) for after in agent.submitted[0].after] == [(a_view().id, "any")]
    assert [after.job for after in agent.submitted[1].after] == [first.id]


@pytest.mark.parametrize(
    ("ask", "error", "fields"),
    [
        (("job", "nothing"), NotFound, {"kind": "job", "name": "nothing"}),
        (("job", ""), GridError, {}),
        (("submit", ["x"]), NeverFits, {"shortfall": (("cpu_milli", 99_000, 64_000),)}),
        (("job", "same"), Ambiguous, {"name": "same"}),
    ],
)
def test_an_error_of_the_agent_is_the_same_error_here(client, door, ask, error, fields):
    agent = CannedAgent(a_view("same"), a_view("same", id="cd" * 32))
    wishes = {"cpus": 99} if ask[0] == "submit" else {}
    with serving(agent, door) as path, pytest.raises(error) as raised:
        client(path)(*ask, **wishes)
    for name, value in fields.items():
        assert getattr(raised.value, name) == value


def test_an_error_on_a_stream_is_the_same_error_here(client, door):
    with serving(CannedAgent(), door) as path, pytest.raises(NotFound):
        client(path).all("follow", "nothing")


def test_one_connection_carries_many_questions(client, door):
    accepted = []

    def answers_twice(connection: socket.socket) -> None:
        accepted.append(connection.fileno())
        for _ in range(2):
            read_request(connection)
            connection.sendall(ok(a_view()))

    with answering(door, answers_twice) as path:
        grid = client(path)
        grid("job", "build")
        grid("job", "build")
    assert len(accepted) == 1


@pytest.mark.parametrize("died", [hangs_up, says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")])
def test_a_question_is_asked_again_when_the_agent_died_over_it(client, door, died):
    with answering(door, died, says(ok(a_view()))) as path:
        assert client(path)("job", "build") == a_view()


def test_a_submission_repeats_the_same_id(client, door):
    heard = []

    def remembers(connection: socket.socket) -> None:
        heard.append(read_request(connection))
        if len(heard) == 2:
            connection.sendall(ok({"ids": ["ab" * 32]}))

    with answering(door, remembers, remembers) as path:
        client(path)("submit", ["true"])

    assert heard[0] == heard[1]


def test_a_question_is_asked_until_somebody_lives_to_answer_it(client, door):
    half = says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")
    with answering(door, hangs_up, deaf, half, hangs_up, says(ok(a_view()))) as path:
        assert client(path)("wait", "build") == a_view()


@pytest.mark.parametrize("died", [hangs_up, says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")])
def test_an_agent_that_dies_each_time_is_no_agent(client, door, died, monkeypatch):
    monkeypatch.setattr(patience, "RESTART_S", 0.2)
    with answering(door, *[died] * 1_000) as path, pytest.raises(NoAgent) as raised:
        client(path)("job", "build")
    assert "closed" in raised.value.why


def test_an_agent_that_does_not_come_back_is_no_agent(client, door, monkeypatch):
    monkeypatch.setattr(patience, "RESTART_S", 0.2)
    with answering(door, hangs_up) as path, pytest.raises(NoAgent, match="stale"):
        client(path)("job", "build")


def test_each_crash_is_forgiven_by_itself(client, door, monkeypatch):
    """A line that was opened in trouble is like any other once it brought an answer."""
    monkeypatch.setattr(patience, "RESTART_S", 0.3)
    later = threading.Event()

    def answers_then_dies(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(ok(a_view()))
        read_request(connection)

    with answering(door, hangs_up, answers_then_dies, says(ok(a_view()))) as path:
        grid = client(path)
        grid("job", "build")
        later.wait(0.4)  # Longer than the patience of the first crash.
        assert grid("job", "build") == a_view()


def test_following_goes_on_where_it_was_when_the_agent_came_back(client, door):
    asked = []
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    def first(connection: socket.socket) -> None:
        asked.append(read_request(connection))
        connection.sendall(chunked + b"3\r\nabc\r\n")

    def second(connection: socket.socket) -> None:
        asked.append(read_request(connection))
        connection.sendall(chunked + b"2\r\nde\r\n0\r\n\r\n")

    with answering(door, first, second) as path:
        assert b"".join(client(path).all("follow", "build")) == b"abcde"
    assert b"offset" not in asked[0]
    assert b"offset=3" in asked[1]


def test_following_goes_on_over_several_deaths_in_a_row(client, door):
    asked = []
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    def saying(said: bytes) -> Any:
        def script(connection: socket.socket) -> None:
            asked.append(read_request(connection))
            connection.sendall(said)

        return script

    scripts = [
        hangs_up,
        deaf,
        saying(chunked + b"6\r\nabc"),
        hangs_up,
        saying(chunked),
        saying(chunked + b"2\r\nde\r\n0\r\n\r\n"),
    ]
    with answering(door, *scripts) as path:
        assert b"".join(client(path).all("follow", "build")) == b"abcde"
    assert [b"offset=3" in one for one in asked] == [False, True, True]


def test_a_stream_that_dies_each_time_is_no_agent(client, door, monkeypatch):
    monkeypatch.setattr(patience, "RESTART_S", 0.2)
    with answering(door, *[hangs_up] * 1_000) as path, pytest.raises(NoAgent, match="closed"):
        client(path).all("follow", "build")


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        http(b"{}"),
        http(b"not json"),
        http(b"<html>", status="502 Bad Gateway", kind="text/html"),
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
    ],
    ids=["ssh", "shape", "text", "gateway", "head"],
)
def test_nonsense_is_a_bad_answer_and_not_a_traceback(client, door, said):
    with answering(door, says(said)) as path, pytest.raises(BadAnswer):
        client(path)("job", "build")


def test_an_answer_without_end_is_given_up_at_the_limit(client, door, monkeypatch):
    monkeypatch.setitem(Gathering.__init__.__kwdefaults__, "bytes_max", 4 << 20)
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {1 << 30}\r\n\r\n".encode()

    def floods(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(head)
        while True:
            connection.sendall(b" " * (1 << 20))

    with answering(door, floods) as path, pytest.raises(BadAnswer, match="longer than"):
        client(path)("job", "build")


def test_a_large_answer_within_the_limit_is_fine(client, door):
    many = tuple(a_view(f"job-{number}", reason="x" * 1_000) for number in range(2_000))
    with serving(CannedAgent(*many), door) as path:
        assert len(client(path)("jobs", limit=5_000)) == 2_000


def test_a_server_that_never_answers_is_given_up(client, door):
    with (
        answering(door, stays_silent) as path,
        pytest.raises(NoAgent, match="did not answer within"),
    ):
        client(path, answer_s=0.05)("status")


def test_waiting_longer_than_an_answer_may_take_is_no_timeout(client, door):
    released = threading.Event()

    def answers_late(connection: socket.socket) -> None:
        read_request(connection)
        released.wait(0.2)
        connection.sendall(ok(a_view()))

    with answering(door, answers_late) as path:
        assert client(path, answer_s=0.05)("wait", "build", timeout=5).exit_code == 0


def test_a_job_that_takes_too_long_is_a_timeout_error(client, door):
    agent = CannedAgent(a_view(state="running", exit_code=None))
    with serving(agent, door) as path, pytest.raises(TimeoutError) as raised:
        client(path)("wait", "build", timeout=0.01)
    assert raised.value.job.state == "running"


def test_nobody_there_is_said_with_the_socket_and_the_remedy(client, door):
    with pytest.raises(NoAgent, match="there is no socket") as raised:
        client(str(door))("status")
    assert raised.value.socket == str(door)
    assert "grid up" in raised.value.remedy


def test_a_stale_socket_is_said_to_be_one(client, door):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(door))
    left.close()

    with pytest.raises(NoAgent, match="stale"):
        client(str(door))("status")


def test_a_socket_that_is_a_file_is_no_agent(client, door):
    door.write_text("")

    with pytest.raises(NoAgent):
        client(str(door))("status")


def test_a_list_of_jobs_is_waited_for_together(door, client):
    views = [a_view("one"), a_view("two", state="failed", exit_code=3)]
    with serving(CannedAgent(*views), door) as path:
        cluster = client(path)

        assert cluster("wait", [views[1], "one", views[1].id], timeout=5) == [
            views[1],
            views[0],
            views[1],
        ]
        assert cluster("wait", []) == []
        assert cluster("wait", "two") == views[1]


def test_what_is_asked_after_closing_is_told_so(door, client):
    with serving(CannedAgent(a_view()), door) as path:
        cluster = client(path)
        cluster("job", "build")
        cluster("close")

        for ask in (
            lambda: cluster("job", "build"),
            lambda: cluster("submit", ["true"]),
            lambda: cluster.all("follow", "build"),
            lambda: cluster.all("map", abs, [1]),
        ):
            with pytest.raises(Closed, match="closed"):
                ask()
        cluster("close")  # Twice does no harm.


def test_handles_do_what_their_names_say(door):
    agent = CannedAgent()
    agent.write("echo", b"x")
    with serving(agent, door) as path, distributed_grid.connect(path) as cluster:
        job = cluster.submit(["echo"])

        assert job.state == "succeeded"
        assert job.wait().id == job.id
        assert (job.logs(), list(job.follow())) == (b"x", [b"x"])
        assert job.explain().state == "waiting"
        assert job.cancel().state == "cancelled"
        assert job.id[:12] in repr(job)


def test_async_handles_do_the_same_and_many_tasks_share_a_cluster(door):
    agent = CannedAgent()
    agent.write("echo", b"x")

    async def many() -> list[int | None]:
        async with distributed_grid.connect_async(str(door)) as cluster:
            jobs = await asyncio.gather(*(cluster.submit(["echo"]) for _ in range(50)))
            views = await asyncio.gather(*(job.wait(timeout="5s") for job in jobs))
            job = jobs[0]
            assert await job.state() == "succeeded"
            assert (await job.logs(), [part async for part in job.follow()]) == (b"x", [b"x"])
            assert (await job.explain()).state == "waiting"
            assert (await job.cancel()).state == "cancelled"
            assert job.id[:12] in repr(job)
            return [view.exit_code for view in views]

    with serving(agent, door):
        assert asyncio.run(many()) == [0] * 50
    assert len({spec.id for spec in agent.submitted}) == 50
