"""`ClusterConfig`: every shape people have, the variables over it, and what is written again."""

import msgspec
import pytest

from distributed_grid.config import ClusterConfig
from distributed_grid.config.cluster_sections import (
    ExecutionConfig,
    NodeConfig,
    ResourceSharingConfig,
    ThresholdsConfig,
)
from distributed_grid.errors import BadInput, BadValue, UnknownName

SEED = """\
resource_sharing:
  enabled: true
  check_interval: 60  # seconds
  offer_expiry: 300   # seconds
  max_offers_per_node: 5
  thresholds:
    gpu_utilization_max: 20.0    # GPU must be below 20% utilization
    gpu_memory_min_mb: 1024.0    # At least 1GB free GPU memory
    memory_percent_max: 50.0     # Memory must be below 50% used
    memory_min_gb: 2.0           # At least 2GB free memory
    cpu_percent_max: 30.0        # CPU must be below 30% utilization
    cpu_min_cores: 1.0           # At least 1 CPU core free
"""
VALIDATED = """\
name: lab
nodes:
  - {name: gpu1, host: 10.0.0.1, user: ada, gpu_count: 2, memory_gb: 64, role: master,
     ssh_key_path: ~/.ssh/id, tags: [gpu, fast], port: 2222}
  - {name: gpu2, host: 10.0.0.2, user: ada, gpu_count: 1, memory_gb: 32, tags: [gpu],
     resource_sharing: {can_share: false, max_share_gpu: 1}}
execution:
  default_nodes: 2
  environment: {MODE: fast}
logging: {level: warning, format: TEXT}
"""


@pytest.fixture
def read(tmp_path):
    def from_text(text, **environ):
        file = tmp_path / "cluster_config.yaml"
        file.write_text(text, encoding="utf-8")
        return ClusterConfig.from_yaml(file, environ=environ)

    return from_text


@pytest.mark.rows("S3-18", "S3-23", "S3-49", "S3-51")
def test_the_section_of_the_seed_is_read_as_it_is_printed(read):
    config = read(SEED)

    assert config.resource_sharing == ResourceSharingConfig()
    assert config.resource_sharing.thresholds == ThresholdsConfig(
        gpu_utilization_max=20.0, gpu_memory_min_mb=1024.0, memory_percent_max=50.0,
        memory_min_gb=2.0, cpu_percent_max=30.0, cpu_min_cores=1.0,
    )  # fmt: skip
    assert config.nodes == ()
    assert config.is_set("resource_sharing.check_interval")


def test_other_values_than_the_defaults_are_kept(read):
    config = read(
        "resource_sharing: {enabled: false, policy: Aggressive, mode: OFFLOAD_ONLY,"
        " check_interval: 15, thresholds: {cpu_percent_max: 55.5, cpu_pressure_high: 0.9}}"
    )
    sharing = config.resource_sharing

    assert (sharing.enabled, sharing.policy, sharing.mode) == (False, "aggressive", "offload_only")
    assert (sharing.check_interval, sharing.thresholds.cpu_percent_max) == (15, 55.5)


def test_the_whole_schema_has_its_attributes_and_defaults(read, monkeypatch):
    monkeypatch.setenv("HOME", "/people/ada")
    config = read(VALIDATED)
    first, second = config.nodes

    assert (config.name, first.host, first.port, first.gpu_count) == ("lab", "10.0.0.1", 2222, 2)
    assert (first.role, second.role, second.port) == ("master", "worker", 22)
    assert first.ssh_key_path == "/people/ada/.ssh/id"
    assert second.resource_sharing.can_share is False
    assert (config.execution.default_nodes, config.execution.timeout_seconds) == (2, 3600)
    assert config.execution.working_directory == "/tmp/grid"
    assert config.execution.environment == {"MODE": "fast"}
    assert (config.logging.level, config.logging.format) == ("WARNING", "text")
    assert (config.metrics.port, config.ssh.connect_timeout) == (8000, 5)
    assert config.health_check.gpu_weight == 3.0
    assert config.get_node_by_name("gpu2") is second
    assert config.get_node_by_name("gpu9") is None
    assert config.get_nodes_by_tag("gpu") == [first, second]
    assert config.get_nodes_by_tag("fast") == [first]


@pytest.mark.parametrize(
    ("text", "names", "note"),
    [
        ("nodes: [gpu1, gpu2]\n", ["gpu1", "gpu2"], "the cluster has no name"),
        ("cluster:\n  name: home\n  nodes: [gpu1]\n", ["gpu1"], "counts as the top level"),
        ("name: home\nnodes:\n  - gpu1\n  - {name: b, host: h}\n", ["gpu1", "b"], ""),
        ("name: home\n", [], ""),
    ],
)
def test_every_shape_is_one_shape(read, text, names, note):
    config = read(text)

    assert [node.name for node in config.nodes] == names
    assert note in " ".join(config.notes)


def test_the_old_place_of_a_section_wins_and_that_is_told(read):
    config = read(
        "resource_sharing: {policy: balanced, check_interval: 20}\n"
        "execution:\n  resource_sharing: {policy: conservative}\n"
    )

    assert config.resource_sharing.policy == "conservative"
    assert config.resource_sharing.check_interval == 20
    assert "execution.resource_sharing" in " ".join(config.notes)


