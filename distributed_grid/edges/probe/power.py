"""Where the current comes from, from /sys/class/power_supply, and the power plan.

Lives here: mains, batteries, plan. Never here: what may run on battery (`kernel.placement`).
Source: the kernel's Documentation/ABI/testing/sysfs-class-power, Documentation/userspace-api/
sysfs-platform_profile.rst, admin-guide/pm/{cpufreq,intel_pstate}.rst.
"""

from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import Battery, Power

_SUPPLY: Final = "/sys/class/power_supply"
RUNTIME_MINUTES_MAX: Final = 100_000  # Ten weeks; a draw of nearly nothing is no forecast.

_PLANS: Final = {
    "performance": "performance",
    "balanced-performance": "performance",
    "balance_performance": "balanced",
    "balance_power": "power-saver",
    "balanced": "balanced",
    "default": "balanced",
    "schedutil": "balanced",
    "ondemand": "balanced",
    "conservative": "balanced",
    "quiet": "power-saver",
    "cool": "power-saver",
    "low-power": "power-saver",
    "power": "power-saver",
    "powersave": "power-saver",
}


def power(tree: Tree, absent: dict[str, str]) -> Power:
    """Mains or battery, the level, the plan."""
    names = tree.names(_SUPPLY)
    batteries, mains = [], []
    for name in names:
        kind = tree.line(f"{_SUPPLY}/{name}/type")
        # Scope `Device` is the battery of a mouse, not ours.
        if kind == "Battery" and tree.line(f"{_SUPPLY}/{name}/scope") != "Device":
            if tree.integer(f"{_SUPPLY}/{name}/present") != 0:
                batteries.append(f"{_SUPPLY}/{name}")
        elif kind in {"Mains", "USB", "Wireless"}:
            online = tree.integer(f"{_SUPPLY}/{name}/online")
            if online is not None:
                mains.append(online != 0)
    battery = _battery(tree, batteries, absent) if batteries else None
    if battery is None:
        absent["power.battery"] = "/sys/class/power_supply lists no battery of the machine"
    on_battery = _on_battery(mains, battery)
    source = (
        "battery"
        if on_battery
        else "ac"
        if any(mains) or (battery and on_battery is False)
        else None
    )
    if source is None:
        absent["power.source"] = "no sensor tells of mains or of a battery that discharges"
    plan, raw = _plan(tree)
    if raw is None:
        absent["power.plan"] = "there is neither an ACPI platform profile nor a cpufreq governor"
    return Power(source=source, on_battery=on_battery, battery=battery, plan=plan, plan_raw=raw)


def _on_battery(mains: list[bool], battery: Battery | None) -> bool | None:
    if battery is None:
        return False  # Whatever feeds it, it is no battery.
    if any(mains):
        return False
    if battery.state == "discharging" or mains:
        return True
    return False if battery.state in {"charging", "full", "not charging"} else None


def _battery(tree: Tree, places: list[str], absent: dict[str, str]) -> Battery:
    states = [(tree.line(f"{place}/status") or "").lower() for place in places]
    now, full, draw = 0, 0, 0
    percents = []
    for place in places:
        for stem, rate in (("energy", "power_now"), ("charge", "current_now")):
            part = tree.integer(f"{place}/{stem}_now")
            whole = tree.integer(f"{place}/{stem}_full", least=1)
            if part is not None and whole is not None:
                now, full = now + min(part, whole), full + whole
                # Some drivers write the current of a discharge as a negative number.
                draw += abs(tree.integer(f"{place}/{rate}", least=-(1 << 40), most=1 << 40) or 0)
                break
        percent = tree.integer(f"{place}/capacity", most=100)
        if percent is not None:
            percents.append(percent)
    # One battery says its own level; of several, only their energy can be added up.
    level = percents[0] if len(places) == 1 and percents else now * 100 // full if full else None
    if level is None and percents:
        level = sum(percents) // len(percents)
    if level is None:
        absent["power.battery.percent"] = "the battery tells neither capacity nor energy"
    known = next(
        (s for s in ("discharging", "charging", "not charging", "full") if s in states), None
    )
    minutes = now * 60 // draw if draw and known == "discharging" else None
    if minutes is None or minutes > RUNTIME_MINUTES_MAX:
        minutes = None
        absent["power.battery.runtime"] = "it is told only while a battery discharges measurably"
    return Battery(percent=level, state=known, runtime_minutes=minutes)


def _plan(tree: Tree) -> tuple[str | None, str | None]:
    where = "/sys/devices/system/cpu/cpu0/cpufreq"
    # A profile is the owner's choice; the preference refines `powersave`, which is the ordinary
    # governor of intel_pstate and amd-pstate and saves nothing by itself.
    for path in (
        "/sys/firmware/acpi/platform_profile",
        f"{where}/energy_performance_preference",
        f"{where}/scaling_governor",
    ):
        raw = tree.line(path, characters_max=40)
        if raw in _PLANS:
            return _PLANS[raw], raw
    return None, None
