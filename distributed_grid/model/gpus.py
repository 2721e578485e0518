"""GPUs: what a device is called, what a job asks for, which devices answer it.

Lives here: canonical model names, devices and shares of them, requests. Never here: reading
devices from a driver (`edges.probe`), granting them (`kernel.ledger`).
Invariant: a share is at most one device; a request is a share of one device or whole devices.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model import milli
from distributed_grid.model.bounds import Bytes, Count, Milli, Name

ANY = "any"
GPUS_MAX = 1_024  # Devices of one node; the largest machines sold have 72.

# Words of vendors and shops that do not tell two models apart.
_NOISE = frozenset(
    [
        "nvidia",
        "amd",
        "intel",
        "apple",
        "ati",
        "corporation",
        "geforce",
        "tesla",
        "quadro",
        "radeon",
        "instinct",
        "graphics",
        "gpu",
        "data",
        "center",
        "accelerator",
        "generation",
        "series",
        "pcie",
        "nvl",
        "oam",
        "sxm",
        "sxm2",
        "sxm3",
        "sxm4",
        "sxm5",
        "sxm6",
        "hbm",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
        "with",
        "nvgpu",
    ]
)
# The makers' data sheets: what one computes at most in 32 bits (on vector units, not on those for
# matrices), in thousandths of a TFLOPS; where one is made in several forms, in the fastest.
_PEAK_TFLOPS_MILLI = {
    "H200": 67_000, "H100": 67_000, "A100": 19_500, "V100": 15_700, "T4": 8_100,
    "L40S": 91_600, "L40": 90_500, "L4": 30_300, "A40": 37_400, "A10": 31_200,
    "RTX4090": 82_600, "RTX3090": 35_600, "RTXA6000": 38_700,
    "MI300X": 163_400, "MI250X": 47_900, "MI250": 45_300,
}  # fmt: skip
_MEMORY_WORD = re.compile(r"\d+gb?")
_FAMILY = re.compile(r"^(rtx|gtx|rx|mx)(?=a?\d)")  # RTX 4090 is a 4090, RTX A6000 an A6000.


class Gpu(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One device, or the free part of it."""

    device: Name  # Its uuid where a driver tells one, else a name such as H100#3.
    model: Name  # Canonical.
    memory_bytes: Bytes = 0  # 0: unknown, so no demand on memory is met.
    compute_capability: Count = 0  # 89 is 8.9; 0: unknown.
    share_milli: Annotated[int, msgspec.Meta(ge=1, le=milli.WHOLE)] = milli.WHOLE

    def __post_init__(self) -> None:
        assert 0 < self.share_milli <= milli.WHOLE, "a share is at most one device"


class GpuRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks for: a share of one device, or whole devices, of any or one model."""

    milli: Milli = milli.WHOLE
    model: Name = ANY  # Canonical, or any.
    memory_bytes: Bytes = 0  # Of each device.
    compute_capability: Count = 0  # Of each device, at least.

    def __post_init__(self) -> None:
        if self.milli <= 0 or (self.milli > milli.WHOLE and self.milli % milli.WHOLE):
            raise BadValue(
                milli.number(self.milli),
                expected="a share of one GPU (0.001 to 1) or whole GPUs",
                remedy="Ask for 0.5, or for 1, 2, 3 …",
            )

    def accepts(self, gpu: Gpu) -> bool:
        """Whether this device is of the wanted kind, free or not."""
        return (
            (self.model == ANY or same_model(self.model, gpu.model))
            and gpu.memory_bytes >= self.memory_bytes
            and gpu.compute_capability >= self.compute_capability
        )

    def available_milli(self, gpus: Iterable[Gpu]) -> int:
        """How much of this request these devices could give: whole devices, or the best share."""
        shares = [gpu.share_milli for gpu in gpus if self.accepts(gpu)]
        if self.milli < milli.WHOLE:
            return max(shares, default=0)
        return milli.WHOLE * sum(share == milli.WHOLE for share in shares)

    def choose(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """The devices to take, or nothing if they do not suffice.

        A share goes to the fullest device that has room, so that whole ones stay whole; whole
        devices go by name. Both are functions of the devices alone, in any order.
        """
        fitting = sorted(gpu for gpu in gpus if self.accepts(gpu))
        if self.milli < milli.WHOLE:
            roomy = [gpu for gpu in fitting if gpu.share_milli >= self.milli]
            chosen = sorted(roomy, key=lambda gpu: (gpu.share_milli, gpu.device))[:1]
            return tuple(msgspec.structs.replace(g, share_milli=self.milli) for g in chosen)
        whole = [gpu for gpu in fitting if gpu.share_milli == milli.WHOLE]
        count = self.milli // milli.WHOLE
        return tuple(whole[:count]) if len(whole) >= count else ()


@lru_cache(maxsize=4_096)  # Models are few; the bound keeps a hostile file from growing it.
def canonical_model(name: str) -> str:
    """`NVIDIA H100 80GB HBM3` is H100, `GeForce RTX 4090` is RTX4090.

    A MIG slice keeps its profile. A canonical name is its own canonical name.
    """
    words = re.sub(r"\((r|tm|c)\)|[™®]", "", name.lower()).replace("(", " ").replace(")", " ")
    mig = re.search(r"\bmig[\s-]+(\S+)", words)
    kept = [
        word
        for word in re.split(r"[\s\-_/]+", words[: mig.start()] if mig else words)
        if word and word not in _NOISE and not _MEMORY_WORD.fullmatch(word)
    ]
    model = "".join(kept).upper() or name.strip().upper()
    return f"{model}-MIG-{mig[1].upper()}" if mig else model


@lru_cache(maxsize=4_096)
def same_model(wanted: str, has: str) -> bool:
    """Whether two names mean one model; `4090` is enough for an RTX 4090."""
    if wanted.lower() == ANY:
        return True
    left, right = canonical_model(wanted), canonical_model(has)
    return left == right or left == _FAMILY.sub("", right.lower()).upper()


def peak_tflops_milli(name: str) -> int:
    """What one computes at most, in thousandths of a TFLOPS; 0: of a model that we do not know."""
    return _PEAK_TFLOPS_MILLI.get(canonical_model(name), 0)
