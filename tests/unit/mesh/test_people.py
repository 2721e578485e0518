"""Whose machines are whose: by certificates alone, told apart, and what that permits."""

import hashlib

import msgspec
import pytest

from distributed_grid.edges.keys import verify
from distributed_grid.errors import NotFound, NotPermitted
from distributed_grid.kernel.mesh import trust
from distributed_grid.kernel.mesh.people import labels, meant, new_person
from distributed_grid.model.membership import Chain, Person, Revocation
from distributed_grid.wire.mesh import Welcome
from tests.unit.mesh.machine_lab import Host, Lab
from tests.unit.mesh.trust_lab import (
    DELEGATE,
    DELEGATED,
    FOUNDED,
    FOUNDER,
    JOINED,
    MEMBER,
    MESH,
    NOW_MS,
    a_chain,
    a_key,
    issued,
    judged,
    node,
    reason,
    renewed,
    signed,
)

ALICE = Person(node(FOUNDER), "alice")
BOB = Person(hashlib.sha256(b"bob").hexdigest(), "bob")
SECOND, THIRD = a_key("second"), a_key("third")
ALICES = a_chain(FOUNDER, FOUNDED, MEMBER, person=ALICE)
ALICES_TOO = a_chain(FOUNDER, FOUNDED, SECOND, person=ALICE, name="second")
BOBS = a_chain(FOUNDER, FOUNDED, THIRD, person=BOB, name="third")


# What a certificate says


def test_a_certificate_says_whose_the_machine_is():
    assert judged(ALICES).person == ALICE
    assert judged(BOBS, THIRD).person == BOB


def test_a_person_is_inside_what_was_signed():
    forged = msgspec.structs.replace(BOBS[0], person=ALICE)
    stripped = msgspec.structs.replace(BOBS[0], person=None)

    assert reason(judged((forged, *BOBS[1:]), THIRD)) == "forged"
    assert reason(judged((stripped, *BOBS[1:]), THIRD)) == "forged"
    claimed = signed(THIRD, BOBS[0], person=ALICE)  # By the member itself.
    assert reason(judged((claimed, *BOBS[1:]), THIRD)) == "forged"


@pytest.mark.parametrize(
    "person", [Person("short", "alice"), Person("A" * 64, "alice"), Person("a" * 64, "a\nb")]
)
def test_an_impossible_person_is_malformed(person):
    chain = (signed(FOUNDER, ALICES[0], person=person), *FOUNDED)

    assert reason(judged(chain)) == "malformed"


def test_nobody_is_certified_who_cannot_be_shown():
    assert reason(issued(FOUNDER, FOUNDED, THIRD, person=Person("a" * 64, "a\nb"))) == "malformed"


def test_a_machine_without_a_person_is_somebody_of_its_own_and_reads_as_it_always_did():
    old = JOINED[0]

    assert judged(JOINED).person == Person(node(MEMBER), "member")
    assert old.signed_bytes().startswith(b"grid certificate 1\0")
    assert b"person" not in msgspec.msgpack.encode(old)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(ALICES), type=Chain) == ALICES


def test_whose_it_is_stays_when_it_is_renewed():
    later_ms = ALICES[0].expires_ms - 1
    own = a_chain(FOUNDER, trust.found(a_key("authority"), node(FOUNDER), "f", later_ms), DELEGATE,
                  name="delegate", roles=("admin",), now_ms=later_ms)  # fmt: skip

    chain = renewed(ALICES, own=own, now_ms=later_ms)
    assert not reason(chain)
    assert chain[0].person == ALICE
    assert renewed(JOINED, own=own, now_ms=later_ms)[0].person is None


# A stolen machine


def revocation(signer=SECOND, own=ALICES_TOO, gone=MEMBER, about=ALICES) -> Revocation:
    return trust.revoke(signer, own, mesh=MESH, node=node(gone), now_ms=NOW_MS, about=about)


def holds(one: Revocation) -> bool:
    return trust.judge_revocation(one, mesh=MESH, verify=verify)


def test_another_machine_of_the_same_person_throws_out_a_stolen_one():
    assert holds(revocation())


