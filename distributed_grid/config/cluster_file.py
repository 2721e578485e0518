"""The shape of a configuration file: every key of every section, with what it may hold.

Lives here: `cluster_config.yaml` as people have it (seed 003), and the sections of this product.
Never here: what is done with a value (`settings`), the sections of lending (`sharing_file`) and of
the mesh (`mesh_file`).
Invariant: what is None was not written.
"""

from typing import Annotated, Any

import msgspec

from distributed_grid.config import words
from distributed_grid.config.mesh_file import ClusterMesh, Mesh
from distributed_grid.config.pretend import read_pretend
from distributed_grid.config.shape import Word
from distributed_grid.config.sharing_file import FairShare, ResourceSharing
from distributed_grid.errors import BadValue
from distributed_grid.model.pretend import Pretend

PATH_CHARACTERS_MAX = 4_096  # As long as a path may be.


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
Port = Annotated[int, words.whole(1, 65_535, 8_265)]
Level = Annotated[
    str, words.word_of("debug", "info", "warning", "error", warn="warning", critical="error")
]
Priority = Annotated[
    str, words.word_of("low", "medium", "high", "urgent", normal="medium", critical="urgent")
]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """This node."""

    name: words.Name | None = None
    labels: words.Labels | None = None
    resources: words.Custom | None = None
    price_per_hour: words.PriceMicro | None = None
    watts_idle: words.PowerMw | None = None
    watts_max: words.PowerMw | None = None


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs may take of the node's disk and patience."""

    log_bytes: words.Bytes | None = None
    grace: words.SpanMs | None = None
    finished_max: words.Natural | None = None
    queue_max: words.Positive | None = None


class Http(msgspec.Struct, frozen=True, kw_only=True):
    """The local API."""

    request_bytes_max: words.Bytes | None = None


class Logging(msgspec.Struct, frozen=True, kw_only=True):
    """What is told, and how."""

    level: Level | None = None
    format: Annotated[str, words.word_of("text", "json")] | None = None
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
    gpu_count: words.Natural | None = None
    memory_gb: words.Positive | None = None
    cpu_count: words.Positive | None = None
    role: Annotated[str, words.word_of("master", "worker")] | None = None
    ssh_key_path: Text | None = None
    tags: Texts | None = None
    resource_sharing: NodeSharing | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of the cluster run unless they say otherwise."""

    default_nodes: words.Positive | None = None
    default_gpus_per_node: words.Natural | None = None
    timeout_seconds: words.Positive | None = None
    retry_attempts: words.Natural | None = None
    working_directory: Text | None = None
    environment: TextByName | None = None


class Ssh(msgspec.Struct, frozen=True, kw_only=True):
    """How machines without an agent are reached."""

    timeout: words.Positive | None = None
    connect_timeout: words.Positive | None = None
    max_retries: words.Natural | None = None
    pool_size: words.Positive | None = None
    key_file: Text | None = None


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how machines are looked at."""

    timeout: words.Positive | None = None
    max_workers: words.Positive | None = None
    cpu_weight: Number | None = None
    gpu_weight: Number | None = None
    refresh_interval: words.Positive | None = None


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """What of the working directory travels."""

    exclude_patterns: Texts | None = None
    use_checksums: words.Flag | None = None
    follow_symlinks: words.Flag | None = None
    max_parallel_transfers: words.Positive | None = None


class Ray(msgspec.Struct, frozen=True, kw_only=True):
    """A Ray cluster on demand."""

    dashboard_port: Port | None = None
    redis_port: Port | None = None
    head_bind_all: words.Flag | None = None
    namespace: Text | None = None
    log_level: Level | None = None


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
    fair_share: FairShare | None = None
    execution: Execution | None = None
    ssh: Ssh | None = None
    health_check: HealthCheck | None = None
    sync: Sync | None = None
    ray: Ray | None = None
    remote_root: Text | None = None
    mesh: Mesh | None = None
    cluster_mesh: ClusterMesh | None = None
