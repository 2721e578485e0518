"""Can only delegates let in, renew and throw out, and only as far as their own word goes?"""

import msgspec
import pytest

from distributed_grid.edges.keys import verify
from distributed_grid.kernel.mesh import trust
from distributed_grid.model.membership import CERTIFICATE_MS, DAY_MS, MeshId
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
    issued,
    judged,
    node,
    reason,
    renewed,
    signed,
)

NEWCOMER = a_key("newcomer")
END_MS = NOW_MS + CERTIFICATE_MS


def test_a_certificate_lasts_ninety_days():
    assert trust.ends_ms(JOINED) - NOW_MS == 90 * DAY_MS


def test_what_a_delegate_signs_ends_with_its_own_certificate():
    late_ms = END_MS - DAY_MS

    assert trust.ends_ms(a_chain(DELEGATE, DELEGATED, NEWCOMER, now_ms=late_ms)) == END_MS
    assert a_chain(DELEGATE, DELEGATED, NEWCOMER, now_ms=late_ms)[0].expires_ms == END_MS


def test_the_authority_itself_lets_in_without_a_chain():
    chain = a_chain(AUTHORITY, FOUNDED, NEWCOMER)

    assert len(chain) == 1
    assert reason(judged(chain, NEWCOMER)) == ""


def test_roles_are_written_in_one_order_and_once():
    chain = a_chain(DELEGATE, DELEGATED, NEWCOMER, roles=("guest", "worker", "guest"))

    assert chain[0].roles == ("worker", "guest")
    assert reason(judged(chain, NEWCOMER)) == ""


def test_only_a_delegate_that_counts_lets_in():
    end_ms = END_MS + 1

    assert reason(issued(MEMBER, JOINED, NEWCOMER)) == "not-permitted"
    assert reason(issued(NEWCOMER, (), NEWCOMER)) == "stranger"
    assert reason(issued(DELEGATE, DELEGATED, NEWCOMER, revoked={FOUNDER.public})) == "revoked"
    assert reason(issued(DELEGATE, DELEGATED, NEWCOMER, now_ms=end_ms)) == "expired"


def test_whoever_was_revoked_is_not_let_in_again():
    assert reason(issued(AUTHORITY, (), NEWCOMER, revoked={NEWCOMER.public})) == "revoked"


@pytest.mark.parametrize(
    "change", [{"name": ""}, {"name": "a\tb"}, {"roles": ()}, {"node": "nobody"}]
)
def test_nobody_is_let_in_without_an_id_a_name_and_a_role(change):
    assert reason(issued(DELEGATE, DELEGATED, NEWCOMER, **change)) == "malformed"


def test_a_founder_needs_a_name_that_can_be_shown():
    with pytest.raises(AssertionError, match="name"):
        trust.found(AUTHORITY, node(FOUNDER), "a\nb", NOW_MS)


@pytest.mark.parametrize(
    ("before_end_ms", "why"), [(30 * DAY_MS + 1, "not-permitted"), (30 * DAY_MS, ""), (1, "")]
)
def test_a_certificate_is_renewed_from_thirty_days_before_its_end(before_end_ms, why):
    now_ms = END_MS - before_end_ms
    own = a_chain(AUTHORITY, (), DELEGATE, roles=("admin",), now_ms=now_ms)

    assert reason(renewed(JOINED, own=own, now_ms=now_ms)) == why


def test_a_renewal_lasts_longer_and_changes_nothing_else():
    now_ms = END_MS - DAY_MS
    own = a_chain(AUTHORITY, (), DELEGATE, roles=("admin",), now_ms=now_ms)
    chain = renewed(JOINED, own=own, now_ms=now_ms)
    standing = judged(chain, now_ms=now_ms)

    assert standing.expires_ms == now_ms + CERTIFICATE_MS
    assert (standing.name, standing.roles) == ("member", ("member",))


def test_an_expired_member_renews_however_late_it_comes():
    now_ms = END_MS + 3_650 * DAY_MS
    own = a_chain(AUTHORITY, (), DELEGATE, roles=("admin",), now_ms=now_ms)

    assert reason(renewed(JOINED, own=own, now_ms=now_ms)) == ""
    assert reason(renewed(JOINED, own=own, now_ms=now_ms, revoked={MEMBER.public})) == "revoked"


