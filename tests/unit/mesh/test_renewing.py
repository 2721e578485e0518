"""Certificates that end: renewed in time, overdue, expired, and names that change."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.events import DialFailed, MeshReady, Now
from distributed_grid.kernel.mesh.views import OVERDUE
from distributed_grid.model.membership import CERTIFICATE_MS, RENEW_MS
from distributed_grid.wire.mesh import Refused, Renew, Renewed
from tests.unit.mesh.machine_lab import DAY_MS, WALL_MS, Lab

EARLY_MS = CERTIFICATE_MS - RENEW_MS  # Until then nobody renews.


@pytest.fixture
def lab() -> Lab:
    return Lab()


def ends_ms(host) -> int:
    return min(each.expires_ms for each in host.mesh.membership.chain)


def asked(host) -> list[str]:
    return [name for name, message in host.sent if isinstance(message, Renew)]


def test_nobody_asks_before_the_last_month(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.pass_ms(EARLY_MS - 10_000)
    lab.run(2)

    assert asked(member) == []
    assert ends_ms(founder) == WALL_MS + CERTIFICATE_MS


def test_the_holder_of_the_authority_renews_itself_and_then_others_by_it(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.pass_ms(EARLY_MS)
    lab.run(3)

    assert ends_ms(founder) >= WALL_MS + EARLY_MS + CERTIFICATE_MS
    assert ends_ms(member) == ends_ms(founder)
    assert founder.sees(member).expires_ms == ends_ms(member)
    assert member.names("mesh.certificate_renewed") == [("mesh.certificate_renewed", "member")]
    assert asked(member) == ["founder"]


def test_a_renewed_certificate_is_saved_under_a_new_generation(lab):
    _founder, member = lab.mesh_of("founder", "member")
    before = member.mesh.replica.generation
    lab.pass_ms(EARLY_MS)
    lab.run(3)

    assert int.from_bytes(member.disk["mesh.generation"], "big") > before
    assert str(ends_ms(member)) in str(msgspec.msgpack.decode(member.disk["mesh.own"]))


def test_another_admin_renews_who_cannot_reach_the_founder(lab):
    founder, member = lab.mesh_of("founder", "member")
    (admin,) = lab.add("admin")
    admin.join(founder, "admin")
    lab.run(3)
    lab.unreachable.add(frozenset(("founder", "member")))
    lab.cut(founder, member, "test")
    lab.pass_ms(EARLY_MS)
    lab.run(70)

    assert ends_ms(member) == ends_ms(admin) == ends_ms(founder) > WALL_MS + CERTIFICATE_MS
    assert set(asked(member)) == {"admin"}
    assert member.mesh.membership.chain[0].issuer == admin.id


def test_a_second_holder_of_the_authority_outlives_the_founder_and_so_do_all_it_renews(lab):
    founder, member = lab.mesh_of("founder", "member")
    holder, admin = (each.join(founder, "admin") for each in lab.add("holder", "admin"))
    holder.mesh.membership.hold_authority(lab.keys.make("authority of founder"))
    lab.run(3)
    founder.down()
    for _ in range(400):
        lab.pass_ms(DAY_MS)
        lab.run(1.5)

    assert lab.wall_ms > WALL_MS + 4 * CERTIFICATE_MS
    for host in (holder, admin, member):
        assert ends_ms(host) > lab.wall_ms + RENEW_MS - 2 * DAY_MS
        assert {host.sees(other).health for other in (holder, admin, member)} == {"alive"}
    assert holder.mesh.membership.chain[0].issuer == founder.mesh.id
    assert admin.mesh.roster.is_delegate(admin.id)


def test_who_is_given_the_key_of_the_authority_hangs_on_nobody_at_once(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.mesh.membership.hold_authority(lab.keys.make("authority of founder"))
    lab.run(2)
    chain = member.mesh.membership.chain

    assert (len(chain), chain[0].issuer, chain[0].roles) == (1, founder.mesh.id, ("admin",))
    assert founder.mesh.roster.is_delegate(member.id)
    lab.run(5)
    assert member.mesh.membership.chain == chain  # Once.


def test_whoever_does_not_renew_is_asked_again_after_a_minute_and_not_before(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.mesh.membership.authority = None  # The file is elsewhere: it cannot renew itself.
    lab.pass_ms(EARLY_MS)
    lab.run(30)
    assert asked(member) == ["founder"]

    lab.run(35)
    assert asked(member) == ["founder", "founder"]
    assert lab.refusals == [("founder", "member", "busy")] * 2


def test_another_delegate_is_asked_when_the_first_will_not(lab):
    founder, member = lab.mesh_of("founder", "member")
    (admin,) = lab.add("admin")
    admin.join(founder, "admin")
    lab.run(3)
    founder.mesh.membership.authority = None
    lab.pass_ms(EARLY_MS)
    lab.run(65)

    assert set(asked(member)) == {"founder", "admin"}


def test_an_expired_member_may_only_renew_and_does(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.down()
    lab.pass_ms(EARLY_MS)
    lab.run(2)
    lab.pass_ms(40 * DAY_MS)
    lab.run(2)
    member.up()
    lab.run(0.1)
    assert member.linked == set()
    assert founder.mesh.greet(member.id, member.mesh.hello(lab.now), lab.now) is None
    assert asked(member) == ["founder"]

    lab.run(3)
    assert ends_ms(member) == ends_ms(founder)
    assert member.linked == {"founder"}
    assert founder.sees(member).health == "alive"


def test_an_expired_member_is_no_member_where_a_delegate_is_about(lab):
    founder, member, other = lab.mesh_of("founder", "member", "other")
    hello = member.mesh.hello(lab.now)
    member.down()
    lab.pass_ms(EARLY_MS)
    lab.run(2)
    lab.pass_ms(31 * DAY_MS)
    lab.run(65)

    for host in (founder, other):
        assert host.mesh.greet(member.id, hello, lab.now) == Refused(reason="expired")
        assert host.members == {"founder", "other"}
        assert host.sees(member).health == "left"
        assert host.sees(member).why == "its certificate no longer holds"


def test_without_a_delegate_an_expired_member_is_overdue_for_a_month(lab):
    founder, one, other = lab.mesh_of("founder", "one", "other")
    founder.down()
    lab.pass_ms(CERTIFICATE_MS + DAY_MS)
    lab.run(62)
    assert one.members == {"founder", "one", "other"}
    assert one.sees(other).note == OVERDUE

    lab.pass_ms(30 * DAY_MS)
    lab.run(62)
    assert "other" not in one.members
    assert one.linked == set()


def test_an_overdue_admin_does_not_count_as_one_who_could_have_renewed(lab):
    (founder,) = lab.mesh_of("founder")
    founder.mesh.membership.authority = None
    lab.pass_ms(CERTIFICATE_MS + DAY_MS)
    lab.run(62)

    assert founder.members == {"founder"}
    assert founder.views()[0].note == OVERDUE


def test_only_an_admin_renews(lab):
    _founder, one, other = lab.mesh_of("founder", "one", "other")
    (alone,) = lab.add("alone")
    wanted = Renew(chain=one.mesh.membership.chain)

    for host in (other, alone):
        refused = host.mesh.membership.renewing.renew(one.id, wanted, lab.now)
        assert refused == Refused(reason="not-permitted", detail="this node is no admin")


def test_nobody_renews_with_the_certificate_of_another(lab):
    founder, one, other = lab.mesh_of("founder", "one", "other")
    lab.pass_ms(EARLY_MS)
    wanted = Renew(chain=one.mesh.membership.chain)

    assert founder.mesh.membership.renewing.renew(other.id, wanted, lab.now).reason == "stranger"


def test_what_is_no_certificate_of_ours_replaces_nothing(lab):
    founder, one, other = lab.mesh_of("founder", "one", "other")
    chain = one.mesh.membership.chain
    one.told(other, Renewed(chain=other.mesh.membership.chain))
    one.told(founder, Renewed(chain=()))

    assert one.mesh.membership.chain == chain
    assert one.names("mesh.certificate_renewed") == []


def test_an_old_certificate_that_a_member_plays_back_is_not_taken(lab):
    founder, one, other = lab.mesh_of("founder", "one", "other")
    old = one.mesh.membership.chain
    one.join(founder, "admin")
    lab.run(2)
    one.told(other, Renewed(chain=old))

    assert one.views()[0].roles == ("admin",)


def test_an_expired_certificate_is_not_taken_from_a_delegate_either(lab):
    founder, one = lab.mesh_of("founder", "one")
    old = one.mesh.membership.chain
    lab.pass_ms(EARLY_MS)
    lab.run(3)
    lab.pass_ms(31 * DAY_MS)
    one.told(founder, Renewed(chain=old))

    assert one.mesh.membership.chain != old


def test_the_same_certificate_again_is_no_news(lab):
    founder, one = lab.mesh_of("founder", "one")
    generation = one.mesh.replica.generation
    one.told(founder, Renewed(chain=one.mesh.membership.chain))

    assert one.names("mesh.certificate_renewed") == []
    assert one.mesh.replica.generation == generation


def test_who_was_thrown_out_asks_nobody(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.do(founder.mesh.membership.kick(member.id, lab.now))
    lab.run(1)
    lab.pass_ms(EARLY_MS)
    lab.run(62)

    assert asked(member) == []


def test_with_nobody_to_ask_a_member_waits(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.down()
    lab.run(1)
    member.mesh.membership.hints.clear()
    member.mesh.said.reach = lambda node: None
    lab.pass_ms(EARLY_MS)
    lab.run(2)

    assert asked(member) == []


# Names


def test_a_member_is_renamed_by_an_admin_and_all_see_it(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    ready = MeshReady()

    assert member.mesh.membership.rename("bench", lab.now, ready)
    member.do(ready)
    lab.run(2)
    assert [host.sees(member).name for host in (founder, member, third)] == ["bench"] * 3


def test_a_name_that_is_taken_gets_an_ending(lab):
    founder, member = lab.mesh_of("founder", "member")
    for host, name in ((member, "founder"), (founder, "member")):
        ready = MeshReady()
        host.mesh.membership.rename(name, lab.now, ready)
        host.do(ready)
        lab.run(2)

    assert founder.sees(member).name == f"founder-{member.id[:4]}"
    assert founder.sees(founder).name == "member"


def test_the_founder_renames_itself(lab):
    founder, member = lab.mesh_of("founder", "member")
    ready = MeshReady()
    founder.mesh.membership.rename("boss", lab.now, ready)
    founder.do(ready)
    lab.run(2)

    assert member.sees(founder).name == "boss"
    assert int.from_bytes(founder.disk["mesh.generation"], "big") == 2


def test_an_admin_that_is_not_linked_is_asked_for_a_name_on_a_connection_of_its_own(lab):
    founder, member = lab.mesh_of("founder", "member")
    lab.cut(founder, member, "idle")
    ready = MeshReady()

    assert member.mesh.membership.rename("bench", lab.now, ready)
    assert ready.messages == []
    member.do(ready)
    assert member.views()[0].name == "bench"


def test_of_many_admins_three_are_asked_for_a_name_those_that_live_first(lab):
    founder, member = lab.mesh_of("founder", "member")
    admins = [each.join(founder, "admin") for each in lab.add("a", "b", "c", "d")]
    lab.run(3)
    for gone in (founder, *admins[:2]):
        gone.down()
    lab.run(4)
    for admin in admins[2:]:
        lab.cut(admin, member, "idle")
    ready = MeshReady()
    member.mesh.membership.rename("bench", lab.now, ready)

    asked_now = [lab.name_of(contact.node) for contact, _ in ready.ask]
    assert set(asked_now[:2]) == {"c", "d"}
    assert len(asked_now) == 3


def test_without_an_admin_there_is_nobody_to_ask_for_a_name(lab):
    founder, member = lab.mesh_of("founder", "member")
    founder.say(contact=b"")
    lab.run(1)
    founder.down()
    member.mesh.membership.hints.clear()
    ready = MeshReady()

    assert not member.mesh.membership.rename("bench", lab.now, ready)
    assert ready == MeshReady()


# Clocks


def test_a_clock_before_the_programme_was_built_is_taken_from_neighbours():
    lab = Lab()
    _founder, member = lab.mesh_of("founder", "member", build_ms=WALL_MS - 1)
    wrong = Now(0, lab.mono_us)

    assert member.mesh.wall_ms(wrong) == lab.wall_ms
    later = Now(0, lab.mono_us + 5_000_000)
    assert member.mesh.wall_ms(later) == lab.wall_ms + 5_000


def test_without_neighbours_that_know_the_time_it_is_that_of_the_build():
    lab = Lab()
    (founder,) = lab.mesh_of("founder", build_ms=WALL_MS - 1)

    assert founder.mesh.wall_ms(Now(0, lab.mono_us)) == WALL_MS - 1


def refused_by(host, peer, why):
    host.mesh.step(DialFailed(now=host.now, peer=peer.id, why=why, is_refused=True))
    ready = MeshReady()
    host.mesh.membership.renewing.keep_valid(host.now, ready)
    return [contact.node for contact, _ in ready.ask] + [peer for peer, _ in ready.messages]


def test_whom_a_delegate_refuses_as_revoked_asks_it_for_another_certificate(lab):
    founder, member = lab.mesh_of("founder", "member")

    assert refused_by(member, founder, "busy") == []
    assert refused_by(member, founder, "revoked") == [founder.id]


def test_the_holder_of_the_authority_asks_nobody(lab):
    founder, member = lab.mesh_of("founder", "member")

    assert refused_by(founder, member, "revoked") == []
