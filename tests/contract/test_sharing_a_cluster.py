"""One Cluster for several threads, and for parent and child: nobody gets another's answer."""

import itertools
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

import distributed_grid
from tests.agent_stand_in import CannedAgent, a_view, answering, http, read_request, serving

FORKED = """
import os, sys
import distributed_grid

with distributed_grid.connect(sys.argv[1]) as cluster:
    cluster.job("build")
    if not (child := os.fork()):
        assert cluster.job("child").name == "child"
        cluster.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cluster.job("parent").name == "parent"
"""


def test_threads_get_their_own_answers(tmp_path):
    names = [f"job-{number}" for number in range(40)]
    agent = CannedAgent(*map(a_view, names))
    with (
        serving(agent, tmp_path / "s") as path,
        distributed_grid.connect(path) as cluster,
        ThreadPoolExecutor(16) as pool,
    ):
        found = list(pool.map(lambda name: cluster.job(name).name, names * 10))

    assert found == names * 10


def test_a_thread_that_waits_holds_nobody_up(tmp_path):
    is_asked, has_answered = threading.Event(), threading.Event()

    def answers_the_other_first(connection: socket.socket) -> None:
        def late(waiting: socket.socket) -> None:
            with waiting:
                has_answered.wait(20)
                waiting.sendall(http(msgspec.json.encode(a_view("slow"))))

        read_request(connection)
        is_asked.set()
        threading.Thread(target=late, args=(connection.dup(),)).start()

    def answers(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(http(msgspec.json.encode(a_view("quick"))))

    with (
        answering(tmp_path / "s", answers_the_other_first, answers) as path,
        distributed_grid.connect(path) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        slow = pool.submit(cluster.wait, "slow")
        assert is_asked.wait(20)
        quick = cluster.wait("quick")
        has_answered.set()

    assert (quick.name, slow.result().name) == ("quick", "slow")


def test_after_a_fork_each_side_has_a_connection_of_its_own(tmp_path):
    numbers = itertools.count()
    heard: list[tuple[int, bytes]] = []  # Which connection, and the job it asked for.

    def keeps_answering(connection: socket.socket) -> None:
        number = next(numbers)
        threading.Thread(target=answer_all, args=(connection.dup(), number)).start()

    def answer_all(connection: socket.socket, number: int) -> None:
        with connection:
            while connection.recv(1, socket.MSG_PEEK):
                name = read_request(connection).split()[1].rpartition(b"/")[2]
                heard.append((number, name))
                connection.sendall(http(msgspec.json.encode(a_view(name.decode()))))

    with answering(tmp_path / "s", keeps_answering, keeps_answering) as path:
        done = subprocess.run(
            [sys.executable, "-c", FORKED, path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert [name for _, name in heard] == [b"build", b"child", b"parent"]
    assert heard[0][0] == heard[2][0] != heard[1][0]
