"""Amounts of what machines have and jobs use: cores, memory, storage, GPUs, custom kinds.

Lives here: exact arithmetic on them. Never here: who may have what (`kernel`).
Invariant: no amount is negative; taking and giving back the same leaves the same.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from distributed_grid.errors import BadValue, NotEnough
from distributed_grid.model import bytesize, milli
from distributed_grid.model.bounds import Bytes, Milli, Name
from distributed_grid.model.gpus import GPUS_MAX, Gpu, GpuRequest

CUSTOM_KINDS_MAX = 64  # Of one node; they are typed by people, not generated.
_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,62}(:[A-Za-z0-9_.-]{1,63})?")
RESERVED_KINDS = frozenset({"cpu", "cpus", "cpu_cores", "memory", "storage", "gpu", "gpus"})

Amounts = Annotated[tuple[tuple[Name, Milli], ...], msgspec.Meta(max_length=CUSTOM_KINDS_MAX)]
_Gpus = Annotated[tuple[Gpu, ...], msgspec.Meta(max_length=GPUS_MAX)]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of one node."""

    cpu_milli: Milli = 0
    memory_bytes: Bytes = 0
    storage_bytes: Bytes = 0
    gpus: GpuRequest | None = None
    custom: Amounts = ()  # Sorted by kind, in thousandths.

    def __post_init__(self) -> None:
        _check_amounts(self.cpu_milli, self.memory_bytes, self.storage_bytes, self.custom)


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What there is: of a node in all, free on it now, or granted to a job."""

    cpu_milli: Milli = 0
    memory_bytes: Bytes = 0
    storage_bytes: Bytes = 0
    gpus: _Gpus = ()  # Sorted by device; each device once.
    custom: Amounts = ()  # Sorted by kind, in thousandths, none zero.

    def __post_init__(self) -> None:
        _check_amounts(self.cpu_milli, self.memory_bytes, self.storage_bytes, self.custom)
        if not self.gpus:
            return
        devices = [gpu.device for gpu in self.gpus]
        if devices != sorted(set(devices)):
            raise BadValue(
                devices, expected="GPU devices sorted, each once", remedy="Name each device once"
            )
        if len(devices) > GPUS_MAX:
            raise BadValue(
                len(devices), expected=f"at most {GPUS_MAX} GPUs", remedy="Check the count"
            )

    def __add__(self, other: "Resources") -> "Resources":
        if not (self.gpus or other.gpus or self.custom or other.custom):
            return Resources(
                cpu_milli=self.cpu_milli + other.cpu_milli,
                memory_bytes=self.memory_bytes + other.memory_bytes,
                storage_bytes=self.storage_bytes + other.storage_bytes,
            )
        shares = {gpu.device: gpu for gpu in self.gpus}
        for gpu in other.gpus:
            held = shares.get(gpu.device)
            share = gpu.share_milli + (held.share_milli if held else 0)
            if share > milli.WHOLE:
                raise NotEnough(f"thousandths of {gpu.device}", wanted=share, has=milli.WHOLE)
            shares[gpu.device] = msgspec.structs.replace(gpu, share_milli=share)
        custom = dict(self.custom)
        for kind, amount in other.custom:
            custom[kind] = custom.get(kind, 0) + amount
        return Resources(
            cpu_milli=self.cpu_milli + other.cpu_milli,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            storage_bytes=self.storage_bytes + other.storage_bytes,
            gpus=tuple(shares[device] for device in sorted(shares)),
            custom=sorted_amounts(custom),
        )

    def __sub__(self, other: "Resources") -> "Resources":
        for what, wanted, has in self._pairs(other):
            if wanted > has:
                raise NotEnough(what, wanted=wanted, has=has)
        taken = {gpu.device: gpu.share_milli for gpu in other.gpus}
        gpus = ((gpu, gpu.share_milli - taken.get(gpu.device, 0)) for gpu in self.gpus)
        spent = dict(other.custom)
        return Resources(
            cpu_milli=self.cpu_milli - other.cpu_milli,
            memory_bytes=self.memory_bytes - other.memory_bytes,
            storage_bytes=self.storage_bytes - other.storage_bytes,
            gpus=tuple(msgspec.structs.replace(g, share_milli=left) for g, left in gpus if left),
            custom=sorted_amounts({k: n - spent.get(k, 0) for k, n in self.custom}),
        )

    def covers(self, other: "Resources") -> bool:
        """Whether `other` could be taken from this."""
        return all(wanted <= has for _, wanted, has in self._pairs(other))

    def fits(self, request: Request) -> bool:
        """Whether a job asking for this could run here."""
        return not self.shortfall(request)

    def shortfall(self, request: Request) -> list[tuple[str, int, int]]:
        """What is missing, as (what, wanted, has); empty if it fits. Equal is enough."""
        wants = [
            ("cpu_milli", request.cpu_milli, self.cpu_milli),
            ("memory_bytes", request.memory_bytes, self.memory_bytes),
            ("storage_bytes", request.storage_bytes, self.storage_bytes),
        ]
        if request.gpus:
            wants.append(("gpu_milli", request.gpus.milli, request.gpus.available_milli(self.gpus)))
        has = dict(self.custom)
        wants += [(f"custom.{kind}", amount, has.get(kind, 0)) for kind, amount in request.custom]
        return [want for want in wants if want[1] > want[2]]

    def grant(self, request: Request) -> "Resources":
        """The part of this that a job gets, with its devices named."""
        for what, wanted, has in self.shortfall(request):
            raise NotEnough(what, wanted=wanted, has=has)
        return Resources(
            cpu_milli=request.cpu_milli,
            memory_bytes=request.memory_bytes,
            storage_bytes=request.storage_bytes,
            gpus=tuple(sorted(request.gpus.choose(self.gpus))) if request.gpus else (),
            custom=sorted_amounts(dict(request.custom)),
        )

    def _pairs(self, other: "Resources") -> Iterable[tuple[str, int, int]]:
        yield "cpu_milli", other.cpu_milli, self.cpu_milli
        yield "memory_bytes", other.memory_bytes, self.memory_bytes
        yield "storage_bytes", other.storage_bytes, self.storage_bytes
        shares = {gpu.device: gpu.share_milli for gpu in self.gpus}
        for gpu in other.gpus:
            yield f"thousandths of {gpu.device}", gpu.share_milli, shares.get(gpu.device, 0)
        has = dict(self.custom)
        for kind, amount in other.custom:
            yield f"custom.{kind}", amount, has.get(kind, 0)


def custom_kind(name: object) -> str:
    """The name of a countable kind of one's own: `tpu`, `fpga`, `licence:matlab`."""
    if not isinstance(name, str) or not _KIND.fullmatch(name) or name in RESERVED_KINDS:
        raise BadValue(
            name,
            expected="a kind such as tpu or licence:matlab",
            remedy="Use lower-case letters, digits, '_', '.' and '-', and one ':' at most",
        )
    return name


