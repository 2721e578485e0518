"""What a node is called, over restarts."""

import pytest

from tests.agent_lab import AgentLab


@pytest.fixture
def lab():
    made = AgentLab()
    yield made
    made.close()


def test_a_name_given_once_is_remembered(lab):
    for words in (("--name", "laptop"), ()):
        assert lab("up", "--detach", *words).returncode == 0, lab.log
        lab("run", "true")

        assert lab.json("status")["name"] == "laptop"
        assert {job["attempts"][-1]["node"] for job in lab.json("jobs")} == {"laptop"}
        lab("down")
    # Who says another now counts, also at the next start.
    for env, name in (({"GRID_NODE_NAME": "tray"}, "tray"), ({}, "laptop")):
        assert lab("up", "--detach", env=env).returncode == 0
        assert lab.json("status")["name"] == name
        lab("down")
