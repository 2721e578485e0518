"""Scenes of partitions: two sides, one way only, again and again, for longer than every timeout.

Lives here: who does not reach whom, and what must come of it. Never here: deaths (`scenes`).
"""

from collections.abc import Callable, Sequence
from typing import Final

from distributed_grid.sim.across.checker import Violation
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.people import Wish
from distributed_grid.sim.across.script import Scene
from distributed_grid.sim.across.views import state_at
from distributed_grid.sim.mesh.timeline import SECOND_US

MINUTE_US: Final = 60 * SECOND_US


def _on_both_sides(scene: Scene, left: Sequence[Machine], right: Sequence[Machine]) -> list[Wish]:
    """Three jobs on each side, submitted while nobody hears of the other."""
    return [
        scene.submit(f"{side[0]}-{n}", at=side[n % len(side)], takes_s=3)
        for side in (left, right)
        for n in range(3)
    ]


def _are_taken(jobs: Sequence[Wish]) -> None:
    if not all(job.copies for job in jobs):
        raise Violation("a side of the partition does not take jobs")


def _long_partition(scene: Scene) -> None:
    """2|3 for longer than every timeout, with submissions on both sides and work across it."""
    machines = scene.machines
    across = scene.submit("across", at=machines[0], on=machines[3], takes_s=15)
    back = scene.submit("back", at=machines[4], on=machines[1], takes_s=15)
    scene.until(lambda: scene.is_taken(across, back) and bool(scene.runs_on(across)), "running")
    heal = scene.part(machines[:2], machines[2:])
    jobs = _on_both_sides(scene, machines[:2], machines[2:])
    scene.pass_time(2 * MINUTE_US)
    _are_taken(jobs)
    heal()
    scene.until_ended(across, back, *jobs, within_us=MINUTE_US)


def _one_against_four(scene: Scene) -> None:
    """1|4: the one is the home of what runs on the others, and comes back."""
    home, *others = scene.machines
    jobs = [scene.submit(f"job-{n}", at=home, takes_s=10, avoid=home) for n in range(3)]
    scene.until(lambda: scene.is_taken(*jobs) and all(map(scene.runs_on, jobs)), "running")
    heal = scene.part([home], others)
    jobs += _on_both_sides(scene, [home], others)
    scene.pass_time(MINUTE_US)
    _are_taken(jobs)
    heal()
    scene.until_ended(*jobs, within_us=MINUTE_US)


def _after_one_alone(scene: Scene, *, takes_s: int, away_ms: int = 0) -> Wish:
    """A job ends on a machine that is cut off, whose agent is restarted before anybody hears of it.

    One that comes after it elsewhere goes on once both see each other.
    """
    alone, *others = scene.machines
    heal = scene.part([alone], others)
    scene.until(lambda: all(scene.thinks_dead(alone, one) for one in others), "a verdict")
    first = scene.submit("first", at=alone, takes_s=takes_s)
    scene.until(lambda: state_at(alone, first.spec.id) == "succeeded", "ended", within_us=MINUTE_US)
    alone.crash()
    scene.skip(away_ms)
    heal()
    second = scene.submit("second", at=others[1], takes_s=1, after=first)
    scene.pass_time(10 * SECOND_US)
    alone.start()
    scene.until_ended(second, within_us=MINUTE_US)
    if scene.starts(first) != 1:
        raise Violation("what had ended was started again")
    return first


def _after_what_ended_unheard(scene: Scene) -> None:
    """It is back a moment later, and tells others what it knows."""
    first = _after_one_alone(scene, takes_s=3)
    scene.until(lambda: scene.copies(first) > 1, "copied")


def _after_what_ended_long_ago(scene: Scene) -> None:
    """It is back an hour later, when a start does not load the job any more."""
    _after_one_alone(scene, takes_s=3, away_ms=3_600_000)


def _cancel_unreachable(scene: Scene) -> None:
    """Nobody reaches the executor when its job is cancelled: it ends when it is reached again."""
    home, there, other = scene.machines[0], scene.machines[2], scene.machines[1]
    rest = [one for one in scene.machines if one is not there]
    job = scene.submit("long", at=home, on=there, takes_s=3_600)
    scene.until(lambda: scene.is_taken(job) and bool(scene.runs_on(job)), "running")
    heal = scene.part([there], rest)
    scene.pass_time(SECOND_US)
    scene.cancel(job, at=other)
    scene.pass_time(30 * SECOND_US)
    heal()
    scene.until(lambda: not scene.runs_on(job), "ended there", within_us=30 * SECOND_US)
    scene.until_ended(job, within_us=30 * SECOND_US)


