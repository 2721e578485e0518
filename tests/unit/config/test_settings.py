import re
from pathlib import Path

import pytest

from distributed_grid.cli.init import SAMPLE
from distributed_grid.config import variables
from distributed_grid.config.settings import HIDDEN, USED, Loaded, load_settings
from distributed_grid.config.terms import at
from distributed_grid.errors import BadInput
from distributed_grid.model.lending import Terms, Thresholds
from distributed_grid.model.pretend import PretendGpu
from distributed_grid.model.settings import Origin, Settings

SEED_3 = """\
resource_sharing:
  enabled: true
  check_interval: 60  # seconds
  offer_expiry: 300   # seconds
  max_offers_per_node: 5
  thresholds:
    gpu_utilization_max: 20.0
    gpu_memory_min_mb: 1024.0
    memory_percent_max: 50.0
    memory_min_gb: 2.0
    cpu_percent_max: 30.0
    cpu_min_cores: 1.0
"""
SEED_2 = """\
[cluster_mesh]
# Discovery settings
discovery_interval_secs = 30
discovery_methods = ["mdns", "broadcast", "registry"]
subnet_scan_enabled = false

# Mesh settings
topology = "hybrid"
max_connections_per_node = 50
connection_timeout_ms = 5000

# NAT traversal
enable_relay_nodes = true
stun_servers = ["stun.stratoswarm.io:3478"]
max_relay_hops = 2

# Power management
battery_threshold = 20
thermal_limit_celsius = 85
prefer_ac_power = true
"""
FULL = """\
name: lab
remote_root: ~/grid_workspace
nodes:
  - name: gpu1
    host: 10.0.0.2
    user: ada
    port: 22
    gpu_count: 2
    memory_gb: 64
    cpu_count: 16
    role: worker
    ssh_key_path: ~/.ssh/id
    tags: [gpu, fast]
    resource_sharing: {can_share: true, max_share_cpu: 8, max_share_gpu: 1, priority: 2}
execution: {default_nodes: 1, timeout_seconds: 3600, retry_attempts: 3, environment: {A: 1}}
logging: {level: INFO, format: json, file_path: /tmp/grid.log}
ssh: {timeout: 10, connect_timeout: 5, max_retries: 3, pool_size: 10}
health_check: {timeout: 3, max_workers: 20, cpu_weight: 1.0, gpu_weight: 3.0, refresh_interval: 60}
sync: {exclude_patterns: ["*.pyc"], use_checksums: true, max_parallel_transfers: 5}
ray: {dashboard_port: 8265, redis_port: 6379, head_bind_all: true, namespace: x, log_level: info}
"""


def load(
    folder: Path, text: str = "", environ=None, *, name="cluster_config.yaml", **how
) -> Loaded:
    if text:
        (folder / name).write_text(text, encoding="utf-8")
    return load_settings(environ or {}, directory=str(folder), **how)


def refusal(folder: Path, text: str, **how) -> BadInput:
    with pytest.raises(BadInput) as error:
        load(folder, text, **how)
    return error.value


def later(loaded: Loaded) -> dict[str, object]:
    return {entry.key: entry.value for entry in loaded.later}


# --- Rising order --------------------------------------------------------------------------------


def test_without_a_word_the_defaults_count(tmp_path):
    loaded = load(tmp_path)

    assert loaded.settings == Settings()
    assert set(loaded.origins) == set(USED)
    assert {str(origin) for origin in loaded.origins.values()} == {"default"}
    assert (loaded.later, loaded.notes, loaded.file) == ((), (), None)


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path):
    text = "logging: {level: debug, format: json}\nnode:\n  name: from-file\njobs: {grace: 3s}\n"
    environ = {"GRID_NODE_NAME": "from-variable", "GRID_LOG_LEVEL": "WARNING"}
    loaded = load(tmp_path, text, environ, flags={"node.name": ("--name", "from-flag")})
    file = str(tmp_path / "cluster_config.yaml")

    assert loaded.settings == Settings(
        name="from-flag", log_level="warning", log_format="json", grace_ms=3_000
    )
    assert loaded.origins["node.name"] == Origin(source="flag", name="--name")
    assert loaded.origins["logging.level"] == Origin(source="environment", name="GRID_LOG_LEVEL")
    assert loaded.origins["jobs.grace"] == Origin(source="file", file=file, line=4)
    assert str(loaded.origins["jobs.grace"]) == f"{file}:4"
    assert loaded.origins["jobs.queue_max"] == Origin()


