"""Scenes: a few lines of script each, for what must go well every time and within a stated time.

Lives here: who is killed, parted or put to sleep when, on a calm cluster, and what must come of it.
Never here: faults by chance (`faults`), the words that scripts are written in (`script`).
Invariant: a scene goes the same way every time, and every checker watches it.
"""

from collections.abc import Callable
from typing import Final

from distributed_grid.model.membership import DAY_MS, GRACE_MS
from distributed_grid.sim.across.checker import Violation
from distributed_grid.sim.across.people import Wish
from distributed_grid.sim.across.scenes_gangs import GANGS
from distributed_grid.sim.across.scenes_lending import LENDING
from distributed_grid.sim.across.scenes_once import ONCE
from distributed_grid.sim.across.scenes_parted import PARTED
from distributed_grid.sim.across.script import Scene
from distributed_grid.sim.across.verdicts import DEAD_US
from distributed_grid.sim.mesh.timeline import SECOND_US

PLACED_AGAIN_US: Final = SECOND_US  # From the verdict until it runs again elsewhere.
MINUTE_US: Final = 60 * SECOND_US
MANY: Final = 200  # Running jobs: with a thousand the same happens, and takes as much longer.


def played(name: str) -> tuple[str, list[str]]:
    """What went wrong in a scene, empty if nothing did; and its story."""
    scene = Scene(cores=24 if name in _LARGE else 4)
    try:
        scene.world.begin()
        scene.world.tell(f"scene: {name}")
        SCENES[name](scene)
        scene.finish()
    except Exception as error:  # noqa: BLE001  (whatever the kernel raises is a finding)
        return f"{type(error).__name__}: {error}", scene.world.trace
    return "", scene.world.trace


def _submitter_killed(scene: Scene) -> None:
    """After the acknowledgement its machine burns down: one job runs elsewhere, one waits."""
    here, there = scene.machines[0], scene.machines[2]
    runs = scene.submit("runs", at=here, on=there, takes_s=8)
    waits = scene.submit("waits", at=here, on=there, takes_s=2, cpu_milli=4_000)
    scene.until(lambda: scene.is_taken(runs, waits) and scene.runs_on(runs) == [there], "taken")
    before = scene.starts(runs)
    scene.lose(here)
    scene.until_ended(runs, waits, within_us=MINUTE_US)
    if scene.starts(runs) != before:
        raise Violation("what ran elsewhere was started again, though nothing happened to it")


def _executor_killed(scene: Scene) -> None:
    """Its job is placed again within a second of the verdict."""
    home, there = scene.machines[0], scene.machines[2]
    job = scene.submit("runs", at=home, takes_s=20, avoid=home)
    scene.until(lambda: bool(scene.runs_on(job)) and scene.is_taken(job), "running")
    there = scene.runs_on(job)[0]
    scene.lose(there)
    scene.until(lambda: scene.thinks_dead(home, there), "a verdict", within_us=2 * DEAD_US)
    scene.until(lambda: bool(scene.runs_on(job)), "placed again", within_us=PLACED_AGAIN_US)
    scene.until_ended(job, within_us=MINUTE_US)


def _both_killed(scene: Scene) -> None:
    """Submitter and executor at the same time: a guardian takes over, and starts it again."""
    home = scene.machines[0]
    job = scene.submit("runs", at=home, takes_s=20, avoid=home)
    scene.until(lambda: bool(scene.runs_on(job)) and scene.copies(job) > 2, "copied")
    there = scene.runs_on(job)[0]
    scene.lose(home)
    scene.lose(there)
    scene.until(lambda: bool(scene.runs_on(job)), "taken over", within_us=3 * DEAD_US)
    scene.until_ended(job, within_us=MINUTE_US)


def _guardian_and_submitter(scene: Scene) -> None:
    """A guardian dies with the submitter: the next one takes over."""
    home, there = scene.machines[0], scene.machines[2]
    job = scene.submit("runs", at=home, on=there, takes_s=8)
    scene.until(lambda: scene.copies(job) > 2 and bool(scene.runs_on(job)), "copied")
    guardian = next(one for one in scene.holders(job) if one not in (home, there))
    scene.lose(home)
    scene.lose(guardian)
    scene.until_ended(job, within_us=MINUTE_US)


