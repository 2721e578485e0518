"""Leaving by oneself, and being thrown out: told everywhere, for good."""

import msgspec
import pytest

from distributed_grid.errors import NotPermitted
from distributed_grid.model.membership import GRACE_MS
from distributed_grid.wire.mesh import Delta, Renew, Renewed
from tests.unit.mesh.machine_lab import DAY_MS, Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def leave(lab: Lab, host) -> None:
    host.do(host.mesh.membership.leave(lab.now))
    lab.run(0.2)
    host.do(host.mesh.membership.gone(lab.now))


def kick(lab: Lab, by, who) -> None:
    by.do(by.mesh.membership.kick(who.id, lab.now))


@pytest.mark.rows("S2-107")
def test_who_leaves_is_seen_to_leave_and_is_not_missed(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    leave(lab, member)
    lab.run(5)

    for host in (founder, third):
        assert host.names("node.left", "node.dead", "node.suspect") == [("node.left", "member")]
        assert (host.sees(member).health, host.sees(member).why) == ("left", "it said goodbye")
        assert host.linked == {"founder", "third"} - {host.name}


def test_a_goodbye_is_said_until_everyone_linked_has_taken_it(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = member.mesh.membership.leave(lab.now)

    assert any(isinstance(message, Delta) for _, message in ready.messages)
    assert member.mesh.membership.unaware() == [founder.id]
    member.do(ready)
    lab.run(0.2)
    assert member.mesh.membership.unaware() == []
    assert member.mesh.membership.leave(lab.now).messages == []


def test_who_has_nobody_to_say_goodbye_to_is_told_so(lab):
    founder, member = lab.mesh_of("founder", "member")
    assert member.mesh.membership.unaware() == [founder.id]
    founder.down()
    lab.run(5)

    assert founder.id not in member.mesh.links
    assert member.mesh.membership.unaware() is None


def test_who_left_remembers_nothing_but_its_generation(lab):
    _founder, member = lab.mesh_of("founder", "member")
    leave(lab, member)

    assert {key for key, value in member.disk.items() if value} == {"mesh.generation"}
    assert (member.mesh.is_member, member.mesh.id, member.views()) == (False, None, ())
    assert member.tick().datagrams == []
    assert not member.up().mesh.is_member


def test_who_comes_back_is_younger_than_its_goodbye(lab):
    founder, member = lab.mesh_of("founder", "member")
    leave(lab, member)
    member.up().join(founder)
    lab.run(3)

    assert founder.sees(member).health == "alive"
    assert founder.names("node.joined", "node.left") == [
        ("node.joined", "member"),
        ("node.left", "member"),
        ("node.joined", "member"),
    ]


def test_a_dial_that_was_under_way_does_not_hinder_the_next_mesh(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.mesh.dialling.under_way.add(founder.id)
    leave(lab, member)
    member.join(founder)
    lab.run(1)

    assert member.linked == {"founder"}


def test_the_authority_of_a_mesh_that_was_left_signs_nothing_in_another(lab):
    founder, other = lab.found("founder"), lab.found("other")
    leave(lab, other)
    other.join(founder)
    lab.run(2)
    lab.pass_ms(61 * DAY_MS)
    lab.run(3)

    assert founder.sees(other).health == "alive"
    assert other.mesh.membership.chain[0].issuer == founder.id


def test_leaving_twice_or_without_a_mesh_says_nothing(lab):
    (alone,) = lab.add("alone")

    assert alone.mesh.membership.leave(lab.now).messages == []


def test_who_left_long_ago_is_forgotten(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    leave(lab, member)
    lab.run(1)
    lab.pass_ms(GRACE_MS + 60_000)
    lab.run(2)

    for host in (founder, third):
        assert [each.name for each in host.views()] == [host.name, *(host.linked)]
        assert member.id not in host.mesh.liveness.wanted_links()
        assert host.members == {"founder", "third"}


def test_the_last_admin_is_warned_while_there_are_others(lab):
    founder = lab.found("founder")
    (member, admin) = lab.add("member", "admin")
    assert not founder.mesh.membership.is_last_delegate()

    member.join(founder)
    lab.run(2)
    assert founder.mesh.membership.is_last_delegate()
    assert not member.mesh.membership.is_last_delegate()

    admin.join(founder, "admin")
    lab.run(2)
    assert not founder.mesh.membership.is_last_delegate()
    leave(lab, member)
    leave(lab, admin)
    lab.run(1)
    assert not founder.mesh.membership.is_last_delegate()
    assert not admin.mesh.membership.is_last_delegate()


# Thrown out


@pytest.mark.rows("S2-140", "S2-141")
def test_who_is_thrown_out_is_out_everywhere_and_knows_it(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    kick(lab, founder, member)
    lab.run(3)

    for host in (founder, third):
        assert host.members == {"founder", "third"}
        assert host.linked == {"founder", "third"} - {host.name}
        assert host.fields("node.left") == [{"node": member.id, "name": "member", "why": "revoked"}]
        assert host.mesh.replica.value(member.id, "profile") == b""
        assert host.mesh.said.reach(member.id) is None
    assert member.linked == set()
    assert member.views()[0].note == "revoked by an admin of the mesh"
    assert ("mesh.refused", "member") in member.names("mesh.refused")


def test_who_hears_it_from_a_third_gets_the_proof_before_it_is_let_go(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    lab.cut(founder, member, "test")
    lab.unreachable.add(frozenset(("founder", "member")))
    kick(lab, founder, member)
    lab.run(1)

    assert member.mesh.membership.was_revoked
    proofs = [message for name, message in third.sent if name == "member"][-1]
    assert isinstance(proofs, Delta)
    assert [entry.key for entry in proofs.entries] == ["revoked"]


def test_an_old_certificate_does_not_bring_anybody_back(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    hello = member.mesh.hello(lab.now)
    kick(lab, founder, member)
    lab.run(3)
    for host in (founder, third):
        host.up()
    lab.run(3)

    for host in (founder, third):
        assert host.mesh.greet(member.id, hello, lab.now).reason == "revoked"
        assert host.members == {"founder", "third"}
    assert member.linked == set()


def test_a_revocation_outlives_a_long_absence_of_who_knows_it(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    hello = member.mesh.hello(lab.now)
    kick(lab, founder, member)
    lab.run(3)
    third.down()
    lab.pass_ms(GRACE_MS + DAY_MS)
    third.up()

    assert third.mesh.greet(member.id, hello, lab.now).reason == "revoked"


def test_it_still_knows_that_it_was_thrown_out_after_a_start(lab):
    founder, member = lab.mesh_of("founder", "member")
    kick(lab, founder, member)
    lab.run(65)
    member.up()

    assert member.views()[0].note == "revoked by an admin of the mesh"


def test_what_is_signed_after_the_end_by_who_is_out_enters_nowhere(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    entry = member.mesh.replica.entry(member.id, "profile")
    kick(lab, founder, member)
    lab.run(1)
    forged = msgspec.structs.replace(entry, generation=2**40)
    signed = msgspec.structs.replace(
        forged, signature=member.key.sign(forged.signed_bytes(founder.mesh.id))
    )
    third.told(founder, Delta(number=77, entries=(signed,)))

    assert third.mesh.roster.verify(signed)
    assert third.mesh.replica.value(member.id, "profile") == b""


def test_members_of_a_revoked_admin_are_signed_again_by_another_and_strangers_are_out(lab):
    founder = lab.found("founder")
    thief, known, stranger = lab.add("thief", "known", "stranger")
    thief.join(founder, "admin")
    lab.run(2)
    known.join(thief)
    lab.run(3)
    for other in (founder, known):
        lab.unreachable.add(frozenset(("stranger", other.name)))
    lab.unreachable.add(frozenset(("thief", "founder")))
    lab.unreachable.add(frozenset(("thief", "known")))
    stranger.join(thief)
    kick(lab, founder, thief)
    lab.unreachable.clear()
    lab.run(8)

    assert founder.members == known.members == {"founder", "known"}
    assert known.mesh.membership.chain[0].issuer == founder.id
    assert known.views()[0].roles == ("member",)
    assert founder.mesh.greet(stranger.id, stranger.mesh.hello(lab.now), lab.now).reason == (
        "revoked"
    )


def test_who_was_away_when_its_admin_was_revoked_fetches_the_new_certificate(lab):
    founder = lab.found("founder")
    thief, known = lab.add("thief", "known")
    thief.join(founder, "admin")
    lab.run(2)
    known.join(thief)
    lab.run(3)
    known.down()
    kick(lab, founder, thief)
    lab.run(3)
    assert known.id in founder.mesh.roster.standings

    known.up()
    lab.run(70)
    assert known.linked == {"founder"}
    assert known.mesh.membership.chain[0].issuer == founder.id
    assert founder.sees(known).health == "alive"


def test_only_admins_sign_again(lab):
    founder = lab.found("founder")
    thief, known, witness = lab.add("thief", "known", "witness")
    thief.join(founder, "admin")
    witness.join(founder)
    lab.run(2)
    known.join(thief)
    lab.run(3)
    kick(lab, founder, thief)
    lab.run(3)

    assert not any(isinstance(message, Renewed) for _, message in witness.sent)
    assert known.members == witness.members == {"founder", "witness", "known"}


def test_a_name_that_is_not_printable_is_not_signed_again(lab):
    founder = lab.found("founder")
    thief, known = lab.add("thief", "known")
    thief.join(founder, "admin")
    lab.run(2)
    known.join(thief)
    lab.run(3)
    lab.pass_ms(89 * DAY_MS)
    founder.mesh.membership.authority = None
    lab.pass_ms(2 * DAY_MS)  # Its own certificate has ended: it signs nothing more.
    kick(lab, founder, thief)

    assert known.id not in founder.mesh.roster.standings


def test_nobody_throws_out_the_one_on_whose_word_it_is_an_admin(lab):
    founder = lab.found("founder")
    (admin,) = lab.add("admin")
    admin.join(founder, "admin")
    lab.run(2)

    with pytest.raises(NotPermitted, match="on the word of the one to be thrown out"):
        kick(lab, admin, founder)
    assert admin.members == {"founder", "admin"}


def test_with_the_key_of_the_authority_even_the_founder_can_be_thrown_out(lab):
    founder = lab.found("founder")
    admin, member = lab.add("admin", "member")
    admin.join(founder, "admin")
    lab.run(2)
    member.join(admin)
    lab.run(2)
    admin.mesh.membership.hold_authority(lab.keys.make("authority of founder"))
    kick(lab, admin, founder)
    lab.run(5)

    assert admin.members == member.members == {"admin", "member"}
    assert admin.mesh.membership.chain[0].issuer == admin.mesh.id
    assert founder.mesh.membership.was_revoked


def test_a_node_that_was_never_heard_of_can_be_thrown_out(lab):
    founder, member = lab.mesh_of("founder", "member")
    (stranger,) = lab.add("stranger")
    kick(lab, founder, stranger)
    lab.run(2)

    assert founder.names("node.left") == []
    assert stranger.id in member.mesh.roster.revoked


def test_a_revocation_that_nobody_was_entitled_to_has_no_effect(lab):
    founder, _member, third = lab.mesh_of("founder", "member", "third")
    kick(lab, founder, third)
    proof = founder.mesh.replica.entry(third.id, "revoked")
    about_founder = msgspec.structs.replace(proof, node=founder.id)
    junk = msgspec.structs.replace(proof, value=b"\xc1")

    assert founder.mesh.roster.verify(proof)
    assert not founder.mesh.roster.verify(about_founder)
    assert not founder.mesh.roster.verify(junk)
    assert not founder.mesh.roster.verify(msgspec.structs.replace(proof, generation=3))


def test_a_member_asks_for_nothing_while_its_certificate_holds(lab):
    _founder, member = lab.mesh_of("founder", "member")
    lab.run(70)

    assert not any(isinstance(message, Renew) for _, message in member.sent)
