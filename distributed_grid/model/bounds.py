"""How large anything may be that is read from elsewhere: messages, records, files, answers.

Lives here: each bound once, as a type. Never here: what values mean together (`soundness`).
Invariant: every honest value is inside; two of these added, or one times a thousand, stay below
2**63, so that whatever is computed of decoded values can be written again.
"""

from typing import Annotated, Final, TypeVar

from msgspec import Meta

from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.milli import MILLI_MAX

COUNT_MAX: Final = 2**53 - 1  # What JSON readers hold exactly; in microseconds 285 years.
# Counters of a record are below it: whoever takes it over has room to count on.
RISING_MAX: Final = 2**52
MOMENT_MS_MAX: Final = 10**14  # The year 5138.
SPAN_MS_MAX: Final = 10 * 365 * 86_400_000  # Ten years: longer is a mistake.
INDICES_MAX: Final = 10_000_000  # Of one array.
INDEX_MAX: Final = 10**9
TRIES_MAX: Final = 1_000_000  # Retries and losses.
CHUNK_MAX: Final = 256  # Indices that one lease may carry.
SPEC_BYTES_MAX: Final = 16 << 20  # As it is stored; Linux takes 2 MiB of arguments.
CORES_MAX: Final = 8_192  # Of one node; Linux counts no more.
NAMES_MAX: Final = 10_000  # Nodes one job may list; more is a label.
GANG_MAX: Final = 1_024  # Ranks: all their addresses fit into the variable GRID_PEERS.
LEASES_MAX: Final = 1_024  # Of one job on one node.

# Numbers

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Signed = Annotated[int, Meta(ge=-COUNT_MAX, le=COUNT_MAX)]  # Differences, and -1 for none.
Lot = Annotated[int, Meta(ge=0, le=2**62)]  # Drawn, or only ever compared and counted on.
OrNone = Annotated[int, Meta(ge=-1, le=2**62)]  # The same; -1: none.
Moment = Annotated[int, Meta(ge=0, le=MOMENT_MS_MAX)]  # In ms since the epoch, or between two.
Span = Annotated[int, Meta(ge=0, le=SPAN_MS_MAX)]  # As people set it, in ms.
Milli = Annotated[int, Meta(ge=0, le=MILLI_MAX)]  # Thousandths of cores, devices, custom kinds.
Bytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]
Tries = Annotated[int, Meta(ge=0, le=TRIES_MAX)]
Index = Annotated[int, Meta(ge=0, le=INDEX_MAX)]
IndexOrNone = Annotated[int, Meta(ge=-1, le=INDEX_MAX)]
Place = Annotated[int, Meta(ge=0, le=INDICES_MAX)]  # Of an index among those of its array.
Signal = Annotated[int, Meta(ge=1, le=64)]  # Of Linux, the real-time ones included.
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Code = Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)]  # As any system or shell tells an exit.
Port = Annotated[int, Meta(ge=0, le=65_535)]

Weighed = Annotated[int, Meta(ge=-(2**62), le=2**62)]  # What was spent over a life.

# Texts

Word = Annotated[str, Meta(max_length=256)]  # An id of ours, a state.
Name = Annotated[str, Meta(max_length=1_024)]  # Of people's: 253, and after it whose they are.
Path = Annotated[str, Meta(max_length=4_096)]  # What Linux takes as one.
Sentence = Annotated[str, Meta(max_length=1 << 16)]  # What one node says to another.
Story = Annotated[str, Meta(max_length=1 << 20)]  # What was made of sentences.
Argument = Annotated[str, Meta(max_length=SPEC_BYTES_MAX)]
Text = Annotated[str, Meta(max_length=64 << 20)]  # Whatever a request has room for.
Body = Annotated[bytes, Meta(max_length=64 << 20)]  # Of a request, a row, a message.

Seal = Annotated[bytes, Meta(max_length=256)]  # A signature, a hash, a secret.

# Rows

Item = TypeVar("Item")
Key = TypeVar("Key")
Listed = Annotated[list[Item], Meta(max_length=INDICES_MAX)]
Many = Annotated[tuple[Item, ...], Meta(max_length=NAMES_MAX)]
Most = Annotated[tuple[Item, ...], Meta(max_length=INDICES_MAX)]  # Or as many as there is room for.
Table = Annotated[dict[Key, Item], Meta(max_length=INDICES_MAX)]

Cores = Annotated[tuple[Count, ...], Meta(max_length=CORES_MAX)]
Devices = Annotated[tuple[Name, ...], Meta(max_length=1_024)]
Indices = Annotated[tuple[Index, ...], Meta(max_length=CHUNK_MAX)]
Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Sentences = Annotated[tuple[Sentence, ...], Meta(max_length=NAMES_MAX)]
Arguments = Annotated[tuple[Argument, ...], Meta(max_length=1 << 20)]
Environment = Annotated[dict[Argument, Argument], Meta(max_length=1 << 20)]
Labelled = Annotated[dict[Name, Name], Meta(max_length=NAMES_MAX)]
