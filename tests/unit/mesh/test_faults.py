"""Peers whose words could not be handled: refused for a while, longer each time, then forgiven."""

import pytest

from distributed_grid.kernel.mesh.events import MeshReady
from distributed_grid.kernel.mesh.faults import FIRST_US, FORGOTTEN_US, MOST_US, Faults
from distributed_grid.model.ids import NodeId
from tests.unit.mesh.machine_lab import Host, Lab

PEER = NodeId("p" * 64)


def test_each_fault_doubles_the_wait_up_to_an_hour():
    faults, now_us, waits = Faults(), 5, []
    for _ in range(12):
        fault = faults.blame(PEER, "Report", now_us)
        waits.append(fault.until_us - now_us)
        now_us = fault.until_us
    assert waits[:3] == [FIRST_US, 2 * FIRST_US, 4 * FIRST_US]
    assert waits[-1] == MOST_US
    assert faults.total == 12


def test_who_made_no_fault_for_an_hour_begins_anew():
    faults = Faults()
    faults.blame(PEER, "Report", 0)
    until_us = faults.blame(PEER, "Report", 0).until_us
    assert (faults.count(PEER, until_us), faults.left_us(PEER, until_us)) == (2, 0)
    later_us = until_us + FORGOTTEN_US
    assert faults.count(PEER, later_us) == 0
    assert faults.blame(PEER, "Report", later_us).count == 1


def test_people_are_told_for_how_long_and_what_for():
    faults = Faults()
    assert faults.note(PEER, 0) == ""
    faults.blame(PEER, "Report", 0)
    assert faults.note(PEER, 1) == "refused here for 10s: its Report could not be handled"
    faults.blame(PEER, "Copy", 1)
    assert faults.note(PEER, 1).endswith("for 20s: its Copy could not be handled (2 times)")
    assert faults.note(PEER, 1 + 2 * FIRST_US) == ""


def blamed(host: Host, peer: Host) -> None:
    ready = MeshReady()
    host.mesh.blame(peer.id, "Report", "KeyError: 1", host.now, ready)
    host.do(ready)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_who_is_blamed_gets_no_link_for_a_while_and_then_has_one_again(lab):
    desk, attic = lab.mesh_of("desk", "attic")
    blamed(desk, attic)
    lab.cut(desk, attic, "fault")
    lab.run(5)

    assert desk.linked == set()
    refused = desk.mesh.greet(attic.id, attic.mesh.hello(attic.now), desk.now)
    assert refused is not None
    assert refused.reason == "busy"
    assert desk.sees(attic).note == refused.detail
    assert desk.sees(attic).faults == 1
    (told,) = desk.fields("mesh.fault")
    assert (told["kind"], told["why"], told["refused_ms"]) == ("Report", "KeyError: 1", 10_000)

    lab.run(10)
    assert desk.linked == {"attic"}
    assert desk.sees(attic).note == ""


def test_a_node_that_is_forgotten_takes_its_faults_along(lab):
    desk, attic = lab.mesh_of("desk", "attic")
    blamed(desk, attic)
    desk.mesh.forget(attic.id)
    assert desk.mesh.faults.count(attic.id, desk.now.mono_us) == 0
