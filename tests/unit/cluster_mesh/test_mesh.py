"""`ClusterMesh`, name for name as in seed 002, over the client and a canned agent."""

import asyncio
from datetime import timedelta

import pytest

from distributed_grid import cluster_mesh
from distributed_grid.cluster_mesh import ClusterMesh, MeshConfig, TopologyType
from distributed_grid.cluster_mesh.mesh import aimed
from distributed_grid.errors import BadValue, Closed, MeshRefused, MeshUnreachable, NoAgent
from distributed_grid.wire.mesh_api import Join, Joined
from distributed_grid.wire.ticket import read_ticket
from tests.agent_stand_in import CannedAgent, serving
from tests.mesh_stand_in import a_node
from tests.unit.cluster_mesh.test_mesh_config import a_ticket


@pytest.fixture
def agent():
    return CannedAgent()


@pytest.fixture
def socket(agent, tmp_path):
    with serving(agent, tmp_path / "s") as path:
        yield path


def answers(agent, *words):
    """Let the agent answer to joins with these, one after the other."""
    heard = []

    async def join(wanted: Join) -> Joined:
        heard.append(wanted.ticket)
        answer = words[len(heard) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent.mesh.join = join
    return heard


JOINED = Joined(mesh="ab" * 32, name="desk", roles=("member",), was_member=False, nodes=2)


@pytest.mark.rows("S2-18", "S2-24", "S2-25", "S2-26")
def test_the_example_of_the_seed_runs(agent, socket, capsys):
    agent.mesh.members.append(a_node("attic"))

    async def example() -> None:
        # Create cluster mesh
        config = (
            MeshConfig.default()
            .with_discovery_interval(timedelta(seconds=30))
            .with_topology(TopologyType.Hybrid)
        )
        mesh = await ClusterMesh.new(config, socket=socket)

        # Start node discovery
        await mesh.start_discovery()

        # Get cluster status
        nodes = await mesh.list_nodes()
        print(f"Found {len(nodes)} nodes")
        await mesh.close()

    asyncio.run(example())

    assert capsys.readouterr().out == "Found 2 nodes\n"


@pytest.mark.rows("S2-24")
def test_without_an_agent_there_is_no_mesh(tmp_path):
    with pytest.raises(NoAgent):
        asyncio.run(ClusterMesh.new(socket=tmp_path / "nobody"))


def discovered(socket, config):
    async def discover():
        async with await ClusterMesh.new(config, socket=socket) as mesh:
            await mesh.start_discovery()
            await mesh.start_discovery()  # Twice is harmless.
            return mesh.notes

    return asyncio.run(discover())


@pytest.mark.rows("S2-25")
def test_discovery_joins_with_the_ticket(agent, socket):
    heard = answers(agent, JOINED, JOINED)
    notes = discovered(socket, MeshConfig().with_ticket(a_ticket()))

    assert heard == [a_ticket()] * 2
    assert notes == MeshConfig().notes


def test_without_a_ticket_nobody_is_joined(agent, socket):
    heard = answers(agent)
    discovered(socket, None)

    assert heard == []


def test_of_several_tickets_the_first_that_lets_us_in_counts(agent, socket):
    refused = MeshRefused("attic", reason="ticket-expired")
    heard = answers(agent, refused, JOINED, JOINED)
    tickets = [a_ticket(number) for number in range(3)]
    config = MeshConfig(tickets=tuple(tickets))

    async def discover():
        async with await ClusterMesh.new(config, socket=socket) as mesh:
            await mesh.start_discovery()

    asyncio.run(discover())

    assert heard == tickets[:2]


@pytest.mark.parametrize(
    "first",
    [
        MeshRefused("attic", reason="ticket-expired"),
        MeshUnreachable("attic", tried=["10.0.0.7:4711"]),
    ],
)
def test_if_none_lets_us_in_the_first_error_is_raised(agent, socket, first):
    heard = answers(agent, first, MeshRefused("attic", reason="ticket-used-up"))

    with pytest.raises(type(first), match="attic"):
        discovered(socket, MeshConfig(tickets=(a_ticket(1), a_ticket(2))))
    assert len(heard) == 2


def test_an_address_is_tried_before_those_of_the_ticket(agent, socket):
    heard = answers(agent, JOINED, JOINED)
    config = MeshConfig().with_ticket(a_ticket()).with_address("forwarded.example:9")
    discovered(socket, config.with_address("10.0.0.8:4711"))
    sent, made = read_ticket(heard[0]), read_ticket(a_ticket())

    assert sent.issuer.addresses == ("forwarded.example:9", "10.0.0.8:4711", "10.0.0.7:4711")
    assert (sent.secret, sent.mesh, sent.expires_ms) == (made.secret, made.mesh, made.expires_ms)


def test_a_ticket_stays_as_it_is_without_addresses_and_never_gets_too_many():
    assert aimed(a_ticket(), ()) == a_ticket()
    many = tuple(f"h{number}:1" for number in range(16))
    assert read_ticket(aimed(a_ticket(), many)).issuer.addresses == many


def test_an_address_alone_lets_nobody_in(socket):
    with pytest.raises(BadValue, match="a ticket beside the address"):
        discovered(socket, MeshConfig().with_address("nas:7946"))


@pytest.mark.rows("S2-26")
def test_the_list_has_the_dead_and_not_those_who_left(agent, socket):
    agent.mesh.members += [a_node("cellar", health="dead"), a_node("gone", health="left")]

    async def listed():
        async with await ClusterMesh.new(socket=socket) as mesh:
            return [(node.name, node.health) for node in await mesh.list_nodes()], mesh

    nodes, mesh = asyncio.run(listed())

    assert nodes == [("desk", "alive"), ("cellar", "dead")]
    with pytest.raises(Closed):
        asyncio.run(mesh.list_nodes())


def test_every_public_name_is_there_and_sorted():
    assert cluster_mesh.__all__ == sorted(cluster_mesh.__all__)
    assert all(getattr(cluster_mesh, name) is not None for name in cluster_mesh.__all__)
