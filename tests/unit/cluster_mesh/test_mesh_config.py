"""`MeshConfig` and `TopologyType`, name for name as in seed 002."""

from datetime import timedelta

import msgspec
import pytest

from distributed_grid.cluster_mesh import MeshConfig, PowerAwarePolicy, TopologyType
from distributed_grid.config.settings import load_settings
from distributed_grid.errors import BadInput, BadTicket, BadValue
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact, MeshId, Ticket
from distributed_grid.wire.ticket import ticket_text
from tests.unit.config.test_settings import SEED_2

SECRET = b"sixteen secrets!"


def a_ticket(expires_ms: int = 1) -> str:
    issuer = Contact(node=NodeId("cd" * 32), addresses=("10.0.0.7:4711", "10.0.0.8:4711"))
    return ticket_text(
        Ticket(mesh=MeshId("ab" * 32), issuer=issuer, secret=SECRET, expires_ms=expires_ms)
    )


@pytest.mark.rows("S2-19", "S2-20")
def test_the_defaults_are_those_of_the_seeds_table(tmp_path):
    file = tmp_path / "mesh.toml"
    file.write_text(SEED_2, encoding="utf-8")

    assert MeshConfig.from_toml(file) == MeshConfig.default() == MeshConfig()


@pytest.mark.rows("S2-131", "S2-137", "S2-138", "S2-139")
def test_each_default_is_the_documented_one():
    config = MeshConfig.default()

    assert config.discovery_interval_secs == 30
    assert config.discovery_methods == ("mdns", "broadcast", "registry")
    assert config.subnet_scan_enabled is False
    assert config.topology is TopologyType.Hybrid
    assert (config.max_connections_per_node, config.connection_timeout_ms) == (50, 5_000)
    assert config.enable_relay_nodes is True
    assert config.stun_servers == ("stun.stratoswarm.io:3478",)
    assert config.max_relay_hops == 2
    assert (config.battery_threshold, config.thermal_limit_celsius) == (20, 85)
    assert config.prefer_ac_power is True


@pytest.mark.rows("S2-21", "S2-22", "S2-23")
def test_the_example_of_the_seed_builds_a_configuration():
    config = (
        MeshConfig.default()
        .with_discovery_interval(timedelta(seconds=30))
        .with_topology(TopologyType.Hybrid)
    )

    assert config == MeshConfig(discovery_interval_secs=30, topology=TopologyType.Hybrid)


@pytest.mark.rows("S2-21", "S2-22")
def test_each_word_changes_its_own_value_in_a_copy():
    before = MeshConfig()
    config = (
        before.with_discovery_interval("2m")
        .with_discovery_methods("manual", "scan")
        .with_subnet_scan(True)
        .with_topology(TopologyType.FullMesh)
        .with_max_connections_per_node(8)
        .with_connection_timeout(1.5)
        .with_relay_nodes(False)
        .with_stun_servers("stun.example.org:3478")
        .with_max_relay_hops(0)
        .with_address("NAS:7946")
        .with_ticket(f" {a_ticket()}\n")
    )

    assert config == MeshConfig(
        discovery_interval_secs=120,
        discovery_methods=("manual", "scan"),
        subnet_scan_enabled=True,
        topology=TopologyType.FullMesh,
        max_connections_per_node=8,
        connection_timeout_ms=1_500,
        enable_relay_nodes=False,
        stun_servers=("stun.example.org:3478",),
        max_relay_hops=0,
        addresses=("nas:7946",),
        tickets=(a_ticket(),),
    )
    assert before == MeshConfig()


def test_the_topologies_have_the_names_of_the_seed_and_two_come_later():
    assert [kind.name for kind in TopologyType] == ["FullMesh", "Star", "Hierarchical", "Hybrid"]
    assert [kind.comes_later for kind in TopologyType] == [False, True, True, False]


@pytest.mark.parametrize("topology", [TopologyType.Star, TopologyType.Hierarchical])
def test_a_topology_that_comes_later_is_refused_and_says_so(topology):
    with pytest.raises(BadValue, match="come later") as error:
        MeshConfig().with_topology(topology)

    assert (error.value.field, error.value.value) == ("topology", topology.name)


def test_a_file_that_asks_for_one_is_read_and_says_what_counts(tmp_path):
    file = tmp_path / "mesh.toml"
    file.write_text('[cluster_mesh]\ntopology = "star"\n', encoding="utf-8")
    config = MeshConfig.from_toml(file)

    assert config.topology is TopologyType.Hybrid
    assert "topology star comes later; until then it is hybrid" in config.notes


