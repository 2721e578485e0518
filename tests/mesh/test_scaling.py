"""Machines rest while there is little to do, and come back when there is much."""

import asyncio
from typing import Self

import pytest

from distributed_grid.cluster_mesh import ClusterMesh, ClusterScaler, ScalingPolicy
from distributed_grid.cluster_mesh.scaler import Scaled
from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

HOUR_S = 3_600


class Owner:
    """Takes a step of a scaler now and then, by a clock of its own."""

    def __init__(self, member) -> None:
        self._runner = asyncio.Runner()
        socket = str(member.home / "agent.sock")
        self._mesh = self._runner.run(ClusterMesh.new(socket=socket))
        self._now_s = 0.0
        self._scaler = ClusterScaler(
            self._mesh, ScalingPolicy(), spares=("attic", "barn"), clock_s=lambda: self._now_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._mesh.close())
        self._runner.close()

    def steps(self, later_s: float) -> Scaled:
        """What a step does so much later."""
        self._now_s += later_s
        return self._runner.run(self._scaler.step())


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


@pytest.mark.rows("S0-82")
def test_machines_rest_and_come_back_with_the_work(gate):
    with MeshLab.on_wire(("desk", "attic", "barn"), config=PLAIN) as lab:
        desk = lab["desk"]
        lab.form(lab.members)

        def resting() -> set[str]:
            return {name for name, node in desk.nodes().items() if node.is_draining}

        with Owner(desk) as owner:
            assert owner.steps(0).rest == ()  # That nothing is to be done has to last.
            first = owner.steps(HOUR_S)
            assert (first.nodes, set(first.rest)) == (1, {"attic", "barn"})
            awaited(lambda: resting() == {"attic", "barn"})

            words = [submitted(desk, "--cpus", "1", "--", *gate.words("true")) for _ in range(4)]
            for word in words[:2]:
                assert once(desk, word, "running")["node"] == "desk"
            awaited(lambda: desk.nodes()["desk"].cpu_milli_free == 0)
            assert {job(desk, word)["state"] for word in words[2:]} == {"waiting"}
            assert owner.steps(1).woken == ()  # The cooldown.
            more = owner.steps(HOUR_S)
            assert (more.nodes, more.woken) == (2, ("attic",))
            for word in words[2:]:
                assert once(desk, word, "running")["node"] == "attic"
            awaited(lambda: resting() == {"barn"})

            gate.open()
            assert over(desk, *words) == {"succeeded"}
            idle = 2 * [2_000]
            awaited(
                lambda: [desk.nodes()[name].cpu_milli_free for name in ("desk", "attic")] == idle
            )
            assert owner.steps(HOUR_S).rest == ("attic",)
