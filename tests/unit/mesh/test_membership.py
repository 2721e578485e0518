"""Founding a mesh, letting others in with tickets, coming in."""

import msgspec
import pytest

from distributed_grid.errors import NotPermitted
from distributed_grid.kernel.mesh.membership import Forward, Own
from distributed_grid.kernel.mesh.trust import issue
from distributed_grid.model.membership import CERTIFICATE_MS, ROLES, Contact
from distributed_grid.wire.mesh import Redeem, Refused, Welcome
from tests.unit.mesh.machine_lab import DAY_MS, WALL_MS, Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def reason(answer: object) -> str:
    return answer.reason if isinstance(answer, Refused) else type(answer).__name__


def test_whoever_founds_a_mesh_is_its_first_admin(lab):
    founder = lab.found("founder")

    (own,) = founder.views()
    assert (own.name, own.roles, own.is_self, own.path) == ("founder", ("admin",), True, "self")
    assert own.expires_ms == WALL_MS + CERTIFICATE_MS
    assert founder.mesh.id == lab.keys.make("authority of founder").public
    assert founder.names("mesh.founded") == [("mesh.founded", "founder")]


def test_what_was_founded_is_to_be_saved_at_once(lab):
    founder = lab.found("founder")

    own = msgspec.msgpack.decode(founder.disk["mesh.own"], type=Own)
    assert (own.mesh, own.chain) == (founder.mesh.id, founder.mesh.membership.chain)
    assert founder.disk["mesh.generation"] == (1).to_bytes(8, "big")


@pytest.mark.parametrize("role", ROLES)
def test_a_ticket_lets_somebody_in_with_its_role(lab, role):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")
    guest.join(founder, role)
    lab.run(2)

    assert guest.views()[0].roles == (role,)
    assert founder.sees(guest).roles == (role,)
    assert guest.names("mesh.joined") == [("mesh.joined", "guest")]


@pytest.mark.rows("S2-141")
def test_a_use_is_saved_before_the_answer_is_given(lab):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")
    record = founder.ticket(uses=1)
    answer, ready = founder.mesh.membership.redeem(
        guest.id, guest.redeem_of(record, founder), lab.now
    )

    assert isinstance(answer, Welcome)
    assert guest.id.encode() in ready.save["mesh.tickets"]


def test_only_admins_make_tickets_and_throw_out(lab):
    founder, member = lab.mesh_of("founder", "member")

    with pytest.raises(NotPermitted, match="no admin"):
        member.ticket()
    with pytest.raises(NotPermitted, match="no admin"):
        member.mesh.membership.kick(founder.id, lab.now)
    (alone,) = lab.add("alone")
    with pytest.raises(NotPermitted, match="no admin"):
        alone.ticket()


@pytest.mark.rows("S2-140", "S2-141")
def test_each_way_a_ticket_can_be_wrong_has_its_reason(lab):
    founder = lab.found("founder")
    other = lab.found("other")
    guest, second, thief = lab.add("guest", "second", "thief")
    record = founder.ticket(uses=1, ttl_ms=DAY_MS)
    asked = guest.redeem_of(record, founder)
    gone, _ = founder.mesh.membership.revoke_ticket(founder.ticket().id)
    late = founder.ticket(ttl_ms=1)
    lab.pass_ms(1)

    reasons = {
        "nobody's": reason(guest.ask(founder, msgspec.structs.replace(asked, ticket="f" * 16))),
        "another mesh": reason(guest.ask(other, asked)),
        "no mesh at all": reason(guest.ask(thief, asked)),
        "replayed by another key": reason(thief.ask(founder, asked)),
        "replayed under another name": reason(
            thief.ask(founder, msgspec.structs.replace(asked, node=thief.id))
        ),
        "revoked": reason(guest.ask(founder, guest.redeem_of(gone, founder))),
        "expired": reason(guest.ask(founder, guest.redeem_of(late, founder))),
        "good": reason(guest.ask(founder, asked)),
        "again by the same": reason(guest.ask(founder, asked)),
        "used up": reason(second.ask(founder, second.redeem_of(record, founder))),
    }
    assert reasons == {
        "nobody's": "ticket-unknown",
        "another mesh": "other-mesh",
        "no mesh at all": "stranger",
        "replayed by another key": "forged",
        "replayed under another name": "forged",
        "revoked": "ticket-revoked",
        "expired": "ticket-expired",
        "good": "Welcome",
        "again by the same": "Welcome",
        "used up": "ticket-used-up",
    }


