"""Names that machines agree on: 256-bit ids, written as 64 hex digits in lower case.

Lives here: what an id looks like, and the id of a name. Never here: making keys (`edges.keys`).
Invariant: two ids are equal exactly if their text is equal, and sort as the numbers they are.
"""

import re
from typing import Annotated, NewType

import msgspec

from distributed_grid.errors import BadValue

ID_DIGITS = 64
_Id = Annotated[str, msgspec.Meta(max_length=256)]  # Leases name more than a job beside it.
NodeId = NewType("NodeId", _Id)
JobId = NewType("JobId", _Id)

_ID = re.compile(r"[0-9a-f]{64}")


def node_id(text: object) -> NodeId:
    """The node id that a person wrote; upper case is accepted."""
    return NodeId(_canonical(text))


def job_id(text: object) -> JobId:
    """The job id that a person wrote; upper case is accepted."""
    return JobId(_canonical(text))


def job_id_of(name: str) -> JobId:
    """The id of a job that has only a name: its SHA-256, so that everyone computes the same."""
    import hashlib  # Few need it, and it would cost every `grid run` three milliseconds.

    return JobId(hashlib.sha256(name.encode()).hexdigest())


def is_id(text: str) -> bool:
    """Whether this is the id of a node or a job, as machines write it."""
    return _ID.fullmatch(text) is not None


def _canonical(text: object) -> str:
    if isinstance(text, int) and not isinstance(text, bool):
        raise BadValue(
            text, expected=f"{ID_DIGITS} hex digits as text", remedy="Put the id in quotes"
        )
    if isinstance(text, str) and _ID.fullmatch(text.lower()):
        return text.lower()
    length = f" (has {len(text)} characters)" if isinstance(text, str) else ""
    raise BadValue(
        text,
        expected=f"{ID_DIGITS} hex digits{length}",
        remedy="Use the whole id, digits 0-9 and a-f only",
    )
