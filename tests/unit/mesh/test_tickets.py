"""Does a ticket let in as many as it says, whoever asks, however often?"""

import msgspec
import pytest

from distributed_grid.errors import NotPermitted
from distributed_grid.kernel.mesh import tickets
from distributed_grid.kernel.mesh.tickets import PLACES_MAX, RECORDS_MAX, Tickets, mac, state_of
from distributed_grid.model.membership import MeshId
from distributed_grid.wire.mesh import Redeem
from tests.builders import an_id
from tests.unit.mesh.trust_lab import MESH, reason

ISSUER = an_id(1)
SECRET = b"s" * 16


def a_book():
    return Tickets(mesh=MESH, issuer=ISSUER)


def made(book, *, secret=SECRET, uses=1, ttl_ms=1_000, now_ms=0):
    return book.make(role="worker", ttl_ms=ttl_ms, uses=uses, secret=secret, now_ms=now_ms)


def asking(number, *, secret=SECRET, **what_matters):
    fields = {
        "mesh": MESH,
        "ticket": tickets.ticket_id(secret),
        "issuer": ISSUER,
        "node": an_id(number),
        "name": "newcomer",
        "mac": mac(secret, MESH, ISSUER, an_id(number)),
    }
    return Redeem(**(fields | what_matters))


def test_whoever_holds_the_secret_is_let_in_with_the_role_of_the_ticket():
    book = a_book()
    made(book)
    redeemed = book.redeem(asking(7), 999)

    assert redeemed.is_new
    assert (redeemed.record.role, redeemed.record.used_by) == ("worker", (an_id(7),))


def test_the_public_id_and_the_mac_say_nothing_of_the_secret():
    record = made(a_book())

    assert len(record.id) == 16
    assert set(record.id) <= set("0123456789abcdef")
    assert "s" * 16 not in repr(record)
    assert len(asking(7).mac) == 32


def test_a_retry_is_not_a_second_use_even_after_the_end():
    book = a_book()
    made(book, uses=2)
    first, again, late = (book.redeem(asking(7), now_ms) for now_ms in (1, 2, 10_000))

    assert [first.is_new, again.is_new, late.is_new] == [True, False, False]
    assert late.record.used_by == (an_id(7),)


def test_no_more_nodes_come_in_than_the_ticket_says():
    book = a_book()
    made(book, uses=2)
    answers = [book.redeem(asking(number), 1) for number in (7, 8, 9, 8)]

    assert [reason(answer) for answer in answers] == ["", "", "ticket-used-up", ""]


def test_each_way_of_being_no_good_has_its_own_reason():
    book = a_book()
    record = made(book)
    made(book, secret=b"t" * 16)
    book.revoke(tickets.ticket_id(b"t" * 16))

    assert reason(book.redeem(asking(7), record.expires_ms)) == "ticket-expired"
    assert reason(book.redeem(asking(7, secret=b"t" * 16), 1)) == "ticket-revoked"
    assert reason(book.redeem(asking(7, secret=b"u" * 16), 1)) == "ticket-unknown"
    assert reason(book.redeem(asking(7, issuer=an_id(2)), 1)) == "ticket-unknown"
    assert reason(book.redeem(asking(7, mesh=MeshId("0" * 64)), 1)) == "other-mesh"


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        bytes(32),
        mac(b"u" * 16, MESH, ISSUER, an_id(7)),
        mac(SECRET, MESH, ISSUER, an_id(8)),
        mac(SECRET, MESH, an_id(2), an_id(7)),
        mac(SECRET, MeshId("0" * 64), ISSUER, an_id(7)),
    ],
)
def test_a_mac_is_good_for_one_node_one_issuer_and_one_mesh(wrong):
    book = a_book()
    made(book)

    assert reason(book.redeem(asking(7, mac=wrong), 1)) == "forged"


def test_only_a_holder_learns_what_has_become_of_a_ticket():
    book = a_book()
    record = made(book)
    book.revoke(record.id)

    assert reason(book.redeem(asking(7, mac=bytes(32)), 5_000)) == "forged"


def test_a_revoked_ticket_is_void_for_those_who_used_it_too():
    book = a_book()
    record = made(book)
    book.redeem(asking(7), 1)
    revoked = book.revoke(record.id)

    assert revoked.used_by == (an_id(7),)
    assert reason(book.redeem(asking(7), 1)) == "ticket-revoked"
    assert book.revoke("nothing") is None


def test_the_state_of_a_ticket_is_its_latest_misfortune():
    book = a_book()
    record = made(book)
    used = book.redeem(asking(7), 1).record

    assert [state_of(record, 1), state_of(used, 1)] == ["open", "used-up"]
    assert state_of(used, 1_000) == "expired"
    assert state_of(book.revoke(record.id), 1_000) == "revoked"


def test_the_book_survives_a_restart_with_its_uses():
    book = a_book()
    record = made(book)
    book.redeem(asking(7), 1)
    again = Tickets.from_bytes(book.to_bytes(), mesh=MESH, issuer=ISSUER)

    assert again.records() == book.records()
    assert again.get(record.id).used_by == (an_id(7),)
    assert not again.redeem(asking(7), 1).is_new
    assert reason(again.redeem(asking(8), 1)) == "ticket-used-up"


def test_junk_is_no_book():
    with pytest.raises(msgspec.DecodeError):
        Tickets.from_bytes(b"junk", mesh=MESH, issuer=ISSUER)


def secret(number):
    return number.to_bytes(16, "big")


def test_the_book_is_bounded_and_the_oldest_dead_make_room():
    book = a_book()
    for number in range(RECORDS_MAX):
        made(book, secret=secret(number), now_ms=number, ttl_ms=10 if number < 2 else 10_000)
    made(book, secret=secret(RECORDS_MAX), now_ms=RECORDS_MAX)

    assert len(book.records()) == RECORDS_MAX
    assert book.get(tickets.ticket_id(secret(0))) is None
    assert book.get(tickets.ticket_id(secret(1))) is not None


def test_those_that_are_used_up_are_forgotten_last_for_their_nodes_may_ask_again():
    book = a_book()
    for number in range(RECORDS_MAX):
        made(book, secret=secret(number), now_ms=number, ttl_ms=10_000 if number != 1 else 10)
    book.redeem(asking(7, secret=secret(0)), 500)
    made(book, secret=secret(RECORDS_MAX), now_ms=RECORDS_MAX)

    assert book.get(tickets.ticket_id(secret(0))) is not None
    assert book.get(tickets.ticket_id(secret(1))) is None


def test_open_tickets_are_never_forgotten_so_there_is_a_most():
    book = a_book()
    for number in range(RECORDS_MAX):
        made(book, secret=secret(number))

    with pytest.raises(NotPermitted, match="open tickets"):
        made(book, secret=secret(RECORDS_MAX))


def test_the_uses_of_all_tickets_together_have_a_most_too():
    book = a_book()
    for number in range(PLACES_MAX // 1_000):
        made(book, secret=secret(number), uses=1_000)

    with pytest.raises(NotPermitted, match="uses"):
        made(book, secret=secret(99))

    book.revoke(tickets.ticket_id(secret(3)))
    made(book, secret=secret(99))

    assert book.get(tickets.ticket_id(secret(3))) is None


@pytest.mark.parametrize(
    "wrong", [{"secret": b"short"}, {"ttl_ms": 0}, {"uses": 0}, {"uses": 1_001}]
)
def test_the_door_has_checked_what_a_ticket_is_made_of(wrong):
    with pytest.raises(AssertionError):
        made(a_book(), **wrong)
