"""What people ask at one node and another node knows: questions and answers on the job lane.

Lives here: the messages, their limits, and the list of operations that may be asked from afar.
Never here: the operations themselves (`api`, `sharing`, `across_api`), who may ask what (`agent`).
Invariant: an answer is never longer than what the asker has room for: each part uses up one of the
parts that it was told it may send.
"""

from typing import Annotated, Final, NamedTuple

import msgspec

PART_BYTES_MAX: Final = 32 << 10  # Of one message: others on the lane get their turn in between.
WINDOW: Final = 4  # Parts of one answer on their way; 2.5 MB/s over a link of 50 ms.
WORDS_MAX: Final = 16  # Of one question; no route has more.
WORD_CHARACTERS_MAX: Final = 512  # A name of a job has 253, an id with its prefix 67.
NUMBER_MAX: Final = 2**62

_Number = Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
_Part = Annotated[bytes, msgspec.Meta(max_length=PART_BYTES_MAX)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARACTERS_MAX)]


class Question(msgspec.Struct, frozen=True, kw_only=True, tag="question"):
    """Somebody at the sender's wants to know, or wants something done."""

    number: _Number  # The sender's own; never used twice on one link.
    operation: _Word  # The name of a route.
    query: Annotated[dict[_Word, _Word], msgspec.Meta(max_length=WORDS_MAX)] = {}  # And the path's.
    body: _Part = b""
    user: _Word = ""  # Who asks, as the sender calls them.
    parts: Annotated[int, msgspec.Meta(ge=1, le=WINDOW)] = WINDOW  # There is room for these.


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """The beginning of the answer, and often all of it."""

    number: _Number
    status: Annotated[int, msgspec.Meta(ge=200, le=599)]  # As in HTTP; not 200: a `Problem`.
    body: _Part = b""
    is_last: bool = True


class AnswerPart(msgspec.Struct, frozen=True, kw_only=True, tag="answer-part"):
    """How it goes on."""

    number: _Number
    body: _Part = b""
    is_last: bool = False
    is_problem: bool = False  # It broke off: this is why, as a `Problem`; and the last part.


class More(msgspec.Struct, frozen=True, kw_only=True, tag="more"):
    """There is room for so many more parts."""

    number: _Number
    parts: Annotated[int, msgspec.Meta(ge=1, le=WINDOW)] = 1


class NoMore(msgspec.Struct, frozen=True, kw_only=True, tag="no-more"):
    """Nobody wants the rest."""

    number: _Number


QuestionMessage = Question | Answer | AnswerPart | More | NoMore


class Asked(NamedTuple):
    """How an operation is asked from afar."""

    is_stream: bool = False  # Its answer comes as it happens, without a known end.
    by_guests: bool = True  # About their own jobs.
    by_workers: bool = False  # Also by a node that only lends: what runs there needs it.
    by_owner: bool = False  # By machines of the same person and admins' only.


# Everything else (submitting, lending, tickets, stopping the agent) is for those who sit there.
# `take_calls` is what a worker of a map asks, and `take_part` some of a long question of that kind;
# `map_value` is how a large value of its calls can be fetched;
# `tails` is what a job's home asks the node that ran it (`tails`).
ASKED: Final[dict[str, Asked]] = {
    "cancel": Asked(),
    "cancel_index": Asked(),
    "drain": Asked(by_guests=False, by_owner=True),
    "events": Asked(is_stream=True, by_guests=False),
    "explain": Asked(),
    "force": Asked(),
    "job": Asked(),
    "jobs": Asked(),
    "logs": Asked(is_stream=True),
    "map_value": Asked(by_guests=False, by_workers=True),
    "output": Asked(),
    "outputs": Asked(),
    "queue": Asked(by_guests=False),
    "requeue": Asked(),
    "rerun": Asked(),
    "safe": Asked(),
    "sharing": Asked(by_guests=False),
    "status": Asked(by_guests=False),
    "tails": Asked(),
    "take_calls": Asked(by_guests=False, by_workers=True),
    "take_part": Asked(by_guests=False, by_workers=True),
    "undrain": Asked(by_guests=False, by_owner=True),
    "wait": Asked(),
    "wait_many": Asked(),
}
