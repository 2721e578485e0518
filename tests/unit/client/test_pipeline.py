"""Submissions that do not wait for each other, over real sockets."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import distributed_grid
from distributed_grid.client.blocking import Line
from distributed_grid.client.pipeline import TOGETHER_MAX
from distributed_grid.errors import BadValue, NeverFits, NoAgent
from distributed_grid.wire.api import Submit, Submitted
from tests.agent_stand_in import CannedAgent, answering, hangs_up, http, read_request, serving

TAKEN = http(msgspec.json.encode(Submitted(ids=())))


class Taking:
    """One connection; answers each request when it may, and remembers who was in it."""

    def __init__(self, answers: int) -> None:
        self.requests: list[list[str]] = []
        self.may_answer = threading.Semaphore(answers)
        self.has_heard = threading.Semaphore(0)

    def __call__(self, connection: socket.socket) -> None:
        while connection.recv(1, socket.MSG_PEEK):
            body = read_request(connection).partition(b"\r\n\r\n")[2]
            jobs = msgspec.json.decode(body, type=Submit).jobs
            self.requests.append([job.name for job in jobs])
            self.has_heard.release()
            assert self.may_answer.acquire(timeout=30)
            connection.sendall(TAKEN)


@pytest.fixture
def door(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


def test_what_is_submitted_while_an_answer_is_awaited_goes_out_together(door):
    agent = Taking(answers=0)
    with answering(door, agent) as path, distributed_grid.connect(path) as cluster:
        with cluster.pipeline() as pipeline:
            jobs = [pipeline.submit(["true"], name=f"job-{n}") for n in range(4)]
            assert agent.has_heard.acquire(timeout=30)
            assert agent.requests == [["job-0"]]  # At once, and alone.
            agent.may_answer.release(10)

        assert agent.requests == [["job-0"], ["job-1", "job-2", "job-3"]]
        assert [job.name for job in jobs] == ["job-0", "job-1", "job-2", "job-3"]


def test_a_request_has_a_bounded_number_of_jobs(door, monkeypatch):
    monkeypatch.setattr(Line, "is_silent", True)  # As if no answer were ever there in time.
    agent = Taking(answers=1_000)
    with answering(door, agent) as path, distributed_grid.connect(path) as cluster:
        with cluster.pipeline() as pipeline:
            for n in range(2 * TOGETHER_MAX + 2):
                pipeline.submit(["true"], name=f"{n}")

        assert [len(request) for request in agent.requests] == [1, TOGETHER_MAX, TOGETHER_MAX, 1]


def test_nothing_submitted_asks_nothing(door):
    with distributed_grid.connect(door) as cluster, cluster.pipeline():
        pass  # Nobody listens there.


@pytest.fixture
def agent() -> CannedAgent:
    return CannedAgent()


@pytest.fixture
def cluster(agent: CannedAgent, door: Path) -> Iterator[distributed_grid.Cluster]:
    with serving(agent, door) as path, distributed_grid.connect(path) as connected:
        yield connected


def test_only_the_wrong_ones_are_refused_and_told_at_the_end(agent, cluster):
    with pytest.raises(NeverFits) as refused, cluster.pipeline() as pipeline:
        jobs = [pipeline.submit(["true"], cpus=n) for n in (1, 1, 65, 1, 99, 1)]

    taken = {spec.id for spec in agent.submitted}
    assert [job.id in taken for job in jobs] == [True, True, False, True, False, True]
    assert refused.value.__notes__ == ["1 more submissions were refused"]


def test_what_makes_no_sense_is_told_at_once(agent, cluster):
    pipeline = cluster.pipeline()
    with pytest.raises(BadValue):
        pipeline.submit(["true"], cpus=-1)

    pipeline.settle()
    assert agent.submitted == []


def test_a_job_can_come_after_one_of_the_same_pipeline(agent, cluster):
    with cluster.pipeline() as pipeline:
        first = pipeline.submit(["true"])
        second = pipeline.submit(["true"])
        pipeline.submit(["true"], after=[first, second])

    after = {wanted.job for wanted in agent.submitted[-1].after}
    assert after == {first.id, second.id}


def test_an_agent_that_dies_is_asked_again(door):
    agent = Taking(answers=1_000)
    with answering(door, hangs_up, agent) as path, distributed_grid.connect(path) as cluster:
        with cluster.pipeline() as pipeline:
            names = [pipeline.submit(["true"], name=f"{n}").name for n in range(3)]

        assert sorted(name for request in agent.requests for name in request) == names


def test_an_agent_that_does_not_come_back_is_told(door, monkeypatch):
    monkeypatch.setattr("distributed_grid.client.patience.RESTART_S", 0.2)
    with (
        answering(door, hangs_up) as path,
        distributed_grid.connect(path) as cluster,
        pytest.raises(NoAgent),
        cluster.pipeline() as pipeline,
    ):
        pipeline.submit(["true"])


def test_after_an_error_of_the_program_the_rest_is_still_sent(agent, cluster):
    def program() -> None:
        with cluster.pipeline() as pipeline:
            pipeline.submit(["true"], name="first")
            pipeline.submit(["true"], cpus=99, name="second")
            pipeline.submit(["true"], name="third")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as error:
        program()

    assert {"first", "third"} == {spec.name for spec in agent.submitted}
    assert "1 submissions were refused" in error.value.__notes__[0]