def _submitted_again(scene: Scene) -> None:
    """Somebody asks again at a home that is none any more: the job is known, and runs once."""
    home, *others = scene.machines
    job = scene.submit("runs", at=home, takes_s=8)
    scene.until(lambda: scene.is_taken(job) and bool(scene.runs_on(job)), "running")
    heal = scene.part([home], others)
    scene.until(lambda: scene.starts(job) > 1, "taken over")
    heal()
    scene.pass_time(3 * SECOND_US)
    scene.ask_again(job)
    scene.until_ended(job, within_us=MINUTE_US)
    scene.ask_again(job)
    scene.pass_time(5 * SECOND_US)
    if scene.starts(job) != 2:
        raise Violation("it was started again, because it was asked for again")


def _ends_on_one_side(scene: Scene) -> None:
    """It ends on one side of a partition while it still runs on the other, which then crashes."""
    home, *others = scene.machines
    job = scene.submit("runs", at=home, takes_s=8)
    scene.until(lambda: scene.is_taken(job) and bool(scene.runs_on(job)), "running")
    heal = scene.part([home], others)
    scene.until(lambda: home not in scene.runs_on(job), "ended at home")
    other = scene.runs_on(job)[0]
    heal()
    scene.until(lambda: state_at(other, job.spec.id) == "succeeded", "learnt")
    other.crash()
    other.start()
    scene.until_ended(job, within_us=MINUTE_US)


def _ends_differ(scene: Scene) -> None:
    """It fails on one side of a partition and succeeds on the other: everyone learns of that."""
    home, *others = scene.machines
    job = scene.submit("runs", at=home, takes_s=6, fails_first=1)
    scene.until(lambda: scene.is_taken(job) and bool(scene.runs_on(job)), "running")
    heal = scene.part([home], others)
    scene.pass_time(15 * SECOND_US)
    heal()
    scene.until_ended(job, within_us=MINUTE_US)


def _one_way(scene: Scene) -> None:
    """Two hear nothing from the other three, which hear them until the links are given up."""
    deaf, others = scene.machines[:2], scene.machines[2:]
    there = scene.submit("there", at=deaf[0], on=others[0], takes_s=15)
    back = scene.submit("back", at=others[1], on=deaf[1], takes_s=15)
    scene.until(
        lambda: scene.is_taken(there, back) and all(map(scene.runs_on, (there, back))), "running"
    )
    heal = scene.deafen(deaf, others)
    jobs = _on_both_sides(scene, deaf, others)
    scene.pass_time(2 * MINUTE_US)
    _are_taken(jobs)
    heal()
    scene.until_ended(there, back, *jobs, within_us=MINUTE_US)


def _flapping(scene: Scene) -> None:
    """2|3 again and again, now shorter and now longer than a verdict takes, for two minutes."""
    left, right = scene.machines[:2], scene.machines[2:]
    jobs = [scene.submit("there", at=left[0], on=right[0], takes_s=30)]
    jobs += [scene.submit("back", at=right[1], on=left[1], takes_s=30)]
    scene.until(lambda: scene.is_taken(*jobs) and all(map(scene.runs_on, jobs)), "running")
    for turn in range(24):
        heal = scene.part(left, right)
        jobs += [scene.submit(f"left-{turn}", at=left[turn % 2], takes_s=2)]
        jobs += [scene.submit(f"right-{turn}", at=right[turn % 3], takes_s=2)]
        scene.pass_time((1 + turn % 5) * SECOND_US)
        heal()
        scene.pass_time((1 + turn % 3) * SECOND_US)
    _are_taken(jobs)
    scene.until_ended(*jobs, within_us=MINUTE_US)


PARTED: Final[dict[str, Callable[[Scene], None]]] = {
    "long partition": _long_partition,
    "one against four": _one_against_four,
    "one way": _one_way,
    "flapping": _flapping,
    "cancel unreachable": _cancel_unreachable,
    "submitted again": _submitted_again,
    "ends on one side": _ends_on_one_side,
    "ends differ": _ends_differ,
    "after what ended unheard": _after_what_ended_unheard,
    "after what ended long ago": _after_what_ended_long_ago,
}
