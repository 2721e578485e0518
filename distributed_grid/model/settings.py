"""What the owner of a node decides: one frozen value, made once at a start.

Lives here: the settings, each default with its reason, and where a value came from. Never here:
reading files and variables (`config.settings`).
Invariant: every setting has a default; an empty configuration is a good one.
"""

from typing import Literal

import msgspec

from distributed_grid.model.costs import COSTS, Costs
from distributed_grid.model.lending import Terms
from distributed_grid.model.mesh_settings import MeshSettings
from distributed_grid.model.pretend import Pretend
from distributed_grid.model.priority import Weights

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
Source = Literal["default", "file", "environment", "flag"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set in this version."""

    name: str = ""  # Of this node. Empty: the host's name, which is unique at home and at work.
    data_dir: str = ""  # Empty: the XDG place. Not in files: every command must find it at once.
    labels: tuple[tuple[str, str], ...] = ()  # Sorted by key.
    resources: tuple[tuple[str, int], ...] = ()  # Custom kinds of this node, in thousandths.
    costs: Costs = COSTS
    pretend: Pretend | None = None
    log_level: LogLevel = "info"  # The agent's log is a file; a line for each job is welcome in it.
    log_format: LogFormat = "text"
    job_log_bytes: int = 64 << 20  # Of each stream: a long training run; a flood stops there.
    grace_ms: int = 10_000  # From asking a job to end until killing it; as docker and systemd do.
    finished_jobs_max: int = 10_000  # Kept to be looked at: some weeks, some 20 MB.
    queue_jobs_max: int = 100_000  # Waiting jobs, arrays count one: some 200 MB if all are large.
    request_bytes_max: int = 32 << 20  # Of one HTTP request: a pickled function with its data.
    terms: Terms = Terms()  # Of lending.
    weights: Weights = Weights()  # Of users and projects among each other.
    mesh: MeshSettings = MeshSettings()
    ageing_ms: int = 3_600_000  # Each hour of waiting lifts a job a class: at most three hours.


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value came from."""

    source: Source = "default"
    file: str = ""  # If from a file.
    line: int = 0  # In the file; 0: not known.
    name: str = ""  # Of the variable or the flag.

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return where or self.name or self.source
