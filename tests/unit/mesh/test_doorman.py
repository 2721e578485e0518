"""The doorman: rates, lists, junk, bounded tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.errors import BadValue
from distributed_grid.kernel.mesh.doorman import (
    ENTRIES_MAX,
    FORGIVE_US,
    Buckets,
    DoorLimits,
    Doorman,
    network,
)
from distributed_grid.model.ids import NodeId

S_US = 1_000_000
LIMITS = DoorLimits(address_per_s=2, address_burst=4, peer_per_s=1, peer_burst=2)


def admitted(doorman, address, now_us, tries=100):
    return sum(doorman.admit(address, now_us) is None for _ in range(tries))


def test_an_address_gets_its_burst_and_then_its_rate():
    doorman = Doorman(limits=LIMITS)

    assert admitted(doorman, "192.0.2.1:4000", 0) == 4
    assert doorman.admit("192.0.2.1:4000", 0) == "busy"
    assert admitted(doorman, "192.0.2.1:5000", S_US) == 2
    assert admitted(doorman, "192.0.2.1", 100 * S_US) == 4


def test_one_address_does_not_use_up_anothers():
    doorman = Doorman(limits=LIMITS)
    admitted(doorman, "192.0.2.1:1", 0)

    assert admitted(doorman, "192.0.2.2:1", 0) == 4


def test_all_together_begin_so_many_handshakes_a_second():
    doorman = Doorman(limits=DoorLimits(handshakes_per_s=10, handshakes_burst=20))
    addresses = [f"10.{n // 250}.{n % 250}.1:1" for n in range(10_000)]

    assert sum(doorman.admit(address, 0) is None for address in addresses) == 20
    assert sum(doorman.admit(address, S_US) is None for address in addresses) == 10


def test_a_flood_from_one_address_leaves_the_common_budget_to_others():
    doorman = Doorman()
    admitted(doorman, "192.0.2.1:1", 0, tries=10_000)

    assert doorman.admit("192.0.2.2:1", 0) is None


def test_a_peer_that_keeps_coming_waits():
    doorman = Doorman(limits=LIMITS)
    node = NodeId("a" * 64)

    assert [doorman.admit_peer(node, 0) for _ in range(3)] == [None, None, "busy"]
    assert doorman.admit_peer(node, S_US) is None
    assert doorman.admit_peer(NodeId("b" * 64), 0) is None


def test_the_addresses_of_one_ipv6_network_count_together():
    doorman = Doorman(limits=LIMITS)

    assert sum(doorman.admit(f"[2001:db8::{n:x}]:1", 0) is None for n in range(20)) == 4
    assert doorman.admit("[2001:db8:0:1::1]:1", 0) is None


@pytest.mark.rows("S2-144", "S2-145")
@pytest.mark.parametrize(
    ("address", "allow", "deny", "answer"),
    [
        ("192.168.1.5:1", [], [], None),
        ("192.168.1.5:1", ["192.168.0.0/16"], [], None),
        ("10.0.0.1:1", ["192.168.0.0/16"], [], "denied"),
        ("192.168.1.5:1", ["192.168.0.0/16"], ["192.168.1.0/24"], "denied"),
        ("192.168.1.5:1", [], ["192.168.1.5"], "denied"),
        ("[::ffff:192.168.1.5]:1", [], ["192.168.1.5"], "denied"),
        ("192.168.1.5:1", [], ["::ffff:192.168.0.0/112"], "denied"),
        ("[fd00::1]:1", ["fd00::/8"], [], None),
        ("fe80::1%eth0", [], ["fe80::/10"], "denied"),
        ("[fd00::1]:1", ["10.0.0.0/8"], [], "denied"),
        ("[fd00::1]:1", [], ["::/96"], None),
        ("relay:http://relay.example", [], ["10.0.0.0/8"], None),
        ("relay:http://relay.example", ["10.0.0.0/8"], [], "denied"),
    ],
)
def test_lists_of_networks(address, allow, deny, answer):
    assert Doorman(allow=allow, deny=deny).admit(address, 0) == answer


@pytest.mark.parametrize("text", ["", "everybody", "10.0.0.0/33", "10.0.0.1:80"])
def test_a_network_that_is_none_is_refused(text):
    with pytest.raises(BadValue):
        network(text)


def test_junk_makes_the_next_ones_dearer_until_it_is_forgiven():
    doorman = Doorman(limits=DoorLimits(address_per_s=1, address_burst=8))
    for _ in range(2):
        doorman.count_bad("192.0.2.1:1", 0)

    assert admitted(doorman, "192.0.2.1:1", 0) == 2
    for _ in range(100):
        doorman.count_bad("192.0.2.1:1", 0)
    assert admitted(doorman, "192.0.2.1:1", 20 * S_US) == 1
    assert admitted(doorman, "192.0.2.1:1", FORGIVE_US) == 2
    assert admitted(doorman, "192.0.2.1:1", 4 * FORGIVE_US) == 8
    assert admitted(doorman, "192.0.2.2:1", 0) == 8


def test_the_table_is_bounded_and_forgets_who_was_not_seen_for_longest():
    buckets = Buckets(per_s=1, burst=1, entries_max=2)
    assert [buckets.take(key, 0) for key in "aba"] == [True, True, False]
    buckets.take("c", 0)

    assert len(buckets) == 2
    assert not buckets.take("a", 0)
    assert buckets.take("b", 0)


@given(
    st.lists(st.tuples(st.integers(0, 10 * S_US), st.sampled_from(["take", "worsen"]))),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_nobody_gets_more_than_burst_and_rate_even_if_the_clock_jumps(steps, per_s, burst):
    buckets = Buckets(per_s=per_s, burst=burst)
    taken = 0
    for at_us, what in steps:
        if what == "take":
            taken += buckets.take("one", at_us)
        else:
            buckets.worsen("one", at_us)
    passed_us = max((at_us for at_us, _ in steps), default=0)

    assert taken * S_US <= burst * S_US + passed_us * per_s


def test_ten_thousand_addresses_are_remembered_in_bounds():
    doorman = Doorman()
    for number in range(2 * ENTRIES_MAX):
        doorman.admit(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1", 0)

    assert len(doorman._addresses) == ENTRIES_MAX
