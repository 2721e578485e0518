"""Jobs and nodes across the mesh through both clients, and what their agent refuses at the door."""
# ruff: noqa: F811  (fixtures come by import)

import socket

import msgspec
import pytest

from distributed_grid.client import across_calls
from distributed_grid.errors import BadValue, NotFound
from distributed_grid.wire.across_api import BringOutputs, DrainView, Pack, Safety
from tests.agent_lab import answer_of
from tests.agent_lab import request as a_request
from tests.agent_stand_in import CannedAgent, a_view, serving
from tests.contract.test_client import client, door  # noqa: F401  (fixtures)


def test_a_job_is_run_again_forced_and_known_to_be_safe(client, door):
    agent = CannedAgent(a_view("train", state="lost"))
    with serving(agent, door) as path:
        grid = client(path)

        assert grid("requeue", "train").state == "waiting"
        assert grid("force", grid("job", "train")).state == "waiting"
        assert grid("safe", "train").is_safe
        agent.across.safety = [Safety(id="a" * 64, copies=1, bytes_left=7)]
        assert grid("safe", "train").bytes_left == 7
        agent.across.safety = [Safety(id="a" * 64, copies=1)] * 2
        assert grid("safe", "train", timeout="1m").copies == 2
        with pytest.raises(NotFound):
            grid("requeue", "ghost")
        with pytest.raises(BadValue):
            grid("requeue", "")


def test_what_a_job_left_behind_is_put_into_a_directory(client, door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = CannedAgent(a_view("train"))
    with serving(agent, door) as path:
        grid = client(path)

        assert grid("outputs", "train").written == ("out.txt",)
        grid("outputs", grid("job", "train"), to=tmp_path / "x", overwrite=True)
        with pytest.raises(NotFound):
            grid("outputs", "ghost")
    wanted = [told[-1] for told in agent.across.asked if told[0] == "hand out"]
    assert wanted == [
        BringOutputs(directory=str(tmp_path)),
        BringOutputs(directory=f"{tmp_path}/x", overwrite=True),
    ]


def test_who_has_them_can_be_asked(door):
    import distributed_grid

    agent = CannedAgent(a_view("train"))
    with serving(agent, door) as path, distributed_grid.connect(path) as grid:
        found = grid._caller.run(across_calls.outputs("train"))

    assert (found.name, found.manifests, found.globs) == ("train", ("d" * 64,), ("**",))


def test_a_node_is_drained_and_undrained(client, door):
    agent = CannedAgent()
    busy = DrainView(id="a" * 64, name="attic", state="draining", jobs_running=1)
    agent.across.drained = [busy, busy, msgspec.structs.replace(busy, state="drained")]
    with serving(agent, door) as path:
        grid = client(path)

        assert grid("drain", "attic").state == "draining"
        assert grid("drain", "attic", timeout=None).state == "drained"
        assert [told for told in agent.across.asked if told[-1] == "now"] == []
        grid("drain", "attic", now=True)
        assert agent.across.asked[-1] == ("drain", 0, "now")
        assert grid("undrain", "attic").state == "open"
        with pytest.raises(NotFound):
            grid("drain", "nobody")
        for word in ("", "x" * 257):
            with pytest.raises(BadValue):
                grid("drain", word)


def test_a_drain_that_takes_too_long_says_how_far_it_is(client, door):
    agent = CannedAgent()
    agent.across.drained = [DrainView(id="a" * 64, name="attic", state="draining", jobs_running=1)]
    with serving(agent, door) as path:
        assert client(path)("drain", "attic", timeout=0.01).jobs_running == 1


def test_files_travel_with_a_job_that_python_submits(client, door, tmp_path):
    agent = CannedAgent()
    with serving(agent, door) as path:
        grid = client(path)
        grid("submit", ["x"], cwd=tmp_path, ship=[tmp_path / "data"], outputs=["*.csv"])
        grid("submit", ["x"], cwd=tmp_path, python_env=tmp_path / "uv.lock", node="gpu1", gang=2)
    first, second = agent.submitted
    packs = [wanted for what, wanted in agent.across.asked]

    assert (first.ship.files, first.python_env, first.outputs) == (2, "", ("*.csv",))
    assert (second.python_env, second.gang, second.require.nodes) == ("e" * 64, 2, ("gpu1",))
    assert packs == [
        Pack(directory=str(tmp_path), paths=(f"{tmp_path}/data",)),
        Pack(directory=str(tmp_path), python_env=f"{tmp_path}/uv.lock"),
    ]


def test_files_travel_with_jobs_of_a_pipeline_too(door, tmp_path):
    import distributed_grid

    agent = CannedAgent()
    with serving(agent, door) as path, distributed_grid.connect(path) as grid:
        with grid.pipeline() as pipeline:
            pipeline.submit(["x"], ship=str(tmp_path))
        assert agent.submitted[0].ship is not None


@pytest.mark.parametrize(
    ("target", "body", "status", "says"),
    [
        ("/v1/shipments", b'{"directory":"src"}', 400, "a path from / on"),
        ("/v1/shipments", b'{"directory":"/src","paths":["a\\u0000"]}', 400, "zero bytes"),
        (
            "/v1/shipments",
            b'{"directory":"/src","paths":[""]}',
            400,
            "paths[0]: expected str of length",
        ),
        ("/v1/shipments", b'{"directory":"/src","extra":1}', 400, "extra: expected one of"),
        ("/v1/jobs/x/outputs", b'{"directory":"out"}', 400, "a path from / on"),
        ("/v1/jobs/x/outputs", b'{"directory":"/a\\u0000"}', 400, "zero bytes"),
        ("/v1/jobs/ghost/outputs", b'{"directory":"/out"}', 404, "no job"),
        ("/v1/nodes/" + "x" * 300 + "/drain", b"", 404, "no node"),
        ("/v1/nodes/attic/drain?timeout_ms=-1", b"", 400, "timeout_ms"),
        ("/v1/nodes/attic/drain?now=2", b"", 400, "now from 0 to 1"),
        ("/v1/jobs/ghost/requeue", b"", 404, "no job"),
    ],
)
def test_what_no_client_of_ours_would_send_is_refused_at_the_door(door, target, body, status, says):
    with serving(CannedAgent(), door) as path, socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall(a_request("POST", target, body, close=True))
        answered, problem = answer_of(line)

    assert answered == status
    assert says in msgspec.json.decode(problem)["message"]
