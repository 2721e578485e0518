"""Temperatures and their limits, from /sys/class/thermal and /sys/class/hwmon.

Lives here: each sensor with the points where throttling and shutdown begin. Never here: what
too hot means for a job (`kernel.placement`).
Source: the kernel's Documentation/driver-api/thermal/sysfs-api.rst, hwmon/sysfs-interface.rst.
"""

import re
from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import ThermalSensor

# In thousandths of a degree, as the kernel writes them. Outside is a sensor that is not connected.
_LEAST, _MOST = -40_000, 200_000
SENSORS_MAX: Final = 256
TRIPS_MAX: Final = 16  # The kernel allows 12 (THERMAL_MAX_TRIPS).


def thermals(tree: Tree, absent: dict[str, str]) -> tuple[ThermalSensor, ...]:
    """Every sensor: thermal zones first, then what only hwmon shows."""
    found = [*_zones(tree), *_hwmon(tree)][:SENSORS_MAX]
    if not found:
        absent["thermals"] = "/sys/class/thermal and /sys/class/hwmon list no sensor"
    elif all(sensor.limit_centi is None and sensor.critical_centi is None for sensor in found):
        absent["thermals.limits"] = "no sensor tells where throttling or shutdown begins"
    return tuple(found)


def _zones(tree: Tree) -> list[ThermalSensor]:
    found = []
    for name in tree.names("/sys/class/thermal"):
        where = f"/sys/class/thermal/{name}"
        kind = tree.line(f"{where}/type", characters_max=40)
        if not name.startswith("thermal_zone") or kind is None:
            continue
        trips: dict[str, list[int]] = {}
        for number in range(TRIPS_MAX):
            trip = tree.line(f"{where}/trip_point_{number}_type")
            if trip is None:
                break
            celsius = _centi(tree, f"{where}/trip_point_{number}_temp")
            if celsius is not None and celsius > 0:  # 0 and below: a trip that is switched off.
                trips.setdefault(trip, []).append(celsius)
        throttles = trips.get("passive", []) + trips.get("hot", [])
        found.append(
            ThermalSensor(
                name=kind,
                temperature_centi=_centi(tree, f"{where}/temp"),
                limit_centi=min(throttles, default=None),
                critical_centi=min(trips.get("critical", []), default=None),
            )
        )
    return found


def _hwmon(tree: Tree) -> list[ThermalSensor]:
    found = []
    for chip in tree.names("/sys/class/hwmon"):
        where = f"/sys/class/hwmon/{chip}"
        name = tree.line(f"{where}/name", characters_max=40) or chip
        for file in tree.names(where):
            told = re.fullmatch(r"(temp\d{1,3})_input", file)
            if told is None:
                continue
            stem = f"{where}/{told[1]}"
            label = tree.line(f"{stem}_label", characters_max=40)
            found.append(
                ThermalSensor(
                    name=f"{name} {label}" if label else name,
                    temperature_centi=_centi(tree, f"{where}/{file}"),
                    limit_centi=_centi(tree, f"{stem}_max"),
                    critical_centi=_centi(tree, f"{stem}_crit"),
                )
            )
    return found


def _centi(tree: Tree, path: str) -> int | None:
    thousandths = tree.integer(path, least=_LEAST, most=_MOST)
    return None if thousandths is None else thousandths // 10
