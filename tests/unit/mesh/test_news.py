"""What follows from an entry that is new: each event once, with its fields."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.event_names import BY_NAME
from distributed_grid.kernel.mesh.events import MeshReady
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import Entry
from distributed_grid.wire.mesh_records import NodeProfile, Offered
from tests.unit.mesh.machine_lab import Lab

ENCODE = msgspec.msgpack.encode


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.rows("S2-106", "S2-15")
def test_who_joins_is_told_once_by_everyone_else(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    lab.run(3)

    assert founder.names("node.joined") == [("node.joined", "member"), ("node.joined", "third")]
    assert sorted(third.names("node.joined")) == [
        ("node.joined", "founder"),
        ("node.joined", "member"),
    ]
    assert founder.fields("node.joined")[0] == {"node": member.id, "name": "member"}


def test_a_renewed_chain_is_not_a_second_joining(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = MeshReady()
    member.mesh.membership.rename("bench", lab.now, ready)
    member.do(ready)
    lab.run(2)

    assert len(founder.fields("node.joined")) == 1


@pytest.mark.rows("S2-108")
@pytest.mark.parametrize("key", ["profile", "offers"])
def test_a_new_profile_and_new_offers_are_told(lab, key):
    founder, member = lab.mesh_of("founder", "member")
    founder.events.clear()
    values = {
        "profile": NodeProfile(node_class="edge", version="2"),
        "offers": Offered(lines=("cpu 2",)),
    }
    member.say(**{key: ENCODE(values[key])})
    lab.run(1)

    assert founder.fields("node.updated") == [{"node": member.id, "name": "member", "what": key}]


def test_a_new_load_or_coordinate_is_nothing_to_tell(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.events.clear()
    member.say(load=ENCODE({"cpu_milli_free": 1, "memory_bytes_free": 1}), coordinate=b"\x80")
    lab.run(1)

    assert founder.events == []


def test_a_node_that_withdraws_its_goodbye_or_chain_is_not_told_as_gone_or_come(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.events.clear()
    changed = [Entry(member.id, 9, key, 1, b"") for key in ("left", "chain")]
    ready = MeshReady()
    founder.mesh.taken(changed, lab.now, ready)

    assert ready.happened == []
    assert member.id in founder.mesh.membership.known


def test_what_others_say_of_us_is_no_news(lab):
    founder, _member = lab.mesh_of("founder", "member")
    ready = MeshReady()
    founder.mesh.taken([Entry(founder.id, 9, "left", 1, b"1")], lab.now, ready)

    assert ready.happened == []


def test_a_revocation_that_is_none_throws_nobody_out(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = MeshReady()
    founder.mesh.taken([Entry(member.id, 9, "revoked", 1, b"junk")], lab.now, ready)

    assert ready.happened == []
    assert founder.mesh.roster.is_member(member.id)


def test_a_new_address_is_dialled_at_once(lab):
    founder, member, _third = lab.mesh_of("founder", "member", "third")
    lab.unreachable.add(frozenset(("founder", "member")))
    lab.cut(founder, member, "test")
    lab.run(40)  # By now it waits for half a minute or so between tries.
    founder.steps.clear()
    moved = Contact(node=member.id, addresses=("elsewhere:1",))
    member.say(contact=member.mesh.reach_value(moved))
    lab.run(1.5)

    assert moved in [contact for step in founder.steps for contact in step.dial]


def test_a_moved_node_whose_address_cannot_be_read_is_let_be(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.say(contact=b"\xa1\xff")
    lab.run(1)

    assert founder.mesh.quarantined == {}
    assert founder.linked == {"member"}


def test_every_event_has_its_name_in_the_table_and_no_other_fields(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    founder.do(founder.mesh.membership.kick(third.id, lab.now))
    member.down()
    lab.run(5)
    member.up()
    lab.run(3)

    for host in (founder, member, third):
        for event in host.events:
            allowed = {"node", "name", *BY_NAME[event.name].fields}
            assert set(event.fields) <= allowed, event
            assert event.at_ms <= lab.wall_ms
