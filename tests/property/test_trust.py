"""Whatever anybody sends: only what the authority vouches for is believed, and nothing crashes."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.edges.keys import verify
from distributed_grid.errors import BadTicket
from distributed_grid.kernel.mesh import trust
from distributed_grid.kernel.mesh.tickets import Redeemed, Tickets, mac, ticket_id
from distributed_grid.kernel.mesh.trust import Standing
from distributed_grid.model.membership import ROLES, Contact, Revocation, Ticket
from distributed_grid.wire.mesh import Redeem, Refused
from distributed_grid.wire.ticket import PREFIX, read_ticket, ticket_text
from tests.builders import an_id
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
    a_key,
    judged,
    node,
    signed,
)

KEYS = [AUTHORITY, FOUNDER, DELEGATE, MEMBER, a_key("stranger")]
GOOD = {FOUNDER.public: FOUNDED, DELEGATE.public: DELEGATED, MEMBER.public: JOINED}
CERTIFICATES = [one for chain in GOOD.values() for one in chain[:1]]


@st.composite
def certificates(draw):
    """Anybody's certificate, as it was, or changed and signed by somebody without the right."""
    certificate = draw(st.sampled_from(CERTIFICATES))
    if draw(st.booleans()):
        return certificate
    changes = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "node": st.sampled_from([key.public for key in KEYS]),
                "issuer": st.sampled_from([key.public for key in KEYS]),
                "roles": st.sampled_from([*((role,) for role in ROLES), ()]),
                "expires_ms": st.sampled_from([0, NOW_MS, NOW_MS + 10**12, 2**63]),
                "name": st.text(max_size=70),
            },
        )
    )
    thief = draw(st.sampled_from([MEMBER, KEYS[-1]]))
    return signed(thief, certificate, **changes)


@given(st.lists(certificates(), max_size=6), st.sampled_from(KEYS))
def test_no_shuffling_of_certificates_makes_anybody_more_than_it_is(chain, who):
    answer = judged(tuple(chain), who)

    if isinstance(answer, Standing):
        assert tuple(chain) == GOOD[who.public]


@given(
    st.sampled_from([key.public for key in KEYS]),
    st.sampled_from(KEYS),
    st.lists(certificates(), max_size=4),
)
def test_no_member_and_no_stranger_revokes_anybody(gone, signer, chain):
    revocation = trust.revoke(signer, tuple(chain), mesh=MESH, node=gone, now_ms=NOW_MS)

    if trust.judge_revocation(revocation, mesh=MESH, verify=verify):
        assert signer in (AUTHORITY, FOUNDER, DELEGATE)
        assert gone != MESH


@given(st.binary(max_size=300))
def test_bytes_that_decode_to_a_revocation_are_still_judged(junk):
    try:
        revocation = msgspec.msgpack.decode(junk, type=Revocation)
    except msgspec.DecodeError:
        return
    assert not trust.judge_revocation(revocation, mesh=MESH, verify=verify)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2_000), st.booleans()), max_size=30),
)
def test_a_ticket_never_lets_in_more_than_it_says_and_nobody_loses_its_place(uses, asks):
    secret = b"s" * 16
    book = Tickets(mesh=MESH, issuer=an_id(99))
    book.make(role="member", ttl_ms=1_000, uses=uses, secret=secret, now_ms=0)
    inside = set()
    for number, now_ms, restarts in asks:
        if restarts:
            book = Tickets.from_bytes(book.to_bytes(), mesh=MESH, issuer=an_id(99))
        who = an_id(number)
        answer = book.redeem(
            Redeem(
                mesh=MESH, ticket=ticket_id(secret), issuer=an_id(99), node=who, name="x",
                mac=mac(secret, MESH, an_id(99), who),
            ),
            now_ms,
        )  # fmt: skip
        if isinstance(answer, Redeemed):
            assert answer.is_new == (who not in inside)
            inside.add(who)
        else:
            assert isinstance(answer, Refused)
            assert who not in inside

    assert len(inside) <= uses


WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
WAYS = st.builds(
    Contact,
    node=st.integers(1, 2**256 - 1).map(an_id),
    addresses=st.lists(WORDS, max_size=4).map(tuple),
    relay=st.one_of(st.just(""), WORDS),
)
TICKETS = st.builds(
    Ticket,
    mesh=st.integers(1, 2**256 - 1).map(an_id),
    issuer=WAYS,
    others=st.lists(WAYS, max_size=3).map(tuple),
    secret=st.binary(min_size=16, max_size=16),
    expires_ms=st.integers(0, 2**62 - 1),
)
TEXT = ticket_text(
    Ticket(
        mesh=MESH, issuer=Contact(node=node(FOUNDER), addresses=("192.168.1.2:4433",)),
        secret=bytes(range(16)), expires_ms=NOW_MS,
    )
)  # fmt: skip


@given(TICKETS)
def test_every_ticket_comes_back_from_its_text(ticket):
    assert read_ticket(ticket_text(ticket)) == ticket


def is_refused(text):
    try:
        read_ticket(text)
    except BadTicket:
        return True
    return False


def test_every_change_of_one_letter_is_noticed():
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789=-"
    read = [
        (at, letter)
        for at in range(len(TEXT))
        for letter in alphabet
        if letter != TEXT[at] and not is_refused(TEXT[:at] + letter + TEXT[at + 1 :])
    ]

    assert read == []


def test_every_cut_at_either_end_or_of_one_letter_is_noticed():
    cuts = [TEXT[:at] for at in range(len(TEXT))]
    cuts += [TEXT[at:] for at in range(1, len(TEXT))]
    cuts += [TEXT[:at] + TEXT[at + 1 :] for at in range(len(TEXT))]

    assert all(map(is_refused, cuts))


def test_two_letters_that_changed_places_are_noticed():
    swapped = [
        TEXT[:at] + TEXT[at + 1] + TEXT[at] + TEXT[at + 2 :]
        for at in range(len(TEXT) - 1)
        if TEXT[at] != TEXT[at + 1]
    ]

    assert all(map(is_refused, swapped))


@given(st.one_of(st.text(), st.text().map(PREFIX.__add__)))
def test_any_text_is_a_ticket_or_is_refused(text):
    assert is_refused(text)


@given(st.text("abcdefghijklmnopqrstuvwxyz234567=", max_size=200))
def test_any_letters_after_the_prefix_are_a_ticket_or_are_refused(letters):
    assert is_refused(PREFIX + letters)
