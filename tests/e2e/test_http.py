"""The agent's HTTP as any program sees it: the table of routes, problems, events, metrics."""

import getpass
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from distributed_grid.wire.api import ROUTES
from distributed_grid.wire.sharing import SHARING_ROUTES


@pytest.fixture
def agent(grid, tmp_path):
    home = tmp_path / "h"
    env = {"GRID_HOME": str(home)}
    assert grid("up", "--detach", env=env).returncode == 0
    yield home
    done = grid("down", "--stop-jobs", env=env)
    assert done.returncode == 0, done.stderr


def ask(home: Path, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request over the unix socket, by hand."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(str(home / "agent.sock"))
        head = f"{method} {path} HTTP/1.1\r\nHost: grid\r\nConnection: close\r\n"
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: line.recv(65_536), b""))
    headers, _, content = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in headers.lower():
        content = unchunked(content)
    return int(headers.split()[1]), content


def unchunked(content: bytes) -> bytes:
    whole = b""
    while content:
        size, _, content = content.partition(b"\r\n")
        whole += content[: int(size, 16)]
        content = content[int(size, 16) + 2 :]
    return whole


def a_submission(digit: str, argv: list[str]) -> bytes:
    work = {"argv": argv, "cwd": "/", "env": {"PATH": os.defpath}}
    spec = {"id": digit * 64, "name": f"job-{digit}", "request": {"cpu_milli": 100}, "work": work}
    return json.dumps({"jobs": [spec]}).encode()