def test_a_delegate_that_ends_as_early_renews_itself_first():
    assert reason(renewed(JOINED, now_ms=END_MS - DAY_MS)) == "busy"


def test_another_name_is_to_be_had_at_any_time():
    chain = renewed(JOINED, name="attic")

    assert chain[0].name == "attic"
    assert reason(judged(chain)) == ""
    assert reason(renewed(JOINED, name="member")) == "not-permitted"
    assert reason(renewed(JOINED, name="a\nb")) == "malformed"


def test_nobody_renews_with_the_chain_of_another():
    assert reason(renewed(JOINED, NEWCOMER, now_ms=END_MS - DAY_MS)) == "stranger"


def revocation(signer=DELEGATE, own=DELEGATED, gone=MEMBER):
    return trust.revoke(signer, own, mesh=MESH, node=node(gone), now_ms=NOW_MS)


def holds(one, mesh=MESH):
    return trust.judge_revocation(one, mesh=mesh, verify=verify)


def test_a_delegate_and_the_authority_revoke():
    assert holds(revocation())
    assert holds(revocation(gone=FOUNDER))
    assert holds(revocation(AUTHORITY, FOUNDED))
    assert revocation(AUTHORITY, FOUNDED).chain == ()


def test_nobody_else_revokes():
    assert not holds(revocation(MEMBER, JOINED, DELEGATE))
    assert not holds(revocation(NEWCOMER, (), DELEGATE))
    assert not holds(revocation(NEWCOMER, DELEGATED, DELEGATE))


def test_a_revocation_holds_in_its_mesh_only_and_not_of_the_authority():
    assert not holds(revocation(), mesh=MeshId("0" * 64))
    assert not holds(revocation(gone=AUTHORITY))


@pytest.mark.parametrize(
    "change",
    [
        {"node": "nobody"},
        {"node": NEWCOMER.public},
        {"at_ms": NOW_MS + 1},
        {"at_ms": -1},
        {"at_ms": 2**64},
        {"issuer": AUTHORITY.public},
        {"issuer": FOUNDER.public},
        {"chain": ()},
        {"signature": bytes(64)},
    ],
)
def test_no_word_of_a_revocation_can_be_changed(change):
    assert not holds(msgspec.structs.replace(revocation(), **change))


def test_a_revocation_holds_after_its_issuer_has_expired():
    old = signed(FOUNDER, DELEGATED[0], expires_ms=1)

    assert holds(revocation(own=(old, *FOUNDED)))


def test_two_delegates_that_revoke_each_other_are_both_out_whoever_is_heard_first():
    """Were the word of a revoked one worthless, the order of arrival would decide."""
    first, second = revocation(DELEGATE, DELEGATED, FOUNDER), revocation(FOUNDER, FOUNDED, DELEGATE)

    assert holds(first)
    assert holds(second)


def test_another_delegate_signs_again_whom_it_knew_before():
    unknown, own = a_key("unknown"), a_key("own")
    members = {
        node(FOUNDER): FOUNDED,
        node(DELEGATE): DELEGATED,
        node(MEMBER): JOINED,
        node(unknown): a_chain(DELEGATE, DELEGATED, unknown),
        node(own): a_chain(FOUNDER, FOUNDED, own),
    }
    known = set(members) - {node(unknown)}

    assert trust.to_resign(members, node(DELEGATE), known) == (node(MEMBER),)
    assert trust.to_resign(members, node(DELEGATE), known, revoked={MEMBER.public}) == ()
    assert set(trust.to_resign(members, node(FOUNDER), known)) == {
        node(DELEGATE), node(MEMBER), node(own),
    }  # fmt: skip


def test_a_revoked_delegate_is_not_signed_again_by_its_own_word():
    loop = a_chain(DELEGATE, DELEGATED, DELEGATE, roles=("admin",))

    assert trust.to_resign({node(DELEGATE): loop}, node(DELEGATE), {node(DELEGATE)}) == ()
