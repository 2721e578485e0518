"""What a stranger may put into the specification of a job.

Lives here: what only whoever submits is asked. Never here: what holds for every specification
(`model.soundness`), whether it fits (`kernel`).
Invariant: a job that passes can be stored, and every other node takes it, too.
"""

from collections.abc import Iterator

import msgspec

from distributed_grid.errors import GridError, UnknownName
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.model.booking import Booking
from distributed_grid.model.bounds import SPEC_BYTES_MAX
from distributed_grid.model.ids import is_id
from distributed_grid.model.job import JobSpec
from distributed_grid.model.soundness import bad, flaws, flaws_of_names

_encoder = msgspec.msgpack.Encoder()


def admit(spec: JobSpec) -> None:
    """Raise `BadValue` for what no client of ours would send, `UnknownName` for a policy."""
    for refusal in refusals(spec):
        raise refusal


def refusals(spec: JobSpec) -> Iterator[GridError]:
    """Everything in it that no client of ours would send."""
    if not is_id(spec.id):
        yield bad(spec.id, "id", "64 hex digits in lower case")
    if spec.work is None:
        yield bad(None, "work", "something to run")
    if spec.origin is not None:
        yield bad("an origin", "origin", "nothing: only other nodes send guests")
    if spec.policy:
        try:
            policy_named(spec.policy)
        except UnknownName as error:
            yield error
    yield from flaws(spec)
    yield from _of_size(spec)


def admit_booking(booking: Booking) -> None:
    """Raise `BadValue` for a booking that no client of ours would send."""
    for refusal in flaws_of_names(name=booking.name, user=booking.user, project=booking.project):
        raise refusal


def _of_size(spec: JobSpec) -> Iterator[GridError]:
    """Whatever was not looked at above can at least be stored."""
    try:
        size = len(_encoder.encode(spec))
    except UnicodeEncodeError as problem:
        yield bad(str(problem), "the job", "valid text")
        return
    if size > SPEC_BYTES_MAX:
        yield bad(size, "the job", f"at most {SPEC_BYTES_MAX} bytes")
