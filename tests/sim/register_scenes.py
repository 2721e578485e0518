"""Scripts of at-most-once jobs: what must happen in an order that chance seldom finds.

Lives here: one function for each scene, and the table of all. Never here: what is checked
(`register_stage`), changes of the set (`register_set_scenes`), faults by chance
(`register_world`).

Guardians are a, b and c, at first; x and y run things; p, q and r coordinate.
"""

from collections.abc import Callable

from distributed_grid.kernel.across.register_effects import RENEW_US, WAIT_US, Effects
from distributed_grid.model.across import Epoch
from distributed_grid.wire.register import Accept, LeasesRenewed, Prepare, Promised
from tests.sim.register_set_scenes import SCENES as OF_SETS
from tests.sim.register_stage import (
    LOOK_US,
    MEMORY,
    SECOND_US,
    A,
    B,
    C,
    D,
    P,
    Q,
    Scene,
    X,
    Y,
)
from tests.sim.register_world import Violation
from tests.unit.across.register_lab import JOB, RegisterLab


def forgetful(disk: Callable[[Scene], dict[str, bytes]], *, is_remembered: bool = True) -> Scene:
    """A voter promises to one, starts again, and is asked to vote for another."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    given = disk(scene)
    scene.ask(Q)
    scene.set_aside(Prepare, to=C)
    scene.deliver(only=Prepare)
    if not is_remembered:  # What a told the others of its promise was lost.
        scene.post = [one for one in scene.post if one[0] != A or one[2].__class__ is Promised]
    scene.deliver(only=MEMORY)
    late = scene.set_aside(Promised)
    scene.away = {Q}
    scene.rerun(A, given or scene.disks[A])
    scene.attempt("l2", Y)
    scene.away = set()
    scene.post += late
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)
    return scene


def promise_and_crash() -> None:
    """A voter crashes after its promise."""
    forgetful(lambda _: {})


def promise_and_amnesia() -> None:
    """A voter loses its disk after its promise."""
    forgetful(lambda _: {"other": b""})


def promise_and_old_disk() -> None:
    """A voter promises, nobody else hears that it has, and it gets the disk from before."""
    forgetful(lambda scene: dict(scene.disks[A]), is_remembered=False)


def renewal_and_old_disk() -> None:
    """A voter accepts the next attempt, and then has the disk from before that."""
    scene = Scene()
    scene.attempt("l1", X)
    old = dict(scene.disks[A])
    scene.away = {C}
    scene.name("l2", Y)
    scene.deliver()
    scene.away = {P}
    scene.disks[A] = old
    RegisterLab.start(scene, A)
    scene.pass_time(WAIT_US)
    scene.away = set()
    scene.pass_time(100_000)
    scene.start()
    scene.deliver()


def coordinator_alone() -> None:
    """The coordinator is a voter; it and the executor are cut off from the others."""
    scene = Scene()
    scene.ask(A)
    scene.deliver()
    scene.attempt("l1", X, by=A)
    scene.apart = {A, X}
    scene.ask(B)
    scene.deliver()
    scene.name("l2", Y, by=B)
    scene.pass_time(WAIT_US + SECOND_US)
    scene.start(B)
    scene.deliver()


def two_at_once() -> None:
    """Two take over with the same counter; one of them hears of its promises late."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    scene.ask(D)
    scene.deliver(only=(Prepare, *MEMORY))
    first = scene.set_aside(Promised)
    scene.ask(Q)
    scene.deliver(only=(Prepare, *MEMORY))
    second = scene.set_aside(Promised)
    scene.post += first
    scene.deliver()
    scene.ended("l1", by=D)
    scene.attempt("l2", Y, by=D)
    scene.post += second
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)


def unrecorded_start() -> None:
    """A coordinator names an attempt, no voter hears it, and the coordinator dies."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    scene.name("l2", Y)
    scene.set_aside(Accept)
    scene.start()
    scene.deliver()
    scene.away = {P}
    scene.ask(Q)
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)


def replaced_while_it_runs() -> None:
    """A coordinator replaces an attempt that lives."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.pass_time(4 * SECOND_US)
    scene.attempt("l2", Y)
    scene.pass_time(WAIT_US)
    scene.start()
    scene.deliver()


