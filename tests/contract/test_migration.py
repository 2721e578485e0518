"""A link outlives a change of address, a pulled cable and loss: two hosts on one wire."""

import subprocess
import time

import pytest

from tests.conftest import ROOT
from tests.namespaces import Wire, python

CHILD = "tests.contract.migrating_child"


@pytest.fixture
def talk():
    """Two hosts whose link carries an answer each 50 ms; the caller's host, and its answers."""
    with Wire(2) as wire:
        server_host, caller_host = wire.hosts
        options = {"stdout": subprocess.PIPE, "cwd": ROOT}
        server = server_host.start(python("-m", CHILD, "serve"), **options)
        contact = server.stdout.readline().decode().strip()
        caller = caller_host.start(python("-m", CHILD, "call", contact), **options)
        try:
            yield caller_host, caller.stdout
        finally:
            for process in (caller, server):
                process.kill()
                process.communicate()


def answers(stream, count):
    lines = [stream.readline().decode().split() for _ in range(count)]
    assert lines[-1], "the caller died"
    assert lines[-1][0] != "closed", lines[-1]
    return lines


@pytest.mark.slow
@pytest.mark.rows("S2-95")
def test_a_link_outlives_a_new_address(talk):
    host, stream = talk
    answers(stream, 3)
    host.move("10.77.0.99")
    since_s = time.monotonic()
    while not answers(stream, 1)[0][1].startswith("10.77.0.99:"):
        pass
    answers(stream, 3)

    assert time.monotonic() - since_s < 20


@pytest.mark.slow
def test_a_link_outlives_a_pulled_cable(talk):
    host, stream = talk
    answers(stream, 3)
    host.unplug()
    host.plug_in()
    answers(stream, 20)


@pytest.mark.slow
def test_messages_come_through_loss(talk):
    host, stream = talk
    host.lose(30)
    numbers = [int(line[0]) for line in answers(stream, 40)]
    host.lose(0)

    assert numbers == list(range(1, 41))
