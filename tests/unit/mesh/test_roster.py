"""Who belongs: chains that were judged, entries that may enter, expiries looked at again."""

import msgspec
import pytest

from distributed_grid.edges.keys import verify
from distributed_grid.kernel.mesh import trust
from distributed_grid.kernel.mesh.replica_maps import is_sound
from distributed_grid.kernel.mesh.roster import Roster, chain_of, revocation_of
from distributed_grid.model.membership import CERTIFICATE_MS, GRACE_MS, RENEW_MS
from distributed_grid.wire.mesh import GENERATION_FINAL, Entry
from tests.unit.mesh.trust_lab import (
    AUTHORITY,
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
    node,
    signed,
)

END_MS = NOW_MS + CERTIFICATE_MS


@pytest.fixture
def roster() -> Roster:
    made = Roster(mesh=MESH, verify=verify)
    for key, chain in ((FOUNDER, FOUNDED), (DELEGATE, DELEGATED), (MEMBER, JOINED)):
        assert made.take(node(key), chain, NOW_MS) is not None
    return made


def entry(key, by, value=b"x", generation=1) -> Entry:
    unsigned = Entry(node(by), generation, key, 1, value)
    return msgspec.structs.replace(unsigned, signature=by.sign(unsigned.signed_bytes(MESH)))


def test_admins_are_delegates_and_nobody_else(roster):
    assert [roster.is_delegate(node(key)) for key in (FOUNDER, DELEGATE, MEMBER)] == [
        True,
        True,
        False,
    ]
    assert not roster.is_delegate(node(a_key("stranger")))


def test_an_entry_is_what_its_node_has_signed_for_this_mesh(roster):
    good = entry("load", MEMBER)

    assert roster.verify(good)
    assert not roster.verify(msgspec.structs.replace(good, value=b"y"))
    assert not roster.verify(msgspec.structs.replace(good, node=node(FOUNDER)))
    assert not Roster(mesh="f" * 64, verify=verify).verify(good)


def test_nobody_writes_under_the_generation_of_a_revocation(roster):
    assert roster.verify(entry("load", MEMBER, generation=GENERATION_FINAL - 1))
    assert not roster.verify(entry("load", MEMBER, generation=GENERATION_FINAL))


def test_a_chain_makes_its_node_a_member_and_everything_else_needs_one(roster):
    newcomer = a_key("newcomer")
    chain = a_chain(FOUNDER, FOUNDED, newcomer)

    assert not roster.admits(entry("load", newcomer), NOW_MS)
    assert not roster.admits(entry("chain", newcomer, b"junk"), NOW_MS)
    assert not roster.admits(entry("chain", newcomer, b""), NOW_MS)
    assert roster.admits(entry("chain", newcomer, msgspec.msgpack.encode(chain)), NOW_MS)
    assert not roster.admits(entry("load", newcomer), NOW_MS)  # A question changes nothing.
    roster.take(node(newcomer), chain, NOW_MS)
    assert roster.admits(entry("load", newcomer), NOW_MS)
    assert roster.admits(entry("revoked", newcomer), NOW_MS)


def test_a_chain_that_has_ended_makes_nobody_a_member(roster):
    roster.forget(node(MEMBER))
    roster.delegate_seen_ms = END_MS + 1

    assert roster.take(node(MEMBER), JOINED, END_MS + 1) is None
    assert not roster.is_member(node(MEMBER))


def test_junk_is_no_chain_and_no_revocation():
    for junk in (b"", b"\xc1", b"\xa1\xff", b"\x91" * 9_999):
        assert chain_of(entry("chain", MEMBER, junk)) == ()
        assert revocation_of(entry("revoked", MEMBER, junk)) is None


def test_a_revocation_is_about_the_node_whose_entry_it_is(roster):
    revocation = trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(MEMBER), now_ms=NOW_MS)
    value = msgspec.msgpack.encode(revocation)
    right = Entry(node(MEMBER), GENERATION_FINAL, "revoked", 1, value)

    assert roster.verify(right)
    assert not roster.verify(msgspec.structs.replace(right, node=node(DELEGATE)))
    assert not roster.verify(msgspec.structs.replace(right, generation=1))
    by_member = trust.revoke(MEMBER, JOINED, mesh=MESH, node=node(FOUNDER), now_ms=NOW_MS)
    wrong = Entry(node(FOUNDER), GENERATION_FINAL, "revoked", 1, msgspec.msgpack.encode(by_member))
    assert not roster.verify(wrong)


def test_of_a_revocation_there_is_one_entry_and_nobody_can_make_another(roster):
    revocation = trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(MEMBER), now_ms=NOW_MS)
    right = Entry(node(MEMBER), GENERATION_FINAL, "revoked", 1, msgspec.msgpack.encode(revocation))
    longer = msgspec.msgpack.encode(msgspec.msgpack.decode(right.value) | {"zz": 1})

    assert roster.verify(right)
    assert revocation_of(msgspec.structs.replace(right, value=longer)) == revocation
    for change in ({"version": 2}, {"signature": b"x" * 64}, {"value": longer}):
        assert not roster.verify(msgspec.structs.replace(right, **change))
        assert "value" in change or not is_sound(msgspec.structs.replace(right, **change))


