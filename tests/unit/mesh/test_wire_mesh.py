"""Messages between members as bytes: all of them there and back, junk refused."""

import msgspec
import pytest

from distributed_grid.model.membership import Contact, Revocation
from distributed_grid.model.mesh_settings import MeshSettings
from distributed_grid.wire import mesh as wire
from distributed_grid.wire.mesh_api import MESH_ROUTES, Join, TicketMade
from distributed_grid.wire.mesh_records import ROOM_BYTES, NodeLoad, NodeProfile, Offered, fitted
from tests.unit.mesh.trust_lab import JOINED

NODE, MESH = "a" * 64, "b" * 64
MESSAGES = (
    wire.Hello(mesh=MESH, chain=JOINED, machine="m", nonce="n", generation=2),
    wire.Refused(reason="busy", detail="later", about=NODE),
    wire.Redeem(mesh=MESH, ticket="t", issuer=NODE, node=NODE, name="n", mac=b"m"),
    wire.Welcome(chain=JOINED, contacts=(Contact(node=NODE, addresses=("h:1",), relay="r"),)),
    wire.Renew(chain=JOINED, name="new"),
    wire.Renewed(chain=JOINED),
    wire.Delta(number=3, entries=(wire.Entry(NODE, 1, "load", 2, b"v", b"s"),)),
    wire.DeltaTaken(number=3),
    wire.Ranges(ranges=(wire.RangeHash("", "", 4, b"h"),)),
    wire.Have(low="", high="z", items=(wire.Item(NODE, "load", 1, 2, 3),), is_answer=True),
    wire.Remember(generation=4, incarnation=5),
    wire.Challenge(number=1, seed=b"s", cores=2, rounds=3, memory_bytes=4),
    wire.Proof(number=1, digests=(b"d",), elapsed_us=(9,), devices=(("GPU-1", 80),)),
    wire.CloneSeen(machine="m", nonce="n"),
    wire.Goodbye(reason="idle"),
)


@pytest.mark.rows("S0-84")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_the_same_after_a_journey(message):
    assert wire.decode(wire.encode(message)) == message


def test_every_kind_of_message_is_tried():
    assert {type(message) for message in MESSAGES} == set(wire.MeshMessage.__args__)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\xc1",
        b"\x80",
        b"\x81\xa4type\xa4nope",
        b"\x82\xa4type\xa7goodbye\xa6reason\xa1\xff",
        b"\x82\xa4type\xa7goodbye\xa6reason\xa5never",
        b"\x91" * 60_000,
    ],
)
def test_junk_raises_what_is_called_junk(junk):
    with pytest.raises(wire.JUNK):
        wire.decode(junk)


def test_a_signature_is_over_everything_and_names_kind_and_mesh():
    entry = wire.Entry(NODE, 1, "load", 2, b"v", b"s")
    changes = (
        {"node": MESH}, {"generation": 9}, {"key": "offers"}, {"version": 9}, {"value": b"w"},
    )  # fmt: skip
    signed = [entry.signed_bytes(MESH), entry.signed_bytes(NODE)]
    signed += [msgspec.structs.replace(entry, **each).signed_bytes(MESH) for each in changes]

    assert len(set(signed)) == len(signed)
    assert all(each.startswith(b"grid entry 1\0") for each in signed)
    assert msgspec.structs.replace(entry, signature=b"").signed_bytes(MESH) == signed[0]


def test_a_certificate_and_a_revocation_are_signed_over_everything():
    certificate = JOINED[0]
    revocation = Revocation(mesh=MESH, node=NODE, at_ms=1, issuer=NODE)
    for one, changes in (
        (certificate, ("mesh", "node", "name", "issuer")),
        (revocation, ("mesh", "node", "issuer")),
    ):
        signed = [one.signed_bytes()]
        signed += [msgspec.structs.replace(one, **{key: "x"}).signed_bytes() for key in changes]
        assert len(set(signed)) == len(signed)
    for changes in ({"roles": ("admin",)}, {"expires_ms": 1}):
        assert msgspec.structs.replace(certificate, **changes).signed_bytes() != (
            certificate.signed_bytes()
        )
    later = msgspec.structs.replace(revocation, at_ms=2)
    assert later.signed_bytes() != revocation.signed_bytes()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (NodeProfile, {"node_class": "x" * 129, "version": ""}),
        (NodeProfile, {"node_class": "", "version": "", "cores": -1}),
        (NodeProfile, {"node_class": "", "version": "", "labels": dict.fromkeys(map(str, range(65)), "")}),
        (NodeLoad, {"cpu_milli_free": 2**63, "memory_bytes_free": 0}),
        (NodeLoad, {"cpu_milli_free": 0, "memory_bytes_free": 0, "battery_percent": 101}),
    ],
)  # fmt: skip
def test_what_a_node_says_of_itself_has_limits(kind, value):
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


def test_what_holds_a_secret_does_not_show_it():
    made = TicketMade(id="1", text="gridticket-secret", role="member", expires_ms=1, uses=1)

    assert "secret" not in f"{made!r} {Join(ticket='gridticket-secret')!r}"


def test_routes_are_named_once_and_settings_have_the_defaults_of_a_home():
    assert len({route.name for route in MESH_ROUTES}) == len(MESH_ROUTES)
    assert len({(route.method, route.path) for route in MESH_ROUTES}) == len(MESH_ROUTES)
    assert (MeshSettings().max_connections_per_node, MeshSettings().connection_timeout_ms) == (
        50,
        5_000,
    )


def test_a_value_with_too_many_items_keeps_as_many_as_an_entry_has_room_for():
    def offered(count: int) -> Offered:
        return Offered(lines=("x" * 100,) * count)

    full = msgspec.msgpack.decode(fitted(offered, 500), type=dict)["lines"]
    assert len(msgspec.msgpack.encode(offered(len(full)))) <= ROOM_BYTES
    assert len(msgspec.msgpack.encode(offered(len(full) + 1))) > ROOM_BYTES
    assert fitted(offered, 3) == msgspec.msgpack.encode(offered(3))
