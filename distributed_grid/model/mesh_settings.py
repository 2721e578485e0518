"""What the owner decides about the mesh: addresses, limits, presets.

Lives here: the settings with their reasons. Never here: reading them (`config`).
Invariant: the defaults are right for a home or a lab on one network.
"""

from typing import Literal

import msgspec

Preset = Literal["lan", "wan"]
Topology = Literal["full", "hybrid"]


class MeshSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about the mesh that can be set."""

    listen: str = ""  # `address:port`, both optional. Empty: every address, a free port, kept.
    advertise: tuple[str, ...] = ()  # `host:port` told to others beside those found.
    relay: str = ""  # URL of a relay of one's own. Empty: none; public ones are never used.
    topology: Topology = "hybrid"
    preset: Preset = "lan"
    max_connections_per_node: int = 50  # 30 machines fully meshed, with room; 115 kB each.
    connection_timeout_ms: int = 5_000  # A home router answers within one second or never.
    idle_connection_ms: int = 300_000  # A connection off the neighbour list is kept so long.
    allow: tuple[str, ...] = ()  # Networks that may knock. Empty: all that are not denied.
    deny: tuple[str, ...] = ()
    verify_capabilities: bool = True
    gossip_interval_ms: int = 200
    battery_threshold_percent: int = 20  # Below it, work leaves: enough to end it and get home.
    thermal_limit_centi: int = 8_500  # Most machines throttle between 90 and 100 degrees.
    prefer_ac_power: bool = True
