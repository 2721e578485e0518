"""Tickets that let nobody in, each for its own reason; and nothing shows their secret."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from distributed_grid.wire.ticket import read_ticket, ticket_text
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        made.form([made.member("desk"), made.member("attic")])
        made.member("stranger").up()
        yield made


@pytest.fixture
def desk(lab):
    return lab["desk"]


@pytest.fixture
def stranger(lab):
    return lab["stranger"]


def refused(member: Member, text: str, code: int, *words: str) -> None:
    """It does not get in, is told why and what to do, and is alone as before."""
    done = member("join", "-", stdin=f"{text}\n")

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    for word in words:
        assert word in done.stderr
    assert text not in done.stderr
    assert list(member.health()) == [member.name]


def newest(desk: Member) -> dict[str, Any]:
    """The ticket that was made last, as people see it."""
    tickets = json.loads(desk.says("ticket", "list", "--json"))
    return max(tickets, key=lambda each: each["made_ms"])


def test_an_expired_ticket(desk, stranger):
    text = desk.ticket("--ttl", "1s")
    awaited(lambda: newest(desk)["state"] == "expired")

    refused(stranger, text, 5, "the ticket has expired", "grid ticket")


def test_a_ticket_that_is_used_up(lab, desk, stranger):
    text = desk.ticket()
    second = lab.member("second").up()
    second.says("join", text)

    refused(stranger, text, 5, "used up", "grid ticket")
    assert "was in mesh" in second.says("join", text)  # The one who used it may show it again.


def test_a_ticket_that_was_taken_back(desk, stranger):
    text = desk.ticket("--uses", "5")
    said = desk.says("ticket", "revoke", newest(desk)["id"])

    assert "is revoked" in said
    refused(stranger, text, 5, "revoked", "grid ticket")


def test_a_ticket_of_another_mesh(lab, desk):
    other = lab.member("other").up()
    other.ticket()
    done = other("join", desk.ticket())

    assert done.returncode == 5
    assert "another mesh" in done.stderr
    assert "grid leave" in done.stderr
    assert list(other.health()) == ["other"]


def test_a_ticket_that_leads_to_a_node_of_another_mesh(lab, desk, stranger):
    """Its issuer has left and founded its own mesh meanwhile."""
    turncoat = lab.member("turncoat").up()
    text = turncoat.ticket()
    turncoat.says("leave", "--force")
    turncoat.ticket()

    refused(stranger, text, 5, "another mesh")


def test_a_ticket_that_was_cut_off(desk, stranger):
    refused(stranger, desk.ticket()[:-20], 2, "cut off", "Copy the whole line")


def test_a_ticket_with_a_wrong_letter(desk, stranger):
    text = desk.ticket()
    wrong = "p" if text[40] != "p" else "q"

    refused(stranger, text[:40] + wrong + text[41:], 2, "wrong letter")


def test_something_that_is_no_ticket(stranger):
    refused(stranger, "hello", 2, "no ticket")


def test_an_issuer_that_is_off_is_unreachable_and_refuses_nobody(lab, stranger):
    issuer = lab.member("issuer").up()
    text = issuer.ticket()
    issuer.down()
    done = stranger("join", text)

    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
    assert "refuses" not in done.stderr
    assert "UDP" in done.stderr


def test_another_member_lets_in_when_the_issuer_cannot_be_reached(lab, desk, stranger):
    """At the address that it has of the issuer nobody answers; a member is linked with it."""
    awaited(lambda: desk.nodes()["attic"].path == "direct")
    ticket = read_ticket(desk.ticket())
    assert ticket.others, "it names members beside the issuer"
    nowhere = ticket.issuer.__class__(node=ticket.issuer.node, addresses=("127.0.0.1:9",))
    text = ticket_text(type(ticket)(
        mesh=ticket.mesh, issuer=nowhere, others=ticket.others, secret=ticket.secret,
        expires_ms=ticket.expires_ms,
    ))  # fmt: skip
    late = lab.member("late").up()

    assert "late joined mesh" in late.says("join", text)
    awaited(lambda: desk.health().get("late") == "alive", desk.health)


def shown(secret: bytes) -> list[str]:
    """Where in /proc a process shows it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        for kind in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                if secret in (entry / kind).read_bytes():
                    found.append(f"{entry.name}/{kind}")
    return found


def test_nothing_shows_the_secret_of_a_ticket(lab, desk):
    text = desk.ticket("--uses", "3")
    ticket = read_ticket(text)
    one = lab.member("one")
    (one.dir / "ticket").write_text(text)
    one.up("--join", "@ticket")
    two = lab.member("two").up()
    two.says("join", "-", stdin=text)
    three = lab.member("three")
    done = three("up", "--detach", env={"GRID_TICKET": text, "GRID_NODE_NAME": "three"})
    assert done.returncode == 0, done.stderr
    secrets = (text.encode(), ticket.secret, ticket.secret.hex().encode(), text[-40:].encode())

    for member in (desk, one, two, three):
        said = [member.says("events", "--json"), member.says("nodes", "--json"), member.log]
        said += [
            member.says("ticket", "list", "--json"),
            member.http("GET", "/metrics")[1].decode(),
        ]
        for secret in secrets:
            assert secret not in "\n".join(said).encode("utf-8", "surrogateescape")
    for secret in secrets:
        assert shown(secret) == []


def test_a_role_is_what_the_ticket_says(lab, desk):
    helper = lab.member("helper").up()
    helper.says("join", desk.ticket("--role", "worker"))

    awaited(lambda: desk.nodes().get("helper") and desk.nodes()["helper"].roles == ("worker",))
    done = helper("ticket")
    assert done.returncode == 5
    assert "not permitted" in done.stderr
    assert helper("kick", "desk").returncode == 5