def test_every_setting_can_be_written(tmp_path):
    text = """\
node: {name: desk, labels: {zone: home, arm: "no"}, resources: {tpu: 4, "licence:matlab": 0.5}}
pretend: {cpus: 16, gpus: [{model: RTX4090, count: 2}]}
logging: {level: error, format: text}
jobs: {log_bytes: 1MiB, grace: 1500ms, finished_max: 5, queue_max: 7}
http: {request_bytes_max: 1024}
"""
    settings = load(tmp_path, text, flags={"data_dir": ("--data-dir", "/data")}).settings

    assert settings.pretend.gpus == (PretendGpu(model="RTX4090", count=2),)
    assert settings == Settings(
        name="desk",
        data_dir="/data",
        labels=(("arm", "no"), ("zone", "home")),
        resources=(("licence:matlab", 500), ("tpu", 4_000)),
        pretend=settings.pretend,
        log_level="error",
        job_log_bytes=1 << 20,
        grace_ms=1_500,
        finished_jobs_max=5,
        queue_jobs_max=7,
        request_bytes_max=1_024,
    )


@pytest.mark.rows("S3-18")
def test_the_file_is_looked_for_here_then_in_config_then_in_the_persons_place(tmp_path):
    own = tmp_path / "xdg"
    (tmp_path / "config").mkdir()
    own.mkdir()
    found = []
    for folder in (own, tmp_path / "config", tmp_path):
        (folder / "cluster_config.yaml").write_text("node: {name: x}\n", encoding="utf-8")
        found.append(load(tmp_path, config_dir=str(own)).file)

    assert [Path(file).parent for file in found] == [own, tmp_path / "config", tmp_path]
    named = load(tmp_path, environ={"GRID_CONFIG": str(own / "cluster_config.yaml")})
    assert Path(named.file).parent == own
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path, file=str(tmp_path / "nowhere.yaml"))


# --- The variants --------------------------------------------------------------------------------


@pytest.mark.rows("S3-18", "S3-23")
def test_the_section_of_seed_3_is_read_and_says_what_the_defaults_say(tmp_path):
    loaded = load(tmp_path, SEED_3)

    assert loaded.settings == Settings()
    assert later(loaded) == {}
    assert sum(origin.source == "file" for origin in loaded.origins.values()) == 10
    assert loaded.origins["resource_sharing.thresholds.cpu_min_cores"].line == 12


@pytest.mark.rows("S2-127")
def test_of_the_table_of_seed_2_six_keys_count_and_six_are_kept(tmp_path):
    loaded = load(tmp_path, SEED_2, name="cluster_config.toml")
    kept = later(loaded)

    assert loaded.settings == Settings()
    used = {key for key, origin in loaded.origins.items() if origin.source == "file"}
    assert used == {
        "mesh.topology",
        "mesh.max_connections_per_node",
        "mesh.connection_timeout",
        "mesh.battery_threshold",
        "mesh.thermal_limit_celsius",
        "mesh.prefer_ac_power",
    }
    assert len(kept) == 6
    assert kept["cluster_mesh.discovery_methods"] == ["mdns", "broadcast", "registry"]
    assert [entry.origin.line for entry in loaded.later if entry.key.endswith("hops")] == [15]


def test_the_whole_schema_of_the_origin_is_read(tmp_path):
    loaded = load(tmp_path, FULL)

    assert (loaded.settings.log_level, loaded.settings.log_format) == ("info", "json")
    assert later(loaded)["execution.environment"] == {"A": "1"}
    assert later(loaded)["nodes"][0]["name"] == "gpu1"
    assert loaded.notes == ()


def test_nodes_may_be_names_and_a_missing_name_is_told(tmp_path):
    loaded = load(tmp_path, "nodes: [gpu1, {name: gpu2, host: h}]\n")

    assert later(loaded)["nodes"] == [{"name": "gpu1"}, {"name": "gpu2", "host": "h"}]
    assert re.search(r"yaml:1: the cluster has no name", loaded.notes[0])


def test_a_wrapper_counts_as_the_top_level(tmp_path):
    loaded = load(tmp_path, "cluster:\n  name: lab\n  nodes: [a]\n  logging:\n    level: debug\n")

    assert later(loaded) == {"name": "lab", "nodes": [{"name": "a"}]}
    assert loaded.settings.log_level == "debug"
    assert loaded.origins["logging.level"].line == 5
    assert "what is below 'cluster' counts as the top level" in loaded.notes[0]
    twice = refusal(tmp_path, "name: a\ncluster:\n  name: b\n")
    assert (twice.line, twice.remedy) == (3, "Keep one of them")
    assert refusal(tmp_path, "cluster: lab\n").path == "$.cluster"


