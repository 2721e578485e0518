"""How much of a machine a request is, by the resource of which it takes the largest part.

Lives here: that one number. Never here: who held it for how long (`fairness`).
Invariant: a part is from 1 to a million millionths; asking for more of anything is never less.

Millionths, because one core of 128 is not seven thousandths of a machine, nor eight.
"""

from typing import Final

from distributed_grid.model import milli
from distributed_grid.model.resources import Request, Resources

WHOLE_MICRO: Final = 1_000_000


def dominant_micro(total: Resources, request: Request) -> int:
    """The largest part of anything that a request takes, in millionths; at least one.

    Of GPUs those count that would do: one of two H100 is a half, however many others there are.
    """
    has = dict(total.custom)
    parts = [
        _part(request.cpu_milli, total.cpu_milli),
        _part(request.memory_bytes, total.memory_bytes),
        _part(request.storage_bytes, total.storage_bytes),
        *(_part(amount, has.get(kind, 0)) for kind, amount in request.custom),
    ]
    if request.gpus:
        fitting = sum(request.gpus.accepts(gpu) for gpu in total.gpus)
        parts.append(_part(request.gpus.milli, fitting * milli.WHOLE))
    return max(1, *parts)


def _part(wanted: int, has: int) -> int:
    """In millionths; what is more than there is counts as everything."""
    if wanted >= has:
        return WHOLE_MICRO if wanted else 0
    return wanted * WHOLE_MICRO // has
