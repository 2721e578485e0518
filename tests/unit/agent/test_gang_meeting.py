"""Where ranks could meet: an address that others know, and a port that is free."""

import socket
from types import SimpleNamespace

import pytest

from distributed_grid.agent import gang_meeting
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact

ME = NodeId("a" * 64)


def side(contact):
    return SimpleNamespace(mesh=SimpleNamespace(me=ME, contact=lambda node: contact))


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (("192.168.1.7:4433", "10.0.0.1:1"), "192.168.1.7"),
        (("[fe80::1]:4433",), "fe80::1"),
        ((), ""),
    ],
)
def test_the_most_promising_address_is_told(addresses, expected):
    address, port = gang_meeting.meeting_place(side(Contact(node=ME, addresses=addresses)))
    assert address == expected
    assert port > 0


def test_who_does_not_know_its_address_tells_the_port_alone():
    address, port = gang_meeting.meeting_place(side(None))
    assert (address, port > 0) == ("", True)


def test_the_port_is_free():
    port = gang_meeting.free_port()
    with socket.create_server(("", port)):
        pass


def test_without_a_free_port_there_is_none(monkeypatch):
    def refuse(*_):
        raise OSError

    monkeypatch.setattr(socket, "create_server", refuse)
    assert gang_meeting.free_port() == 0
