"""What a mesh has together grows and shrinks with its machines, while work runs on it."""

import pytest

from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted, told, tries
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def totals(member) -> str:
    return member.says("top").partition(" free;")[0]


def running(member, words: list[str]) -> list[tuple[str, int]]:
    """Where each of them runs, and as which process."""
    last = [once(member, word, "running")["attempts"][-1] for word in words]
    return [(one["node"], one["pid"]) for one in last]


@pytest.mark.rows("S0-80", "S0-81")
def test_a_machine_comes_and_goes_and_no_work_is_disturbed_or_lost(gate):
    with MeshLab.on_wire(("desk", "attic", "barn"), config=PLAIN) as lab:
        desk, attic, barn = lab.members
        lab.form([desk, attic])
        ticket = desk.ticket()
        words = [submitted(desk, "--cpus", "1", "--", *gate.words("true")) for _ in range(4)]
        before = running(desk, words)
        assert {node for node, _ in before} == {"desk", "attic"}
        extra = submitted(desk, "--cpus", "1", "--", *gate.words("echo", "$GRID_NODE"))
        awaited(lambda: totals(desk) == "2 nodes; 0 of 4 cores")
        assert job(desk, extra)["state"] == "waiting"

        barn.up("--join", ticket)
        assert once(desk, extra, "running")["node"] == "barn"
        awaited(lambda: totals(attic) == "3 nodes; 1 of 6 cores")
        assert running(desk, words) == before

        desk.says("drain", "barn")
        awaited(lambda: job(desk, extra)["state"] == "waiting", lambda: job(desk, extra))
        barn.says("leave")
        awaited(lambda: totals(attic) == "2 nodes; 0 of 4 cores")
        assert running(desk, words) == before
        gate.open()
        assert over(desk, *words, extra) == {"succeeded"}
        assert tries(desk, extra)[0] == "barn"
        assert [reason for _, reason in told(desk, extra, "waiting")] == ["gave way"]
        assert [len(tries(desk, word)) for word in words] == [1] * 4
