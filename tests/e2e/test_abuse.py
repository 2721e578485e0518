"""Strangers at the agent's socket: whatever they send, or do not read, others are served."""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributed_grid.client.cluster import connect
from tests.agent_lab import AgentLab, answer_of, request
from tests.keeper_lab import wait_until

pytestmark = pytest.mark.slow

REQUESTS = 100_000
REQUESTS_S_MAX = 60
HALF_OPEN = 1_000
CROWD = 400  # Fits into the queue of a socket whose owner does not look.
RSS_GROWTH_MAX = 50 << 20
HEALTH_MS_MAX = 50
ID = "ab" * 32


@pytest.fixture(scope="module")
def one_lab() -> Iterator[AgentLab]:
    made = AgentLab().up()
    warm_up(made)
    yield made
    made.close()


@pytest.fixture
def lab(one_lab: AgentLab) -> Iterator[AgentLab]:
    """Whatever a test does to it: afterwards the agent is the same, small, quick and silent."""
    before, pid = one_lab.rss_bytes(), one_lab.pid()
    yield one_lab

    assert one_lab.pid() == pid, one_lab.log
    assert one_lab.health_ms() < HEALTH_MS_MAX
    assert one_lab.rss_bytes() - before < RSS_GROWTH_MAX
    assert "Traceback" not in one_lab.log
    assert len(one_lab.log.splitlines()) < 10, one_lab.log
    assert one_lab("run", "echo", "well").stdout == b"well\n"


def warm_up(lab: AgentLab) -> None:
    """What is loaded and allocated once is not growth."""
    for path in ("/health", "/v1/status", "/v1/jobs", "/metrics", "/openapi.json", "/nowhere"):
        lab.http("GET", path)
    lab("run", "true")


def test_a_hundred_thousand_requests_of_one_client(lab):
    mix = ["/health", "/v1/status", "/health", "/nowhere", "/v1/jobs?limit=-1"] * 10
    mix[7] = f"/v1/jobs/{ID}"
    wanted = [200, 200, 200, 404, 400] * 10
    wanted[7] = 404
    words = b"".join(request("GET", path) for path in mix)
    started = time.monotonic()
    with lab.line() as line:
        for _ in range(REQUESTS // len(mix)):
            line.sendall(words)
            assert statuses(line, len(mix)) == wanted

    assert time.monotonic() - started < REQUESTS_S_MAX


def statuses(line: socket.socket, count: int) -> list[int]:
    """Of so many answers, each of which says how long it is."""
    found, data = [], b""
    while len(found) < count:
        head, end, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0]) if end else 0
        if end and len(rest) >= length:
            found.append(int(head.split()[1]))
            data = rest[length:]
        else:
            part = line.recv(1 << 16)
            assert part, found
            data += part
    assert not data
    return found


def test_clients_that_send_half_a_request_do_not_shut_others_out(lab):
    with contextlib.ExitStack() as lines:
        for number in range(HALF_OPEN):
            line = lines.enter_context(lab.line())
            line.sendall(b"GET /health HTTP/1.1\r\nx-number: %d\r\n" % number)

        assert lab.http("GET", "/health")[0] == 200
        assert lab("run", "echo", "served").stdout == b"served\n"


