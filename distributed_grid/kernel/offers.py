"""Offers: how much of each kind is lent now, and which threshold stands in the way of the rest.

Lives here: the six thresholds of seed 003, the reserve, the policy's part, the largest number of
offers. Never here: whether the machine lends at all (`lending`).
Invariant: what is lent, what is leased, what the owner uses and his reserve never exceed the
machine, but for cores that the owner shares: those of `aggressive`, one beside each lent GPU, and
the quarter of one that every machine uses for itself.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.lending_policies import POLICIES
from distributed_grid.kernel.usage import Usage
from distributed_grid.model import bytesize, milli
from distributed_grid.model.lending import GpuUse, Offer, Sample, Terms, Withheld, percent
from distributed_grid.model.resources import Request, Resources, sorted_amounts

KIND_OF: Final = {
    "cpu_milli": "cpu",
    "memory_bytes": "memory",
    "storage_bytes": "storage",
    "gpu_milli": "gpu",
}
_BYTES: Final = frozenset({"memory", "storage"})
# No machine is ever quite still. If less of a core counted, of one core none would be lent.
STILL_MILLI: Final = 250


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What is lent now, and why not the rest."""

    offers: tuple[Offer, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    lent: Resources = Resources()  # All offers together, to be asked what fits.
    cores_beside_gpus: int = 0  # Free beyond the reserve, whatever the load; one for each GPU.
    only_with_gpu: Withheld | None = None  # What keeps back all but what goes with a GPU.


class Books:
    """One survey under way."""

    def __init__(
        self, terms: Terms, use: Usage, sample: Sample, total: Resources, made_ms: int
    ) -> None:
        self.terms, self.use, self.sample, self.total = terms, use, sample, total
        self.rule = POLICIES[terms.policy]
        self.made_ms, self.expires_ms = made_ms, made_ms + terms.offer_expiry_ms
        self.pressed: Withheld | None = None  # The cores are the owner's now, and only they.
        self.offers: list[Offer] = []
        self.withheld: list[Withheld] = []

    def no(self, kind: str, threshold: str, limit: str, measured: str, *, device: str = "") -> None:
        """Note what stands in the way."""
        self.withheld.append(
            Withheld(kind=kind, threshold=threshold, limit=limit, measured=measured, device=device)
        )

    def lend(self, kind: str, free: int, reserved: int, borrowed: int, total: int) -> None:
        """Offer the policy's part of what is free beyond the reserve."""
        spare = free - reserved
        # Of what is lent already too: half, and not half again of the rest at each look.
        amount = min((spare + borrowed) * self.rule.part_milli // milli.WHOLE - borrowed, spare)
        if spare <= 0:
            key = _RESERVES.get(kind, "reserve")
            limit = f"{amount_text(kind, reserved)} reserved" if reserved else "more than 0"
            self.no(kind, key, limit, f"{amount_text(kind, max(free, 0))} free")
        elif amount <= 0:
            part = f"{percent(self.rule.part_milli)} of what is free ({self.terms.policy})"
            self.no(kind, "policy", part, f"{amount_text(kind, borrowed)} lent already")
        else:
            self.offer(kind, amount, total)

    def offer(self, kind: str, amount: int, total: int, gpu: GpuUse | None = None) -> None:
        """Note an offer."""
        self.offers.append(
            Offer(
                kind=kind,
                amount=amount,
                total=total,
                made_ms=self.made_ms,
                expires_ms=self.expires_ms,
                device=gpu.device if gpu else "",
                memory_free_bytes=gpu.memory_free_bytes if gpu else 0,
                memory_total_bytes=gpu.memory_total_bytes if gpu else 0,
            )
        )


_RESERVES: Final = {"cpu": "reserve.cpus", "memory": "reserve.memory", "gpu": "reserve.gpus"}


def survey(books: Books, free: Resources, borrowed: Resources) -> Survey:
    """Every offer, the ones that every job needs first."""
    terms, sample, total = books.terms, books.sample, books.total
    _cpu(books, free, borrowed)
    _memory(books, free, borrowed)
    _gpus(books, free, borrowed)
    if total.storage_bytes:
        left = min(free.storage_bytes, sample.storage_free_bytes)
        books.lend("storage", left, 0, borrowed.storage_bytes, total.storage_bytes)
    available = dict(free.custom)
    for kind, amount in total.custom:
        if available.get(kind):
            books.offer(kind, available[kind], amount)
        else:
            books.no(kind, "free", "more than 0", "0 free")
    kept, dropped = books.offers[: terms.offers_max], books.offers[terms.offers_max :]
    for offer in dropped:
        count = f"{len(books.offers)} offers"
        books.no(
            offer.kind, "max_offers_per_node", str(terms.offers_max), count, device=offer.device
        )
    return Survey(
        offers=tuple(kept),
        withheld=tuple(books.withheld),
        lent=_together(kept, free),
        cores_beside_gpus=max(free.cpu_milli - terms.reserved_cpu_milli, 0),
        only_with_gpu=books.pressed,
    )


def beside_gpus(wanted: Request, free_milli: int) -> int:
    """How many cores go with the GPUs that somebody wants, whatever the load: at most one each."""
    devices = -(-wanted.gpus.milli // milli.WHOLE) if wanted.gpus else 0
    return min(devices * milli.WHOLE, free_milli)


def goes_with_gpus(held: Resources) -> bool:
    """Whether all the cores of a lease are such."""
    return bool(held.gpus) and held.cpu_milli <= len(held.gpus) * milli.WHOLE


def amount_text(kind: str, amount: int) -> str:
    """An amount of a kind as people write it."""
    if kind in _BYTES:
        return bytesize.text(amount)
    one = {"cpu": "core", "gpu": "GPU"}.get(kind, kind)
    many = f"{one}s" if kind in {"cpu", "gpu"} and amount != milli.WHOLE else one
    return f"{milli.text(amount)} {many}"


def _cpu(books: Books, free: Resources, borrowed: Resources) -> None:
    limits, total = books.terms.thresholds, books.total.cpu_milli
    used = books.use.worse_milli("cpu")
    cores = total * used // milli.WHOLE
    left = max(free.cpu_milli - (cores if cores >= STILL_MILLI else 0), 0)
    if books.pressed is not None:
        books.withheld.append(msgspec.structs.replace(books.pressed, kind="cpu"))
    elif used >= limits.cpu_used_max_milli:
        books.no("cpu", "cpu_percent_max", percent(limits.cpu_used_max_milli), percent(used))
    elif left < limits.cpu_min_milli:
        wanted = amount_text("cpu", limits.cpu_min_milli)
        books.no("cpu", "cpu_min_cores", f"at least {wanted}", f"{amount_text('cpu', left)} free")
    else:
        lendable = left if books.rule.counts_used_cores else free.cpu_milli
        books.lend("cpu", lendable, books.terms.reserved_cpu_milli, borrowed.cpu_milli, total)


def _memory(books: Books, free: Resources, borrowed: Resources) -> None:
    limits, total = books.terms.thresholds, books.total.memory_bytes
    used = books.use.worse_milli("memory")
    left = max(free.memory_bytes - books.sample.memory_used_bytes, 0)
    if used >= limits.memory_used_max_milli:
        limit = percent(limits.memory_used_max_milli)
        books.no("memory", "memory_percent_max", limit, percent(used))
    elif left < limits.memory_min_bytes:
        wanted = f"at least {bytesize.text(limits.memory_min_bytes)}"
        books.no("memory", "memory_min_gb", wanted, f"{bytesize.text(left)} free")
    else:
        reserved = books.terms.reserved_memory_bytes
        books.lend("memory", left, reserved, borrowed.memory_bytes, total)


def _gpus(books: Books, free: Resources, borrowed: Resources) -> None:
    """One offer for each device that is idle, free, and not of the owner's reserve."""
    reserved = books.terms.reserved_gpus
    shares = {gpu.device: gpu.share_milli for gpu in free.gpus}
    measured = {gpu.device: gpu for gpu in books.sample.gpus}
    idle: list[GpuUse] = []
    for number, gpu in enumerate(books.total.gpus):
        # The first devices are the owner's: screens and habits are on them.
        if number < reserved:
            limit = f"the first {reserved} of {len(books.total.gpus)}"
            books.no("gpu", "reserve.gpus", limit, f"number {number + 1}", device=gpu.device)
        elif gpu.device not in shares:
            books.no("gpu", "free", "a free part", "all of it is in use", device=gpu.device)
        elif _is_idle(books, measured.get(gpu.device), gpu.device):
            idle.append(measured[gpu.device])
    # A device cannot be halved: of one, half is one.
    lent = len(borrowed.gpus)
    most = -(-(len(idle) + lent) * books.rule.part_milli // milli.WHOLE) - lent
    spare = max(len(idle) - max(most, 0), 0)
    for use in idle[:spare]:
        part = f"{percent(books.rule.part_milli)} of the devices ({books.terms.policy})"
        books.no("gpu", "policy", part, f"{len(idle)} idle, {lent} lent", device=use.device)
    for use in idle[spare:]:
        books.offer("gpu", shares[use.device], milli.WHOLE, use)


def _is_idle(books: Books, use: GpuUse | None, device: str) -> bool:
    limits = books.terms.thresholds
    limit = percent(limits.gpu_utilization_max_milli)
    if use is None:
        books.no("gpu", "gpu_utilization_max", limit, "not measured", device=device)
        return False
    used = books.use.worse_milli(device)
    if used >= limits.gpu_utilization_max_milli:
        books.no("gpu", "gpu_utilization_max", limit, percent(used), device=device)
        return False
    # Where nobody tells how much memory a device has, only its utilisation counts.
    if use.memory_total_bytes and use.memory_free_bytes < limits.gpu_memory_min_bytes:
        wanted = f"at least {bytesize.text(limits.gpu_memory_min_bytes)}"
        left = f"{bytesize.text(use.memory_free_bytes)} free"
        books.no("gpu", "gpu_memory_min_mb", wanted, left, device=device)
        return False
    return True


def _together(kept: list[Offer], free: Resources) -> Resources:
    amounts = {offer.kind: offer.amount for offer in kept if not offer.device}
    devices = {offer.device for offer in kept}
    return Resources(
        cpu_milli=amounts.pop("cpu", 0),
        memory_bytes=amounts.pop("memory", 0),
        storage_bytes=amounts.pop("storage", 0),
        gpus=tuple(gpu for gpu in free.gpus if gpu.device in devices),
        custom=sorted_amounts(amounts),
    )