def test_only_the_owner_can_use_the_socket(agent):
    assert stat.S_IMODE((agent / "agent.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(agent.stat().st_mode) == 0o700


def test_a_job_goes_in_and_its_output_comes_out(agent):
    status, _ = ask(agent, "POST", "/v1/jobs", a_submission("a", ["echo", "hello"]))
    assert status == 200
    status, body = ask(agent, "GET", "/v1/jobs/job-a/wait")

    assert (status, json.loads(body)["state"]) == (200, "succeeded")
    assert ask(agent, "GET", "/v1/jobs/job-a/logs") == (200, b"hello\n")


def test_a_submission_needs_only_the_words_of_a_command(agent, tmp_path):
    status, body = ask(
        agent, "POST", "/v1/jobs", b'{"argv": ["sh", "-c", "echo $PATH; ls | wc -l"]}'
    )
    (job,) = json.loads(body)["ids"]
    seen = json.loads(ask(agent, "GET", f"/v1/jobs/{job}/wait")[1])

    assert (status, seen["state"], seen["name"]) == (200, "succeeded", "sh")
    assert (seen["cpu_milli"], seen["user"]) == (1_000, getpass.getuser())
    path, files = ask(agent, "GET", f"/v1/jobs/{job}/logs")[1].decode().split()
    assert path.endswith(os.environ["PATH"])  # As the agent has it.
    assert files == "0"  # An empty directory.

    several = {"jobs": [{"argv": ["pwd"], "cwd": str(tmp_path)}, {"work": {"argv": ["true"]}}]}
    first, second = json.loads(ask(agent, "POST", "/v1/jobs", json.dumps(several).encode())[1])[
        "ids"
    ]
    assert json.loads(ask(agent, "GET", f"/v1/jobs/{second}/wait")[1])["state"] == "succeeded"
    assert json.loads(ask(agent, "GET", f"/v1/jobs/{first}/wait")[1])["state"] == "succeeded"
    assert ask(agent, "GET", f"/v1/jobs/{first}/logs")[1].decode() == f"{tmp_path}\n"


def test_an_id_of_ones_own_makes_a_short_submission_once(agent):
    wanted = {"id": "c" * 64, "argv": ["echo", "once"]}
    answers = [ask(agent, "POST", "/v1/jobs", json.dumps(wanted).encode()) for _ in range(2)]
    other = json.dumps({**wanted, "argv": ["echo", "other"]}).encode()
    status, problem = ask(agent, "POST", "/v1/jobs", other)

    assert answers[0][0] == answers[1][0] == 200
    assert len(json.loads(ask(agent, "GET", "/v1/jobs")[1])["jobs"]) == 1
    assert (status, json.loads(problem)["error"]) == (400, "Conflict")
    assert "leave it out" in json.loads(problem)["remedy"]


def test_all_mistakes_of_a_body_are_told_at_once(agent):
    wrong = {"argv": ["true", 7], "retries": "two", "timeout": 5, "after": [{}]}
    status, body = ask(agent, "POST", "/v1/jobs", json.dumps(wrong).encode())
    told = {
        one["path"]: (one["expected"], one["got"]) for one in json.loads(body)["facts"]["errors"]
    }

    assert status == 400
    assert told["argv[1]"] == ("str", "7")
    assert told["retries"] == ("int", "'two'")
    assert told["after[0].job"] == ("a value for job", "nothing")
    assert "timeout_ms" in told["timeout"][0]
    assert len(told) == 4

    mixed = {"jobs": [{"argv": [7], "timeout_ms": -1, "cwd": "x"}, {"work": 7, "retries": -1}, 7]}
    body = ask(agent, "POST", "/v1/jobs", json.dumps(mixed).encode())[1]
    paths = [one["path"] for one in json.loads(body)["facts"]["errors"]]
    assert sorted(paths) == [
        *(
            "jobs[0].argv[0]",
            "jobs[0].cwd",
            "jobs[0].timeout_ms",
            "jobs[1].retries",
            "jobs[1].work",
        ),
        "jobs[2]",
    ]
    many = {"jobs": [{"argv": [7]}] * 200}
    body = ask(agent, "POST", "/v1/jobs", json.dumps(many).encode())[1]
    assert len(json.loads(body)["facts"]["errors"]) == 100
    large = {"argv": ["true"], "request": {"cpu_milli": 10**30}}
    body = ask(agent, "POST", "/v1/jobs", json.dumps(large).encode())[1]
    (told,) = json.loads(body)["facts"]["errors"]
    assert (told["path"], told["expected"]) == ("request.cpu_milli", "int <= 1000000000")

    out_of_bounds = {"jobs": [{"argv": ["true"], "timeout_ms": -1, "retries": -1}, {"argv": [""]}]}
    body = ask(agent, "POST", "/v1/jobs", json.dumps(out_of_bounds).encode())[1]
    paths = [one["path"] for one in json.loads(body)["facts"]["errors"]]
    assert sorted(paths) == ["jobs[0].retries", "jobs[0].timeout_ms", "jobs[1].argv"]

    body = ask(agent, "POST", "/v1/jobs", b'{"jobs": [{"name": "x"}, {}]}')[1]
    assert [one["path"] for one in json.loads(body)["facts"]["errors"]] == [
        "jobs[0].argv",
        "jobs[1].argv",
    ]
    assert json.loads(ask(agent, "GET", "/v1/jobs")[1])["jobs"] == []


@pytest.mark.parametrize(
    ("wanted", "cpu_milli"), [({"memory_bytes": 1 << 20}, 1_000), ({"cpu_milli": 0}, 0)]
)
def test_who_does_not_say_how_many_cores_asks_for_one(agent, wanted, cpu_milli):
    body = json.dumps({"argv": ["true"], "request": wanted}).encode()
    (job,) = json.loads(ask(agent, "POST", "/v1/jobs", body)[1])["ids"]

    assert json.loads(ask(agent, "GET", f"/v1/jobs/{job}")[1])["cpu_milli"] == cpu_milli


def test_a_field_that_there_is_not_is_named_also_within_what_is_asked_for(agent):
    body = b'{"argv": ["true"], "request": {"cpus": 2, "gpus": {"count": 1}}}'
    status, problem = ask(agent, "POST", "/v1/jobs", body)
    told = {one["path"] for one in json.loads(problem)["facts"]["errors"]}

    assert (status, told) == (400, {"request.cpus", "request.gpus.count"})


def test_a_field_that_there_is_not_is_named_whatever_it_is_called(agent):
    for name in ("a.b", "x y", "max-losses", "é"):
        body = json.dumps({"argv": ["true"], name: 1}).encode()
        status, problem = ask(agent, "POST", "/v1/jobs", body)
        (told,) = json.loads(problem)["facts"]["errors"]
        assert (status, told["path"]) == (400, name)


def test_the_file_for_what_a_job_wrote_counts_from_its_directory(agent, tmp_path):
    work = {"argv": ["echo", "x"], "cwd": str(tmp_path), "log": "out"}
    (job,) = json.loads(ask(agent, "POST", "/v1/jobs", json.dumps({"work": work}).encode())[1])[
        "ids"
    ]
    ask(agent, "GET", f"/v1/jobs/{job}/wait")
    assert (tmp_path / "out").read_text() == "x\n"
    for wrong in ({"cwd": ""}, {"log": "a\0"}, {"log": "a" * 5_000}):
        body = json.dumps({"work": {**work, **wrong}}).encode()
        status, problem = ask(agent, "POST", "/v1/jobs", body)
        assert (status, json.loads(problem)["facts"]["errors"][0]["path"]) == (400, "work.log")


def test_the_openapi_document_names_every_route(agent):
    document = json.loads(ask(agent, "GET", "/openapi.json")[1])

    for route in (*ROUTES, *SHARING_ROUTES):
        assert route.method.lower() in document["paths"][route.path]


def test_who_waits_for_a_job_is_told_that_the_agent_goes_down(grid, agent):
    ask(agent, "POST", "/v1/jobs", a_submission("a", ["sleep", "60"]))
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(str(agent / "agent.sock"))
        line.sendall(b"GET /v1/jobs/job-a/wait HTTP/1.1\r\nHost: grid\r\n\r\n")
        ask(agent, "GET", "/v1/jobs/job-a")  # By now the other question has been read.
        ask(agent, "POST", "/v1/down", b'{"stop_jobs": false}')
        answer = b"".join(iter(lambda: line.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 503")
    assert b'"AgentLeft"' in answer
    assert "Traceback" not in (agent / "agent.log").read_text()
    assert grid("up", "--detach", env={"GRID_HOME": str(agent)}).returncode == 0  # Its job goes on.


def test_every_wrong_request_is_answered_with_a_problem(agent):
    wrong = [
        ("GET", "/v1/jobs/ghost", b"", 404, "NotFound"),
        ("POST", "/v1/jobs", b"{", 400, "BadValue"),
        ("POST", "/v1/jobs", b'{"jobs": 7}', 400, "BadValue"),
        ("GET", "/v1/jobs?limit=many", b"", 400, "BadValue"),
        ("GET", "/nowhere", b"", 404, "NotFound"),
        ("DELETE", "/v1/jobs", b"", 405, "NotFound"),
        ("GET", "/v1/jobs//wait", b"", 404, "NotFound"),
        ("GET", "/v1/jobs?state=junk", b"", 400, "BadValue"),
        ("POST", "/v1/jobs/wait", b'{"ids": ["x"], "timeout_ms": -10}', 400, "BadValue"),
        ("POST", "/v1/jobs/wait", b'{"ids": [], "timeout": 5}', 400, "BadValue"),
    ]
    for method, path, body, status, error in wrong:
        got, content = ask(agent, method, path, body)
        problem = json.loads(content)
        assert (got, problem["error"]) == (status, error), (path, content)
        assert problem["remedy"]


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(agent):
    for path, methods in (("/v1/jobs", b"GET, POST"), ("/v1/jobs/x/cancel", b"POST")):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(agent / "agent.sock"))
            line.sendall(
                b"DELETE %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path.encode()
            )
            answer = b"".join(iter(lambda: line.recv(65_536), b""))
        head = answer.partition(b"\r\n\r\n")[0].lower()

        assert head.startswith(b"http/1.1 405")
        assert b"\r\nallow: %s" % methods.lower() in head


def test_metrics_and_events_tell_what_happened(agent):
    ask(agent, "POST", "/v1/jobs", a_submission("b", ["false"]))
    ask(agent, "GET", "/v1/jobs/job-b/wait")
    text = ask(agent, "GET", "/metrics")[1].decode()

    assert 'grid_jobs_ended_total{state="failed"} 1' in text
    assert "# TYPE grid_cpu_milli gauge" in text
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(str(agent / "agent.sock"))
        line.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nHost: grid\r\n\r\n")
        heard = b""
        while b"event: job.ended" not in heard:
            heard += line.recv(65_536)
    for name in (b"agent.started", b"job.submitted", b"job.started"):
        assert b"event: " + name in heard
