"""What a job's home asks the node that ran it: the end of what it wrote there.

Lives here: the question's and the answer's body, and their limits. Never here: who asks when
(`agent.tails`), files (`agent.logs`, `agent.kept_output`).
Invariant: an answer is about the first of those that were asked for, in their order.
"""

from typing import Annotated, Final, Literal, get_args

import msgspec

from distributed_grid.model.bounds import IndexOrNone

TAILS: Final = "tails"  # The operation, in `questions.ASKED`.
TAIL_BYTES: Final = 1 << 20  # Of one stream: more than a person reads of a job whose node is gone.
TOGETHER_MAX: Final = 64  # Of one question: so a burst of short jobs is few questions.
# Of one answer, so that nobody keeps much in memory; what is left out is asked for again.
ANSWER_BYTES: Final = 2 * TAIL_BYTES
ANSWER_BYTES_MAX: Final = ANSWER_BYTES + (64 << 10)  # With what stands around it.
NO_INDEX: Final = -1  # Where an index of an array could stand.

StreamName = Literal["stdout", "stderr"]
STREAMS: Final[tuple[StreamName, ...]] = get_args(StreamName)

_Lease = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class TailOf(msgspec.Struct, frozen=True):
    """Which output: of an attempt, of an array's that of one index."""

    lease: _Lease  # What the attempt is called where it ran.
    index: IndexOrNone = NO_INDEX


class AskTails(msgspec.Struct, frozen=True):
    """The end of what these wrote, please."""

    of: Annotated[tuple[TailOf, ...], msgspec.Meta(max_length=TOGETHER_MAX)]


class Stream(msgspec.Struct, frozen=True):
    """The end of a stream."""

    name: StreamName
    start: Annotated[int, msgspec.Meta(ge=0, le=10**15)]  # Where in the stream this begins.
    data: Annotated[bytes, msgspec.Meta(min_length=1, max_length=TAIL_BYTES)]


class Tail(msgspec.Struct, frozen=True):
    """What one of them wrote; of a stream with nothing in it nothing is said."""

    of: TailOf
    streams: Annotated[tuple[Stream, ...], msgspec.Meta(max_length=len(STREAMS))] = ()
    is_known: bool = True  # False: whoever is asked does not know it, or not for the asker.


class Tails(msgspec.Struct, frozen=True):
    """The answer: one for each, as many as there was room for, at least one."""

    tails: Annotated[tuple[Tail, ...], msgspec.Meta(max_length=TOGETHER_MAX)]
