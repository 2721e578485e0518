"""Nothing is sold twice, nothing is remembered without bound, nobody talks for ever.

Lives here: sums over what keepers run, sizes of what kernels keep, counts of what they say.
"""

from collections import Counter
from typing import Final

from distributed_grid.kernel.ready import Ready
from distributed_grid.model import milli
from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.keeper import Truth
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.world import World
from distributed_grid.sim.mesh.timeline import SECOND_US

QUIET_US: Final = 10 * SECOND_US
BOUNDED_S: Final = 10  # Tables are measured so often: what grows for ever is found all the same.
TALK_US: Final = 90 * SECOND_US  # Longer than everything that is asked for the last time.


class NothingSoldTwice(Checker):
    """What a keeper runs fits its machine, core by core, and each has a lease on that disk."""

    def began(self, world: World, machine: Machine, truth: Truth) -> None:
        """Add up what runs there."""
        inventory = machine.inventory
        sums: Counter[str] = Counter()
        cores: Counter[int] = Counter()
        for process in machine.keeper.firsts:
            request = world.wishes[machine.keeper.truth(process).job].spec.request
            sums.update(cpu=request.cpu_milli, memory=request.memory_bytes)
            cores.update(dict.fromkeys(process.run.slot.cores, milli.WHOLE))
        if sums["cpu"] > inventory.cpu_milli or sums["memory"] > inventory.memory_bytes:
            raise Violation(f"{machine} sells more than it has: {dict(sums)}")
        if any(share > milli.WHOLE for share in cores.values()):
            raise Violation(f"{machine} sells a core twice")
        if any(one.run.lease not in machine.disk.leases for one in machine.keeper.firsts):
            raise Violation(f"{machine} runs {truth.attempt[:6]}, its lease is not saved")

    def carried_out(self, world: World, machine: Machine, ready: Ready) -> None:
        """The kernel's own books add up."""
        if ready.tell and machine.is_up:
            machine.kernel.check()

    def looked(self, world: World) -> None:
        """Also where nothing began."""
        for machine in world.machines:
            if machine.is_up:
                machine.kernel.check()


class Bounded(Checker):
    """What kernels keep about others grows with what is under way, not with what was."""

    def looked(self, world: World) -> None:
        """Every table of `kernel.across`, by reflection: a new one is looked at too."""
        if world.timeline.now_us // SECOND_US % BOUNDED_S:
            return
        most = 64 + 16 * len(world.wishes)
        for machine in world.machines:
            if machine.is_up and machine.node is not None and machine.node.across is not None:
                for name, size in _tables(machine.node.across):
                    if size > most:
                        raise Violation(f"{machine} keeps {size} of {name}, at most {most}")


def _tables(thing: object, depth: int = 2) -> list[tuple[str, int]]:
    found = []
    for name, value in vars(thing).items():
        if isinstance(value, dict | list | set):
            rows = value.values() if isinstance(value, dict) else value
            within = sum(len(row) for row in rows if isinstance(row, dict | list | set))
            found.append((f"{type(thing).__name__}.{name}", len(value) + within))
        elif (
            depth
            and type(value).__module__.startswith("distributed_grid.kernel.across")
            and hasattr(value, "__dict__")
        ):
            found += _tables(value, depth - 1)
    return found


class Quiet(Checker):
    """When all has settled, and everything was said once more, nobody says anything."""

    def ended(self, world: World) -> None:
        """Listen for a while."""
        if world.mood.seed % 5:
            return  # It takes as long as it takes: one run in five will do.
        end_us = world.timeline.now_us + TALK_US
        while said := self._said(world):
            if world.timeline.now_us >= end_us:
                raise Violation(f"all has ended, and it is still talked about: {said}")

    def _said(self, world: World) -> dict[str, int]:
        before = Counter(world.network.sent)
        world.pass_time(QUIET_US)
        return dict(world.network.sent - before)