def test_a_client_that_drips_its_head_is_let_go(lab):
    """Slowloris: one line now and then, for ever. Room is made before the time is over."""
    # Clients of the tests before are older, and would be let go first.
    files = Path(f"/proc/{lab.pid()}/fd")
    wait_until(lambda: len(list(files.iterdir())) < HALF_OPEN // 10)
    with lab.line() as slow, contextlib.ExitStack() as lines:
        slow.sendall(b"GET /health HTTP/1.1\r\n")
        for _ in range(HALF_OPEN + 10):
            lines.enter_context(lab.line())
        slow.settimeout(10)

        assert slow.recv(1) == b""


def test_of_a_crowd_that_came_while_the_agent_was_busy_the_first_is_let_go(lab):
    """All of them are met in one turn of its loop: the clock does not tell who was first."""
    files = Path(f"/proc/{lab.pid()}/fd")
    wait_until(lambda: len(list(files.iterdir())) < HALF_OPEN // 10)
    with contextlib.ExitStack() as lines:
        os.kill(lab.pid(), signal.SIGSTOP)
        try:
            first, *others = [lines.enter_context(lab.line()) for _ in range(CROWD)]
        finally:
            os.kill(lab.pid(), signal.SIGCONT)
        for _ in range(HALF_OPEN + 1 - CROWD):
            lines.enter_context(lab.line())
        first.settimeout(10)

        assert first.recv(1) == b""
        lab.http("GET", "/health")  # Takes the place of the second.
        others[0].settimeout(10)
        assert others[0].recv(1) == b""
        assert all(is_open(other) for other in others[1:])


def is_open(line: socket.socket) -> bool:
    """Whether the agent has neither said anything nor gone."""
    line.setblocking(False)
    try:
        line.recv(1)
    except BlockingIOError:
        return True
    return False


def test_a_head_without_end_is_cut(lab):
    with lab.line() as line:
        line.sendall(b"GET /health HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(100):
                line.sendall(b"x-%d: %s\r\n" % (number, b"y" * 8_000))
        status, body = answer_of(line)

    assert status in (431, 0)
    assert not body or b"too long" in body


@pytest.mark.parametrize(
    "junk",
    [
        b"\0" * 1_000,
        os.urandom(4_096),
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # A TLS greeting.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"GET \xff\xfe HTTP/1.1\r\n\r\n",
    ],
)
def test_junk_gets_a_problem_or_nothing(lab, junk):
    with lab.line() as line:
        line.sendall(junk)
        line.shutdown(socket.SHUT_WR)
        line.settimeout(5)
        try:
            status, body = answer_of(line)
        except TimeoutError:
            return  # It waits for the rest, within its limits.

    assert status in (0, 400), body
    assert not status or json.loads(body)["remedy"]


def test_an_upgrade_is_not_made(lab):
    head = b"GET /health HTTP/1.1\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n"
    with lab.line() as line:
        line.sendall(head + b"sec-websocket-key: YQ==\r\nsec-websocket-version: 13\r\n\r\n")
        line.settimeout(2)
        with contextlib.suppress(TimeoutError):
            assert b"101" not in line.recv(64)


def test_a_body_that_is_too_long_is_refused_before_it_is_read(lab):
    with lab.line() as line:
        line.sendall(
            b"POST /v1/jobs HTTP/1.1\r\ncontent-length: 68157440\r\nconnection: close\r\n\r\n"
        )
        status, body = answer_of(line)

    assert (status, json.loads(body)["error"]) == (400, "BadValue")


def test_a_body_that_is_too_long_and_does_not_say_so_is_cut(lab):
    part = b"100000\r\n" + b"[" * (1 << 20) + b"\r\n"
    with lab.line() as line:
        line.sendall(b"POST /v1/jobs HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(65):
                line.sendall(part)
        head = line.recv(4_096)

    assert head.startswith(b"HTTP/1.1 400"), head


def a_job(**fields: object) -> dict[str, object]:
    work = {"argv": ["true"], "cwd": "/tmp", "env": {}}
    return {"id": ID, "name": "job", "work": work, "request": {}, **fields}


def a_work(**fields: object) -> dict[str, object]:
    return a_job(work={"argv": ["true"], "cwd": "/tmp", "env": {}, **fields})


BAD_JOBS = [
    a_job(id="../../etc/passwd"),
    a_job(id="AB" * 32),
    a_job(id=7),
    a_job(name=""),
    a_job(name="x" * 1_000),
    a_job(name="a\nb"),
    a_job(work=None),
    a_work(argv=[]),
    a_work(argv="true"),
    a_work(argv=["a\0b"]),
    a_work(cwd="relative"),
    a_work(env={"A=B": "c"}),
    a_work(env={"A": 1}),
    a_work(timeout_ms=-1),
    a_work(timeout_ms=10**30),
    a_work(image="x" * 5_000),
    a_job(request={"cpu_milli": -1}),
    a_job(request={"cpu_milli": 10**30}, wait_for_capacity=True),
    a_job(request={"cpu_milli": 1.5}),
    a_job(request={"gpus": {"milli": 10**30}}, wait_for_capacity=True),
    a_job(require={"latency_us_max": 10**30}),
    a_job(array={"start": 0, "stop": 10**18}),
    a_job(array={"start": 5, "stop": 5}),
    a_job(array={"start": 0, "stop": 5, "step": 0}),
    a_job(array={"start": 0, "stop": 5, "width": -1}),
    a_job(retries=-1),
    a_job(losses_max=10**12),
]


@pytest.mark.parametrize("job", BAD_JOBS, ids=lambda job: json.dumps(job)[:60])
def test_a_job_that_cannot_be_is_refused(lab, job):
    status, body = lab.http("POST", "/v1/jobs", json.dumps({"jobs": [job]}).encode())

    assert (status, json.loads(body)["error"]) == (400, "BadValue")
    assert lab.http("GET", f"/v1/jobs/{ID}")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"jobs":' * 50_000,
        b'{"jobs": 7}',
        b'{"jobs": [{}]}',
        b'{"jobs": ["\\ud800"]}',
        b"\xff\xfe",
        b"null",
        b'{"jobs": [' + b'"x",' * 100_000 + b'"x"]}',
    ],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_bad_json_is_a_problem(lab, body):
    status, answer = lab.http("POST", "/v1/jobs", body)

    assert (status, json.loads(answer)["error"]) == (400, "BadValue")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/jobs/..%2f..%2fetc%2fpasswd", 404),
        ("/v1/jobs/..%2f../logs", 404),
        ("/v1/jobs/%00", 404),
        ("/v1/jobs/%ff%fe", 404),
        ("/v1/jobs/" + "x" * 30_000, 404),
        ("//v1//jobs", 404),
        ("/v1/jobs/" + "a" * 64, 404),
        ("/v1/jobs/" + "a" * 64 + "/logs", 404),
        ("/v1/jobs/" + "a" * 64 + "/wait", 404),
        ("/v1/jobs?limit=-5", 400),
        ("/v1/jobs?limit=99999999999999999999999", 400),
        ("/v1/jobs?limit=--5", 400),
        ("/v1/jobs?limit=%D9%A3", 400),
        ("/v1/jobs?before_ms=1e9", 400),
        ("/v1/jobs?state=%00", 400),
        ("/v1/events?after=-2", 400),
        ("/v1/jobs/x/logs?offset=-1", 400),
        ("/v1/jobs/x/logs?stream=../stdout", 400),
        ("/v1/jobs/x/wait?timeout_ms=-1", 400),
    ],
)
def test_tricks_with_paths_and_queries_are_answered_in_words(lab, path, status):
    found, body = lab.http("GET", path)

    assert found == status, body[:200]
    assert status == 200 or json.loads(body)["remedy"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_methods_nobody_offers_are_refused(lab, method):
    assert lab.http(method, "/v1/jobs")[0] in (404, 405)


def test_readers_that_stop_reading_cost_little_and_hinder_nobody(lab):
    """Twenty megabytes of log and thousands of events, asked for by clients that read nothing."""
    job = lab.detached("sh", "-c", "yes 0123456789abcdef | head -c 20000000")
    assert lab("wait", job).returncode == 0
    before = lab.rss_bytes()
    with contextlib.ExitStack() as lines:
        for number in range(100):
            line = lines.enter_context(lab.line())
            path = f"/v1/jobs/{job}/logs?follow=1" if number % 2 else "/v1/events?after=0"
            line.sendall(request("GET", path))
        with connect(str(lab.home / "agent.sock")) as cluster:
            jobs = [cluster.submit(["true"], cwd="/tmp") for _ in range(500)]
            codes = {cluster.wait(job.id, timeout=30).exit_code for job in jobs}

        assert codes == {0}
        assert lab.rss_bytes() - before < RSS_GROWTH_MAX
        assert lab.health_ms() < HEALTH_MS_MAX


def test_a_reader_that_comes_back_gets_all_of_it(lab):
    job = lab.detached("sh", "-c", "yes 0123456789abcdef | head -c 5000000")
    assert lab("wait", job).returncode == 0
    with lab.line() as line:
        line.sendall(request("GET", f"/v1/jobs/{job}/logs", close=True))
        lab.health_ms()  # Others meanwhile; then all of it.
        status, body = answer_of(line)

    assert status == 200
    assert unchunked(body) == (b"0123456789abcdef\n" * 300_000)[:5_000_000]


def unchunked(body: bytes) -> bytes:
    parts, at = [], 0
    while length := int(body[at : (start := body.index(b"\r\n", at) + 2)], 16):
        parts.append(body[start : start + length])
        at = start + length + 2
    return b"".join(parts)


def test_clients_that_vanish_in_the_middle_leave_nothing_open(lab):
    job = lab.detached("sleep", "60")
    files = Path(f"/proc/{lab.pid()}/fd")
    before = len(list(files.iterdir()))
    for number in range(300):
        path = [f"/v1/jobs/{job}/wait", f"/v1/jobs/{job}/logs?follow=1", "/v1/events"][number % 3]
        with lab.line() as line:
            line.sendall(request("GET", path))
    lab("cancel", job)

    wait_until(lambda: len(list(files.iterdir())) <= before + 5)


def test_what_lies_in_the_directory_of_the_caller_is_no_part_of_the_agent():
    lab = AgentLab()
    try:
        for name in ("http.py", "msgspec.py", "distributed_grid.py"):
            (lab.dir / name).write_text("raise SystemExit('a stranger ran')\n")
        lab.up()

        assert "stranger" not in lab.log
    finally:
        lab.close()
