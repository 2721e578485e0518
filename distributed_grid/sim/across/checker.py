"""What a rule over the whole cluster looks like.

Lives here: the moments at which rules are told something. Never here: the rules (`checkers`).
"""

from typing import TYPE_CHECKING

from distributed_grid.kernel.ready import Ready

if TYPE_CHECKING:
    from distributed_grid.sim.across.keeper import Truth
    from distributed_grid.sim.across.machine import Machine
    from distributed_grid.sim.across.people import Wish
    from distributed_grid.sim.across.world import World


class Violation(Exception):
    """A rule was broken; a bug of the kernel, or of the rule."""


class Checker:
    """Sees every machine, and never asks a kernel whether that kernel is right."""

    def carried_out(self, world: "World", machine: "Machine", ready: Ready) -> None:
        """What a step wanted saved is durable, and what it wanted told was told."""

    def began(self, world: "World", machine: "Machine", truth: "Truth") -> None:
        """A process runs."""

    def woke(self, world: "World", machine: "Machine") -> None:
        """A lid was opened; what slept there goes on."""

    def acknowledged(self, world: "World", wish: "Wish") -> None:
        """Somebody was told that a job is taken, with so many copies."""

    def crashed(self, world: "World", machine: "Machine") -> None:
        """An agent has forgotten what was not saved."""

    def disk_lost(self, world: "World", machine: "Machine") -> None:
        """Whatever was on this disk will be gone in a moment: it is new, or old, or away."""

    def looked(self, world: "World") -> None:
        """A second has passed."""

    def calmed(self, world: "World") -> None:
        """From now on nothing fails."""

    def ended(self, world: "World") -> None:
        """Everything has settled."""
