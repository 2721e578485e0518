"""Whether several requests fit side by side, by amounts, and what of a request is not yet met.

Lives here: arithmetic between requests and resources. Never here: whose they are (`bookings`),
core ids (`ledger`).
Invariant: nothing is said to fit that does not; no amount below zero.
"""

from collections.abc import Iterable, Sequence

import msgspec

from distributed_grid.model import milli
from distributed_grid.model.gpus import ANY, Gpu, GpuRequest
from distributed_grid.model.resources import Request, Resources, sorted_amounts

Missing = tuple[tuple[str, int, int], ...]  # (what, wanted, has)
_AMOUNTS = ("cpu_milli", "memory_bytes", "storage_bytes")


def missing_for(requests: Sequence[Request], has: Resources) -> Missing:
    """What is missing so that all of these fit at once; nothing if they do."""
    wants = [(name, sum(getattr(one, name) for one in requests)) for name in _AMOUNTS]
    found = [(name, want, getattr(has, name)) for name, want in wants if want > getattr(has, name)]
    custom: dict[str, int] = {}
    for request in requests:
        for kind, amount in request.custom:
            custom[kind] = custom.get(kind, 0) + amount
    there = dict(has.custom)
    found += [
        (f"custom.{kind}", custom[kind], there.get(kind, 0))
        for kind in sorted(custom)
        if custom[kind] > there.get(kind, 0)
    ]
    gpus = [request.gpus for request in requests if request.gpus]
    return (*found, *_try_on(gpus, has.gpus)[0])


def devices_beside(
    request: Request, others: Sequence[Request], has: Resources
) -> frozenset[str] | None:
    """The devices that a request may use so that the others still fit; None: any."""
    kept = [one.gpus for one in others if one.gpus]
    if request.gpus is None or not kept:
        return None
    _, left, given = _try_on([*kept, request.gpus], has.gpus)
    for gpu in given[len(kept)]:
        left[gpu.device] = left.get(gpu.device, 0) + gpu.share_milli
    each_milli = min(request.gpus.milli, milli.WHOLE)
    return frozenset(name for name, room in left.items() if room >= each_milli)


def left_of(requests: Sequence[Request], held: Resources) -> tuple[tuple[Request, ...], Resources]:
    """What of these requests somebody who holds this does not meet; and what he has beyond them."""
    left = []
    for request in requests:
        part = _met(request, held)
        held = without(held, part)
        left += _minus(request, part)
    return tuple(left), held


def without(has: Resources, taken: Resources) -> Resources:
    """What is left; of what is not there nothing is taken."""
    shares = {gpu.device: gpu.share_milli for gpu in taken.gpus}
    gpus = [(gpu, gpu.share_milli - shares.get(gpu.device, 0)) for gpu in has.gpus]
    amounts = dict(taken.custom)
    return Resources(
        cpu_milli=max(has.cpu_milli - taken.cpu_milli, 0),
        memory_bytes=max(has.memory_bytes - taken.memory_bytes, 0),
        storage_bytes=max(has.storage_bytes - taken.storage_bytes, 0),
        gpus=tuple(
            msgspec.structs.replace(gpu, share_milli=left) for gpu, left in gpus if left > 0
        ),
        custom=sorted_amounts({k: max(n - amounts.get(k, 0), 0) for k, n in has.custom}),
    )


def _met(request: Request, held: Resources) -> Resources:
    """The part of what is held that this request asks for."""
    gpus: list[Gpu] = []
    open_milli = request.gpus.milli if request.gpus else 0
    for gpu in held.gpus:
        share_milli = min(gpu.share_milli, open_milli)
        if share_milli and request.gpus and request.gpus.accepts(gpu):
            gpus.append(msgspec.structs.replace(gpu, share_milli=share_milli))
            open_milli -= share_milli
    amounts = dict(held.custom)
    return Resources(
        cpu_milli=min(request.cpu_milli, held.cpu_milli),
        memory_bytes=min(request.memory_bytes, held.memory_bytes),
        storage_bytes=min(request.storage_bytes, held.storage_bytes),
        gpus=tuple(gpus),
        custom=sorted_amounts({k: min(n, amounts.get(k, 0)) for k, n in request.custom}),
    )


def _minus(request: Request, met: Resources) -> list[Request]:
    """What is left of a request: one, or two if a share of a GPU and whole ones are left."""
    amounts = dict(met.custom)
    left = Request(
        cpu_milli=request.cpu_milli - met.cpu_milli,
        memory_bytes=request.memory_bytes - met.memory_bytes,
        storage_bytes=request.storage_bytes - met.storage_bytes,
        custom=sorted_amounts({k: n - amounts.get(k, 0) for k, n in request.custom}),
    )
    if request.gpus is None:
        return [left] if left != Request() else []
    count, share = divmod(
        request.gpus.milli - sum(gpu.share_milli for gpu in met.gpus), milli.WHOLE
    )
    parts = [part for part in (count * milli.WHOLE, share) if part]
    gpus = [msgspec.structs.replace(request.gpus, milli=part) for part in parts]
    if gpus:
        left = msgspec.structs.replace(left, gpus=gpus.pop(0))
    return [one for one in (left, *(Request(gpus=one) for one in gpus)) if one != Request()]


def _try_on(
    wanted: Sequence[GpuRequest], gpus: Iterable[Gpu]
) -> tuple[Missing, dict[str, int], dict[int, tuple[Gpu, ...]]]:
    """What is missing, what is free of each device afterwards, and who got which.

    The choosiest go first, whole devices before shares.
    """
    free = {gpu.device: gpu for gpu in gpus}
    accepted = {one: sum(map(one.accepts, free.values())) for one in wanted}
    missing: dict[str, tuple[int, int]] = {}
    given: dict[int, tuple[Gpu, ...]] = {}
    for number, one in sorted(
        enumerate(wanted), key=lambda pair: (accepted[pair[1]], -pair[1].milli, pair[0])
    ):
        given[number] = one.choose(free.values())
        if not given[number]:
            what = "gpu_milli" if one.model == ANY else f"gpu_milli.{one.model}"
            want, has = missing.get(what, (0, one.available_milli(free.values())))
            missing[what] = (want + one.milli, has)
        for gpu in given[number]:
            left = free.pop(gpu.device).share_milli - gpu.share_milli
            if left:
                free[gpu.device] = msgspec.structs.replace(gpu, share_milli=left)
    lacking = tuple((what, want, has) for what, (want, has) in sorted(missing.items()))
    return lacking, {name: gpu.share_milli for name, gpu in free.items()}, given
