"""What it means that all has settled: everything ended, equally for everyone, and nothing is held.

Lives here: the question, asked of the whole cluster. Never here: how long it may take (`world`).
"""

from typing import TYPE_CHECKING

from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.register_sets import is_majority, is_recollected, members_of
from distributed_grid.model.ids import JobId
from distributed_grid.sim.across.views import states_of
from distributed_grid.wire.api import ENDED
from distributed_grid.wire.register import Member, Sets, Standing

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine
    from distributed_grid.sim.across.people import Wish
    from distributed_grid.sim.across.world import World


def unsettled(world: "World") -> str:
    """What is still under way somewhere; empty if all has settled."""
    for wish in world.wishes.values():
        if problem := _unsettled_wish(world, wish):
            return f"{wish.spec.name} {problem}"
    for machine in world.live():
        if problem := _busy(machine):
            return f"{machine} {problem}"
    return ""


def _unsettled_wish(world: "World", wish: "Wish") -> str:
    if wish.copies is None and not (wish.refusal or wish.is_given_up):
        return "is not answered"
    if wish.spec.id in world.forgotten:
        return ""
    states = states_of(world, wish.spec.id)
    if not states:
        return "is known to nobody" if wish.is_promised else ""
    if len(set(states.values())) > 1:
        return f"is seen differently: {_told(states)}"
    if not set(states.values()) <= ENDED:
        return f"has not ended: {_told(states)}"
    if wish.is_cancel_wanted and not wish.is_cancel_taken:
        return "is cancelled, and nobody takes it"
    return ""


def is_stuck(world: "World", wish: "Wish") -> bool:
    """At most once, and too many of those who vote on it are lost: it waits for a person.

    Who votes is read from records; who is lost, and who was restarted, the world knows itself.
    """
    return any(
        not is_majority(members, {one for one in members if _can_vote(world, one, members)})
        for members in sets_of(world, wish)
        if members
    )


def are_voters_lost(world: "World", sets: Sets) -> bool:
    """Whether no disk is left of those that these votes were on: nobody need remember them."""
    members = members_of(sets)
    return bool(members) and all(_is_lost(world, member) for member in members)


def sets_of(world: "World", wish: "Wish") -> Sets:
    """Who votes on a job, by the newest record that anybody has."""
    known = [one for machine in world.live() for one in _votes(machine, wish.spec.id)]
    return max(known, key=lambda one: one.version, default=Standing()).sets


def _votes(machine: "Machine", job_id: JobId) -> list[Standing]:
    """What a machine knows of who votes on a job."""
    across = machine.kernel.across if machine.is_up else None
    if across is None:
        return []
    written = across.once.register.voter.written(job_id)
    record = across.guarding.find(job_id)
    told = standing_of(record.standing).votes if record else None
    return [one for one in (written.standing if written else None, told) if one is not None]


def _can_vote(world: "World", member: Member, members: tuple[Member, ...]) -> bool:
    """It has its store; and if it was restarted, those who must remember its votes have theirs."""
    there = {one for one in members if not _is_lost(world, one)}
    is_first_life = world.network.machines[member.node].life == 1
    return member in there and (is_first_life or is_recollected((members,), member, there))


def _is_lost(world: "World", member: Member) -> bool:
    """Its machine burnt down, or the disk that it voted with was lost, or put back too old."""
    return world.network.machines[member.node].is_gone or member.store in world.lost_stores


def _told(states: "dict[Machine, str]") -> str:
    return ", ".join(f"{machine} {state}" for machine, state in states.items())


def _busy(machine: "Machine") -> str:
    if not machine.is_awake:
        return "is away"
    if machine.keeper.attempts:
        return f"still runs {[truth.attempt[:6] for truth in machine.keeper.truths]}"
    if machine.keeper.journal:
        return "has not heard what its keeper reports"
    if machine.kernel.ledger.leases:
        return "holds leases for nobody"
    return ""


def first_state(world: "World", job: JobId) -> str:
    """How a job ended, for everyone, once all has settled; empty: nobody knows it."""
    return next(iter(states_of(world, job).values()), "")
