"""The mesh in configuration files, variables and flags: `mesh:` and seed 002's `[cluster_mesh]`."""

import pytest

from distributed_grid.config import mesh_file, mesh_words, variables
from distributed_grid.config.settings import load_settings
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.model.mesh_settings import MeshSettings
from distributed_grid.model.settings import Origin
from tests.unit.config.test_settings import SEED_2, later, load, refusal

TOML = "cluster_config.toml"


# --- What can be said ----------------------------------------------------------------------------


def test_every_setting_of_the_mesh_can_be_written(tmp_path):
    text = """\
mesh:
  listen: "[::]:7946"
  advertise: [home.example.org:7946, "[fd00::5]:7946"]
  relay: https://relay.example.org:8443
  topology: Full
  preset: laptop
  max_connections_per_node: 8
  connection_timeout: 2s
  idle_connection: 1m
  allow: [192.168.0.0/16, fd00::/8, 10.1.2.3]
  deny: [192.168.7.0/24]
  verify_capabilities: false
  gossip_interval: 1s
  battery_threshold: 35
  thermal_limit_celsius: 70.5
  prefer_ac_power: false
"""
    loaded = load(tmp_path, text)

    assert loaded.settings.mesh == MeshSettings(
        listen="[::]:7946",
        advertise=("home.example.org:7946", "[fd00::5]:7946"),
        relay="https://relay.example.org:8443",
        topology="full",
        preset="wan",
        max_connections_per_node=8,
        connection_timeout_ms=2_000,
        idle_connection_ms=60_000,
        allow=("192.168.0.0/16", "fd00::/8", "10.1.2.3/32"),
        deny=("192.168.7.0/24",),
        verify_capabilities=False,
        gossip_interval_ms=1_000,
        battery_threshold_percent=35,
        thermal_limit_centi=7_050,
        prefer_ac_power=False,
    )
    assert [loaded.origins[key].line for key in mesh_file.KEYS] == list(range(2, 17))


def test_every_field_of_the_settings_has_a_key_and_a_variable():
    fields = {f"mesh.{name}" for name in MeshSettings.__struct_fields__}

    assert set(mesh_file.KEYS.values()) == fields
    assert set(mesh_file.KEYS) <= set(variables.VARIABLES.values())


def test_variables_alone_are_enough_and_flags_win_over_them(tmp_path):
    environ = {
        "GRID_MESH_LISTEN": ":7946",
        "GRID_MESH_ADVERTISE": "a.example:1, b.example:2,",
        "GRID_MESH_DENY": "10.0.0.0/8",
        "GRID_MESH_VERIFY_CAPABILITIES": "false",
        "GRID_MESH_CONNECTION_TIMEOUT": "250ms",
    }
    loaded = load(tmp_path, environ=environ, flags={"mesh.listen": ("--listen", "127.0.0.1:0")})

    assert loaded.settings.mesh == MeshSettings(
        listen="127.0.0.1:0",
        advertise=("a.example:1", "b.example:2"),
        deny=("10.0.0.0/8",),
        verify_capabilities=False,
        connection_timeout_ms=250,
    )
    assert loaded.origins["mesh.listen"] == Origin(source="flag", name="--listen")
    assert str(loaded.origins["mesh.deny"]) == "GRID_MESH_DENY"


def test_a_ticket_in_the_environment_is_known_and_nowhere_shown(tmp_path):
    loaded = load(tmp_path, environ={"GRID_TICKET": "grid1secret"})

    assert (loaded.later, loaded.notes) == ((), ())
    assert "grid1secret" not in repr(loaded)


# --- The words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", ""),
        (":7946", ":7946"),
        (":0", ":0"),
        ("192.168.1.5", "192.168.1.5"),
        ("0.0.0.0:65535", "0.0.0.0:65535"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("[0:0::1]:80", "[::1]:80"),
    ],
)
def test_where_to_listen_has_one_spelling(written, read):
    assert mesh_words.listening(written) == read
    assert mesh_words.listening(read) == read


@pytest.mark.parametrize(
    "written",
    [
        "7946", 7946, None, "localhost:1", "1.2.3.4:65536", "1.2.3.4:", "1.2.3.4:x", "[::1", "[::1]x",
        "[1.2.3.4]:1", "1.2.3:80", "224.0.0.1:80", "fe80::1%eth0", "[fe80::1%eth0]:1", "a:b:c",
        ":-1", ":٣", "1.2.3.4:000080",
    ],
)  # fmt: skip
def test_what_cannot_be_listened_on_is_refused_with_an_example(written):
    with pytest.raises(BadValue, match=r"0\.0\.0\.0:7946"):
        mesh_words.listening(written)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Home.Example.org:7946", "home.example.org:7946"),
        ("nas:1", "nas:1"),
        ("stun.stratoswarm.io:3478", "stun.stratoswarm.io:3478"),
        ("10.0.0.1:65535", "10.0.0.1:65535"),
        ("[FD00::5]:7946", "[fd00::5]:7946"),
    ],
)
def test_an_address_has_one_spelling(written, read):
    assert mesh_words.address(written) == read