def late_record() -> None:
    """A coordinator is cut off while it names the next attempt; the former lives meanwhile."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.away = {P}
    scene.name("l2", Y)
    scene.post.clear()
    scene.pass_time(8 * SECOND_US)
    scene.away = set()
    for _ in range(WAIT_US // SECOND_US + 2):
        scene.pass_time(SECOND_US)
        scene.start()
        scene.deliver()


def late_answers() -> None:
    """The answers of the voters reach an executor after eight seconds."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.pass_time(2_500_000)
    scene.away = {X}
    scene.now_us += 2_500_000
    scene.do(X, scene.nodes[X].tick(scene.now_us))
    scene.away = set()
    scene.deliver(only=tuple({type(one[2]) for one in scene.post}))
    late = scene.set_aside(LeasesRenewed)
    scene.away = {X}
    scene.name("l2", Y)
    scene.deliver()
    scene.pass_time(8 * SECOND_US)
    scene.away = set()
    scene.post += late
    scene.deliver()
    scene.pass_time(WAIT_US - 8 * SECOND_US)
    scene.start()
    scene.deliver()


def unlike_clocks() -> None:
    """The executor's clock is slow and the coordinator's fast, as far as they may be."""
    for since_us in range(0, RENEW_US, 2 * LOOK_US):  # Since it last had its lease renewed.
        scene = Scene()
        scene.drift_ppm = {X: -20_000, P: 20_000}
        scene.attempt("l1", X)
        scene.pass_time(RENEW_US + since_us)
        scene.name("l2", Y)
        scene.deliver()
        scene.pass_time(WAIT_US - RENEW_US)
        while "l2" not in scene.until_us:
            scene.pass_time(LOOK_US)
            scene.start()
            scene.deliver()


def vote_and_crash() -> None:
    """A voter accepts the name of an attempt, and starts again."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    scene.away = {C}
    scene.attempt("l2", Y)
    scene.away = {P}
    scene.rerun(A, scene.disks[A])
    scene.away = {P, B}
    scene.ask(Q, scene.nodes[C].voter.written(JOB))
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)


def takeover_in_the_wait() -> None:
    """A coordinator dies while it waits for the lease of the former attempt to end."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.name("l2", Y)
    scene.deliver()
    scene.away = {P}
    scene.ask(Q)
    scene.deliver()
    scene.start(Q)
    scene.deliver()


def refused_after_a_takeover() -> None:
    """As before; and the node of the named attempt does not know it."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.name("l2", D)
    scene.deliver()
    scene.away = {P}
    scene.ask(Q)
    scene.deliver()
    effects = Effects()
    scene.nodes[Q].writer.chair(JOB).ended("l2", effects, has_run=False)
    scene.do(Q, effects)
    scene.attempt("l3", Y, by=Q)


def old_record() -> None:
    """Somebody takes over with an old copy of the record."""
    scene = Scene()
    old = scene.nodes[A].voter.written(JOB)
    scene.attempt("l1", X)
    scene.ask(Q, old)
    scene.deliver()
    scene.attempt("l2", Y, by=Q)


def old_question() -> None:
    """A voter hears again what a former coordinator asked when it began."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    scene.ask(Q)
    scene.deliver(only=(Prepare, *MEMORY))
    late = scene.set_aside(Promised)
    again = Prepare(job=JOB, epoch=Epoch(1, P), ask=scene.ask_of_p, sets=(scene.first,))
    scene.post += [(P, name, again) for name in (A, B, C)]
    scene.away = {Q}
    scene.deliver()
    scene.attempt("l2", Y)
    scene.away = set()
    scene.post += late
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)


SCENES: dict[str, Callable[[], object]] = {
    "promise and crash": promise_and_crash,
    "promise and amnesia": promise_and_amnesia,
    "promise and old disk": promise_and_old_disk,
    "renewal and old disk": renewal_and_old_disk,
    "coordinator alone": coordinator_alone,
    "two at once": two_at_once,
    "unrecorded start": unrecorded_start,
    "replaced while it runs": replaced_while_it_runs,
    "late record": late_record,
    "late answers": late_answers,
    "unlike clocks": unlike_clocks,
    "vote and crash": vote_and_crash,
    "takeover in the wait": takeover_in_the_wait,
    "refused after a takeover": refused_after_a_takeover,
    "old record": old_record,
    "old question": old_question,
    **OF_SETS,
}


def played(name: str) -> str:
    """What goes wrong in a scene; empty if nothing does."""
    try:
        SCENES[name]()
    except Violation as problem:
        return str(problem)
    return ""