@pytest.mark.parametrize(
    "false",
    [
        revocation(about=()),
        revocation(about=JOINED),  # As it was before it was hers.
        revocation(about=BOBS),
        revocation(THIRD, BOBS),  # Another's.
        revocation(THIRD, ALICES_TOO),
        revocation(gone=DELEGATE, about=DELEGATED),
        revocation(FOUNDER, FOUNDED),  # An admin needs no proof: there is one form of it.
    ],
)
def test_nobody_else_does(false):
    assert not holds(false)


def test_an_admins_machine_is_not_thrown_out_by_the_others_of_its_person():
    admins = a_chain(FOUNDER, FOUNDED, MEMBER, person=ALICE, roles=("admin",))

    assert not holds(revocation(about=admins))


def test_a_revocation_from_before_there_were_people_is_read_and_written_as_it_was():
    old = trust.revoke(DELEGATE, DELEGATED, mesh=MESH, node=node(MEMBER), now_ms=NOW_MS)
    body = msgspec.msgpack.encode(old)

    assert holds(old)
    assert b"about" not in body
    assert msgspec.msgpack.encode(msgspec.msgpack.decode(body, type=Revocation)) == body


# Names


def test_a_name_that_is_known_is_refused_and_an_id_says_who_is_meant():
    known = {BOB.id: BOB, ALICE.id: ALICE}

    assert meant("carol", known, b"s") == new_person(b"s", "carol")
    assert meant(f"id:{BOB.id[:8]}", known, b"s") == BOB
    with pytest.raises(NotPermitted) as told:
        meant("bob", known, b"s")
    assert f"--for id:{BOB.id[:12]}" in told.value.remedy
    for word in ("id:", "id:zz"):
        with pytest.raises(NotFound) as told:
            meant(word, known, b"s")
        assert "grid nodes" in told.value.remedy


def test_two_people_of_one_name_are_called_by_their_ids_too():
    other = Person("0" * 64, "bob")

    assert labels({BOB.id: BOB, ALICE.id: ALICE}) == {BOB.id: "bob", ALICE.id: "alice"}
    assert labels({BOB.id: BOB, other.id: other}) == {BOB.id: f"bob-{BOB.id[:4]}",
                                                      other.id: "bob-0000"}  # fmt: skip


# In a mesh


@pytest.fixture
def lab() -> Lab:
    return Lab()


def a_mesh(lab: Lab) -> list[Host]:
    """Alice's desk, which founds it, her laptop and attic, and Bob's box."""
    (desk,) = lab.add("desk")
    authority = lab.keys.make("authority of desk")
    desk.do(desk.mesh.membership.found(authority, "desk", lab.now, user="alice"))
    laptop, attic, box = lab.add("laptop", "attic", "box")
    for one in (laptop, attic):
        one.join(desk)
    join(lab, box, desk, "bob")
    lab.run(3)
    return [desk, laptop, attic, box]


def join(lab: Lab, who: Host, issuer: Host, whose: str) -> None:
    lab.secrets += 1
    record, ready = issuer.mesh.membership.make_ticket(
        "member", ttl_ms=1_000, uses=9, secret=b"%016d" % lab.secrets, now=lab.now, whose=whose
    )
    issuer.do(ready)
    answer = who.ask(issuer, who.redeem_of(record, issuer))
    assert isinstance(answer, Welcome), answer
    who.do(who.mesh.membership.adopt(issuer.mesh.id, answer, lab.now))


def people(host: Host) -> dict[str, str]:
    return {one.name: one.person for one in host.views()}


def test_a_ticket_is_for_machines_of_who_made_it_or_of_whom_it_names(lab):
    desk, laptop, attic, box = a_mesh(lab)

    for one in (desk, laptop, attic, box):
        assert people(one) == {"desk": "alice", "laptop": "alice", "attic": "alice", "box": "bob"}
        assert one.mesh.roster.is_kin(desk.id, laptop.id)
        assert not one.mesh.roster.is_kin(desk.id, box.id)
    assert desk.sees(desk).person_id == desk.id
    with pytest.raises(NotPermitted):
        join(lab, attic, desk, "bob")