@pytest.mark.parametrize(
    "written",
    [
        "nas", ":80", "nas:0", "nas:65536", "nas:http", "0.0.0.0:1", "[::]:1", "239.1.2.3:1", "10.0.0:1",
        "10.0.0.256:1", "-x:1", "a b:1", "a..b:1", "ñ.example:1", "fd00::5", 80, ["nas:1"],
        f"{'a' * 64}:1", f"{'a.' * 127}a:1", "a\x1b[31m:1", "http://nas:1", "user@nas:1",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_machine_is_refused(written):
    with pytest.raises(BadValue, match=r"home\.example\.org:7946"):
        mesh_words.address(written)


def test_networks_are_read_once_each_and_a_mistake_gets_the_right_one():
    assert mesh_words.networks("10.0.0.0/8, 10.0.0.0/8,::1") == ("10.0.0.0/8", "::1/128")
    assert mesh_words.networks([]) == ()
    with pytest.raises(BadValue, match=r"The network around it is 10\.0\.0\.0/8"):
        mesh_words.networks(["10.1.2.3/8"])
    for wrong in ("home", "10.0.0.0/33", "fd00::/129", "1.2.3"):
        with pytest.raises(BadValue, match="Write it like"):
            mesh_words.networks([wrong])


@pytest.mark.parametrize("url", ["", "https://relay.example.org", "http://10.0.0.1:8080/relay"])
def test_a_relay_is_a_url(url):
    assert mesh_words.relay_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "relay.example.org", "ftp://relay", "https://", "https://u@relay", "https://:p@relay",
        "https://relay?x=1", "https://relay#x", "https://relay:99999", "https://[::1", "https://a b",
        "https://ñ", f"https://{'a' * 3_000}", "https://-x", 5, "https://relay\x1b[31m",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_relay_is_refused(url):
    with pytest.raises(BadValue, match=r"https://relay\.example\.org"):
        mesh_words.relay_url(url)


def test_the_password_in_a_url_is_not_repeated():
    with pytest.raises(BadValue) as error:
        mesh_words.relay_url("https://ada:hunter2@relay.example.org")

    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "least", "most", "beyond"),
    [
        ("connection_timeout", "100ms", "5m", ("99ms", "301s")),
        ("idle_connection", "1s", "1d", ("999ms", "25h")),
        ("gossip_interval", "50ms", "10s", ("49ms", "11s")),
        ("max_connections_per_node", "2", "1000", ("1", "1001", "1.5", "-3", "many")),
    ],
)
def test_every_number_has_bounds(tmp_path, key, least, most, beyond):
    for word in (least, most):
        assert load(tmp_path, f"mesh: {{{key}: {word}}}\n").origins[f"mesh.{key}"].line == 1
    for word in beyond:
        assert refusal(tmp_path, f"mesh: {{{key}: {word}}}\n").path == f"$.mesh.{key}"


def test_lists_are_bounded(tmp_path):
    many = ", ".join(f"h{number}:1" for number in range(17))
    assert "at most 16" in str(refusal(tmp_path, f"mesh: {{advertise: [{many}]}}\n"))
    nets = ", ".join(f"10.{n // 256}.{n % 256}.0/24" for n in range(1_001))
    assert "at most 1000" in str(refusal(tmp_path, f"mesh: {{deny: [{nets}]}}\n"))
    assert "a list of networks" in str(refusal(tmp_path, "mesh: {deny: {a: b}}\n"))


# --- What is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        ("mesh:\n  lissten: x\n", 2, "$.mesh", "Did you mean 'listen'?"),
        ("mesh:\n  listen: localhost\n", 2, "$.mesh.listen", "an IP address of this machine"),
        ("mesh:\n  topology: ring\n", 2, "$.mesh.topology", "one of full, hybrid"),
        ("mesh:\n  preset: slow\n", 2, "$.mesh.preset", "one of lan, wan"),
        ("mesh:\n  allow:\n    - 10.1.0.0/8\n", 2, "$.mesh.allow", "10.0.0.0/8"),
        ("mesh: {verify_capabilities: maybe}\n", 1, "$.mesh.verify_capabilities", "true or false"),
        ("mesh: [a]\n", 1, "$.mesh", "a mapping"),
    ],
)
def test_what_is_wrong_is_told_with_line_path_and_remedy(tmp_path, text, line, path, words):
    error = refusal(tmp_path, text)

    assert (error.line, error.path) == (line, path)
    assert words in str(error)


