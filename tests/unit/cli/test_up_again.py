"""`grid up` while jobs go on under a keeper: what its answers mean."""

import socket
import threading
from pathlib import Path

import msgspec
import pytest

from distributed_grid.cli import up
from distributed_grid.cli.up import NotUp, _adopted
from distributed_grid.edges.runner.agent_link import SOCKET_FILE
from distributed_grid.errors import AgentRuns
from distributed_grid.model.home import locate
from distributed_grid.wire.frames import framed
from distributed_grid.wire.keeper import NOT_STARTED, Adopted

LEAVES = Adopted(keeper_pid=1, agent_pid=2, refusal="an agent runs already")
COMES = Adopted(keeper_pid=1, refusal="an agent runs already")
TAKEN = Adopted(keeper_pid=1, agent_pid=3)


@pytest.fixture
def home(tmp_path):
    return locate({"GRID_HOME": str(tmp_path)}, user_home=str(tmp_path))


@pytest.fixture
def keeper(home):
    """Answers each who knocks with the next of these; the last again and again."""
    answers: list[Adopted] = []
    Path(home.data).mkdir(parents=True, exist_ok=True)
    door = socket.socket(socket.AF_UNIX)
    door.bind(f"{home.data}/{SOCKET_FILE}")
    door.listen()

    def serve():
        while True:
            try:
                line, _ = door.accept()
            except OSError:
                return
            with line:
                line.recv(65_536)
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                line.sendall(framed(msgspec.msgpack.encode(answer)))

    server = threading.Thread(target=serve)
    server.start()
    yield answers
    door.shutdown(socket.SHUT_RDWR)
    door.close()
    server.join()


@pytest.mark.parametrize("before", [[LEAVES, LEAVES], [COMES]])
def test_an_agent_that_does_not_answer_is_waited_for(home, keeper, before):
    keeper += [*before, TAKEN]

    assert _adopted(home, ["agent"])
    assert keeper == [TAKEN]


def test_one_that_neither_answers_nor_goes_is_named(home, keeper, monkeypatch):
    monkeypatch.setattr(up, "LEAVING_S", 0.1)
    keeper.append(LEAVES)

    with pytest.raises(AgentRuns, match="pid 2"):
        _adopted(home, ["agent"])


def test_one_that_could_not_be_started_is_no_agent_that_serves(home, keeper):
    keeper.append(Adopted(keeper_pid=1, refusal=NOT_STARTED))

    with pytest.raises(NotUp, match=NOT_STARTED):
        _adopted(home, ["agent"])