def test_two_bobs_of_two_admins_are_told_apart_by_all(lab):
    desk, laptop, attic, box = a_mesh(lab)
    laptop.join(desk, "admin")
    lab.unreachable |= {frozenset((one.name, "laptop")) for one in (desk, attic, box)}
    (other,) = lab.add("other")
    laptop.mesh.roster.forget(box.id)  # It has not heard of the first.
    join(lab, other, laptop, "bob")
    lab.unreachable.clear()
    lab.run(5)

    assert not desk.mesh.roster.is_kin(box.id, other.id)
    assert people(desk)["box"] == f"bob-{desk.sees(box).person_id[:4]}"
    assert people(desk)["other"] == f"bob-{desk.sees(other).person_id[:4]}"
    assert people(desk)["box"] != people(desk)["other"]


def test_a_machine_changes_hands_when_it_joins_again_with_a_ticket_of_somebody_else(lab):
    desk, _, attic, box = a_mesh(lab)
    whose = f"id:{desk.sees(box).person_id}"
    join(lab, attic, desk, whose)
    join(lab, attic, desk, whose)  # Twice is harmless.
    lab.run(3)

    assert people(box)["attic"] == "bob"
    assert attic.mesh.roster.is_kin(attic.id, box.id)


def test_in_an_upgraded_mesh_each_machine_is_somebodys_of_its_own_until_it_joins_again(lab):
    desk = lab.found("desk")  # Without a person, as all were.
    laptop, third = lab.add("laptop", "third")
    book = desk.mesh.membership.tickets
    before = book.make(role="member", ttl_ms=1_000, uses=9, secret=b"0" * 16, now_ms=lab.wall_ms)
    for _ in range(2):
        answer = laptop.ask(desk, laptop.redeem_of(before, desk))
        laptop.do(laptop.mesh.membership.adopt(desk.mesh.id, answer, lab.now))
    third.join(desk)
    lab.run(3)

    assert answer.chain[0].person is None
    assert people(desk) == {"desk": "desk", "laptop": "laptop", "third": "desk"}
    assert not desk.mesh.roster.is_kin(desk.id, laptop.id)
    assert third.mesh.roster.is_kin(third.id, desk.id)  # Whoever is invited now is the inviter's.
    laptop.join(desk)
    lab.run(3)
    assert people(third)["laptop"] == "desk"


def test_names_and_keys_change_and_whose_it_is_does_not(lab):
    desk, laptop, *_ = a_mesh(lab)
    for one, name in ((desk, "tower"), (laptop, "book")):
        ready = desk.steps[-1].__class__()
        assert one.mesh.membership.rename(name, lab.now, ready)
        one.do(ready)
    lab.run(3)

    assert (people(laptop)["tower"], people(desk)["book"]) == ("alice", "alice")


def test_a_stolen_machine_is_thrown_out_by_any_other_of_its_owner_and_by_nobody_elses(lab):
    desk, laptop, attic, box = a_mesh(lab)
    for by, gone in ((box, attic), (laptop, desk), (laptop, box)):
        with pytest.raises(NotPermitted):
            by.mesh.membership.kick(gone.id, lab.now)
    laptop.do(laptop.mesh.membership.kick(attic.id, lab.now))
    lab.run(3)
    rest = (desk, laptop, box)

    assert all("attic" not in one.members for one in rest)
    box.down()
    box.up()
    lab.run(3)
    assert "attic" not in box.members
    # What it says afterwards of the others reaches nobody.
    attic.mesh.membership.was_revoked = False
    attic.do(attic.mesh.membership.kick(laptop.id, lab.now))
    lab.run(5)
    assert all({"desk", "laptop", "box"} <= one.members for one in rest)


def test_who_is_in_no_mesh_throws_out_nobody(lab):
    (alone, other) = lab.add("alone", "other")
    with pytest.raises(NotPermitted):
        alone.mesh.membership.kick(other.id, lab.now)


def test_a_false_revocation_between_machines_of_two_people_is_not_taken(lab):
    desk, laptop, attic, box = a_mesh(lab)
    about = box.mesh.roster.chains[attic.id]
    false = trust.revoke(box.key, box.mesh.membership.chain, mesh=desk.mesh.id, node=attic.id,
                         now_ms=1, about=about)  # fmt: skip
    entry = msgspec.structs.replace(
        desk.mesh.replica.entry(attic.id, "chain"),
        key="revoked",
        value=msgspec.msgpack.encode(false),
    )
    for one in (desk, laptop):
        assert not one.mesh.roster.verify(entry)