def _pause_a_minute(scene: Scene) -> None:
    """A lid is closed for a minute, over a home and over an executor."""
    sleeper, other = scene.machines[0], scene.machines[1]
    mine = scene.submit("mine", at=sleeper, takes_s=20, avoid=sleeper)
    guest = scene.submit("guest", at=other, on=sleeper, takes_s=20)
    scene.until(lambda: scene.is_taken(mine, guest) and bool(scene.runs_on(guest)), "running")
    sleeper.pause()
    scene.pass_time(MINUTE_US)
    sleeper.wake()
    scene.until_ended(mine, guest, within_us=2 * MINUTE_US)


def _back_after_the_grace(scene: Scene) -> None:
    """A machine with unfinished jobs comes back after the others have forgotten them."""
    away, *others = scene.machines
    first = scene.submit("first", at=others[1], on=others[1], takes_s=10, cpu_milli=4_000)
    scene.until(lambda: bool(scene.runs_on(first)), "running")
    job = scene.submit("old", at=away, on=others[1], takes_s=5)
    scene.until(lambda: scene.is_taken(job) and scene.copies(job) > 2, "copied")
    away.power_off()
    scene.until(lambda: not scene.unfinished(job, but=away), "ended", within_us=MINUTE_US)
    before = scene.starts(job)
    scene.skip(2 * GRACE_MS + DAY_MS)
    for other in others:  # Whoever has waited for it so long may forget it now.
        other.crash()
        other.disk.forget_finished()
        other.start()
    scene.pass_time(10 * SECOND_US)
    scene.skip(DAY_MS)
    scene.pass_time(10 * SECOND_US)
    away.start()
    scene.pass_time(MINUTE_US)
    if scene.starts(job) != before:
        raise Violation("an old record was started again after the grace")
    scene.cancel(job, at=away)  # It is untracked, and waits for a person: for this one.


def _home_comes_back(scene: Scene) -> None:
    """A home is away for so long that another takes over: it asks before it starts anything."""
    home = scene.machines[0]
    job = scene.submit("runs", at=home, on=None, takes_s=20)
    scene.until(lambda: scene.runs_on(job) == [home] and scene.copies(job) > 2, "copied")
    home.power_off()
    scene.until(lambda: bool(scene.runs_on(job)), "taken over", within_us=3 * DEAD_US)
    home.start()
    scene.until_ended(job, within_us=MINUTE_US)
    if scene.starts(job) != 2:
        raise Violation(f"it was started {scene.starts(job)} times, twice was enough")