def test_variables_win_over_the_file(read):
    config = read(
        VALIDATED, GRID_CLUSTER_NAME="work", GRID_DEFAULT_NODES="3", GRID_METRICS_PORT="9000",
        GRID_TIMEOUT_SECONDS="60", GRID_LOG_LEVEL="error", GRID_SSH_TIMEOUT="7",
        GRID_WORKING_DIRECTORY="/srv/grid", GRID_NODE_NAME="mine", GRID_METRICS_ENABLED="true",
    )  # fmt: skip

    assert (config.name, config.execution.default_nodes) == ("work", 3)
    assert (config.metrics.port, config.metrics.enabled) == (9000, True)
    assert (config.execution.timeout_seconds, config.ssh.timeout) == (60, 7)
    assert (config.logging.level, config.logging.format) == ("ERROR", "text")
    assert config.execution.working_directory == "/srv/grid"
    assert config.execution.environment == {"MODE": "fast"}
    assert config.is_set("execution.timeout_seconds")


def test_the_environment_of_the_process_counts_unless_another_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("GRID_CLUSTER_NAME", "work")
    (tmp_path / "c.yaml").write_text("name: home\n")

    assert ClusterConfig.from_yaml(str(tmp_path / "c.yaml")).name == "work"


BAD = [
    ("resource_sharing: {enabled: maybe}", "$.resource_sharing.enabled"),
    ("resource_sharing: {check_interval: 5}", "$.resource_sharing.check_interval"),
    ("resource_sharing: {thresholds: {cpu_percent_max: -1}}", "cpu_percent_max"),
    ("resource_sharing: {thresholds: {cpu_percent_max: 130}}", "cpu_percent_max"),
    ("resource_sharing: {policy: greedy}", "$.resource_sharing.policy"),
    ("resource_sharing: [1]", "$.resource_sharing"),
    ("nodes: gpu1", "$.nodes"),
    ("nodes: [{host: h}]", "$.nodes[0]"),
    ("nodes: [gpu1, gpu1]", "$"),
    ("execution: {default_nodes: 0}", "$.execution.default_nodes"),
    ("nodse: [gpu1]", "unknown key 'nodse'"),
    ("[1, 2]", "$"),
    ("a: b: c", "$"),
    ("", "is empty"),
]


@pytest.mark.parametrize(("text", "path"), BAD)
def test_a_wrong_file_is_one_error_with_path_and_remedy(read, text, path):
    with pytest.raises(BadInput) as caught:
        read(text)

    assert path in str(caught.value)
    assert "cluster_config.yaml" in str(caught.value)
    assert caught.value.remedy


def test_a_wrong_variable_is_named(read):
    with pytest.raises(BadInput, match="GRID_DEFAULT_NODES"):
        read("name: home", GRID_DEFAULT_NODES="some")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere\.yaml"):
        ClusterConfig.from_yaml(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("text", [SEED, VALIDATED, "nodes: [a]\nexecution: {timeout_seconds: 5}"])
def test_what_is_written_reads_the_same(read, tmp_path, text):
    config = read(text)
    written = config.to_yaml(tmp_path / "again.yaml")
    again = ClusterConfig.from_yaml(tmp_path / "again.yaml", environ={})
    compared = {"told": {}, "notes": (), "source": ""}

    assert (tmp_path / "again.yaml").read_text("utf-8") == written
    assert msgspec.structs.replace(again, **compared) == msgspec.structs.replace(config, **compared)
    assert "told" not in written


def test_what_is_no_attribute_is_still_written(read):
    text = read(
        "pretend: {cpus: 8}\nnode: {labels: {ssd: 'true', v: '1.10'}}\nsync: {use_checksums: false}\n"
        "resource_sharing: {hours: '22:00-07:00'}\n"
    ).to_yaml()

    assert "cpus: 8" in text
    assert "v: '1.10'" in text
    assert "hours: 22:00-07:00" in text
    assert "use_checksums: false" in text


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(BadInput, match="cannot be written"):
        ClusterConfig().to_yaml(tmp_path / "no" / "c.yaml")


def test_a_program_can_make_one(tmp_path):
    config = ClusterConfig(
        name="home", nodes=[NodeConfig(name="a")], execution=ExecutionConfig(timeout_seconds=5)
    )
    config.to_yaml(tmp_path / "c.yaml")
    again = ClusterConfig.from_yaml(tmp_path / "c.yaml", environ={})

    assert again.nodes == (NodeConfig(name="a"),)
    assert again.nodes[0].host == "a"
    assert (config.is_set("execution.timeout_seconds"), config.is_set("nodes")) == (True, True)
    assert (config.is_set("execution.retry_attempts"), config.is_set("ssh")) == (False, False)
    assert ClusterConfig().to_yaml() == "{}\n"


def test_one_from_a_mapping_is_checked_as_a_file_is():
    config = ClusterConfig.from_dict({"cluster": {"name": "home", "nodes": ["a"]}})

    assert (config.name, config.nodes[0].name) == ("home", "a")
    with pytest.raises(BadInput, match="a mapping"):
        ClusterConfig.from_dict({"nodes": [7]})


def test_a_machine_is_listed_once_and_a_section_has_a_name():
    with pytest.raises(BadValue, match="each node once"):
        ClusterConfig(nodes=[NodeConfig(name="a"), NodeConfig(name="a")])
    with pytest.raises(UnknownName):
        ClusterConfig().is_set("nothing.here")


def test_the_package_has_this_one_name():
    import distributed_grid.config as package

    assert package.__all__ == ["ClusterConfig"]
    with pytest.raises(AttributeError):
        _ = package.Nothing