def test_a_refusal_says_whom_it_is_about(lab):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")
    asked = guest.redeem_of(founder.ticket(), founder)
    bad = [
        msgspec.structs.replace(asked, ticket="f" * 16),
        msgspec.structs.replace(asked, name="\n"),
    ]

    assert [guest.ask(founder, each).about for each in bad] == [guest.id, guest.id]


def test_a_name_that_cannot_be_shown_lets_nobody_in_but_counts(lab):
    founder = lab.found("founder")
    guest, second = lab.add("guest", "second")
    record = founder.ticket(uses=1)

    assert reason(guest.ask(founder, guest.redeem_of(record, founder, name="\x1b"))) == "malformed"
    assert reason(second.ask(founder, second.redeem_of(record, founder))) == "ticket-used-up"


def test_another_member_passes_a_ticket_on_to_its_issuer(lab):
    founder, member = lab.mesh_of("founder", "member")
    (guest,) = lab.add("guest")
    asked = guest.redeem_of(founder.ticket(), founder)
    passed = guest.ask(member, asked)

    assert passed == Forward(founder.id, asked)
    assert isinstance(member.ask(founder, passed.redeem), Welcome)


def test_who_is_asked_by_a_member_passes_nothing_on(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    (guest,) = lab.add("guest")
    asked = guest.redeem_of(founder.ticket(), founder)

    assert member.ask(third, asked) == Refused(reason="issuer-unreachable", about=guest.id)


def test_a_stranger_does_not_speak_for_another(lab):
    founder = lab.found("founder")
    guest, stranger = lab.add("guest", "stranger")
    asked = guest.redeem_of(founder.ticket(), founder)

    assert reason(stranger.ask(founder, asked)) == "forged"


def test_two_machines_of_one_name_can_be_told_apart(lab):
    founder = lab.found("pi")
    (second,) = lab.add("second")
    second.name = "pi"
    second.join(founder)

    assert second.views()[0].name == f"pi-{second.id[:4]}"


def test_a_long_name_that_is_taken_stays_within_its_limit(lab):
    founder = lab.found("n" * 64)
    (second,) = lab.add("second")
    second.name = "n" * 64
    second.join(founder)

    assert second.views()[0].name == "n" * 59 + "-" + second.id[:4]


def test_a_long_name_of_many_bytes_that_is_taken_stays_within_its_limit(lab):
    founder = lab.found("ü" * 32)
    (second,) = lab.add("second")
    second.name = "ü" * 32
    second.join(founder)

    assert second.views()[0].name == "ü" * 29 + "-" + second.id[:4]


def test_joining_twice_is_harmless(lab):
    founder, member = lab.mesh_of("founder", "member")
    chain, generation = member.mesh.membership.chain, member.mesh.replica.generation
    member.join(founder)
    lab.run(2)

    assert (member.mesh.membership.chain, member.mesh.replica.generation) == (chain, generation)
    assert member.names("mesh.joined") == [("mesh.joined", "member")]


def test_joining_again_with_a_ticket_for_admins_makes_a_member_an_admin(lab):
    founder, member = lab.mesh_of("founder", "member")
    generation = member.mesh.replica.generation
    member.join(founder, "admin")
    lab.run(2)

    assert member.mesh.replica.generation > generation
    assert founder.sees(member).roles == member.views()[0].roles == ("admin",)
    assert founder.names("node.joined") == [("node.joined", "member")]


@pytest.mark.parametrize(
    ("first", "second", "roles"),
    [
        ("admin", "worker", ("admin",)),
        ("member", "guest", ("member",)),
        ("worker", "guest", ("worker", "guest")),
        ("worker", "member", ("member",)),
        ("guest", "admin", ("admin",)),
    ],
)
def test_nobody_is_less_for_having_joined_again(lab, first, second, roles):
    founder = lab.found("founder")
    (node,) = lab.add("node")
    node.join(founder, first)
    lab.run(2)
    node.join(founder, second)
    lab.run(2)

    assert founder.sees(node).roles == node.views()[0].roles == roles


def test_who_left_comes_back_as_what_its_ticket_says(lab):
    founder = lab.found("founder")
    (node,) = lab.add("node")
    node.join(founder, "admin")
    lab.run(2)
    node.do(node.mesh.membership.leave(lab.now))
    lab.run(1)
    node.do(node.mesh.membership.gone(lab.now))
    node.join(founder, "worker")
    lab.run(2)

    assert founder.sees(node).roles == node.views()[0].roles == ("worker",)


@pytest.mark.parametrize(
    ("roles", "later_ms", "is_taken"),
    [
        (("member",), DAY_MS, True),
        (("member",), -DAY_MS, False),
        (("worker",), DAY_MS, False),
        (("admin",), -DAY_MS, True),
    ],
)
def test_a_member_takes_no_chain_that_is_worth_less(lab, roles, later_ms, is_taken):
    founder, member = lab.mesh_of("founder", "member")
    authority = lab.keys.make("authority of founder")
    chain = issue(
        authority,
        (),
        mesh=founder.mesh.id,
        node=member.id,
        name="member",
        roles=roles,
        now_ms=WALL_MS + later_ms,
        verify=lab.keys.verify,
        revoked=(),
        person=member.mesh.membership.chain[0].person,
    )
    adopt = member.mesh.membership.adopt
    adopt(founder.mesh.id, Welcome(chain=chain), lab.now)

    assert (member.mesh.membership.chain == chain) == is_taken
    member.mesh.roster.standings.clear()  # What it had holds no more.
    adopt(founder.mesh.id, Welcome(chain=chain), lab.now)
    assert member.mesh.membership.chain == chain


def test_joining_again_leaves_good_links_alone(lab):
    founder, member, _third = lab.mesh_of("founder", "member", "third")
    welcome = member.ask(founder, member.redeem_of(founder.ticket(), founder))
    assert len(welcome.contacts) == 3
    ready = member.mesh.membership.adopt(founder.mesh.id, welcome, lab.now)

    assert (ready.dial, ready.hang_up) == ([], [])
    assert member.mesh.dialling.under_way == set()


@pytest.mark.parametrize("name", ["-x", "id:abc", "name:pi"])
def test_nobody_is_let_in_under_a_name_that_means_something_else_to_a_command(lab, name):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")

    asked = guest.redeem_of(founder.ticket(), founder, name=name)
    assert reason(guest.ask(founder, asked)) == "malformed"


def test_a_welcome_is_not_believed_unless_it_holds(lab):
    founder, other = lab.found("founder"), lab.found("other")
    (guest,) = lab.add("guest")
    welcome = guest.ask(founder, guest.redeem_of(founder.ticket(), founder))
    before = dict(guest.disk)

    assert reason(guest.mesh.membership.adopt(other.mesh.id, welcome, lab.now)) == "other-mesh"
    forged = msgspec.structs.replace(welcome.chain[0], signature=b"x" * 64)
    wrong = Welcome(chain=(forged, *welcome.chain[1:]))
    assert reason(guest.mesh.membership.adopt(founder.mesh.id, wrong, lab.now)) == "forged"
    assert not guest.mesh.is_member
    assert guest.disk == before


def test_a_newcomer_dials_those_it_was_told_of_but_not_itself_and_none_twice(lab):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")
    welcome = guest.ask(founder, guest.redeem_of(founder.ticket(), founder))
    told = Welcome(chain=welcome.chain, contacts=(*welcome.contacts, Contact(node=guest.id)))
    first = guest.mesh.membership.adopt(founder.mesh.id, told, lab.now)
    second = guest.mesh.membership.adopt(founder.mesh.id, told, lab.now)

    assert [contact.node for contact in first.dial] == [founder.id]
    assert second.dial == []


def test_a_newcomer_is_told_of_the_issuer_first_and_of_sixteen_at_most(lab):
    founder, *_others = lab.mesh_of("founder", *(f"n{number}" for number in range(17)))
    (guest,) = lab.add("guest")
    welcome = guest.ask(founder, guest.redeem_of(founder.ticket(), founder))

    assert len(welcome.contacts) == 16
    assert welcome.contacts[0].node == founder.id
    assert len({contact.node for contact in welcome.contacts}) == 16


def test_a_newcomer_is_told_how_many_there_are_with_it(lab):
    founder, *_ = lab.mesh_of("founder", "a", "b")
    (guest,) = lab.add("guest")
    redeem = guest.redeem_of(founder.ticket(), founder)

    assert guest.ask(founder, redeem).members == 4
    assert guest.ask(founder, redeem).members == 4


def test_who_crashes_right_after_joining_still_knows_whom_to_dial(lab):
    founder = lab.found("founder")
    (guest,) = lab.add("guest")
    lab.unreachable.add(frozenset(("founder", "guest")))
    guest.join(founder)
    guest.down()
    guest.up()
    lab.unreachable.clear()
    lab.run(3)

    assert guest.linked == {"founder"}


def test_a_new_identity_in_the_directory_of_another_begins_alone(lab):
    founder, _member = lab.mesh_of("founder", "member")
    (anew,) = lab.add("anew")
    anew.disk = dict(founder.disk)
    anew.up()

    assert not anew.mesh.is_member
    anew.join(founder)
    assert not anew.disk["mesh.tickets"]  # Those were the other one's.
    anew.up()
    assert anew.views()[0].name == "anew"
    assert anew.views()[0].roles == ("member",)


def test_a_ticket_survives_its_issuer(lab):
    founder = lab.found("founder")
    guest, second = lab.add("guest", "second")
    record = founder.ticket(uses=1)
    guest.ask(founder, guest.redeem_of(record, founder))
    founder.up()

    assert reason(guest.ask(founder, guest.redeem_of(record, founder))) == "Welcome"
    assert reason(second.ask(founder, second.redeem_of(record, founder))) == "ticket-used-up"


def test_revoking_a_ticket_that_does_not_exist_changes_nothing(lab):
    founder = lab.found("founder")
    (alone,) = lab.add("alone")

    assert founder.mesh.membership.revoke_ticket("f" * 16)[0] is None
    assert founder.mesh.membership.revoke_ticket("f" * 16)[1].save == {}
    assert alone.mesh.membership.revoke_ticket("f" * 16)[0] is None


def test_a_revoked_ticket_is_saved_as_such(lab):
    founder = lab.found("founder")
    record, ready = founder.mesh.membership.revoke_ticket(founder.ticket().id)

    assert record.is_revoked
    assert ready.save["mesh.tickets"] == founder.mesh.membership.tickets.to_bytes()


def test_a_redeem_of_a_revoked_node_is_refused_as_such(lab):
    founder, member = lab.mesh_of("founder", "member")
    asked: Redeem = member.redeem_of(founder.ticket(), founder)
    founder.do(founder.mesh.membership.kick(member.id, lab.now))

    assert reason(member.ask(founder, asked)) == "revoked"