def test_a_network_that_is_allowed_and_denied_is_refused_where_it_is_allowed(tmp_path):
    text = "mesh:\n  allow: [10.1.0.0/16, fd00::/8]\n  deny: [fd01::/16, 10.0.0.0/8]\n"
    error = refusal(tmp_path, text)

    assert (error.line, error.path) == (2, "$.mesh.allow")
    assert "10.1.0.0/16, which 'deny' refuses with 10.0.0.0/8" in str(error)
    by_variable = {"GRID_MESH_ALLOW": "10.1.1.1", "GRID_MESH_DENY": "10.1.1.1"}
    with pytest.raises(BadInput) as told:
        load_settings(by_variable, directory=str(tmp_path / "nowhere"))
    assert told.value.file == "GRID_MESH_ALLOW"
    assert load(tmp_path, "mesh: {allow: [10.0.0.0/8], deny: [10.1.0.0/16]}\n").notes == ()


# --- Seed 002 ------------------------------------------------------------------------------------


@pytest.mark.rows("S2-127")
def test_every_key_of_the_seeds_table_counts_or_says_what_it_waits_for(tmp_path):
    loaded = load(tmp_path, SEED_2, name=TOML)
    keys = {f"cluster_mesh.{name}" for name in mesh_file.ClusterMesh.__struct_fields__}
    waits = {entry.key: entry.comes_with for entry in loaded.later}

    assert set(waits) == keys - set(mesh_file.SAME)
    assert waits["cluster_mesh.discovery_methods"] == (
        "ways of discovery beyond tickets and addresses"
    )
    assert waits["cluster_mesh.stun_servers"] == "relays among members and NAT traversal"
    assert loaded.notes == ()


@pytest.mark.rows("S2-127")
def test_the_keys_of_the_seed_that_count_change_the_settings(tmp_path):
    text = SEED_2.replace("hybrid", "full").replace("= 50\n", "= 7\n").replace("5000", "800")
    text = text.replace("= 20\n", "= 30\n").replace("= 85\n", "= 70\n")
    text = text.replace("prefer_ac_power = true", "prefer_ac_power = false")
    loaded = load(tmp_path, text, name=TOML)

    assert loaded.settings.mesh == MeshSettings(
        topology="full",
        max_connections_per_node=7,
        connection_timeout_ms=800,
        battery_threshold_percent=30,
        thermal_limit_centi=7_000,
        prefer_ac_power=False,
    )
    lines = [loaded.origins[key].line for key in mesh_file.SAME.values()]
    assert lines == [8, 9, 10, 18, 19, 20]


@pytest.mark.parametrize("word", ["star", "Hierarchical"])
def test_a_topology_that_comes_later_says_so_and_what_counts_until_then(tmp_path, word):
    text = f'[cluster_mesh]\ntopology = "{word}"\n'
    loaded = load(tmp_path, text, name=TOML)
    file = tmp_path / TOML

    assert loaded.settings.mesh.topology == "hybrid"
    assert later(loaded) == {"cluster_mesh.topology": word}
    assert loaded.notes == (
        f"{file}:2: the topology '{word}' comes later; until then it is hybrid",
    )
    full = load(tmp_path, environ={"GRID_MESH_TOPOLOGY": "full"})
    assert (full.settings.mesh.topology, full.later, full.notes) == ("full", (), ())
    file.unlink()
    ours = load(tmp_path, "mesh: {topology: full}\n", {"GRID_MESH_TOPOLOGY": word})
    assert ours.settings.mesh.topology == "full"
    assert ours.notes == (
        f"GRID_MESH_TOPOLOGY: the topology '{word}' comes later; until then it is full",
    )


def test_what_both_sections_of_a_file_decide_is_refused(tmp_path):
    text = "[mesh]\ntopology = 'full'\n[cluster_mesh]\ntopology = 'hybrid'\n"
    error = refusal(tmp_path, text, name=TOML)

    assert (error.line, error.path) == (4, "$.cluster_mesh.topology")
    assert error.remedy == "Keep one of them"
    assert load(tmp_path, "[mesh]\n[cluster_mesh]\ntopology = 'full'\n", name=TOML).notes == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("discovery_interval_secs = 0", "from 1 to 86400"),
        ("discovery_methods = 'carrier pigeon'", "one of mdns"),
        ("stun_servers = ['stun.example.org']", "a port from 1"),
        ("max_relay_hops = 9", "from 0 to 8"),
        ("max_connections_per_node = 1", "from 2 to 1000"),
        ("connection_timeout_ms = 99", "from 100 to 300000"),
        ("battery_threshold = 101", "from 0 to 100"),
        ("thermal_limit_celsius = 201", "from 0 to 200"),
        ("enable_relay_nodes = 1", "true or false"),
        ("stun_server = []", "Did you mean 'stun_servers'?"),
    ],
)
def test_the_seeds_table_is_checked_key_by_key(tmp_path, line, words):
    error = refusal(tmp_path, f"[cluster_mesh]\n{line}\n", name=TOML)

    assert error.line == 2
    assert words in str(error)
