"""Hardware that a configuration gives a node, for demos and tests.

Lives here: what may be pretended. Never here: reading it (`config.pretend`), laying it over a
profile (`edges.probe.pretend`).
Invariant: what is None is not pretended.
"""

import msgspec


class PretendGpu(msgspec.Struct, frozen=True, kw_only=True):
    """Some devices of one model."""

    model: str
    count: int = 1
    memory_bytes: int | None = None
    compute_capability: int | None = None


class PretendLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner's programs seem to use, in thousandths."""

    cpu_used_milli: int | None = None
    memory_used_milli: int | None = None
    gpu_used_milli: int | None = None  # Of each device.
    idle_ms: int | None = None  # Since the last key.


class Pretend(msgspec.Struct, frozen=True, kw_only=True):
    """What to pretend."""

    cpu_milli: int | None = None
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    gpus: tuple[PretendGpu, ...] | None = None  # Empty: pretend that there is none.
    node_class: str | None = None
    device_type: str | None = None
    battery_percent: int | None = None
    on_battery: bool | None = None
    bandwidth_mbps: int | None = None
    arch: str | None = None
    load: PretendLoad | None = None  # None: pretended hardware is idle, the rest is measured.
