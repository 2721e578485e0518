"""The agent's HTTP as any program sees it: the table of routes, problems, events, metrics."""

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
