"""Addresses as people write them, and which of this machine's are told to others."""

import ipaddress
import socket

import pytest

from distributed_grid.edges.transport import CannotListen, addresses
from distributed_grid.edges.transport.trying import check_listen
from distributed_grid.errors import BadValue
from distributed_grid.model.interfaces import is_container_bridge

HERE = [
    ipaddress.ip_address(text)
    for text in ("8.8.4.4", "127.0.0.1", "192.168.1.5", "::1", "2001:4860::1", "fe80::1")
]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("", 0)),
        (":4000", ("", 4000)),
        ("10.0.0.1", ("10.0.0.1", 0)),
        ("10.0.0.1:4000", ("10.0.0.1", 4000)),
        ("[fd00::1]:4000", ("fd00::1", 4000)),
        ("[fd00::1]", ("fd00::1", 0)),
        ("fd00::1", ("fd00::1", 0)),
        ("host.example:4000", ("host.example", 4000)),
    ],
)
def test_host_and_port_are_told_apart(text, parts):
    assert addresses.split(text) == parts


@pytest.mark.parametrize("text", ["10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:x", "host:1"])
def test_where_nobody_can_listen_is_refused(text):
    with pytest.raises(BadValue):
        addresses.bind_address(text)


@pytest.mark.parametrize(
    ("listen", "kept_port", "bound"),
    [
        ("", 0, "0.0.0.0:0"),
        ("", 4100, "0.0.0.0:4100"),
        (":4000", 4100, "0.0.0.0:4000"),
        ("10.0.0.1", 4100, "10.0.0.1:4100"),
        ("fd00::1", 0, "[fd00::1]:0"),
    ],
)
def test_the_owner_decides_where_to_listen(listen, kept_port, bound):
    assert addresses.bind_address(listen, kept_port=kept_port) == bound


def test_neighbours_come_first_and_loopback_is_not_told():
    told = addresses.reachable(["0.0.0.0:4000", "[::]:4001"], HERE)

    assert told == ["192.168.1.5:4000", "8.8.4.4:4000", "[2001:4860::1]:4001"]


def test_who_listens_on_one_address_tells_that_one():
    assert addresses.reachable(["192.168.1.5:4000"], HERE) == ["192.168.1.5:4000"]


def test_loopback_is_told_if_there_is_nothing_else():
    assert addresses.reachable(["127.0.0.1:4000"], HERE) == ["127.0.0.1:4000"]


def test_bridges_of_containers_are_left_out():
    bridges = ["docker0", "br-0123456789ab", "veth1a2b", "virbr0", "cni0"]

    assert all(is_container_bridge(name) for name in bridges)
    assert not any(is_container_bridge(name) for name in ["eth0", "wlp2s0", "br0", "wg0"])


async def test_addresses_that_cannot_be_understood_are_left_out():
    found = await addresses.resolved(
        ["10.0.0.1:4000", "nobody.invalid:1", "10.0.0.1:x", "10.0.0.1", "[fd00::1]:7", "\x00:1"]
    )

    assert found == ["10.0.0.1:4000", "[fd00::1]:7"]


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:0", ":0", "[::]:0"])
def test_where_this_machine_can_listen_is_fine(listen):
    check_listen(listen)


@pytest.mark.parametrize("listen", ["192.0.2.7", "192.0.2.7:4711", "[2001:db8::7]:4711"])
def test_an_address_of_another_machine_cannot_be_listened_on(listen):
    with pytest.raises(CannotListen, match=r"assign|not available"):
        check_listen(listen)


def test_a_port_that_somebody_has_cannot_be_listened_on():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 0))
        with pytest.raises(CannotListen, match="in use"):
            check_listen(f"127.0.0.1:{holder.getsockname()[1]}")
