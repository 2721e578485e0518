"""What batteries and heat allow.

Lives here: the owner's limits, and the builder of seed 002. Never here: reading batteries
(`edges.probe`).
"""

import msgspec

from distributed_grid.errors import BadValue


class PowerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a node on battery, or a hot one, may be used."""

    battery_percent_min: int = 20  # Enough to finish something and still get home.
    prefer_ac_power: bool = True
    temperature_centi_max: int = 8_500  # Most machines throttle between 90 and 100 degrees.

    def __post_init__(self) -> None:
        if not 0 <= self.battery_percent_min <= 100:
            raise BadValue(
                self.battery_percent_min,
                expected="a battery level of 0 to 100 percent",
                remedy="20 is the default",
            )
        if not 0 <= self.temperature_centi_max <= 20_000:
            raise BadValue(
                self.temperature_centi_max // 100,
                expected="a thermal limit of 0 to 200 degrees Celsius",
                remedy="85 is the default",
            )

    @staticmethod
    def builder() -> "PowerPolicyBuilder":
        """Start from the defaults: `PowerPolicy.builder().min_battery_level(30).build()`."""
        return PowerPolicyBuilder()


class PowerPolicyBuilder:
    """Collects the limits one by one, as in seed 002."""

    def __init__(self) -> None:
        self._policy = PowerPolicy()

    def min_battery_level(self, percent: int) -> "PowerPolicyBuilder":
        """Use no node on battery below this level."""
        return self._with(battery_percent_min=percent)

    def prefer_ac_power(self, prefer: bool) -> "PowerPolicyBuilder":
        """Choose nodes on AC before nodes on battery."""
        return self._with(prefer_ac_power=prefer)

    def thermal_limit(self, celsius: int) -> "PowerPolicyBuilder":
        """Use no node hotter than this."""
        return self._with(temperature_centi_max=celsius * 100)

    def build(self) -> PowerPolicy:
        """The finished policy."""
        return self._policy

    def _with(self, **change: int) -> "PowerPolicyBuilder":
        self._policy = msgspec.structs.replace(self._policy, **change)
        return self
