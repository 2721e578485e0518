"""What is read of a node is what it last said, also where it was read before."""

import msgspec

from distributed_grid.kernel.mesh import said
from distributed_grid.kernel.mesh.coordinates import Coordinate, packed
from distributed_grid.kernel.mesh.said import Said
from distributed_grid.wire.mesh_records import Position, Verdicts


class Words:
    """What nodes say, without a replica around it."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], bytes] = {}

    def value(self, node: str, key: str) -> bytes:
        return self.of.get((node, key), b"")

    def stand(self, node: str, x_us: int) -> Coordinate:
        place = Coordinate(x_us=x_us)
        position = Position(coordinate=packed(place))
        self.of[node, "coordinate"] = msgspec.msgpack.encode(position)
        return place

    def judge(self, node: str, of: dict[str, tuple[str, str]]) -> Verdicts:
        self.of[node, "verdicts"] = msgspec.msgpack.encode(Verdicts(of=of))
        return Verdicts(of=of)


def test_a_place_and_verdicts_are_read_once_until_something_else_is_said():
    words = Words()
    read = Said(lambda: words)
    here, found = words.stand("a", 5), words.judge("a", {"b": ("verified", "")})
    assert (read.coordinate("a"), read.verdicts("a")) == (here, found)
    assert read.coordinate("a") is read.coordinate("a")
    assert read.verdicts("a") is read.verdicts("a")

    there, other = words.stand("a", 7), words.judge("a", {"b": ("failed", "slow")})
    assert (read.coordinate("a"), read.verdicts("a")) == (there, other)

    words.of.clear()
    assert (read.coordinate("a"), read.verdicts("a")) == (None, None)
    words.of = {("a", "coordinate"): b"\xc1", ("a", "verdicts"): b"\xc1"}
    assert (read.coordinate("a"), read.verdicts("a")) == (None, None)


def test_in_another_mesh_nothing_of_the_last_one_is_read():
    words, meshes = Words(), []
    read = Said(lambda: meshes[0] if meshes else None)
    words.stand("a", 5)
    meshes.append(words)
    assert read.coordinate("a") == Coordinate(x_us=5)
    meshes.clear()
    assert read.coordinate("a") is None


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(said, "KEPT_MAX", 2)
    words = Words()
    read = Said(lambda: words)
    places = {node: words.stand(node, at) for at, node in enumerate("abcde")}
    for _ in range(2):
        assert {node: read.coordinate(node) for node in places} == places
        assert len(read._places) <= 2