def test_a_file_tells_what_it_has_and_the_rest_is_default(tmp_path):
    file = tmp_path / "mesh.toml"
    file.write_text(
        '[cluster_mesh]\ntopology = "full"\nthermal_limit_celsius = 80\n', encoding="utf-8"
    )
    assert MeshConfig.from_toml(file) == MeshConfig(
        topology=TopologyType.FullMesh, thermal_limit_celsius=80
    )
    file.write_text("[node]\nname = 'desk'\n", encoding="utf-8")
    assert MeshConfig.from_toml(file) == MeshConfig()
    file.write_text("[cluster_mesh]\ntopologie = 'full'\n", encoding="utf-8")
    with pytest.raises(BadInput, match="Did you mean 'topology'") as error:
        MeshConfig.from_toml(file)
    assert error.value.line == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda config: config.with_discovery_interval(0), "from 1 to 86400"),
        (lambda config: config.with_discovery_interval(timedelta(seconds=-1)), "from 1 to 86400"),
        (lambda config: config.with_discovery_methods("magic"), "one of mdns"),
        (lambda config: config.with_max_connections_per_node(1), "from 2 to 1000"),
        (lambda config: config.with_connection_timeout("10ms"), "from 100 to 300000"),
        (lambda config: config.with_stun_servers("stun"), "a port from 1"),
        (lambda config: config.with_max_relay_hops(9), "from 0 to 8"),
        (lambda config: config.with_relay_nodes("yes"), "true or false"),
        (lambda config: config.with_address("nas"), "a port from 1"),
        (lambda config: msgspec.structs.replace(config, addresses=("nas",)), "a port from 1"),
        (lambda config: config.with_topology("ring"), "is not a valid TopologyType"),
        (
            lambda config: msgspec.structs.replace(config, tickets=(a_ticket(),) * 17),
            "at most 16 tickets",
        ),
    ],
)
def test_what_a_file_may_not_say_is_refused_here_too(change, words):
    with pytest.raises((BadInput, ValueError), match=words):
        change(MeshConfig())


def test_a_ticket_is_looked_at_when_it_is_given_and_never_shown():
    with pytest.raises(BadTicket):
        MeshConfig().with_ticket(a_ticket()[:-5])
    config = MeshConfig().with_ticket(a_ticket())

    assert a_ticket()[5:20] not in repr(config)
    assert a_ticket()[5:20] not in str(list(config.__rich_repr__()))
    assert all(a_ticket()[5:20] not in note for note in config.notes)


@pytest.mark.rows("S2-137", "S2-138", "S2-139")
def test_battery_heat_and_mains_are_a_power_policy():
    config = MeshConfig(battery_threshold=30, thermal_limit_celsius=70, prefer_ac_power=False)
    built = PowerAwarePolicy.builder().min_battery_level(30).prefer_ac_power(False)

    assert config.power_policy == built.thermal_limit(70).build()
    assert MeshConfig().power_policy == PowerAwarePolicy()


def test_what_the_agent_decides_can_be_given_to_it_as_variables(tmp_path):
    config = (
        MeshConfig()
        .with_topology(TopologyType.FullMesh)
        .with_max_connections_per_node(8)
        .with_connection_timeout("750ms")
    )
    config = msgspec.structs.replace(
        config, battery_threshold=30, thermal_limit_celsius=70, prefer_ac_power=False
    )
    mesh = load_settings(config.environment(), directory=str(tmp_path)).settings.mesh

    assert (mesh.topology, mesh.max_connections_per_node) == ("full", 8)
    assert mesh.connection_timeout_ms == 750
    assert (mesh.battery_threshold_percent, mesh.thermal_limit_centi) == (30, 7_000)
    assert mesh.prefer_ac_power is False


def test_notes_tell_what_is_the_agents_and_what_comes_later():
    usual = MeshConfig().notes
    changed = MeshConfig().with_topology(TopologyType.FullMesh).notes

    assert [note.partition(":")[0] for note in usual] == [
        "ways of discovery beyond tickets and addresses come later",
        "relays among members and NAT traversal come later",
    ]
    assert set(changed) - set(usual) == {
        "topology is the agent's: start it with GRID_MESH_TOPOLOGY=full"
    }
