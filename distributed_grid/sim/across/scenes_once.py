"""Scenes of at-most-once jobs: who votes is killed, restarted, parted, or loses what it remembers.

Lives here: what becomes of such a job and its votes. Never here: other jobs (`scenes`), single
rules of voting (`kernel.across.register_*`, which have a simulation of their own in the tests).
"""

from collections.abc import Callable
from typing import Final

from distributed_grid.sim.across.checker import Violation
from distributed_grid.sim.across.people import Wish
from distributed_grid.sim.across.script import Scene
from distributed_grid.sim.across.verdicts import DEAD_US
from distributed_grid.sim.mesh.timeline import SECOND_US

LEASE_US: Final = 10_200_000  # TTL 10 s times 1.02: then an at-most-once job may be replaced.
MINUTE_US: Final = 60 * SECOND_US


def _once_parted(scene: Scene) -> None:
    """The executor of an at-most-once job is cut off: replaced when its lease is over."""
    home = scene.machines[0]
    job = scene.submit("once", at=home, takes_s=30, avoid=home, is_once=True)
    scene.until(lambda: bool(scene.runs_on(job)) and scene.is_taken(job), "running")
    there = scene.runs_on(job)[0]
    heal = scene.part([there], [one for one in scene.machines if one is not there])
    within_us = DEAD_US + 2 * LEASE_US + 2 * SECOND_US
    scene.until(
        lambda: any(one is not there for one in scene.runs_on(job)), "replaced", within_us=within_us
    )
    scene.pass_time(20 * SECOND_US)
    heal()
    scene.until_ended(job, within_us=2 * MINUTE_US)


def _home_killed(scene: Scene) -> None:
    """The home burns down: another adopts what runs, under a fence of its own, and it goes on."""
    home = scene.machines[0]
    job = scene.submit("once", at=home, takes_s=40, avoid=home, is_once=True)
    scene.until(lambda: bool(scene.runs_on(job)) and scene.copies(job) > 2, "running")
    scene.pass_time(2 * SECOND_US)
    scene.lose(home)
    scene.until_ended(job, within_us=2 * MINUTE_US)
    if scene.starts(job) != 1:
        raise Violation(f"it was started {scene.starts(job)} times, though nothing happened to it")


def _ended_alone(scene: Scene) -> tuple[Wish, Callable[[], None]]:
    """A job that has ended where nobody heard of it, and runs elsewhere; how to heal that."""
    home, *others = scene.machines
    job = scene.submit("once", at=home, takes_s=8, is_once=True)
    scene.until(lambda: scene.runs_on(job) == [home] and scene.copies(job) > 2, "running")
    scene.pass_time(2 * SECOND_US)
    heal = scene.part([home], others)
    within_us = DEAD_US + 2 * LEASE_US + 10 * SECOND_US
    scene.until(
        lambda: any(one is not home for one in scene.runs_on(job)), "replaced", within_us=within_us
    )
    return job, heal


def _ends_alone(scene: Scene) -> None:
    """It ends where nobody hears of it: nobody is told so, as the others will run it again."""
    job, heal = _ended_alone(scene)
    heal()
    scene.until_ended(job, within_us=6 * SECOND_US)  # Sooner than the second run does.


def _ends_unheard(scene: Scene) -> None:
    """It ended where nobody heard of it, and runs again where nobody is heard: first that ends."""
    job, heal = _ended_alone(scene)
    (there,) = scene.runs_on(job)
    heal()
    heal = scene.part([there], [one for one in scene.machines if one is not there])
    scene.pass_time(30 * SECOND_US)
    heal()
    scene.until_ended(job, within_us=20 * SECOND_US)


def _stuck(scene: Scene) -> None:
    """A voter burns down and the others are restarted: nobody may vote until a person says so."""
    home = scene.machines[0]
    job = scene.submit("once", at=home, takes_s=30, is_once=True)
    scene.until(lambda: bool(scene.runs_on(job)) and scene.copies(job) > 2, "running")
    lost, *left = [one for one in scene.voters(job) if one is not home]
    scene.lose(lost)
    for machine in (home, *left):
        scene.crash(machine)
    is_said = scene.world.people.says_stuck
    scene.until(lambda: is_said(job) is not None, "said to be stuck", within_us=MINUTE_US)
    before = scene.starts(job)
    scene.pass_time(MINUTE_US)
    if scene.starts(job) != before or scene.runs_on(job):
        raise Violation("it runs without a majority of its voters")
    scene.force(job)
    scene.until_ended(job, within_us=MINUTE_US)


def _voters_replaced(scene: Scene) -> None:
    """Every voter loses its disk, one after the other: each has a successor before the next."""
    home, there = scene.machines[0], scene.machines[4]
    first = scene.submit("first", at=there, on=there, takes_s=120, cpu_milli=4_000)
    scene.until(lambda: bool(scene.runs_on(first)), "running")
    job = scene.submit("once", at=home, on=there, takes_s=5, is_once=True)
    scene.until(lambda: scene.copies(job) > 2 and len(scene.voters(job)) > 1, "copied")
    voters = [one for one in scene.voters(job) if one not in (home, there)]
    for voter in (*voters, home):
        scene.lose_disk(voter, away_us=2 * DEAD_US)
        scene.pass_time(20 * SECOND_US)
    scene.until_ended(first, job, within_us=4 * MINUTE_US)


ONCE: Final[dict[str, Callable[[Scene], None]]] = {
    "once parted": _once_parted,
    "once home killed": _home_killed,
    "once ends alone": _ends_alone,
    "once ends unheard": _ends_unheard,
    "once stuck": _stuck,
    "once voters replaced": _voters_replaced,
}
