"""Scripts of at-most-once jobs whose voters change: who has heard of it, and who has not.

Lives here: one function for each scene. Never here: what is checked (`register_stage`).

The set changes from a, b and c to c, d and e. First a write that names both, then one with the new
set alone.
"""

from collections.abc import Callable

from distributed_grid.kernel.across.register_effects import RENEW_US, WAIT_US, Effects
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.register import Accept, Accepted, Prepare, Promised, Written
from tests.sim.register_stage import MEMORY, SECOND_US, A, B, C, D, E, P, Q, Scene, X, Y
from tests.sim.register_world import Violation
from tests.unit.across.register_lab import JOB


def begin_change(scene: Scene) -> None:
    """The coordinator says that the set is to change, without delivery."""
    effects = Effects()
    scene.nodes[P].writer.chair(JOB).change_set(scene.members("cde"), scene.now_us, effects)
    scene.do(P, effects)


def held_by(scene: Scene, name: NodeId) -> Written | None:
    return scene.nodes[name].voter.written(JOB)


def rule(scene: Scene, name: NodeId, written: Written | None, lease: str, node: NodeId) -> None:
    """Take over, hear that the first attempt has ended, and let another start."""
    scene.ask(name, written)
    scene.deliver()
    scene.ended("l1", by=name)
    scene.attempt(lease, node, by=name)


def replace(scene: Scene, name: NodeId, written: Written | None) -> None:
    """Take over, and replace the first attempt, of which nothing is heard."""
    scene.ask(name, written)
    scene.deliver()
    scene.name("l2", Y, by=name)
    scene.pass_time(WAIT_US + SECOND_US)
    scene.start(name)
    scene.deliver()


def heard_by_the_new(scene: Scene) -> None:
    """Of both sets in one write hear those who are to come, and one that is to stay."""
    begin_change(scene)
    scene.post = [one for one in scene.post if one[1] in {C, D, E}]
    scene.deliver()
    scene.away = {P}


def settled_by_one(scene: Scene) -> None:
    """All have heard of both sets; that the new one is alone hears d only."""
    begin_change(scene)
    scene.deliver(only=(Accept, *MEMORY))
    scene.deliver(only=Accepted)
    scene.post = [one for one in scene.post if one[1] == D]
    scene.deliver()
    scene.away = {P}


def half_a_change() -> None:
    """One voter hears of the new set, then the coordinator dies; two take over, apart."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    old = scene.nodes[A].voter.written(JOB)
    effects = Effects()
    scene.nodes[P].writer.chair(JOB).change_set(scene.members("cde"), scene.now_us, effects)
    scene.do(P, effects)
    scene.post = [one for one in scene.post if one[1] == C]
    scene.deliver()
    scene.away = {P, A, B}
    scene.ask(Q, scene.nodes[C].voter.written(JOB))
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l2", Y, by=Q)
    scene.away = {P, C, D, E, Q}
    scene.ask(B, old)
    scene.deliver()
    scene.ended("l1", by=B)
    scene.attempt("l3", X, by=B)


def old_set() -> None:
    """Somebody takes over with the set from before a change; the new one is out of reach."""
    scene = Scene()
    scene.attempt("l1", X)
    old = scene.nodes[A].voter.written(JOB)
    effects = Effects()
    scene.nodes[P].writer.chair(JOB).change_set(scene.members("cde"), scene.now_us, effects)
    scene.do(P, effects)
    scene.deliver()
    scene.ended("l1")
    scene.attempt("l2", Y)
    scene.away = {P, C, D, E}
    scene.ask(Q, old)
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)


def renewed_by_the_new() -> None:
    """The new set has heard of the change; the old one, cut off, goes on without."""
    scene = Scene()
    scene.attempt("l1", X)
    heard_by_the_new(scene)
    scene.pass_time(RENEW_US)  # So x hears of it, too.
    scene.apart = {A, B, Q, Y}
    replace(scene, Q, held_by(scene, A))


def renewed_by_the_old() -> None:
    """One of the new set knows that it is alone; the old one, cut off, does not."""
    scene = Scene()
    scene.attempt("l1", X)
    settled_by_one(scene)
    scene.apart = {D, E, Q, Y}
    replace(scene, Q, held_by(scene, D))


def promised_by_the_new() -> None:
    """As before; then somebody who knows both sets reaches the new one first."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    heard_by_the_new(scene)
    scene.apart = {A, B, Y}
    rule(scene, B, held_by(scene, B), "l2", Y)
    late_to_hear(scene, held_by(scene, D))


def promised_by_the_old() -> None:
    """As before; then somebody who knows both sets reaches the old one first."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    settled_by_one(scene)
    scene.apart = {D, E, Y}
    rule(scene, E, held_by(scene, D), "l2", Y)
    late_to_hear(scene, held_by(scene, A))


def late_to_hear(scene: Scene, written: Written | None) -> None:
    """Somebody asks this side of a cut for promises, and writes on both."""
    scene.ask(Q, written)
    scene.deliver(only=(Prepare, *MEMORY))
    scene.apart = set()
    scene.deliver()
    scene.ended("l1", by=Q)
    scene.attempt("l3", X, by=Q)


def accepted_by_the_new() -> None:
    """A coordinator that changes the set is cut off with the new one."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    begin_change(scene)
    scene.apart = {P, C, D, E, Y}
    scene.deliver()
    scene.attempt("l2", Y)
    rule(scene, B, held_by(scene, B), "l3", X)


def accepted_by_the_old() -> None:
    """Only the old set is there while it changes; whoever is told to vote no more leaves."""
    scene = Scene()
    scene.attempt("l1", X)
    begin_change(scene)
    scene.away = {C, D, E}
    scene.deliver()
    voters = scene.nodes[P].writer.chair(JOB).written.standing.voters
    scene.away = {P, A, B} - {voter.node for voter in voters}
    scene.ask(Q, held_by(scene, C))
    scene.deliver()
    if scene.nodes[Q].writer.chair(JOB) is None:
        raise Violation("a durable write was lost: nobody who votes now has it")


def change_taken_up() -> None:
    """Only d hears of the change. It takes over, and only it hears of its first write."""
    scene = Scene()
    scene.attempt("l1", X)
    scene.ended("l1")
    begin_change(scene)
    scene.post = [one for one in scene.post if one[1] == D]
    scene.deliver()
    scene.away = {P}
    scene.ask(D, held_by(scene, D))
    scene.deliver(only=(Prepare, Promised, *MEMORY))
    scene.post = [one for one in scene.post if one[1] == D]
    scene.deliver()
    scene.apart = {D, E, Y}
    rule(scene, E, held_by(scene, D), "l2", Y)
    rule(scene, Q, held_by(scene, A), "l3", X)


SCENES: dict[str, Callable[[], object]] = {
    "half a change": half_a_change,
    "old set": old_set,
    "renewed by the new": renewed_by_the_new,
    "renewed by the old": renewed_by_the_old,
    "promised by the new": promised_by_the_new,
    "promised by the old": promised_by_the_old,
    "accepted by the new": accepted_by_the_new,
    "accepted by the old": accepted_by_the_old,
    "change taken up": change_taken_up,
}
