"""The environment variables that configure Grid, and those that must not.

Lives here: the fixed list. Never here: variables that Grid sets for jobs, beyond their names.
Invariant: a variable that Grid gives to a job is never read as configuration; otherwise a job that
calls `grid` would be configured by its own description.
"""

import difflib
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "GRID_"

# Variable -> key. The second group is seed 003's.
VARIABLES: Final[dict[str, str]] = {
    "GRID_NODE_NAME": "node.name",
    "GRID_JOBS_LOG_BYTES": "jobs.log_bytes",
    "GRID_JOBS_GRACE": "jobs.grace",
    "GRID_MESH_LISTEN": "mesh.listen",
    "GRID_MESH_ADVERTISE": "mesh.advertise",
    "GRID_MESH_RELAY": "mesh.relay",
    "GRID_MESH_TOPOLOGY": "mesh.topology",
    "GRID_MESH_PRESET": "mesh.preset",
    "GRID_MESH_MAX_CONNECTIONS_PER_NODE": "mesh.max_connections_per_node",
    "GRID_MESH_CONNECTION_TIMEOUT": "mesh.connection_timeout",
    "GRID_MESH_IDLE_CONNECTION": "mesh.idle_connection",
    "GRID_MESH_ALLOW": "mesh.allow",
    "GRID_MESH_DENY": "mesh.deny",
    "GRID_MESH_VERIFY_CAPABILITIES": "mesh.verify_capabilities",
    "GRID_MESH_GOSSIP_INTERVAL": "mesh.gossip_interval",
    "GRID_MESH_BATTERY_THRESHOLD": "mesh.battery_threshold",
    "GRID_MESH_THERMAL_LIMIT_CELSIUS": "mesh.thermal_limit_celsius",
    "GRID_MESH_PREFER_AC_POWER": "mesh.prefer_ac_power",
    "GRID_CLUSTER_NAME": "name",
    "GRID_LOG_LEVEL": "logging.level",
    "GRID_LOG_FORMAT": "logging.format",
    "GRID_SSH_TIMEOUT": "ssh.timeout",
    "GRID_SSH_CONNECT_TIMEOUT": "ssh.connect_timeout",
    "GRID_DEFAULT_NODES": "execution.default_nodes",
    "GRID_DEFAULT_GPUS_PER_NODE": "execution.default_gpus_per_node",
    "GRID_TIMEOUT_SECONDS": "execution.timeout_seconds",
    "GRID_RETRY_ATTEMPTS": "execution.retry_attempts",
    "GRID_WORKING_DIRECTORY": "execution.working_directory",
    "GRID_METRICS_PORT": "metrics.port",
    "GRID_METRICS_ENABLED": "metrics.enabled",
}
HOME: Final = "GRID_HOME"
CONFIG: Final = "GRID_CONFIG"
# Read by the keeper: the command in front of `run`, and more options of it.
CONTAINERS: Final = ("GRID_CONTAINER_RUNTIME", "GRID_CONTAINER_OPTIONS")
TICKET: Final = "GRID_TICKET"  # Read by `grid join` and `grid up`, and by nobody after them.
SECRETS: Final = ("GRID_SECRET_KEY",)  # Known, and never shown.
# Known: for later, and what a keeper tells its agent.
OTHERS: Final = ("GRID_TOKEN_EXPIRE_MINUTES", "GRID_KEEPER_FD")

JOB_PREFIX: Final = "GRID_JOB_"
JOB_VARIABLES: Final = frozenset(
    {
        "GRID_ARRAY_INDEX",
        "GRID_ATTEMPT",
        "GRID_CHECKPOINT_DIR",
        "GRID_CPUS",
        "GRID_FENCE",
        "GRID_GPUS",
        "GRID_NODE",
        "GRID_PEERS",
        "GRID_RANK",
        "GRID_RENDEZVOUS",
        "GRID_WORKDIR",
        "GRID_WORLD_SIZE",
    }
)


def unknown(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that looks like ours and is not."""
    known = [*VARIABLES, HOME, CONFIG, TICKET, *CONTAINERS, *SECRETS, *OTHERS]
    told = []
    for name in sorted(environ):
        is_for_jobs = name.startswith(JOB_PREFIX) or name in JOB_VARIABLES
        if name.startswith(PREFIX) and not is_for_jobs and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            told.append(f"the variable {name} means nothing to Grid{hint}")
    return told
