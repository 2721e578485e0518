"""Are heartbeats small, and the same at both ends?"""

import pytest

from distributed_grid.wire import heartbeat as wire
from distributed_grid.wire.heartbeat import Heartbeat
from distributed_grid.wire.mesh import PREVIOUS, PROTOCOL
from tests.liveness_model import node


def a_beat(**changes) -> Heartbeat:
    return Heartbeat(wire.BEAT, 0x03_1234, 0xFEED_BEEF, **changes)


@pytest.mark.rows("S0-84")
def test_a_heartbeat_of_thirty_machines_is_small_and_comes_back_whole():
    members = wire.joined(wire.packed_member(number, 7, wire.ALIVE, 90) for number in range(29))
    beat = a_beat(members=members, sent_us=1, echo_us=2, held_us=3)

    datagram = wire.encode(beat)

    assert wire.decode(datagram) == beat
    assert len(datagram) == 22 + 29 * 9


def test_the_previous_version_is_still_spoken_and_has_no_clocks():
    beat = a_beat(version=PREVIOUS, members=wire.packed_member(1, 2, wire.DEAD, 3))
    told = wire.decode(wire.encode(beat))

    assert told == beat
    assert not told.has_clocks
    assert a_beat(version=PROTOCOL).has_clocks


def test_a_member_keeps_its_stamp_and_its_health_and_never_gets_younger():
    packed = wire.packed_member(0xABCD, 0xFE_FFFF, wire.SUSPECT, 10_001)

    assert list(wire.members_of(packed)) == [(0xABCD, 0xFE, 0xFFFF, wire.SUSPECT << 14 | 2)]


def test_a_very_old_age_is_as_old_as_can_be_said():
    ((*_, word),) = wire.members_of(wire.packed_member(1, 1, wire.DEAD, 10**12))

    assert word == wire.DEAD << 14 | wire.AGE_UNITS_MAX


def test_more_members_than_fit_are_cut_between_two():
    members = wire.joined(wire.packed_member(number, 1, 0, 0) for number in range(1_000))
    datagram = wire.encode(a_beat(members=members))

    assert len(datagram) <= wire.DATAGRAM_BYTES_MAX
    assert len(list(wire.members_of(wire.decode(datagram).members))) == wire.MEMBERS_MAX == 125


@pytest.mark.parametrize(
    ("stamp", "known", "later"),
    [(1, 0, True), (0, 0, False), (0, 1, False), (0, 0xFF_FFFF, True), (0xFF_FFFF, 0, False)],
)
def test_stamps_go_round(stamp, known, later):
    assert wire.is_later(stamp, known) is later


@pytest.mark.parametrize(
    ("junk", "problem"),
    [
        (b"", "0 bytes"),
        (bytes(2_000), "2000 bytes"),
        (b"\x09" + bytes(21), "version 9"),
        (b"\x02\x05" + bytes(20), "kind 5"),
        (wire.encode(a_beat()) + b"?", "with 0 members"),
        (wire.encode(a_beat())[:-1], "with 0 members"),
    ],
)
def test_junk_is_refused_and_says_why(junk, problem):
    with pytest.raises(ValueError, match=problem):
        wire.decode(junk)


def test_a_short_id_is_the_beginning_of_the_long_one():
    assert f"{wire.short_id(node(1)):08x}" == node(1)[:8]
