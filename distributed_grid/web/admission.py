"""What a stranger may put into the specification of a job.

Lives here: bounds that the types do not tell. Never here: whether it fits (`kernel`), what people's
words mean (`client.specification`, which has the same bounds with better sentences).
Invariant: a job that passes can be stored, sent to a keeper and shown; its id is a file name.
"""

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import job_id
from distributed_grid.model.job import NAMES_MAX, Array, JobSpec, Preempt, Where, Work

SPEC_BYTES_MAX = 16 << 20  # As it is stored; Linux takes 2 MiB of arguments, a keeper 32 MiB.
NAME_CHARACTERS_MAX = 253
IMAGE_CHARACTERS_MAX = 1_024  # A registry, a path, a tag and a digest.
INDICES_MAX = 10_000_000
INDEX_MAX = 10**9
COUNT_MAX = 1_000_000  # Retries and losses.
AFTER_MAX = 10_000
SPAN_MS_MAX = 10 * 365 * 86_400_000  # Ten years: longer is a mistake.
MOMENT_MS_MAX = 10**14  # The year 5138.
SIGNAL_MAX = 64  # Of Linux, the real-time ones included.

_encoder = msgspec.msgpack.Encoder()


def admit(spec: JobSpec) -> None:
    """Raise `BadValue` for what no client of ours would send, `UnknownName` for a policy."""
    if job_id(spec.id) != spec.id:
        raise _bad(spec.id, "id", "64 hex digits in lower case")
    _admit_names(name=spec.name, user=spec.user, project=spec.project, booking=spec.booking)
    if spec.work is None:
        raise _bad(None, "work", "something to run")
    for what, count in (("retries", spec.retries), ("losses_max", spec.losses_max)):
        if not 0 <= count <= COUNT_MAX:
            raise _bad(count, what, f"0 to {COUNT_MAX}")
    if len(spec.after) > AFTER_MAX:
        raise _bad(len(spec.after), "after", f"at most {AFTER_MAX} jobs")
    for what, at_ms in (("start_ms", spec.start_ms), ("deadline_ms", spec.deadline_ms)):
        if not 0 <= at_ms <= MOMENT_MS_MAX:
            raise _bad(at_ms, what, f"0 to {MOMENT_MS_MAX}")
    _admit_preempt(spec.preempt)
    _admit_work(spec.work)
    _admit_places(spec)
    if spec.array is not None:
        _admit_array(spec.array)
    _admit_size(spec)


def admit_booking(booking: Booking) -> None:
    """Raise `BadValue` for a booking that no client of ours would send."""
    _admit_names(name=booking.name, user=booking.user, project=booking.project)
    for what, at_ms in (("from_ms", booking.from_ms), ("until_ms", booking.until_ms)):
        if not 0 <= at_ms <= MOMENT_MS_MAX:
            raise _bad(at_ms, what, f"0 to {MOMENT_MS_MAX}")


def _admit_names(**names: str) -> None:
    for what, text in names.items():
        if (
            len(text) > NAME_CHARACTERS_MAX
            or not text.isprintable()
            or (what == "name" and not text)
        ):
            raise _bad(text, what, f"up to {NAME_CHARACTERS_MAX} printable characters")


def _admit_preempt(preempt: Preempt) -> None:
    if not 1 <= preempt.signal <= SIGNAL_MAX:
        raise _bad(preempt.signal, "preempt.signal", f"1 to {SIGNAL_MAX}")
    if not 0 <= preempt.grace_ms <= SPAN_MS_MAX:
        raise _bad(preempt.grace_ms, "preempt.grace_ms", f"0 to {SPAN_MS_MAX}")
    if any("\0" in word for word in preempt.command):
        raise _bad(preempt.command, "preempt.command", "words without zero bytes")


def _admit_work(work: Work) -> None:
    if not work.argv or not work.argv[0]:
        raise _bad(work.argv, "work.argv", "a command")
    if not work.cwd.startswith("/"):
        raise _bad(work.cwd, "work.cwd", "a path from / on")
    if len(work.image) > IMAGE_CHARACTERS_MAX or not work.image.isprintable():
        raise _bad(work.image, "work.image", f"up to {IMAGE_CHARACTERS_MAX} printable characters")
    for what, span_ms in (("timeout_ms", work.timeout_ms), ("grace_ms", work.grace_ms)):
        if not 0 <= span_ms <= SPAN_MS_MAX:
            raise _bad(span_ms, f"work.{what}", f"0 to {SPAN_MS_MAX}")
    for name, value in work.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise _bad(name, "work.env", "names without = and values without zero bytes")
    if any("\0" in word for word in (work.cwd, *work.argv)):
        raise _bad(work.argv, "work.argv", "words without zero bytes")


def _admit_places(spec: JobSpec) -> None:
    """Where it may run, and what travels with it."""
    if spec.origin is not None:
        raise _bad("an origin", "origin", "nothing: only other nodes send guests")
    if spec.policy:
        policy_named(spec.policy)  # Raises UnknownName, with the names there are.
    if spec.gang > 1 and spec.array is not None:
        raise _bad(spec.gang, "gang", "1 for an array")
    for what in ("require", "avoid", "prefer", "avoid_if_possible"):
        where: Where = getattr(spec, what)
        names = (*where.nodes, *where.classes, *where.jobs, *(key for key, _ in where.labels))
        if len(names) > NAMES_MAX:
            raise _bad(len(names), what, f"at most {NAMES_MAX} names")
        if any(not name or len(name) > NAME_CHARACTERS_MAX for name in names):
            raise _bad(what, what, f"names of 1 to {NAME_CHARACTERS_MAX} characters")
    for pattern in spec.outputs:
        steps = set(pattern.split("/"))
        if pattern.startswith("/") or "\0" in pattern or ".." in steps or steps <= {"", "."}:
            raise _bad(pattern, "outputs", "patterns within the job's directory; ** is all of it")


def _admit_array(array: Array) -> None:
    ranges = array.parts if array.stop is None else ((array.start, array.stop, array.step),)
    for start, stop, step in ranges:
        if not (0 <= start < stop <= INDEX_MAX + 1 and 1 <= step <= INDEX_MAX):
            raise _bad((start, stop, step), "array", f"rising, 0 to {INDEX_MAX}")
    if len(array.indices) > INDICES_MAX:
        raise _bad(len(array.indices), "array", f"at most {INDICES_MAX} indices")
    if not 0 <= array.width <= INDEX_MAX:
        raise _bad(array.width, "array.width", f"0 to {INDEX_MAX}")


def _admit_size(spec: JobSpec) -> None:
    """Whatever was not looked at above can at least be stored."""
    try:
        size = len(_encoder.encode(spec))
    except (OverflowError, UnicodeEncodeError) as problem:
        raise _bad(str(problem), "the job", "numbers below 2^63 and valid text") from None
    if size > SPEC_BYTES_MAX:
        raise _bad(size, "the job", f"at most {SPEC_BYTES_MAX} bytes")


def _bad(value: object, what: str, expected: str) -> BadValue:
    return BadValue(value, expected=f"{what}: {expected}", remedy="See /openapi.json", field=what)
