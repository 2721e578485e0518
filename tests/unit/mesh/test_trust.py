"""Is a node one of us exactly if the authority, through admins that still count, says so?"""

import msgspec
import pytest

from distributed_grid.edges.keys import verify
from distributed_grid.kernel.mesh import trust
from distributed_grid.kernel.mesh.trust import Standing
from distributed_grid.model.membership import CERTIFICATE_MS, CHAIN_MAX, DAY_MS, MeshId, Person
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
    signed,
)

END_MS = NOW_MS + CERTIFICATE_MS
STRANGER = a_key("stranger")


def changed(chain, index, **changes):
    """A chain with one certificate changed and its signature left as it was."""
    forged = msgspec.structs.replace(chain[index], **changes)
    return (*chain[:index], forged, *chain[index + 1 :])


def test_a_member_stands_on_a_chain_up_to_the_authority():
    whose = Person(JOINED[0].node, "member")  # Of who has no person in its certificate: its own.
    expected = Standing(
        name="member", roles=("member",), expires_ms=END_MS, state="good", person=whose
    )

    assert len(JOINED) == 3
    assert judged(JOINED) == expected


def test_the_founder_is_an_admin_on_the_word_of_the_authority_alone():
    assert [one.issuer for one in FOUNDED] == [AUTHORITY.public]
    assert judged(FOUNDED, FOUNDER) == Standing(
        name="founder",
        roles=("admin",),
        expires_ms=END_MS,
        state="good",
        person=Person(FOUNDED[0].node, "founder"),
    )


@pytest.mark.rows("S2-141")
def test_whoever_shows_no_certificate_or_that_of_another_is_a_stranger():
    assert reason(judged(())) == "stranger"
    assert reason(judged(JOINED, STRANGER)) == "stranger"


def test_a_certificate_of_another_mesh_is_called_that():
    other = a_key("other authority")
    chain = trust.found(other, node(MEMBER), "member", NOW_MS)

    assert reason(judged(chain)) == "other-mesh"
    assert reason(judged(chain, mesh=MeshId(other.public))) == ""


def test_a_chain_that_changes_the_mesh_on_its_way_up_is_refused():
    other = a_key("other authority")
    delegated = trust.found(other, node(DELEGATE), "delegate", NOW_MS)

    assert reason(judged((JOINED[0], *delegated))) == "stranger"


def test_an_admin_of_another_mesh_of_the_same_founder_is_none_here():
    other = a_key("other authority")
    there = trust.found(other, node(FOUNDER), "founder", NOW_MS)
    delegated = a_chain(
        FOUNDER, there, DELEGATE, roles=("admin",), mesh=MeshId(other.public), name="delegate"
    )

    assert reason(judged((JOINED[0], delegated[0], *FOUNDED))) == "stranger"


@pytest.mark.parametrize("chain", [JOINED[:1], JOINED[:2], (JOINED[0], JOINED[2])])
def test_a_chain_with_a_gap_or_without_its_end_is_refused(chain):
    assert reason(judged(chain)) == "stranger"


def test_whoever_is_no_admin_lets_nobody_in():
    friend = signed(MEMBER, JOINED[0], node=node(STRANGER), issuer=MEMBER.public, roles=("admin",))

    assert reason(judged((friend, *JOINED), STRANGER)) == "not-permitted"


def test_a_node_cannot_be_its_own_authority():
    own = signed(STRANGER, JOINED[0], node=node(STRANGER), issuer=STRANGER.public)
    posing = signed(STRANGER, FOUNDED[0], node=node(STRANGER))

    assert reason(judged((own,), STRANGER)) == "stranger"
    assert reason(judged((own, own), STRANGER)) == "stranger"
    assert reason(judged((posing,), STRANGER)) == "forged"


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize(
    "change",
    [
        {"name": "another"},
        {"roles": ("admin", "member")},
        {"expires_ms": END_MS + 1},
        {"signature": b""},
        {"signature": bytes(64)},
    ],
)
def test_no_word_of_a_certificate_can_be_changed(index, change):
    assert reason(judged(changed(JOINED, index, **change))) == "forged"


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "x" * 65},
        {"name": "é" * 33},
        {"name": "red\x1b[31m"},
        {"name": "two\nlines"},
        {"name": " padded"},
        {"name": "\ud800"},
        {"roles": ()},
        {"roles": ("member", "admin")},
        {"roles": ("member", "member")},
        {"roles": ("king",)},
        {"expires_ms": -1},
        {"expires_ms": 2**64},
    ],
)
@pytest.mark.parametrize("index", [0, 1])
def test_a_certificate_of_an_impossible_form_is_refused_before_it_is_read_further(index, change):
    assert reason(judged(changed(JOINED, index, **change))) == "malformed"


def test_an_issuer_whose_id_is_no_id_is_refused():
    odd = changed(changed(JOINED, 0, issuer="x"), 1, node="x")

    assert reason(judged(odd)) == "malformed"


