"""Work for a node of a room: jobs that no other node has, and letting those go that must."""

import itertools

from distributed_grid.wire.keeper import Preempt
from tests.node_world import a_job, told

_numbers = itertools.count()


def occupy(node, count: int = 4, **what_matters) -> list:
    """Jobs of one core each, running there, each with a name of its own."""
    jobs = [a_job(f"busy-{next(_numbers)}", **what_matters) for _ in range(count)]
    node.submit(*jobs)
    node.pump()
    return jobs


def give_way(room, who) -> None:
    """Whoever was told to give way there does."""
    for word in told(who, Preempt):
        if word.attempt in who.keeper.runs:
            who.keeper.preempt(word.attempt)
    room.settle()
