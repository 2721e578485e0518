"""Who submits on one node and who submits on another get equal shares of a third."""

import json
from collections import Counter

import pytest

from tests.mesh_jobs import PLAIN, Gate, once, over, submitted
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow

FIRST = 8  # Of sixteen: by age alone they would all be desk's.


def test_two_who_submit_on_two_nodes_get_equal_shares_of_a_third(tmp_path):
    """Each of the first ends only when both are in line: so who is slow to ask is not passed."""
    gate, order = Gate(tmp_path / "gate"), tmp_path / "order"
    gates = [Gate(tmp_path / f"gate-{number}") for number in range(1, FIRST + 1)]
    script = f">>{order}; flock --shared {tmp_path}/gate-$(wc -l <{order}) true"
    with MeshLab.on_loopback() as lab:
        lab.form([lab.member(name, config=PLAIN) for name in ("desk", "attic", "barn")])
        held = submitted(lab["barn"], "--node", "barn", "--cpus", "2", *gate.words("true"))
        once(lab["barn"], held, "running")
        words = {
            name: [
                submitted(lab[name], "--node", "barn", "--cpus", "2", "--wait-for-capacity", "--",
                          "sh", "-c", f"echo {name} {script}")
                for _ in range(8)
            ]
            for name in ("desk", "attic")
        }  # fmt: skip
        awaited(lambda: waiting(lab["barn"]) == {"desk", "attic"})
        gate.open()
        for number, one in enumerate(gates, start=1):
            awaited(lambda number=number: len(ran(order)) >= number)
            left = set(words) - {name for name, count in Counter(ran(order)).items() if count == 8}
            awaited(lambda left=left: waiting(lab["barn"]) >= left)
            one.open()
        for name, some in words.items():
            assert over(lab[name], *some) == {"succeeded"}

    half = Counter(ran(order)[:FIRST])
    assert min(half["desk"], half["attic"]) >= 3, ran(order)


def ran(order) -> list[str]:
    return order.read_text().split() if order.exists() else []


def waiting(member: Member) -> set[str]:
    """From which nodes those are that stand in line there."""
    entries = json.loads(member.says("jobs", "--queue", "--json"))["entries"]
    return {entry["user"].partition("@")[2] for entry in entries}