def test_a_chain_has_a_limit_and_it_can_be_reached():
    keys = [a_key(f"delegate {number}") for number in range(CHAIN_MAX)]
    signer, chain = FOUNDER, FOUNDED
    for key in keys[: CHAIN_MAX - 1]:
        chain = a_chain(signer, chain, key, roles=("admin",))
        signer = key
    too_long = (
        signed(signer, chain[0], node=node(keys[-1]), issuer=signer.public),
        *chain,
    )

    assert len(chain) == CHAIN_MAX
    assert reason(judged(chain, signer)) == ""
    assert reason(judged(too_long, keys[-1])) == "malformed"
    assert reason(issued(signer, chain, keys[-1])) == "not-permitted"


@pytest.mark.parametrize("gone", [MEMBER, DELEGATE, FOUNDER])
def test_revoking_a_delegate_voids_all_that_stands_on_its_word(gone):
    assert reason(judged(JOINED, revoked={gone.public})) == "revoked"
    assert reason(judged(JOINED, revoked={STRANGER.public})) == ""


def test_a_refusal_names_the_delegate_that_was_revoked():
    assert (
        judged(JOINED, revoked={DELEGATE.public}).detail == "delegate, who let it in, was revoked"
    )
    assert judged(JOINED, revoked={MEMBER.public}).detail == "it was revoked"


@pytest.mark.parametrize(
    ("after_ms", "was_seen", "state"),
    [
        (-1, False, "good"),
        (-1, True, "good"),
        (0, False, "overdue"),
        (0, True, "renew-only"),
        (30 * DAY_MS - 1, False, "overdue"),
        (30 * DAY_MS - 1, True, "renew-only"),
        (30 * DAY_MS, False, "renew-only"),
        (3_650 * DAY_MS, False, "renew-only"),
    ],
)
def test_an_expired_member_may_only_renew_unless_there_was_no_delegate(after_ms, was_seen, state):
    standing = judged(JOINED, now_ms=END_MS + after_ms, delegate_seen_since_expiry=was_seen)

    assert isinstance(standing, Standing)
    assert standing.state == state


def test_a_chain_ends_with_the_first_of_its_certificates():
    short = signed(FOUNDER, DELEGATED[0], expires_ms=NOW_MS + 5)
    chain = (JOINED[0], short, *FOUNDED)

    assert judged(chain, now_ms=NOW_MS + 4).state == "good"
    assert judged(chain, now_ms=NOW_MS + 4).expires_ms == NOW_MS + 5
    assert judged(chain, now_ms=NOW_MS + 5).state == "overdue"


def test_a_stranger_costs_no_signature_check():
    def never(public, message, signature):
        raise AssertionError("a signature was checked")

    assert reason(judged((), verify=never)) == "stranger"
    assert reason(judged(JOINED[:1], verify=never)) == "stranger"
    assert reason(judged(JOINED, verify=never, revoked={MEMBER.public})) == "revoked"


@pytest.mark.parametrize(
    ("role", "permitted"),
    [
        ("admin", {"issue", "revoke", "submit", "lend"}),
        ("member", {"submit", "lend"}),
        ("worker", {"lend"}),
        ("guest", {"submit"}),
    ],
)
def test_a_role_permits_what_the_table_says(role, permitted):
    actions = ("issue", "revoke", "submit", "lend")

    assert {action for action in actions if trust.roles_permit((role,), action)} == permitted


def test_roles_add_up_and_none_is_nothing():
    assert trust.roles_permit(("worker", "guest"), "submit")
    assert not trust.roles_permit((), "lend")


@pytest.mark.parametrize(
    ("own_ms", "neighbours_ms", "expected_ms"),
    [
        (1_000, [], 1_000),
        (1_001, [5_000], 1_001),
        (999, [], 1_000),
        (999, [4_000, 2_000, 3_000], 3_000),
        (999, [2_000, 3_000], 3_000),
        (999, [5, 7, 2_000], 2_000),
        (0, [5, 7], 1_000),
    ],
)
def test_a_clock_from_before_the_build_is_taken_from_the_neighbours(
    own_ms, neighbours_ms, expected_ms
):
    assert trust.sane_wall_ms(own_ms, 1_000, neighbours_ms) == expected_ms


def test_a_machine_looks_different_in_every_mesh_and_alike_in_one():
    here, there = MESH, MeshId("0" * 64)

    assert trust.machine_in_mesh("m", here) == trust.machine_in_mesh("m", here)
    assert trust.machine_in_mesh("m", here) != trust.machine_in_mesh("m", there)
    assert trust.machine_in_mesh("m", here) != trust.machine_in_mesh("n", here)


def test_the_real_keys_and_the_judge_agree_on_what_is_signed():
    assert verify(MESH, FOUNDED[0].signed_bytes(), FOUNDED[0].signature)
