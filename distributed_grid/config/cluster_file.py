"""The shape of a configuration file: every key of every section, with what it may hold.

Lives here: `cluster_config.yaml` as people have it (seed 003), `[cluster_mesh]` (seed 002), and
the sections of this product. Never here: what is done with a value (`settings`).
Invariant: what is None was not written.
"""

from typing import Annotated, Any

import msgspec

from distributed_grid.config import words
from distributed_grid.config.pretend import read_pretend
from distributed_grid.config.shape import Word
from distributed_grid.errors import BadValue
from distributed_grid.model import duration, milli
from distributed_grid.model.pretend import Pretend

PATH_CHARACTERS_MAX = 4_096  # As long as a path may be.


def _whole(least: int, most: int, example: int) -> Word:
    def parse(value: Any) -> int:
        number = milli.decimal(value)
        if (
            number is None
            or not number.is_finite()
            or not least <= number <= most
            or number != int(number)
        ):
            expected = f"a whole number from {least} to {most}"
            raise BadValue(value, expected=expected, remedy=f"Write it like {example}")
        return int(number)

    return Word(parse)


def _word(*choices: str, **synonyms: str) -> Word:
    """One of a few words in any case; synonyms mean one of them."""

    def parse(value: Any) -> str:
        lower = value.lower() if isinstance(value, str) else ""
        if lower not in choices and lower not in synonyms:
            expected = f"one of {', '.join(choices)}"
            raise BadValue(value, expected=expected, remedy="Use one of these")
        return synonyms.get(lower, lower)

    return Word(parse)