def sorted_amounts(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Custom amounts in the one order that makes equal things equal."""
    return tuple((kind, amounts[kind]) for kind in sorted(amounts) if amounts[kind])


def _check_amounts(
    cpu_milli: int, memory_bytes: int, storage_bytes: int, custom: tuple[tuple[str, int], ...]
) -> None:
    if (
        not custom
        and 0 <= cpu_milli <= milli.MILLI_MAX
        and 0 <= memory_bytes <= bytesize.BYTES_MAX
        and 0 <= storage_bytes <= bytesize.BYTES_MAX
    ):
        return  # As nearly always; this is asked a hundred times for each job.
    bounds = [
        ("cpu_milli", cpu_milli, milli.MILLI_MAX),
        ("memory_bytes", memory_bytes, bytesize.BYTES_MAX),
        ("storage_bytes", storage_bytes, bytesize.BYTES_MAX),
        *((f"custom.{kind}", amount, milli.MILLI_MAX) for kind, amount in custom),
    ]
    for what, amount, most in bounds:
        if not 0 <= amount <= most:
            raise BadValue(amount, expected=f"{what} from 0 to {most}", remedy="Check the amount")
    kinds = [kind for kind, amount in custom if amount]
    if custom and kinds != sorted({kind for kind, _ in custom}):
        raise BadValue(
            custom,
            expected="custom kinds sorted, each once, none of them zero",
            remedy="Make them with sorted_amounts",
        )
    if len(custom) > CUSTOM_KINDS_MAX:
        raise BadValue(
            len(custom), expected=f"at most {CUSTOM_KINDS_MAX} kinds", remedy="Use fewer kinds"
        )
