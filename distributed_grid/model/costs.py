"""What a node costs its owner, as the owner says.

Lives here: money and power. Never here: choosing by them (`kernel.placement`).
"""

from typing import Final

import msgspec


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What nobody can measure from inside."""

    price_micro_per_hour: int = 0
    idle_mw: int | None = None  # None: not told.
    max_mw: int | None = None


COSTS: Final = Costs()