def _text(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.isprintable() or len(text) > PATH_CHARACTERS_MAX:
        raise BadValue(value, expected="text on one line", remedy="Put it in quotes")
    return text


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > words.NAMES_MAX:
        raise BadValue(value, expected="a list of texts", remedy="Write [one, other]")
    return tuple(map(_text, value))


def _text_by_name(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > words.NAMES_MAX:
        raise BadValue(value, expected="a mapping of names to text", remedy="Write {NAME: value}")
    return {words.name(key): _text(text) for key, text in value.items()}


Text = Annotated[str, Word(_text)]
Texts = Annotated[tuple[str, ...], Word(_texts)]
TextByName = Annotated[dict[str, str], Word(_text_by_name)]
Number = Annotated[int, words.scaled("a number", factor=1_000, high=10**9, example="1.5")]
Natural = Annotated[int, _whole(0, 10**9, 5)]
Positive = Annotated[int, _whole(1, 10**9, 5)]
Port = Annotated[int, _whole(1, 65_535, 8_265)]
SpanMs = Annotated[int, Word(duration.parse)]
Level = Annotated[str, _word("debug", "info", "warning", "error", warn="warning", critical="error")]
Priority = Annotated[
    str, _word("low", "medium", "high", "urgent", normal="medium", critical="urgent")
]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """This node."""

    name: words.Name | None = None
    labels: words.Labels | None = None
    resources: words.Custom | None = None


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs may take of the node's disk and patience."""

    log_bytes: words.Bytes | None = None
    grace: SpanMs | None = None
    finished_max: Natural | None = None
    queue_max: Positive | None = None


class Http(msgspec.Struct, frozen=True, kw_only=True):
    """The local API."""

    request_bytes_max: words.Bytes | None = None


class Logging(msgspec.Struct, frozen=True, kw_only=True):
    """What is told, and how."""

    level: Level | None = None
    format: Annotated[str, _word("text", "json")] | None = None
    file_path: Text | None = None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers for Prometheus."""

    port: Port | None = None
    enabled: words.Flag | None = None


class NodeSharing(msgspec.Struct, frozen=True, kw_only=True):
    """What one node lends."""

    can_share: words.Flag | None = None
    max_share_cpu: Number | None = None
    max_share_memory_gb: Number | None = None
    max_share_gpu: Number | None = None
    priority: Number | None = None


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of the cluster, by name or with what is known of it."""

    name: words.Name
    host: Text | None = None
    user: Text | None = None
    port: Port | None = None
    gpu_count: Natural | None = None
    memory_gb: Positive | None = None
    cpu_count: Positive | None = None
    role: Annotated[str, _word("master", "worker")] | None = None
    ssh_key_path: Text | None = None
    tags: Texts | None = None
    resource_sharing: NodeSharing | None = None


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When a node is idle enough to lend."""

    gpu_utilization_max: Number | None = None
    gpu_memory_min_mb: Number | None = None
    memory_percent_max: Number | None = None
    memory_min_gb: Number | None = None
    cpu_percent_max: Number | None = None
    cpu_min_cores: Number | None = None
    cpu_pressure_high: Number | None = None
    cpu_pressure_low: Number | None = None
    memory_pressure_high: Number | None = None
    memory_pressure_low: Number | None = None
    gpu_pressure_high: Number | None = None
    gpu_pressure_low: Number | None = None
    excess_threshold: Number | None = None


class AutoOffload(msgspec.Struct, frozen=True, kw_only=True):
    """When work leaves a busy node by itself."""

    enabled: words.Flag | None = None
    head_only_mode: words.Flag | None = None
    cpu: Number | None = None
    memory: Number | None = None
    gpu: Number | None = None
    check_interval_seconds: Positive | None = None
    cooldown_seconds: Natural | None = None


class ResourceSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Lending."""

    enabled: words.Flag | None = None
    mode: Annotated[str, _word("offload_only", "share_and_offload", "dynamic_balancing")] | None = (
        None
    )
    policy: Annotated[str, _word("conservative", "balanced", "aggressive", "predictive")] | None = (
        None
    )
    check_interval: Annotated[int, _whole(10, 10**6, 60)] | None = None
    offer_expiry: Annotated[int, _whole(60, 10**6, 300)] | None = None
    max_offers_per_node: Positive | None = None
    monitoring_interval_seconds: Positive | None = None
    rebalance_interval_seconds: Positive | None = None
    allocation_timeout_minutes: Positive | None = None
    thresholds: Thresholds | None = None
    auto_offload: AutoOffload | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of the cluster run unless they say otherwise."""

    default_nodes: Positive | None = None
    default_gpus_per_node: Natural | None = None
    timeout_seconds: Positive | None = None
    retry_attempts: Natural | None = None
    working_directory: Text | None = None
    environment: TextByName | None = None


class Ssh(msgspec.Struct, frozen=True, kw_only=True):
    """How machines without an agent are reached."""

    timeout: Positive | None = None
    connect_timeout: Positive | None = None
    max_retries: Natural | None = None
    pool_size: Positive | None = None
    key_file: Text | None = None


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how machines are looked at."""

    timeout: Positive | None = None
    max_workers: Positive | None = None
    cpu_weight: Number | None = None
    gpu_weight: Number | None = None
    refresh_interval: Positive | None = None


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """What of the working directory travels."""

    exclude_patterns: Texts | None = None
    use_checksums: words.Flag | None = None
    follow_symlinks: words.Flag | None = None
    max_parallel_transfers: Positive | None = None


class Ray(msgspec.Struct, frozen=True, kw_only=True):
    """A Ray cluster on demand."""

    dashboard_port: Port | None = None
    redis_port: Port | None = None
    head_bind_all: words.Flag | None = None
    namespace: Text | None = None
    log_level: Level | None = None


_METHODS = ("mdns", "broadcast", "registry", "peer_exchange", "scan", "manual")


def _methods(value: Any) -> tuple[str, ...]:
    return tuple(_word(*_METHODS).parse(item) for item in _texts(value))


class ClusterMesh(msgspec.Struct, frozen=True, kw_only=True):
    """Discovery, topology, NAT and power (seed 002)."""

    discovery_interval_secs: Positive | None = None
    discovery_methods: Annotated[tuple[str, ...], Word(_methods)] | None = None
    subnet_scan_enabled: words.Flag | None = None
    topology: Annotated[str, _word("full", "star", "hierarchical", "hybrid")] | None = None
    max_connections_per_node: Positive | None = None
    connection_timeout_ms: Positive | None = None
    enable_relay_nodes: words.Flag | None = None
    stun_servers: Texts | None = None
    max_relay_hops: Natural | None = None
    battery_threshold: words.Percent | None = None
    thermal_limit_celsius: words.TemperatureCenti | None = None
    prefer_ac_power: words.Flag | None = None


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file, after its variants were made one."""

    name: words.Name | None = None
    nodes: tuple[NodeEntry, ...] | None = None
    node: Node | None = None
    pretend: Annotated[Pretend, Word(read_pretend)] | None = None
    jobs: Jobs | None = None
    http: Http | None = None
    logging: Logging | None = None
    metrics: Metrics | None = None
    resource_sharing: ResourceSharing | None = None
    execution: Execution | None = None
    ssh: Ssh | None = None
    health_check: HealthCheck | None = None
    sync: Sync | None = None
    ray: Ray | None = None
    remote_root: Text | None = None
    cluster_mesh: ClusterMesh | None = None
