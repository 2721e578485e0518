"""`grid events -f` beside a real agent: what it says last."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.agent_lab import AgentLab


@pytest.fixture
def lab():
    made = AgentLab().up()
    yield made
    made.close()


@pytest.mark.slow
def test_who_follows_is_told_that_the_agent_was_stopped(lab):
    following = subprocess.Popen(
        [sys.executable, "-P", "-m", "distributed_grid", "events", "-f"],
        env=lab.env,
        cwd=lab.dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = following.stdout.readline()
    down = lab("down")
    _, said = following.communicate(timeout=60)

    assert "agent.started" in first
    assert down.returncode == 0
    assert following.returncode == 4
    assert said.splitlines() == [
        "grid: no more events: the agent was stopped, or this was read too slowly"
    ]


def test_who_follows_hears_of_every_start_and_what_is_lost_between(lab):
    following = subprocess.Popen(
        [sys.executable, "-P", "-m", "distributed_grid", "events", "-f", "--json"],
        env=lab.env,
        cwd=lab.dir,
        stdout=subprocess.PIPE,
        text=True,
    )
    heard = [json.loads(following.stdout.readline())]
    assert lab("run", "true").returncode == 0
    while heard[-1]["name"] != "job.ended":
        heard.append(json.loads(following.stdout.readline()))
    os.kill(lab.pid(), signal.SIGKILL)
    gap, started = (json.loads(following.stdout.readline()) for _ in range(2))
    assert lab("down").returncode == 0
    following.communicate(timeout=60)

    assert [(one["epoch"], one["number"]) for one in heard] == [
        (1, n + 1) for n in range(len(heard))
    ]
    assert (gap["name"], gap["epoch"], gap["fields"]["after"]) == (
        "events.gap",
        2,
        f"1-{len(heard)}",
    )
    assert (started["name"], started["epoch"], started["number"]) == ("agent.started", 2, 1)


def test_the_id_of_an_event_continues_a_stream_also_as_a_header(lab):
    assert lab("run", "true").returncode == 0
    whole = server_sent(lab, "?after=0&follow=0")
    ids = [line.removeprefix("id: ") for line in whole if line.startswith("id: ")]

    assert ids[0] == "1-1"
    assert ids[1:] == [
        line.removeprefix("id: ")
        for line in server_sent(lab, "?follow=0", "Last-Event-ID: 1-1")
        if line.startswith("id: ")
    ]
    assert lab("down").returncode == 0
    lab.up()
    later = server_sent(lab, f"?after={ids[-1]}&follow=0")
    assert [line for line in later if line.startswith("event: ")][:2] == [
        "event: events.gap",
        "event: agent.started",
    ]
    assert "400" in server_sent(lab, "?after=yesterday")[0]


def server_sent(lab, query, *headers):
    head = "".join(f"{line}\r\n" for line in (*headers, "Host: grid", "Connection: close"))
    with lab.line() as line:
        line.sendall(f"GET /v1/events{query} HTTP/1.1\r\n{head}\r\n".encode())
        return b"".join(iter(lambda: line.recv(65_536), b"")).decode().splitlines()
