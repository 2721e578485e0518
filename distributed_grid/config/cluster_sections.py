"""The sections of a cluster's configuration as Python programs read them, with their defaults.

Lives here: the attributes of seed 003's `ClusterConfig`, in the units of the file. Never here:
reading and writing it (`cluster_config`), what is allowed (`cluster_file`).
"""

from pathlib import Path
from typing import Literal

import msgspec

from distributed_grid.model.bounds import Count, Environment, Most, Name, Sentence


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One section; what is left out has its default."""


class NodeSharingConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """What one node lends."""

    can_share: bool = True
    max_share_cpu: float | None = None
    max_share_memory_gb: float | None = None
    max_share_gpu: float | None = None
    priority: float = 1.0


class NodeConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A machine of the cluster."""

    name: Name
    host: Name = ""  # Empty: as its name.
    user: Name = ""  # Empty: whoever runs Grid.
    port: Count = 22
    gpu_count: Count = 0
    memory_gb: Count = 1
    cpu_count: Count = 4
    role: Literal["master", "worker"] = "worker"
    ssh_key_path: Sentence | None = None
    tags: Most[Name] = ()
    resource_sharing: NodeSharingConfig = NodeSharingConfig()

    def __post_init__(self) -> None:
        if not self.host:
            msgspec.structs.force_setattr(self, "host", self.name)
        if self.ssh_key_path is not None:
            expanded = str(Path(self.ssh_key_path).expanduser())
            msgspec.structs.force_setattr(self, "ssh_key_path", expanded)


class ExecutionConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """How jobs of the cluster run unless they say otherwise; only what was set counts."""

    default_nodes: Count = 1
    default_gpus_per_node: Count = 1
    timeout_seconds: Count = 3600
    retry_attempts: Count = 3
    working_directory: Sentence = "/tmp/grid"  # noqa: S108  (the default of seed 003)
    environment: Environment = {}

    def __post_init__(self) -> None:
        whole = str(Path(self.working_directory).expanduser().absolute())
        if whole != self.working_directory:  # A default stays the very same, and unwritten.
            msgspec.structs.force_setattr(self, "working_directory", whole)


class LoggingConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """What is told, and how."""

    level: Name = "INFO"
    format: Literal["json", "text"] = "json"
    file_path: Sentence | None = None


class MetricsConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers for Prometheus."""

    port: Count = 8000
    enabled: bool = False


class ThresholdsConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """When a node is idle enough to lend; percents from 0 to 100, pressures from 0 to 1."""

    gpu_utilization_max: float = 20.0
    gpu_memory_min_mb: float = 1024.0
    memory_percent_max: float = 50.0
    memory_min_gb: float = 2.0
    cpu_percent_max: float = 30.0
    cpu_min_cores: float = 1.0
    cpu_pressure_high: float = 0.8
    cpu_pressure_low: float = 0.3
    memory_pressure_high: float = 0.8
    memory_pressure_low: float = 0.3
    gpu_pressure_high: float = 0.8
    gpu_pressure_low: float = 0.3
    excess_threshold: float = 0.2


class AutoOffloadConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """When work leaves a busy node by itself."""

    enabled: bool = False
    head_only_mode: bool = True
    cpu: float = 80.0
    memory: float = 70.0
    gpu: float = 90.0
    check_interval_seconds: Count = 5
    cooldown_seconds: Count = 30


class ResourceSharingConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """Lending."""

    enabled: bool = True
    mode: Literal["offload_only", "share_and_offload", "dynamic_balancing"] = "dynamic_balancing"
    policy: Literal["conservative", "balanced", "aggressive", "predictive"] = "balanced"
    check_interval: Count = 60
    offer_expiry: Count = 300
    max_offers_per_node: Count = 5
    monitoring_interval_seconds: Count = 10
    rebalance_interval_seconds: Count = 30
    allocation_timeout_minutes: Count = 10
    thresholds: ThresholdsConfig = ThresholdsConfig()
    auto_offload: AutoOffloadConfig = AutoOffloadConfig()


class SshConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """How machines without an agent are reached."""

    timeout: Count = 10
    connect_timeout: Count = 5
    max_retries: Count = 3
    pool_size: Count = 10
    key_file: Sentence | None = None


class HealthCheckConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """How often and how machines are looked at."""

    timeout: Count = 3
    max_workers: Count = 20
    cpu_weight: float = 1.0
    gpu_weight: float = 3.0
    refresh_interval: Count = 60


class SyncConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """What of the working directory travels."""

    exclude_patterns: Most[Name] = ()
    use_checksums: bool = True
    follow_symlinks: bool = False
    max_parallel_transfers: Count = 5


class RayConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A Ray cluster on demand."""

    dashboard_port: Count = 8265
    redis_port: Count = 6379
    head_bind_all: bool = False
    namespace: Name = ""
    log_level: Name = "INFO"
