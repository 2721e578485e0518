"""What every node of a mesh offers: asked of all at once, in a bounded time."""

import asyncio

import msgspec

from distributed_grid.agent import remote
from distributed_grid.wire.sharing import AllocationView
from tests.questions_lab import Town


async def test_what_every_node_offers_is_asked_at_once():
    town = Town("desk", "attic", "barn", "cellar")
    town.kill("cellar")
    for name in ("desk", "attic", "barn"):
        member = town.members[name]
        loan = AllocationView(request_id="a" * 64, name="j", kind="cpu", amount=1, allocated_ms=1)
        users = tuple(
            msgspec.structs.replace(loan, user=user) for user in ("ada", "ada@desk", "eve@barn")
        )
        member.agent.lends = msgspec.structs.replace(
            member.agent.lends, node=name, allocations=users
        )
    found = await town.desk.grid.across.sharing_everywhere()

    assert [one.node for one in found.nodes] == ["desk", "attic", "barn"]
    # Under the names that people here know.
    assert [loan.user for loan in found.nodes[1].allocations] == ["ada@attic", "ada", "eve@barn"]
    town.part("desk", "barn")
    town.desk.dead |= {town.attic.me, town.barn.me}
    assert [one.node for one in (await town.desk.grid.across.sharing_everywhere()).nodes] == [
        "desk"
    ]


async def test_who_does_not_answer_in_time_is_named(monkeypatch):
    monkeypatch.setattr(remote, "LOOK_S", 0.05)
    town = Town("desk", "attic")

    async def never():
        await asyncio.Event().wait()

    town.attic.agent.sharing = never
    found = await town.desk.grid.across.sharing_everywhere()
    assert ([one.node for one in found.nodes], found.missing) == (["desk"], ("attic",))
