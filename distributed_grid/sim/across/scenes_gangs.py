"""Scenes of gangs: all ranks run together or none does, whoever dies.

Lives here: what becomes of a gang when somebody is killed or parted. Never here: other deaths
(`scenes`).
"""

from collections.abc import Callable
from typing import Final

from distributed_grid.sim.across.checker import Violation
from distributed_grid.sim.across.script import Scene
from distributed_grid.sim.across.verdicts import DEAD_US
from distributed_grid.sim.mesh.timeline import SECOND_US

MINUTE_US: Final = 60 * SECOND_US
RANKS: Final = 3


def _rank_killed(scene: Scene) -> None:
    """The machine of one rank burns down: the others are ended, and all begin again."""
    home = scene.machines[0]
    gang = scene.submit("gang", at=home, takes_s=60, gang=RANKS, avoid=home, cpu_milli=3_000)
    scene.until(lambda: len(scene.runs_on(gang)) == RANKS and scene.is_taken(gang), "running")
    scene.lose(scene.runs_on(gang)[0])
    scene.until(lambda: scene.starts(gang) == 2 * RANKS, "begun again", within_us=MINUTE_US // 2)
    scene.until_ended(gang, within_us=2 * MINUTE_US)


def _late_rank_killed(scene: Scene) -> None:
    """A rank is behind the others, and its machine burns down when they have ended: all again."""
    home = scene.machines[0]
    gang = scene.submit("gang", at=home, takes_s=10, gang=RANKS, avoid=home, cpu_milli=3_000)
    scene.until(lambda: len(scene.runs_on(gang)) == RANKS and scene.is_taken(gang), "running")
    late = scene.runs_on(gang)[-1]
    late.pause()
    scene.pass_time(2 * SECOND_US)
    late.wake()
    scene.until(lambda: scene.runs_on(gang) == [late], "behind", within_us=20 * SECOND_US)
    scene.lose(late)
    scene.until_ended(gang, within_us=2 * MINUTE_US)  # Of all ranks: `EndsAreTrue` counts.


def _home_killed(scene: Scene) -> None:
    """The home of a gang burns down: another one takes over, and its ranks go on."""
    home = scene.machines[0]
    gang = scene.submit("gang", at=home, takes_s=20, gang=RANKS, avoid=home, cpu_milli=3_000)
    scene.until(lambda: len(scene.runs_on(gang)) == RANKS and scene.copies(gang) > 2, "running")
    scene.pass_time(SECOND_US)
    scene.lose(home)
    scene.until_ended(gang, within_us=MINUTE_US)
    if scene.starts(gang) != RANKS:
        raise Violation("its ranks were started again, though nothing happened to them")


def _home_killed_before_go(scene: Scene) -> None:
    """The home burns down while a gang gathers: what is kept for it is given back, and it runs."""
    home, full = scene.machines[0], scene.machines[1]
    first = scene.submit("first", at=full, on=full, takes_s=8, cpu_milli=4_000)
    scene.until(lambda: bool(scene.runs_on(first)), "running")
    gang = scene.submit("gang", at=home, takes_s=5, gang=4, avoid=home, cpu_milli=3_000)
    scene.until(lambda: scene.copies(gang) > 2, "copied")
    scene.pass_time(SECOND_US)
    scene.lose(home)
    scene.until_ended(first, gang, within_us=2 * MINUTE_US)


def _gangs_in_each_others_way(scene: Scene) -> None:
    """Two gangs that fit only one after the other, asked for at once: both run."""
    machines = scene.machines
    gangs = [
        scene.submit(f"gang-{n}", at=machines[n], takes_s=5, gang=5, cpu_milli=3_000)
        for n in range(2)
    ]
    scene.until_ended(*gangs, within_us=2 * MINUTE_US)


def _gang_parted(scene: Scene) -> None:
    """A rank is cut off from the others for longer than every timeout, and comes back."""
    home = scene.machines[0]
    gang = scene.submit("gang", at=home, takes_s=30, gang=RANKS, avoid=home, cpu_milli=3_000)
    scene.until(lambda: len(scene.runs_on(gang)) == RANKS and scene.is_taken(gang), "running")
    away = scene.runs_on(gang)[-1]
    heal = scene.part([away], [one for one in scene.machines if one is not away])
    scene.until(lambda: scene.thinks_dead(home, away), "a verdict", within_us=2 * DEAD_US)
    scene.pass_time(10 * SECOND_US)
    heal()
    scene.until_ended(gang, within_us=3 * MINUTE_US)


GANGS: Final[dict[str, Callable[[Scene], None]]] = {
    "rank killed": _rank_killed,
    "late rank killed": _late_rank_killed,
    "gang's home killed": _home_killed,
    "gang's home killed before go": _home_killed_before_go,
    "gangs in each other's way": _gangs_in_each_others_way,
    "gang parted": _gang_parted,
}
