"""One node's lives: starting again, an old disk, two machines under one key."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.events import Heard, LinkUp
from distributed_grid.kernel.mesh.news import QUARANTINE_US
from distributed_grid.kernel.mesh.trust import machine_in_mesh
from distributed_grid.model.membership import GRACE_MS, Contact
from distributed_grid.wire.mesh import CloneSeen, Entry, Goodbye, Remember
from distributed_grid.wire.mesh_records import NodeLoad
from tests.unit.mesh.machine_lab import DAY_MS, WALL_MS, Lab

ENCODE = msgspec.msgpack.encode


@pytest.fixture
def lab() -> Lab:
    return Lab()


# Starting again


def test_a_start_begins_a_new_generation_which_is_saved_before_anything_is_sent(lab):
    _founder, member = lab.mesh_of("founder", "member")
    before = member.mesh.replica.generation
    member.down()
    member.steps.clear()
    member.up()
    lab.run(1)

    first = next(step for step in member.steps if step.messages or step.save or step.dial)
    assert first.messages == []
    assert int.from_bytes(first.save["mesh.generation"], "big") == before + 1
    assert "mesh.own" in first.save
    assert sum("mesh.own" in step.save for step in member.steps) == 1
    assert member.mesh.replica.generation == before + 1


def test_after_a_start_everyone_is_known_and_dialled_and_nothing_is_told_as_new(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    lab.run(3)
    member.down()
    member.events.clear()
    member.up()

    assert member.members == {"founder", "member", "third"}
    assert member.sees(third).cpu_milli_total == 4_000
    lab.run(3)
    assert member.linked == {"founder", "third"}
    assert member.names("node.joined", "node.updated") == []
    assert founder.names("node.joined").count(("node.joined", "member")) == 1


def test_who_was_away_for_longer_than_the_grace_starts_from_what_others_know(lab):
    _founder, member, _third = lab.mesh_of("founder", "member", "third")
    lab.run(3)
    member.down()
    lab.pass_ms(GRACE_MS + DAY_MS)
    member.up()
    assert member.members == {"member"}

    lab.run(3)
    assert member.members == {"founder", "member", "third"}


def test_who_left_is_forgotten_by_machines_that_start_again_all_the_time(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    third.do(third.mesh.membership.leave(lab.now))
    lab.run(1)
    third.do(third.mesh.membership.gone(lab.now))
    third.is_up = False
    for day in range(1, 9):
        lab.pass_ms(DAY_MS)
        lab.run(1)
        host = (founder, member)[day % 2]
        host.down()
        host.up()
        lab.run(1)
        knows = [third.id in each.mesh.replica.nodes() for each in (founder, member)]
        assert knows == [day < 7, day < 7] or day == 7
    assert third.id not in founder.mesh.roster.chains
    assert not founder.mesh.replica.is_news(
        Entry(third.id, 1, "load", 1, b"x")
    )  # Nor does it come back from whoever still has it.


def test_when_an_admin_was_last_seen_is_known_after_a_start(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.run(61)
    seen_ms = member.mesh.roster.delegate_seen_ms
    member.down()
    founder.down()
    lab.pass_ms(1_000)
    member.up()

    assert member.mesh.roster.delegate_seen_ms == seen_ms > WALL_MS


@pytest.mark.rows("S0-86")
def test_an_old_disk_does_not_roll_anybody_back(lab):
    founder, member = lab.mesh_of("founder", "member")
    old = dict(member.disk)
    for free in range(3):
        member.down()
        member.up()
        member.say(load=ENCODE(NodeLoad(cpu_milli_free=free, memory_bytes_free=0)))
        lab.run(2)
    member.down()
    member.disk = old
    member.up()
    member.say(load=ENCODE(NodeLoad(cpu_milli_free=77, memory_bytes_free=0)))
    lab.run(3)

    assert founder.sees(member).cpu_milli_free == member.sees(member).cpu_milli_free == 77
    saved = int.from_bytes(member.disk["mesh.generation"], "big")
    assert saved == member.mesh.replica.generation == founder.mesh.replica.generation_of(member.id)


def test_who_lost_its_disk_but_not_its_key_learns_in_which_life_it_was(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.mesh.liveness.incarnation_of = lambda node: 41
    member.down()
    member.up()
    lab.run(2)

    said = [m for name, m in founder.sent if isinstance(m, Remember)]
    assert said[-1].incarnation == 41
    assert member.mesh.liveness.incarnation > 41


def test_a_generation_that_rises_is_saved_in_the_same_step(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = member.told(founder, Remember(generation=500))

    assert ready.save["mesh.generation"] == (501).to_bytes(8, "big")


def test_a_copy_of_what_is_known_is_saved_soon_after_somebody_came(lab):
    founder, _member = lab.mesh_of("founder", "member")
    lab.run(60)
    founder.disk.pop("mesh.known")
    (guest,) = lab.add("guest")
    guest.join(founder)
    lab.run(0.5)
    assert "mesh.known" not in founder.disk

    lab.run(2.5)
    assert guest.id.encode() in founder.disk["mesh.known"]


def test_a_clock_that_went_back_while_the_agent_was_down_is_no_absence(lab):
    _founder, member = lab.mesh_of("founder", "member")
    lab.run(3)
    member.down()
    lab.wall_ms -= 40 * DAY_MS
    member.up()

    assert member.members == {"founder", "member"}


# Clones


@pytest.mark.rows("S2-141")
def test_two_machines_under_one_key_are_noticed_by_others_and_told_to_both(lab):
    founder, member = lab.mesh_of("founder", "member")
    (copy,) = lab.add("member", machine="another machine")
    copy.disk = dict(member.disk)
    copy.up()
    lab.run(20)

    assert founder.sees(member).note == "two machines use this key"
    assert founder.names("mesh.clone") == [("mesh.clone", "member")]
    for host in (member, copy):
        note = host.views()[0].note
        assert note.startswith("two machines use this key; ")
        assert "grid up --new-identity" in note
        assert host.names("mesh.clone") == [("mesh.clone", "member")]
    assert member.fields("mesh.clone")[0]["machine"] == copy.mesh.machine
    assert copy.fields("mesh.clone")[0]["machine"] == member.mesh.machine != copy.mesh.machine


def test_a_clone_that_is_gone_is_forgotten_after_ten_minutes_and_told_of_if_it_comes_back(lab):
    founder, member = lab.mesh_of("founder", "member")
    (copy,) = lab.add("member", machine="another machine")
    copy.disk = dict(member.disk)
    copy.up()
    lab.run(20)
    copy.down()
    lab.run(3)
    lab.pass_ms(QUARANTINE_US // 1_000 - 60_000)
    lab.run(1)
    assert set(founder.mesh.quarantined) == set(member.mesh.quarantined) == {member.id}

    lab.pass_ms(120_000)
    lab.run(1)
    assert founder.mesh.quarantined == member.mesh.quarantined == {}
    assert len(founder.names("mesh.clone")) == len(member.names("mesh.clone")) == 1

    copy.up()
    lab.run(20)
    member.up()
    copy.up()
    lab.run(20)
    assert len(founder.names("mesh.clone")) == 2


def test_a_machine_is_called_otherwise_in_every_mesh(lab):
    founder, member = lab.mesh_of("founder", "member")
    other = lab.found("other", machine=member.machine)
    here = machine_in_mesh(member.machine, founder.mesh.id)

    assert member.mesh.hello(lab.now).machine == here
    assert founder.mesh.said.reach(member.id).machine == here
    assert founder.mesh.said.reach(founder.id).nonce == founder.mesh.start.nonce
    assert other.mesh.said.reach(other.id).machine not in {here, member.machine, ""}
    (alone,) = lab.add("alone")
    assert alone.mesh.hello(lab.now).machine == ""


def test_a_machine_that_only_starts_again_is_no_clone(lab):
    founder, member = lab.mesh_of("founder", "member")
    for _ in range(4):
        member.down()
        member.up()
        lab.run(2)

    assert founder.mesh.quarantined == member.mesh.quarantined == {}


def test_being_told_of_oneself_is_no_clone(lab):
    founder, member = lab.mesh_of("founder", "member")
    machine, nonce = member.mesh.machine, member.mesh.start.nonce
    member.told(founder, CloneSeen(machine=machine, nonce=nonce))
    assert member.mesh.quarantined == {}

    member.told(founder, CloneSeen(machine=machine, nonce="another start"))
    assert set(member.mesh.quarantined) == {member.id}


def test_a_clone_that_only_gossip_tells_of_is_noticed(lab):
    founder, member, _third = lab.mesh_of("founder", "member", "third")
    lab.cut(founder, member, "test")
    lab.unreachable.add(frozenset(("founder", "member")))
    start = member.mesh.start
    for machine in ("elsewhere", start.machine, "elsewhere"):
        member.mesh.start = msgspec.structs.replace(start, machine=machine, nonce=machine)
        contact = Contact(node=member.id, addresses=("member:1",))
        member.mesh.replica.begin_generation(lab.mono_us)
        member.say(contact=member.mesh.reach_value(contact))
        lab.run(1)

    assert founder.sees(member).note == "two machines use this key"


def test_a_copy_of_what_another_mesh_knows_brings_nobody_in(lab):
    (founder,) = lab.mesh_of("founder")
    other, _ = lab.mesh_of("other", "guest")
    founder.down()
    founder.disk["mesh.known"] = other.disk["mesh.known"]
    founder.up()

    assert founder.members == {"founder"}
    assert founder.mesh.roster.delegate_seen_ms == 0
    assert founder.mesh.replica.nodes() == [founder.id]


def test_who_was_told_to_stop_reads_down_at_once_until_it_is_heard_again(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    founder.told(member, Goodbye(reason="restarting", is_down=True))
    late = founder.mesh.step(Heard(now=lab.now, peer=member.id, datagram=b"\xff"))

    assert founder.sees(member).health == "down"
    assert founder.sees(member).why == ""
    assert late.hang_up == []  # Sent before its last word: nobody looks at it.
    assert founder.sees(third).health == "alive"

    # Both had dialled, and the other's link comes up only now.
    late_hello = member.mesh.hello(lab.now)
    assert founder.mesh.greet(member.id, late_hello, lab.now).detail == "it said goodbye"
    late_link = founder.mesh.step(LinkUp(now=lab.now, peer=member.id, hello=late_hello))
    assert late_link.hang_up == [(member.id, "leaving")]
    assert founder.sees(member).health == "down"

    again = member.up().mesh.hello(lab.now)
    assert founder.mesh.greet(member.id, again, lab.now) is None
    founder.mesh.step(LinkUp(now=lab.now, peer=member.id, hello=again))
    assert founder.sees(member).health == "alive"
    founder.told(third, Goodbye(reason="idle"))
    assert founder.sees(third).health == "alive"
