"""Who submits on one node and who submits on another get equal shares of a third."""

from collections import Counter

import pytest

from tests.mesh_jobs import PLAIN, Gate, once, over, submitted
from tests.mesh_lab import MeshLab

pytestmark = pytest.mark.slow


def test_two_who_submit_on_two_nodes_get_equal_shares_of_a_third(tmp_path):
    gate, order = Gate(tmp_path / "gate"), tmp_path / "order"
    with MeshLab.on_loopback() as lab:
        lab.form([lab.member(name, config=PLAIN) for name in ("desk", "attic", "barn")])
        held = submitted(lab["barn"], "--node", "barn", "--cpus", "2", *gate.words("true"))
        once(lab["barn"], held, "running")
        words = {
            name: [
                submitted(lab[name], "--node", "barn", "--cpus", "2", "--wait-for-capacity", "--",
                          "sh", "-c", f"echo {name} >>{order}")
                for _ in range(8)
            ]
            for name in ("desk", "attic")
        }  # fmt: skip
        gate.open()
        for name, some in words.items():
            assert over(lab[name], *some) == {"succeeded"}

    half = Counter(order.read_text().split()[:8])  # By age alone they would all be desk's.
    assert min(half["desk"], half["attic"]) >= 3, order.read_text()
