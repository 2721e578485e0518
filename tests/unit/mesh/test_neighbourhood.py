"""When the neighbours are worked out again: as often as something about them changes, not more."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.coordinates import Coordinate, packed
from distributed_grid.kernel.mesh.neighbourhood import DRIFT_US
from distributed_grid.kernel.mesh.rules import MeshRules
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import Delta
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Offered, Position
from tests.unit.mesh.machine_lab import Lab

ENCODE = msgspec.msgpack.encode


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def founder(lab):
    founder, _member = lab.mesh_of("founder", "member")
    return founder


def at(x_us: int) -> bytes:
    return ENCODE(Position(coordinate=packed(Coordinate(x_us=x_us))))


def place(lab):
    return lab.hosts[0].mesh.neighbourhood.place()


def test_offers_and_a_profile_of_the_same_class_change_nothing(lab, founder):
    member = lab.hosts[1]
    before = place(lab)
    profile = NodeProfile(node_class="workstation", version="2", cores=8)
    member.say(offers=ENCODE(Offered(lines=("cpu 2",))), profile=ENCODE(profile))
    lab.run(0.5)

    assert founder.sees(member).version == "2"
    assert place(lab) is before


def test_another_class_is_looked_at_at_once(lab, founder):
    before = place(lab)
    lab.hosts[1].say(profile=ENCODE(NodeProfile(node_class="edge", version="1")))
    lab.run(0.5)

    assert place(lab) is not before


def test_whether_a_node_can_be_dialled_is_looked_at_at_once_but_not_another_address(lab, founder):
    member = lab.hosts[1]
    before = place(lab)
    member.say(contact=ENCODE({"contact": Contact(node=member.id, addresses=("elsewhere:1",))}))
    lab.run(0.5)
    assert place(lab) is before

    member.say(contact=ENCODE({"contact": Contact(node=member.id)}))
    lab.run(0.5)
    assert place(lab) is not before


def test_places_that_drift_are_followed_every_ten_seconds_at_most(lab, founder):
    member = lab.hosts[1]
    places = [place(lab)]
    for step in range(40):
        member.say(coordinate=at(1_000 * step))
        lab.run(0.5)
        places += [place(lab)] if place(lab) is not places[-1] else []

    assert 2 <= len(places) - 1 <= 20_000_000 // DRIFT_US + 1
    assert founder.mesh.said.coordinate(member.id) == Coordinate(x_us=39_000)


def sparse(lab, *, is_hidden):
    """A node in a mesh of twelve, and another that is linked with it but no neighbour of it."""
    names = [f"n{number}" for number in range(12)]
    leaf, *hubs = lab.mesh_of(*names, rules=MeshRules(connections_max=6))
    if is_hidden:
        leaf.say(contact=ENCODE({"contact": Contact(node=leaf.id)}))
    lab.run(2)
    former = next(hub for hub in hubs if leaf.id not in hub.mesh.neighbours())
    lab.dial(leaf, former.id)
    return leaf, former


@pytest.mark.parametrize("is_hidden", [True, False])
def test_only_who_cannot_be_dialled_needs_a_former_hub(lab, is_hidden):
    leaf, former = sparse(lab, is_hidden=is_hidden)

    assert leaf.id in former.mesh.links
    assert former.mesh.neighbourhood.hidden() == ([leaf.id] if is_hidden else [])


def test_who_cannot_be_dialled_is_told_news_by_a_hub_that_is_no_longer_its_own(lab):
    """It would stay with its former hubs for want of news of the new ones."""
    leaf, former = sparse(lab, is_hidden=True)
    lab.run(0.3)
    former.sent.clear()
    former.say(load=ENCODE(NodeLoad(cpu_milli_free=77, memory_bytes_free=0)))
    lab.run(0.3)

    told = [entry for name, each in former.sent if name == leaf.name and isinstance(each, Delta)
            for entry in each.entries if entry.node == former.id]  # fmt: skip
    assert told


def test_its_own_class_is_looked_at_at_once(lab, founder):
    before = place(lab)
    founder.say(profile=ENCODE(NodeProfile(node_class="edge", version="1")))

    assert place(lab) is not before


def test_who_was_never_counted_on_is_no_news(lab, founder):
    before = place(lab)
    founder.mesh.neighbourhood.moved("f" * 64)

    assert place(lab) is before


def test_the_place_of_the_last_mesh_is_forgotten_with_it(lab, founder):
    member = lab.hosts[1]
    lab.run(5)
    here = Coordinate(x_us=50_000)
    for _ in range(9):
        member.mesh.positioning.learn(founder.id, here, 90_000)
    fresh = lab.add("fresh")[0].mesh.positioning.coordinate
    assert member.mesh.positioning.coordinate != fresh
    member.do(member.mesh.membership.leave(lab.now))
    lab.run(0.5)
    assert founder.mesh.present() == [founder.id]
    member.do(member.mesh.membership.gone(lab.now))

    assert member.mesh.positioning.coordinate == fresh
    assert member.mesh.present() == []
    assert member.mesh.neighbours() == ()
