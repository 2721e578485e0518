"""The mesh through the blocking and the async client, and what their agent refuses at the door."""
# ruff: noqa: F811  (fixtures come by import)

import socket

import msgspec
import pytest

from distributed_grid.errors import (
    BadValue,
    MeshRefused,
    MeshUnreachable,
    NoAgent,
    NotFound,
    NotInMesh,
    NotPermitted,
)
from distributed_grid.wire.mesh_api import Join, TicketMade
from tests.agent_lab import answer_of
from tests.agent_lab import request as a_request
from tests.agent_stand_in import CannedAgent, answering, read_request, serving
from tests.contract.test_client import client, door  # noqa: F401  (fixtures)
from tests.mesh_stand_in import CannedMesh


@pytest.fixture
def attic() -> CannedAgent:
    made = CannedAgent()
    made.mesh = CannedMesh("attic")
    return made


def test_a_mesh_is_founded_joined_looked_at_and_left(client, door, attic, tmp_path):
    desk = CannedAgent()
    attic.mesh.lobby = desk.mesh.lobby
    with serving(desk, door) as path, serving(attic, tmp_path / "attic.sock") as other:
        here, there = client(path), client(other)
        ticket = here("ticket", role="worker", ttl="2h", uses=2)
        joined = there("join", f"{ticket.text}\n")

        assert (joined.name, joined.roles, joined.was_member) == ("attic", ("worker",), False)
        assert there("join", ticket.text).was_member
        assert [node.name for node in here("nodes")] == ["desk", "attic"]
        assert [node.is_self for node in there("nodes")] == [True, False]
        assert [one.used_by for one in here("tickets")] == [("attic",)]
        assert here("revoke_ticket", ticket.id).state == "revoked"
        assert there("rename", "cellar").name == "cellar"
        there("leave")
        assert [node.name for node in there("nodes")] == ["cellar"]
        assert here("kick", "attic").why == "revoked"
        with pytest.raises(NotPermitted):
            here("leave")
        here("leave", force=True)


def test_what_the_mesh_refuses_is_raised_as_what_it_was(client, door):
    agent = CannedAgent()
    with serving(agent, door) as path:
        grid = client(path)
        for call, error in (
            (("leave",), NotInMesh),
            (("kick", "attic"), NotInMesh),
            (("revoke_ticket", "ffff"), NotFound),
        ):
            with pytest.raises(error):
                grid(*call)
        with pytest.raises(MeshRefused) as refused:
            grid("join", "grid1abcdefgh")
        assert (refused.value.reason, refused.value.exit_code) == ("ticket-unknown", 5)
        text = grid("ticket").text
        agent.mesh.is_reachable = False
        with pytest.raises(MeshUnreachable) as gone:
            grid("join", text)
        assert gone.value.tried == ("10.0.0.7:4711",)
        assert text not in str(gone.value)


@pytest.mark.parametrize(
    ("what", "args", "wishes"),
    [
        ("ticket", (), {"ttl": "soon"}),
        ("ticket", (), {"ttl": 0}),
        ("ticket", (), {"ttl": "9000d"}),
        ("ticket", (), {"uses": 0}),
        ("ticket", (), {"uses": 1_001}),
        ("ticket", (), {"uses": "many"}),
        ("ticket", (), {"role": "king"}),
        ("join", ("",), {}),
        ("join", ("x" * 17_000,), {}),
        ("rename", ("two\nlines",), {}),
        ("rename", ("",), {}),
        ("kick", ("",), {}),
        ("kick", ("x" * 300,), {}),
        ("revoke_ticket", ("",), {}),
    ],
)
def test_what_nobody_can_mean_is_not_even_asked(client, door, what, args, wishes):
    with pytest.raises(BadValue) as bad:
        client(str(door))(what, *args, **wishes)

    assert "xxxxx" not in str(bad.value) or what == "kick"


@pytest.mark.parametrize(
    ("target", "body", "status", "says"),
    [
        ("/v1/tickets", b'{"ttl_ms": 0}', 400, "ttl_ms from 1 to"),
        ("/v1/tickets", b'{"ttl_ms": 31536000001}', 400, "ttl_ms from 1 to"),
        ("/v1/tickets", b'{"uses": 1001}', 400, "uses from 1 to 1000"),
        ("/v1/tickets", b'{"role": "king"}', 400, "role: expected one of "),
        (
            "/v1/tickets",
            b'{"uses": 1, "many": 2}',
            400,
            "many: expected one of person, role, ttl_ms, uses",
        ),
        ("/v1/join", b'{"ticket": ""}', 400, "a ticket of 1 to"),
        ("/v1/join", b'{"ticket": "%s"}' % (b"s" * 17_000), 400, "a ticket of 1 to"),
        ("/v1/rename", b'{"name": ""}', 400, "a name of 1 to 64 bytes"),
        ("/v1/rename", b'{"name": "%s"}' % ("ä" * 33).encode(), 400, "a name of 1 to 64"),
        ("/v1/nodes/%s/kick" % ("x" * 257), b"", 404, "there is no node"),
        ("/v1/tickets/%s/revoke" % ("x" * 257), b"", 404, "there is no ticket"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_the_door_of_the_mesh_keeps_out_what_no_client_of_ours_sends(
    door, target, body, status, says
):
    agent = CannedAgent()
    with serving(agent, door) as path, socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall(a_request("POST", target, body, close=True))
        answered, problem = answer_of(line)

    assert answered == status
    assert says in msgspec.json.decode(problem)["message"]
    assert b"ssssssss" not in problem
    assert agent.mesh.asked == []


def test_a_ticket_is_asked_for_once_even_if_the_agent_dies_over_it(client, door):
    asked = []

    def dies(connection: socket.socket) -> None:
        asked.append(read_request(connection))

    with answering(door, dies, dies) as path, pytest.raises(NoAgent):
        client(path)("ticket")
    assert len(asked) == 1


def test_events_that_were_come_to_an_end(client, door):
    agent = CannedAgent()
    with serving(agent, door) as path:
        assert len(client(path).all("events", after=1, follow=False)) == 2
    assert agent.asked == [("events", (0, 1), False)]


def test_no_text_of_a_ticket_is_in_the_repr_of_what_holds_it():
    made = TicketMade(id="ab", text="grid1secret", role="member", expires_ms=1, uses=1)

    assert "secret" not in repr(made) + repr(Join(ticket="grid1secret"))