def test_the_old_place_of_resource_sharing_overrides_the_new_one(tmp_path):
    text = """\
resource_sharing: {enabled: true, offer_expiry: 120, thresholds: {cpu_percent_max: 10}}
execution:
  timeout_seconds: 5
  resource_sharing:
    enabled: false
    thresholds: {cpu_min_cores: 2}
"""
    loaded = load(tmp_path, text)

    assert later(loaded) == {"execution.timeout_seconds": "5"}
    assert loaded.settings.terms == Terms(
        is_enabled=False,
        offer_expiry_ms=120_000,
        thresholds=Thresholds(cpu_used_max_milli=100, cpu_min_milli=2_000),
    )
    assert loaded.origins["resource_sharing.enabled"].line == 5
    assert loaded.origins["resource_sharing.offer_expiry"].line == 1
    assert "wins over 'resource_sharing' where both say something" in loaded.notes[0]
    alone = load(tmp_path, "execution: {resource_sharing: {enabled: false}}\n")
    assert not alone.settings.terms.is_enabled
    assert "counts as 'resource_sharing'" in alone.notes[0]


def test_json_is_read_too_without_lines(tmp_path):
    file = tmp_path / "own.json"
    file.write_text('{"node": {"name": "desk"}}', encoding="utf-8")
    loaded = load(tmp_path, file=str(file))

    assert loaded.settings.name == "desk"
    assert str(loaded.origins["node.name"]) == str(file)


def test_a_key_without_a_value_says_nothing(tmp_path):
    loaded = load(tmp_path, "node:\n  name:\njobs:\nname: ~\n")

    assert loaded.settings == Settings()
    assert loaded.later == ()


# --- What is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        ("node:\n  nmae: x\n", 2, "$.node", "Did you mean 'name'?"),
        ("name: x\n\nlogin: {}\n", 3, "$", "Did you mean 'logging'?"),
        ("jobs:\n  # why\n  grace: soon\n", 3, "$.jobs.grace", "60s"),
        ("jobs: {queue_max: 0}\n", 1, "$.jobs.queue_max", "a whole number from 1"),
        ("jobs: {queue_max: 1.5}\n", 1, "$.jobs.queue_max", "a whole number from 1"),
        ("jobs: {queue_max: .nan}\n", 1, "$.jobs.queue_max", "a whole number from 1"),
        ("http: {request_bytes_max: lots}\n", 1, "$.http.request_bytes_max", "16GiB"),
        ("logging:\n  level: loud\n", 2, "$.logging.level", "one of debug"),
        ("logging: {level: [1]}\n", 1, "$.logging.level", "one of debug"),
        ("nodes:\n  - name: a\n  - name: b\n    gpus: 2\n", 4, "$.nodes[1]", "gpu_count"),
        ("nodes:\n  - host: a\n", 1, "$.nodes[0]", "Add 'name'"),
        ("nodes: {}\n", 1, "$.nodes", "a list"),
        ("execution: 5\n", 1, "$.execution", "a mapping"),
        ("execution: {environment: [A]}\n", 1, "$.execution.environment", "{NAME: value}"),
        ("sync: {exclude_patterns: x}\n", 1, "$.sync.exclude_patterns", "a list of texts"),
        ("ray: {namespace: [x]}\n", 1, "$.ray.namespace", "text on one line"),
        ("pretend:\n  cpu: 4\n", 1, "$.pretend", "Did you mean cpus?"),
        ("data_dir: /x\n", 1, "$", "unknown key 'data_dir'"),
        ("resource_sharing:\n  check_interval: 5\n", 2, "$.resource_sharing.check_interval", "10"),
        ("node: {labels: {a: [1]}}\n", 1, "$.node.labels.a", "Put the value in quotes"),
        ("node: {resources: {Tpu: 1}}\n", 1, "$.node.resources", "lower-case"),
        ("- a\n- b\n", 0, "$", "no mapping"),
    ],
)
def test_what_is_wrong_is_told_with_line_path_and_remedy(tmp_path, text, line, path, words):
    error = refusal(tmp_path, text)

    assert (error.line, error.path) == (line, path)
    assert words in str(error)
    assert str(error).startswith(f"{tmp_path}/cluster_config.yaml:")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[cluster_mesh]\ntopologie = "star"\n', 2, "Did you mean 'topology'?"),
        ('note = """\nx = 1\n"""\n', 1, "unknown key 'note'"),
        ("[node]\nname = 5\n", 2, "a name"),
        ('[cluster_mesh]\n\ndiscovery_methods = ["magic"]\n', 3, "one of mdns"),
        ("[node\n", 1, "is not TOML"),
        ("a = " + "[" * 5_000, 0, "is nested too deeply"),
        ('"node"."name" = false\n', 1, "a name"),
        ("[[nodes]]\nname = 'a'\nhots = 'b'\n", 1, "Did you mean 'host'?"),
    ],
)
def test_toml_is_judged_as_yaml_is(tmp_path, text, line, words):
    error = refusal(tmp_path, text, name="cluster_config.toml")

    assert words in str(error)
    assert error.line == line


