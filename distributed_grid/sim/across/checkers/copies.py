"""What was acknowledged is on as many disks as was said, and stays there.

Lives here: counting disks. Never here: whether the job ends (`settling`).
"""

from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.people import Wish
from distributed_grid.sim.across.world import World


class CopiesAreThere(Checker):
    """A job acknowledged with k copies survives the loss of any k - 1 disks, at every moment."""

    def acknowledged(self, world: World, wish: Wish) -> None:
        """As many as was said."""
        holders = _holders(world, wish)
        if len(holders) < (wish.copies or 0) - wish.losses:
            raise Violation(
                f"{wish.spec.name} is acknowledged with {wish.copies} copies, on disk: {holders}"
            )

    def looked(self, world: World) -> None:
        """As many as was said, less those that were lost since."""
        for wish in world.wishes.values():
            if wish.copies is None or wish.spec.id in world.forgotten:
                continue
            holders = _holders(world, wish)
            if len(holders) < wish.copies - wish.losses:
                raise Violation(
                    f"{wish.spec.name} was acknowledged with {wish.copies} copies, {wish.losses} "
                    f"were lost, and these are left: {holders}"
                )


def _holders(world: World, wish: Wish) -> list[str]:
    return [machine.name for machine in world.machines if machine.disk.has(wish.spec.id)]
