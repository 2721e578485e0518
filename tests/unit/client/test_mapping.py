"""A map as its client sees it: how many workers it asks for, here and around."""

import msgspec
import pytest

from distributed_grid.client.exchange import Response
from distributed_grid.client.map_workers import START, WorkerPool, worker_spec
from distributed_grid.client.mapping import LONG_S, WAIT_MS, Mapping, cores_around, plan_of
from distributed_grid.client.why_waiting import BEGIN_S, LOOK_S
from distributed_grid.model.ids import JobId
from distributed_grid.wire.api import Explanation, Nothing
from distributed_grid.wire.maps import GUEST_PYTHON, GUEST_SOCKET, MapNews, MapOutcome
from distributed_grid.wire.mesh_api import Nodes
from tests.agent_stand_in import a_view
from tests.mesh_stand_in import a_node


def doubled(number):
    return 2 * number


class Told:
    """Answers the requests of a call, and remembers them."""

    def __init__(self, *, cores_milli: int, nodes=(), workers: int = 0, waiting: int = 0) -> None:
        self.asked, self.fed = [], []
        self._cores, self._nodes = cores_milli, nodes
        self.workers, self.waiting = workers, waiting
        self.state, self.outcomes = "waiting", ()
        self.why = Explanation(
            id=JobId("a" * 64), state="waiting", summary="it waits for resources that others use",
            shortfall=(("cpu_milli", 1_000, 0),), remedies=("grid cancel train",),
        )  # fmt: skip

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
        if request.target.endswith("/explain"):
            return _said(msgspec.json.encode(self.why))
        if request.target.startswith("/v1/jobs/"):
            return _said(msgspec.json.encode(a_view("map:doubled", state=self.state)))
        if request.target.endswith("/feed"):
            self.fed.append(msgspec.msgpack.decode(request.body))
            news = MapNews(outcomes=self.outcomes, workers=self.workers, waiting=self.waiting)
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
    assert (told.workers, told.fed[0]["wait_ms"]) == (10, int(LONG_S * 1_000))
    told.run(mapping.converse())

    assert told.asked.count("/v1/nodes") == 1  # It is asked once.
    assert told.run(cores_around()) == 8_000


def warned(caplog) -> list[str]:
    return [one.getMessage() for one in caplog.records]


def test_a_map_whose_workers_have_not_begun_after_three_seconds_says_why_once(caplog):
    told, mapping = Told(cores_milli=2_000, waiting=1), a_map(workers=1)
    conversed(told, mapping, after_s=BEGIN_S - 0.1)
    assert warned(caplog) == []
    for after_s in (BEGIN_S, BEGIN_S + 0.1, BEGIN_S + LOOK_S, BEGIN_S + 2 * LOOK_S):
        mapping.begin_gathering(100.0 + after_s)
        told.run(mapping.converse())

    assert sum(target.endswith("/explain") for target in told.asked) == 3
    [said] = warned(caplog)
    assert said.startswith("job map:doubled waits: it waits for resources that others use; wants 1")
    assert said.endswith("cores, 0 cores free. What would help: grid cancel train")


def test_a_map_that_has_begun_says_nothing_and_asks_seldom(caplog):
    told, mapping = Told(cores_milli=2_000), a_map(workers=1)
    told.state = "running"
    conversed(told, mapping, after_s=BEGIN_S)
    told.outcomes = (MapOutcome(number=9, how="returned", data=b""),)
    told.run(mapping.converse())
    asked = len(told.asked)
    mapping.begin_gathering(100.0 + 2 * BEGIN_S)
    told.run(mapping.converse())

    assert warned(caplog) == []
    assert len(told.asked) == asked + 1  # What became of its calls, no more.
    assert told.fed[-1]["wait_ms"] == WAIT_MS


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