def test_who_lapsed_is_kept_equal_everywhere_but_does_not_count_until_all_forget_it(roster):
    chain = entry("chain", MEMBER, msgspec.msgpack.encode(JOINED))
    newer = Roster(mesh=MESH, verify=verify)
    newer.delegate_seen_ms = END_MS + 1
    last_ms = END_MS + RENEW_MS + GRACE_MS

    assert newer.admits(chain, last_ms - 1)
    assert newer.take(node(MEMBER), JOINED, last_ms - 1) is None
    assert newer.admits(entry("load", MEMBER), last_ms - 1)
    assert not newer.is_member(node(MEMBER))
    assert newer.outlived(last_ms - 1) == []
    assert not newer.admits(chain, last_ms)
    assert newer.outlived(last_ms) == [node(MEMBER)]
    newer.forget(node(MEMBER))
    assert newer.take(node(MEMBER), JOINED, last_ms) is None
    assert not newer.admits(entry("load", MEMBER), last_ms)
    assert newer.chains == {}


def test_who_lapsed_counts_again_when_the_clock_is_set_right(roster):
    roster.review(END_MS + RENEW_MS)
    assert roster.standings == {}

    assert roster.review(NOW_MS) == []
    assert set(roster.standings) == set(map(node, (FOUNDER, DELEGATE, MEMBER)))
    assert roster.lapsed == set()


def test_who_lapsed_on_a_revoked_word_says_no_more(roster):
    roster.review(END_MS + RENEW_MS)
    assert roster.admits(entry("load", MEMBER), END_MS + RENEW_MS)
    roster.revoke(trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(DELEGATE), now_ms=NOW_MS))

    assert not roster.admits(entry("load", MEMBER), END_MS + RENEW_MS)
    assert not roster.admits(entry("load", DELEGATE), END_MS + RENEW_MS)


def test_whoever_stood_on_a_revoked_word_no_longer_counts_but_its_chain_is_kept(roster):
    revocation = trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(DELEGATE), now_ms=NOW_MS)

    assert roster.revoke(revocation) == [node(MEMBER)]
    assert set(roster.standings) == {node(FOUNDER)}
    assert set(roster.chains) == {node(FOUNDER), node(MEMBER)}
    assert roster.take(node(MEMBER), JOINED, NOW_MS) is None


def test_a_review_brings_nobody_back_who_stood_on_a_revoked_word(roster):
    roster.revoke(trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(DELEGATE), now_ms=NOW_MS))

    assert roster.review(NOW_MS) == []
    assert set(roster.standings) == {node(FOUNDER)}


def test_the_first_revocation_of_a_node_stays(roster):
    first = trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(MEMBER), now_ms=1)
    second = trust.revoke(FOUNDER, FOUNDED, mesh=MESH, node=node(MEMBER), now_ms=2)
    roster.revoke(first)
    roster.revoke(second)

    assert roster.revoked == {node(MEMBER): first}


def test_a_review_changes_nothing_before_the_first_end(roster):
    before = dict(roster.standings)

    assert roster.review(END_MS - 1) == []
    assert roster.standings == before


def test_a_review_finds_the_overdue_and_then_the_expired(roster):
    assert roster.review(END_MS) == []
    assert {each.state for each in roster.standings.values()} == {"overdue"}

    everyone = sorted(map(node, (FOUNDER, DELEGATE, MEMBER)))
    assert roster.review(END_MS + RENEW_MS) == everyone
    assert roster.standings == {}


def test_a_review_finds_the_expired_at_once_if_a_delegate_was_seen(roster):
    roster.delegate_seen_ms = END_MS + 1

    assert node(MEMBER) in roster.review(END_MS + 2)


def test_a_delegate_was_seen_after_the_end_of_the_shortest_certificate(roster):
    """A delegate that gave more time than it had itself gave none."""
    long = signed(DELEGATE, JOINED[0], expires_ms=END_MS + CERTIFICATE_MS)
    roster.take(node(MEMBER), (long, *DELEGATED), NOW_MS)
    roster.delegate_seen_ms = END_MS + 1

    assert node(MEMBER) in roster.review(END_MS + 2)


def test_only_a_delegate_whose_certificate_holds_counts_as_seen(roster):
    roster.see([node(MEMBER), node(a_key("stranger"))], NOW_MS)
    assert roster.delegate_seen_ms == 0
    roster.see([node(DELEGATE)], END_MS)
    assert roster.delegate_seen_ms == 0
    roster.see([node(MEMBER), node(DELEGATE)], END_MS - 1)
    assert roster.delegate_seen_ms == END_MS - 1


def test_who_is_forgotten_is_no_member_and_may_come_back(roster):
    roster.forget(node(MEMBER))
    roster.forget(node(MEMBER))

    assert not roster.is_member(node(MEMBER))
    assert node(MEMBER) not in roster.chains
    assert roster.take(node(MEMBER), JOINED, NOW_MS) is not None


def test_the_key_of_the_authority_is_nobodys_certificate(roster):
    assert roster.take(node(AUTHORITY), (), NOW_MS) is None
