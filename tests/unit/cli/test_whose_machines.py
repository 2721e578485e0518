"""What is said of whose machines these are: on joining, and beside what is lent."""

import msgspec
import pytest

from distributed_grid.cli.join import tell
from distributed_grid.cli.nodes import NAMED_MAX, ownership
from distributed_grid.wire.mesh_api import Joined, Nodes, NodeView

JOINED = Joined(
    mesh="ab" * 32, name="attic", roles=("member",), was_member=False, nodes=2, person="ada"
)


def a_node(name: str, person: str, **more) -> NodeView:
    return NodeView(id=name, name=name, person=person, person_id=f"id of {person}", **more)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "as you, on what you lend (grid offer); it is the first machine of ada"),
        (
            {"own": ("desk", "shed")},
            "as you: ada's desk, shed on all that is free, others on what you lend (grid offer)",
        ),
        ({"roles": ("guest",)}, "this machine is ada's; it lends nothing"),
    ],
)
def test_who_joins_is_told_what_it_means(capsys, changes, told):
    tell(msgspec.structs.replace(JOINED, **changes))

    assert capsys.readouterr().err.endswith(f"{told}\n")


def test_one_line_tells_who_owns_and_who_borrows():
    me, mine = a_node("desk", "ada", is_self=True), a_node("attic", "ada")
    gone, bobs = a_node("old", "eve", health="left"), [a_node(f"box{n}", "bob") for n in (1, 2)]

    assert ownership(Nodes(mesh="", nodes=(me,))) == ""
    assert ownership(Nodes(mesh="m", nodes=(me, mine, gone, *bobs))) == (
        "Your machines (ada: desk, attic) use all that is free here;"
        " others (bob) borrow what the terms below allow."
    )
    assert "; others would borrow what" in ownership(Nodes(mesh="m", nodes=(me,)))
    many = [a_node(f"n{number}", f"p{number}") for number in range(NAMED_MAX + 3)]
    assert "p7 and 3 more) borrow" in ownership(Nodes(mesh="m", nodes=(me, *many)))
