"""Does the text of a ticket carry it over, or say what is wrong with it?"""

import msgspec
import pytest

from distributed_grid.errors import BadTicket
from distributed_grid.model.membership import Contact, Ticket
from distributed_grid.wire import ticket as tickets
from distributed_grid.wire.mesh_api import Join, TicketMade
from distributed_grid.wire.ticket import PREFIX, TEXT_CHARACTERS_MAX, read_ticket, ticket_text
from tests.builders import an_id
from tests.unit.mesh.trust_lab import MESH

TICKET = Ticket(
    mesh=MESH,
    issuer=Contact(node=an_id(1), addresses=("192.168.1.2:4433", "[fe80::1]:4433")),
    others=(Contact(node=an_id(2), addresses=("10.0.0.2:7",), relay="https://relay.example"),),
    secret=b"s" * 16,
    expires_ms=1_800_000_000_000,
)
TEXT = ticket_text(TICKET)


def fault(text):
    with pytest.raises(BadTicket) as caught:
        read_ticket(text)
    return caught.value.fault


def test_a_ticket_comes_back_as_it_was():
    assert read_ticket(TEXT) == TICKET


def test_a_ticket_is_one_line_of_letters_that_fits_a_small_qr_code():
    plain = ticket_text(msgspec.structs.replace(TICKET, others=()))

    assert TEXT.startswith(PREFIX)
    assert TEXT.isalnum()
    assert TEXT.islower()
    assert len(plain) < 300


def test_line_ends_spaces_and_capitals_do_no_harm():
    wrapped = "\n  ".join(TEXT[at : at + 60] for at in range(0, len(TEXT), 60))

    assert read_ticket(f"  {wrapped.upper()}\r\n") == TICKET


def test_a_ticket_that_was_cut_says_so():
    assert {fault(TEXT[:length]) for length in range(len(PREFIX), len(TEXT))} == {"cut-off"}


def test_a_wrong_letter_says_so():
    at = len(TEXT) // 2
    other = "b" if TEXT[at] == "a" else "a"

    assert fault(TEXT[:at] + other + TEXT[at + 1 :]) == "mistyped"
    assert fault(TEXT[:at] + "1" + TEXT[at + 1 :]) == "mistyped"
    assert fault(TEXT + "a") == "mistyped"
    assert fault(TEXT + TEXT[len(PREFIX) :]) == "mistyped"


@pytest.mark.parametrize(
    "text", ["", "grid", "gridx", "hello", "x" * 99_999, PREFIX + "a" * 99_999]
)
def test_something_else_is_no_ticket(text):
    assert fault(text) == "no-ticket"


def sealed(body, version=1):
    data = bytes([version]) + len(body).to_bytes(2, "big") + body
    return PREFIX + tickets._letters(data + tickets._checksum(data))


def test_a_ticket_of_a_later_version_says_so():
    assert fault(sealed(b"whatever", version=2)) == "newer"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"junk",
        b"\x91" * 5_00,
        msgspec.msgpack.encode([bytes(32), [bytes(31), [], ""], [], bytes(16), 1]),
        msgspec.msgpack.encode([bytes(32), [bytes(32), ["a b"], ""], [], bytes(16), 1]),
        msgspec.msgpack.encode([bytes(32), [bytes(32), ["a"] * 17, ""], [], bytes(16), 1]),
        msgspec.msgpack.encode([bytes(32), [bytes(32), [], ""], [], b"short", 1]),
        msgspec.msgpack.encode([bytes(32), [bytes(32), [], ""], [], bytes(16), -1]),
    ],
)
def test_a_well_sealed_letter_with_nonsense_in_it_is_no_ticket(body):
    assert fault(sealed(body)) == "no-ticket"


def test_a_ticket_with_too_many_ways_leaves_out_the_least_promising():
    long = tuple(f"{number:03}.{'x' * 240}:4433" for number in range(16))
    crowded = msgspec.structs.replace(
        TICKET,
        issuer=Contact(node=an_id(1), addresses=long),
        others=tuple(Contact(node=an_id(number), addresses=long) for number in range(2, 9)),
    )
    text = ticket_text(crowded)
    read = read_ticket(text)

    assert len(text) <= TEXT_CHARACTERS_MAX
    assert read.others == ()
    assert 0 < len(read.issuer.addresses) < 16
    assert read.issuer.addresses == long[: len(read.issuer.addresses)]


def test_at_most_three_others_go_into_a_ticket():
    others = tuple(Contact(node=an_id(number)) for number in range(2, 9))

    assert (
        read_ticket(ticket_text(msgspec.structs.replace(TICKET, others=others))).others
        == others[:3]
    )


def test_no_message_repeats_any_of_the_ticket():
    for text in (TEXT[:-5], TEXT + "a", "grid1" + "!" * 40, "x" + TEXT):
        with pytest.raises(BadTicket) as caught:
            read_ticket(text)

        assert text[5:15] not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "value",
    [
        TICKET,
        Join(ticket=TEXT),
        TicketMade(id="i", text=TEXT, role="member", expires_ms=1, uses=1),
    ],
)
def test_whatever_holds_a_ticket_does_not_show_its_secret(value):
    shown = repr(value) + str(value) + repr(list(value.__rich_repr__()))

    assert "s" * 16 not in shown
    assert TEXT not in shown
