"""A map as its client sees it: how many workers it asks for, here and around."""

import msgspec
import pytest

from distributed_grid.client.exchange import Response
from distributed_grid.client.map_workers import START, WorkerPool, worker_spec
from distributed_grid.client.mapping import LONG_S, WAIT_MS, Mapping, cores_around, plan_of
from distributed_grid.wire.api import Nothing
from distributed_grid.wire.maps import GUEST_PYTHON, GUEST_SOCKET, MapNews
from distributed_grid.wire.mesh_api import Nodes
from tests.mesh_stand_in import a_node


def doubled(number):
    return 2 * number


class Told:
    """Answers the requests of a call, and remembers them."""

    def __init__(self, *, cores_milli: int, nodes=(), workers: int = 0, waiting: int = 0) -> None:
        self.asked, self.fed = [], []
        self._cores, self._nodes = cores_milli, nodes
        self.workers, self.waiting = workers, waiting

    def run(self, call):
        answer = None
        while True:
            try:
                request = call.send(answer)
            except StopIteration as done:
                return done.value
            answer = self._answer(request)

    def _answer(self, request) -> Response:
        self.asked.append(request.target)
        if request.target == "/v1/status":
            status = {"id": "", "name": "d", "node_class": "", "version": "", "pid": 1,
                      "keeper_pid": 1, "since_ms": 1, "data_dir": "", "cpu_milli_total": self._cores,
                      "cpu_milli_free": 0, "memory_bytes_total": 1, "memory_bytes_free": 1,
                      "gpus_total": 0, "gpus_free_milli": 0, "jobs_waiting": 0,
                      "jobs_running": 0}  # fmt: skip
            return _said(msgspec.json.encode(status))
        if request.target == "/v1/nodes":
            return _said(msgspec.json.encode(Nodes(mesh="", nodes=self._nodes)))
        if request.target.endswith("/feed"):
            self.fed.append(msgspec.msgpack.decode(request.body))
            news = MapNews(workers=self.workers, waiting=self.waiting)
            return _said(msgspec.msgpack.encode(news))
        hired = msgspec.msgpack.decode(request.body)["workers"]
        self.workers += hired["array"]["stop"]
        return _said(msgspec.msgpack.encode(Nothing()))


def _said(body: bytes) -> Response:
    return Response(status=200, body=body, took_ms=1)


def a_map(workers: int | None = None, **wishes) -> Mapping:
    plan = plan_of([0] * 100, ordered=True, workers=workers, retries=1, chunk=None)
    spec = worker_spec(doubled, wishes, socket="/run/s")
    made = Mapping(WorkerPool(spec), doubled, plan=plan, name="m")
    made.add(1)
    made.end_of_items()
    return made


AROUND = (
    a_node("desk", is_self=True, cpu_milli_total=2_000),
    a_node("server", cpu_milli_total=8_000, roles=("worker",)),
    a_node("gone", cpu_milli_total=16_000, health="dead"),
    a_node("guest", cpu_milli_total=32_000, roles=("guest",)),
)


def conversed(told: Told, mapping: Mapping, *, after_s: float) -> None:
    mapping.begin_gathering(100.0)
    told.run(mapping.open())
    mapping.begin_gathering(100.0 + after_s)
    told.run(mapping.converse())


def test_a_short_map_is_run_here_and_asks_nobody_else():
    told = Told(cores_milli=2_000, nodes=AROUND, waiting=1)
    conversed(told, a_map(), after_s=LONG_S / 2)

    assert (told.workers, told.fed[0]["wait_ms"]) == (2, int(LONG_S * 1_000))
    assert "/v1/nodes" not in told.asked


def test_a_long_map_gets_workers_on_every_machine_that_lends():
    told = Told(cores_milli=2_000, nodes=AROUND, waiting=1)
    mapping = a_map()
    conversed(told, mapping, after_s=LONG_S)
    assert (told.workers, told.fed[0]["wait_ms"]) == (10, WAIT_MS)
    told.run(mapping.converse())

    assert told.asked.count("/v1/nodes") == 1  # It is asked once.
    assert told.run(cores_around()) == 8_000


@pytest.mark.parametrize("workers", [3, 1])
def test_who_says_how_many_workers_gets_so_many(workers):
    told = Told(cores_milli=2_000, nodes=AROUND, waiting=1)
    conversed(told, a_map(workers=workers), after_s=LONG_S)

    assert told.workers == workers
    assert "/v1/nodes" not in told.asked


def test_a_machine_alone_asks_once_who_is_around():
    told = Told(cores_milli=2_000, nodes=AROUND[:1], waiting=1)
    mapping = a_map()
    conversed(told, mapping, after_s=LONG_S)
    told.run(mapping.converse())

    assert (told.workers, told.asked.count("/v1/nodes")) == (2, 1)


def test_a_worker_finds_the_agent_and_the_python_of_its_own_machine():
    work = worker_spec(doubled, {"env": {"MODE": "fast"}}, socket="/run/s").work

    assert work.argv[:3] == ("/bin/sh", "-c", START)
    assert (GUEST_SOCKET in START, GUEST_PYTHON in START) == (True, True)
    assert work.told == ("MODE", "PYTHONPATH")  # Of its environment no more leaves the machine.