def _many(scene: Scene, count: int, *, takes_s: int) -> list[Wish]:
    """Jobs of every machine, half of them on the next one."""
    machines = scene.machines
    return [
        scene.submit(
            f"job-{n}",
            at=machines[n % 5],
            on=machines[(n + n // 5 % 2) % 5],
            takes_s=takes_s,
            cpu_milli=100,
        )
        for n in range(count)
    ]


def _restart_in_turn(scene: Scene) -> None:
    """Every agent restarts, one after the other, under many running jobs: none is lost."""
    machines, jobs = scene.machines, _many(scene, MANY, takes_s=40)
    for n in range(10):  # Nothing but the rule keeps these from another machine.
        at = machines[n % 5]
        jobs += [scene.submit(f"any-{n}", at=at, avoid=at, takes_s=40, cpu_milli=100)]
    scene.until(lambda: all(map(scene.runs_on, jobs)), "all running", within_us=MINUTE_US)
    before = [scene.starts(job) for job in jobs]
    for machine in machines:
        scene.restart(machine, away_us=4 * SECOND_US)
        scene.pass_time(6 * SECOND_US)
    if [scene.starts(job) for job in jobs] != before:
        raise Violation("a planned restart started something again")
    scene.until_ended(*jobs, within_us=2 * MINUTE_US)


def _crash_in_turn(scene: Scene) -> None:
    """Every agent dies, unannounced and for longer than a verdict takes, under jobs of all kinds.

    What is on its disk, and on those of the others, is enough.
    """
    machines, jobs = scene.machines, _many(scene, 40, takes_s=30)
    jobs += [scene.submit(f"any-{n}", at=machines[n % 5], takes_s=30) for n in range(20)]
    for n in range(10):
        at = machines[n % 5]
        jobs += [scene.submit(f"once-{n}", at=at, takes_s=15, is_once=True, cpu_milli=500)]
    jobs += [
        scene.submit(f"gang-{n}", at=machines[n], takes_s=30, gang=3, cpu_milli=500)
        for n in range(3)
    ]
    scene.until(lambda: all(map(scene.runs_on, jobs)), "all running", within_us=MINUTE_US)
    for machine in machines:
        scene.crash(machine, away_us=2 * DEAD_US)
        scene.pass_time(4 * DEAD_US)
    scene.until_ended(*jobs, within_us=5 * MINUTE_US)


def _drained(scene: Scene) -> None:
    """A machine is drained: who lost little by it runs elsewhere, who had run for long ends there.

    Unless its owner cannot wait. Nothing starts there until it is over.
    """
    home, there, *_ = scene.machines
    old = [scene.submit(f"old-{n}", at=home, takes_s=240, avoid=home) for n in range(4)]
    scene.until(lambda: all(map(scene.runs_on, old)), "running", within_us=MINUTE_US)
    stay = [job for job in old if there in scene.runs_on(job)]
    scene.pass_time(70 * SECOND_US)
    guests = [scene.submit(f"guest-{n}", at=home, takes_s=60, avoid=home) for n in range(8)]
    scene.until(lambda: all(map(scene.runs_on, guests)), "running", within_us=MINUTE_US)
    scene.drain(there)
    scene.until(lambda: len(there.keeper.attempts) <= len(stay), "left")
    if not stay or not all(there in scene.runs_on(job) for job in stay):
        raise Violation("whoever had run for long was to end there")
    scene.drain(there, is_now=True)
    scene.until(lambda: not there.keeper.attempts, "left")
    more = scene.submit("more", at=there, takes_s=2, on=there)
    scene.pass_time(20 * SECOND_US)
    if scene.starts(more):
        raise Violation("something was started on a machine that is drained")
    scene.drain(there, is_on=False)
    scene.until_ended(more, *guests, *old, within_us=6 * MINUTE_US)


def _first_words_lost(scene: Scene) -> None:
    """Of each kind of message the first two are lost: everything is said again, and done once."""
    home, there = scene.machines[0], scene.machines[2]
    scene.world.network.lost_next.update(dict.fromkeys(_REPEATED, 2))
    job = scene.submit("runs", at=home, on=there, takes_s=3)
    long = scene.submit("long", at=home, on=there, takes_s=3_600)
    scene.until(lambda: bool(scene.runs_on(job)), "running", within_us=MINUTE_US)
    scene.world.network.lost_next.update(dict.fromkeys(_REPEATED, 2))
    scene.until_ended(job, within_us=MINUTE_US)
    scene.until(lambda: bool(scene.runs_on(long)), "running", within_us=MINUTE_US)
    scene.cancel(long, at=home)
    scene.until_ended(long, within_us=MINUTE_US)
    if scene.starts(job) != 1:
        raise Violation("it was started again, though only words were lost")


def _orphan(scene: Scene) -> None:
    """A home dies before anybody else has heard where its job runs: what runs there is ended."""
    home, there = scene.machines[0], scene.machines[2]
    first = scene.submit("first", at=there, on=there, takes_s=5, cpu_milli=4_000)
    scene.until(lambda: bool(scene.runs_on(first)), "running")
    job = scene.submit("long", at=home, on=there, takes_s=3_600, cpu_milli=4_000)
    scene.until(lambda: scene.copies(job) > 2, "copied")
    scene.world.network.lost_next["Copy"] = 1_000_000
    scene.until(lambda: bool(scene.runs_on(job)), "running")
    scene.lose(home)
    scene.world.network.lost_next.clear()
    since_us = scene.world.timeline.now_us
    scene.until(lambda: scene.starts(job) > 1, "started again", within_us=3 * MINUTE_US)
    if scene.world.timeline.now_us - since_us > 40 * SECOND_US:
        raise Violation("what nobody wanted was in the way for too long")
    scene.cancel(job, at=next(one for one in scene.holders(job) if one is not there))
    scene.until_ended(job, within_us=MINUTE_US)


_REPEATED: Final = (
    "Copy", "Copied", "Granted", "Start", "Taken", "Begun", "Report", "Confirmed", "Halt",
)  # fmt: skip
SCENES: Final[dict[str, Callable[[Scene], None]]] = {
    "submitter killed": _submitter_killed,
    "executor killed": _executor_killed,
    "both killed": _both_killed,
    "guardian and submitter": _guardian_and_submitter,
    "pause a minute": _pause_a_minute,
    "back after the grace": _back_after_the_grace,
    "home comes back": _home_comes_back,
    "restart in turn": _restart_in_turn,
    "crash in turn": _crash_in_turn,
    "drained": _drained,
    "first words lost": _first_words_lost,
    "orphan": _orphan,
    **PARTED,
    **GANGS,
    **LENDING,
    **ONCE,
}
_LARGE: Final = frozenset({"restart in turn", "crash in turn"})  # All of its jobs at once.
