"""A job as each machine sees it: its home, whoever holds a copy, whoever asks them.

Lives here: states from the outside. Never here: what they should be (`settling`, `checkers`).
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.across.record_bytes import decode
from distributed_grid.model.ids import JobId

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine
    from distributed_grid.sim.across.world import World


def states_of(world: "World", job: JobId) -> "dict[Machine, str]":
    """Who knows the job, and in which state."""
    found = {}
    for machine in world.live():
        if machine.is_up and (state := state_at(machine, job)):
            found[machine] = state
    return found


def state_at(machine: "Machine", job: JobId) -> str:
    """What this machine would answer; empty: it does not know the job."""
    node = machine.kernel
    own = node.coordinator.jobs.get(job)
    if own is not None and not own.is_guest:
        return own.state
    body = machine.disk.held.get(job)
    return _state(body) if body is not None else ""


@lru_cache(maxsize=4_096)  # Everyone is asked again and again, and few records change.
def _state(body: bytes) -> str:
    return state_of(decode(body))
