"""Thirty real agents on one machine are one mesh, and hear of each other's changes."""

import pytest

from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

NAMES = [f"m{number:02}" for number in range(30)]
FORMED_S = 150  # After the last start. On an idle machine it is a second.


def test_thirty_agents_become_one_mesh():
    with MeshLab.on_loopback() as lab:
        first, *others = [lab.member(name) for name in NAMES]
        first.up()
        (first.root / "ticket").write_text(first.ticket("--uses", "29"))
        lab.bring_up(others, "--join", f"@{first.root / 'ticket'}")

        def missing() -> dict[str, int]:
            alive = {each.name: list(each.health().values()).count("alive") for each in lab.members}
            return {name: count for name, count in alive.items() if count != len(NAMES)}

        awaited(lambda: not missing(), missing, FORMED_S)
        last = lab.members[-1]
        job = last.says("run", "--detach", "--cpus", "1", "--", "sleep", "600").strip()
        awaited(lambda: all(each.nodes()["m29"].jobs_running == 1 for each in lab.members))
        last.says("cancel", job)
        for member in lab.members:
            assert set(member.health()) == set(NAMES)
            assert not member.events("mesh.clone", "mesh.refused")