# --- Variables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", sorted(variables.VARIABLES))
def test_every_variable_is_checked_as_its_key_is(tmp_path, variable):
    with pytest.raises(BadInput) as error:
        load(tmp_path, environ={variable: "\x1b[31m"})

    assert error.value.file == variable


def test_variables_of_the_origin_are_kept_and_secrets_never_shown(tmp_path):
    environ = {
        "GRID_TIMEOUT_SECONDS": "60",
        "GRID_SECRET_KEY": "hunter2",
        "GRID_TOKEN_EXPIRE_MINUTES": "5",
        "GRID_LOG_FORMAT": "",
    }
    loaded = load(tmp_path, environ=environ)

    assert later(loaded) == {
        "GRID_SECRET_KEY": HIDDEN,
        "GRID_TOKEN_EXPIRE_MINUTES": "5",
        "execution.timeout_seconds": "60",
    }
    assert "hunter2" not in repr(loaded)


def test_job_variables_are_never_configuration_and_unknown_ones_are_told(tmp_path):
    environ = dict.fromkeys(variables.JOB_VARIABLES, "1") | {
        "GRID_JOB_ID": "x",
        "GRID_LOG_LEVLE": "debug",
        "GRID_XYZZY": "1",
        "HOME": "/u",
    }
    loaded = load(tmp_path, environ=environ)

    assert loaded.settings == Settings()
    assert loaded.notes == (
        "the variable GRID_LOG_LEVLE means nothing to Grid; did you mean GRID_LOG_LEVEL?",
        "the variable GRID_XYZZY means nothing to Grid",
    )


def test_the_data_directory_comes_from_grid_home(tmp_path):
    loaded = load(tmp_path, environ={"GRID_HOME": "/g"})

    assert loaded.settings.data_dir == "/g"
    assert str(loaded.origins["data_dir"]) == "GRID_HOME"
    with pytest.raises(BadInput, match="not an absolute path"):
        load(tmp_path, environ={"GRID_HOME": "g"})


# --- The sample ----------------------------------------------------------------------------------


def test_the_sample_is_good_and_changes_nothing(tmp_path):
    loaded = load(tmp_path, SAMPLE)

    assert loaded.settings == Settings()
    assert loaded.notes == ()


def test_every_commented_line_of_the_sample_is_good_too_and_tells_the_default(tmp_path):
    text = re.sub(r"^( *)# (\w+: \S+)$", r"\1\2", SAMPLE, flags=re.MULTILINE)
    text = text.replace("labels: {}\n  #   zone: home\n  #   room: cellar",
                        "labels:\n    zone: home\n    room: cellar")  # fmt: skip
    text = text.replace('resources: {}\n  #   tpu: 4\n  #   "licence:matlab": 2',
                        'resources:\n    tpu: 4\n    "licence:matlab": 2')  # fmt: skip
    text = text.replace("# pretend:", "pretend:")
    loaded = load(tmp_path, text)

    changed = {key for key, origin in loaded.origins.items() if origin.source == "file"}
    assert changed == set(USED) - {"data_dir"}
    examples = {"node.name", "data_dir", "node.labels", "node.resources", "pretend"}
    examples |= {"node.watts_idle", "node.watts_max"}
    examples |= {
        f"resource_sharing.{key}"
        for key in ("hours", "days", "quiet", "suspended_max", "allocation_timeout_minutes")
    }
    examples |= {f"mesh.{key}" for key in ("listen", "advertise", "relay", "allow", "deny")}
    for key in set(USED) - examples:
        assert at(loaded.settings, USED[key]) == at(Settings(), USED[key]), key
