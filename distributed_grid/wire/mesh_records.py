"""The values of a node's entries: what it is, what is free, where it stands in the network.

Lives here: one struct for each key whose value is not a noun of `model.membership`.
Invariant: everything is bounded, so that no member can fill the others' memory.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from distributed_grid.model.gpus import peak_tflops_milli
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import VALUE_BYTES_MAX

TEXT_MAX: Final = 128
ROOM_BYTES: Final = VALUE_BYTES_MAX  # Each field has its bound; all at theirs would not fit.
LABELS_MAX: Final = 64
GPUS_MAX: Final = 64
FEATURES_CHARACTERS_MAX: Final = (
    4_096  # Of all together: what a processor says of itself is 1.5 kB.
)
RUNNING_MAX: Final = 16  # Jobs whose names are told, and so many characters of them together:
RUNNING_CHARACTERS_MAX: Final = 512  # a load goes to everyone whenever a job comes or goes.
USERS_MAX: Final = 32  # Those with most; who uses less than all of them is not unfair to anybody.
USER_CHARACTERS_MAX: Final = 192  # A user and its node: 32 such leave room for what is offered.

Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
UserText = Annotated[str, msgspec.Meta(max_length=USER_CHARACTERS_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class GpuProfile(msgspec.Struct, frozen=True, array_like=True):
    """A device as its driver names it."""

    device: Text
    model: Text
    memory_bytes: Count = 0


class NodeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is; changes when somebody opens the case, or the configuration."""

    node_class: Text
    version: Text
    arch: Text = ""
    system: Text = ""
    cpu_model: Text = ""
    cores: Count = 0
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    storage_bytes: Count = 0
    gpus: Annotated[tuple[GpuProfile, ...], msgspec.Meta(max_length=GPUS_MAX)] = ()
    custom: Annotated[dict[Text, Count], msgspec.Meta(max_length=LABELS_MAX)] = {}
    labels: Annotated[dict[Text, Text], msgspec.Meta(max_length=LABELS_MAX)] = {}
    mega_flops: Count = 0  # Measured, on all cores together.
    is_pretended: bool = False
    jobs: Count = 0  # The highest version of the job lane that it understands; 0: none.
    # What its processor can do, sorted, with spaces between: a thousand nodes keep it as one text.
    features: Annotated[str, msgspec.Meta(max_length=FEATURES_CHARACTERS_MAX)] = ""
    price_micro_per_hour: Count = 0  # As its owner says.
    idle_mw: Count | None = None  # What it draws, as its owner says.
    max_mw: Count | None = None

    @property
    def tflops_milli(self) -> int:
        """Of its cores as measured, of its GPUs as their makers state."""
        return self.mega_flops // 1_000 + sum(peak_tflops_milli(gpu.model) for gpu in self.gpus)


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is free, and how busy it is; changes at most once a second."""

    cpu_milli_free: Count
    memory_bytes_free: Count
    storage_bytes_free: Count = 0
    gpus_free_milli: Count = 0
    load_milli: Count = 0
    jobs_running: Count = 0
    jobs_waiting: Count = 0
    on_battery: bool = False
    battery_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    is_draining: bool = False  # It takes nothing new, and gives away what it has.
    is_disk_full: bool = False  # It can write nothing down: neither run, nor keep, nor vote.
    is_down: bool = False  # Its agent was told to stop, and this is its last word.
    # Of its hottest part, in hundredths of a degree; None: nobody measures it.
    temperature_centi: Annotated[int, msgspec.Meta(ge=-27_315, le=100_000)] | None = None
    # Names of what runs there, sorted: of those that have run longest, as many as fit.
    running: Annotated[tuple[Text, ...], msgspec.Meta(max_length=RUNNING_MAX)] = ()


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What a node lends now."""

    lines: Annotated[tuple[Text, ...], msgspec.Meta(max_length=LABELS_MAX)] = ()
    # Who borrowed how much here lately, in milliseconds of a core, fading; those with most.
    usage: Annotated[tuple[tuple[UserText, Count], ...], msgspec.Meta(max_length=USERS_MAX)] = ()
    usage_step: Count = 0  # As of which step of this node's time; 0: not told.
    # Thousandths of cores, bytes of memory, of storage, thousandths of GPUs. None: not told.
    lent: tuple[Count, Count, Count, Count] | None = None


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node stands in the network, by its own measuring."""

    coordinate: Annotated[bytes, msgspec.Meta(max_length=64)] = b""
    latency_us: Count | None = None  # To its neighbours, the middle one.
    bandwidth_kbps: Count | None = None  # The most that was seen.


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a node, and which start of it this is."""

    contact: Contact
    machine: Text = ""
    nonce: Text = ""


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Whose capabilities a node has checked: `verified`, `failed` or `claimed`, with the reason."""

    of: Annotated[dict[Text, tuple[Text, Text]], msgspec.Meta(max_length=LABELS_MAX)] = {}


def fitted(make: Callable[[int], msgspec.Struct], most: int) -> bytes:
    """The encoded value with as many of its `most` items as an entry has room for."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if len(msgspec.msgpack.encode(make(middle))) <= ROOM_BYTES:
            low = middle
        else:
            high = middle - 1
    return msgspec.msgpack.encode(make(low))
