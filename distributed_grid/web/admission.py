"""What a stranger may put into the specification of a job.

Lives here: bounds that the types do not tell. Never here: whether it fits (`kernel`), what people's
words mean (`client.specification`, which has the same bounds with better sentences).
Invariant: a job that passes can be stored, sent to a keeper and shown; its id is a file name.
"""

from collections.abc import Iterator

import msgspec

from distributed_grid.errors import BadValue, GridError, UnknownName
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import ID_DIGITS
from distributed_grid.model.job import NAMES_MAX, Array, JobSpec, Preempt, Where, Work

SPEC_BYTES_MAX = 16 << 20  # As it is stored; Linux takes 2 MiB of arguments, a keeper 32 MiB.
NAME_CHARACTERS_MAX = 253
PATH_CHARACTERS_MAX = 4_096  # Of Linux.
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
    for refusal in refusals(spec):
        raise refusal


def refusals(spec: JobSpec) -> Iterator[GridError]:
    """Everything in it that no client of ours would send."""
    if len(spec.id) != ID_DIGITS or set(spec.id) - set("0123456789abcdef"):
        yield _bad(spec.id, "id", "64 hex digits in lower case")
    yield from _names(name=spec.name, user=spec.user, project=spec.project, booking=spec.booking)
    if spec.work is None:
        yield _bad(None, "work", "something to run")
    else:
        yield from _of_work(spec.work)
    for what, count in (("retries", spec.retries), ("losses_max", spec.losses_max)):
        if not 0 <= count <= COUNT_MAX:
            yield _bad(count, what, f"0 to {COUNT_MAX}")
    if len(spec.after) > AFTER_MAX:
        yield _bad(len(spec.after), "after", f"at most {AFTER_MAX} jobs")
    for what, at_ms in (("start_ms", spec.start_ms), ("deadline_ms", spec.deadline_ms)):
        if not 0 <= at_ms <= MOMENT_MS_MAX:
            yield _bad(at_ms, what, f"0 to {MOMENT_MS_MAX}")
    yield from _of_preempt(spec.preempt)
    yield from _of_places(spec)
    if spec.array is not None:
        yield from _of_array(spec.array)
    yield from _of_size(spec)


def admit_booking(booking: Booking) -> None:
    """Raise `BadValue` for a booking that no client of ours would send."""
    for refusal in _names(name=booking.name, user=booking.user, project=booking.project):
        raise refusal
    for what, at_ms in (("from_ms", booking.from_ms), ("until_ms", booking.until_ms)):
        if not 0 <= at_ms <= MOMENT_MS_MAX:
            raise _bad(at_ms, what, f"0 to {MOMENT_MS_MAX}")


def _names(**names: str) -> Iterator[GridError]:
    for what, text in names.items():
        if (
            len(text) > NAME_CHARACTERS_MAX
            or not text.isprintable()
            or (what == "name" and not text)
        ):
            yield _bad(text, what, f"up to {NAME_CHARACTERS_MAX} printable characters")


def _of_preempt(preempt: Preempt) -> Iterator[GridError]:
    if not 1 <= preempt.signal <= SIGNAL_MAX:
        yield _bad(preempt.signal, "preempt.signal", f"1 to {SIGNAL_MAX}")
    if not 0 <= preempt.grace_ms <= SPAN_MS_MAX:
        yield _bad(preempt.grace_ms, "preempt.grace_ms", f"0 to {SPAN_MS_MAX}")
    if any("\0" in word for word in preempt.command):
        yield _bad(preempt.command, "preempt.command", "words without zero bytes")


def _of_work(work: Work) -> Iterator[GridError]:
    if not work.argv or not work.argv[0]:
        yield _bad(work.argv, "work.argv", "a command")
    if not work.cwd.startswith("/"):
        yield _bad(work.cwd, "work.cwd", "a path from / on")
    is_path = work.log.startswith("/") and "\0" not in work.log
    if work.log and (not is_path or len(work.log) > PATH_CHARACTERS_MAX):
        yield _bad(work.log, "work.log", f"a path from / on, at most {PATH_CHARACTERS_MAX} long")
    if len(work.image) > IMAGE_CHARACTERS_MAX or not work.image.isprintable():
        yield _bad(work.image, "work.image", f"up to {IMAGE_CHARACTERS_MAX} printable characters")
    for what, span_ms in (("timeout_ms", work.timeout_ms), ("grace_ms", work.grace_ms)):
        if not 0 <= span_ms <= SPAN_MS_MAX:
            yield _bad(span_ms, f"work.{what}", f"0 to {SPAN_MS_MAX}")
    for name, value in work.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            yield _bad(name, "work.env", "names without = and values without zero bytes")
    if any("\0" in word for word in (work.cwd, *work.argv)):
        yield _bad(work.argv, "work.argv", "words without zero bytes")


def _of_places(spec: JobSpec) -> Iterator[GridError]:
    """Where it may run, and what travels with it."""
    if spec.origin is not None:
        yield _bad("an origin", "origin", "nothing: only other nodes send guests")
    if spec.policy:
        try:
            policy_named(spec.policy)
        except UnknownName as error:
            yield error
    if spec.gang > 1 and spec.array is not None:
        yield _bad(spec.gang, "gang", "1 for an array")
    for what in ("require", "avoid", "prefer", "avoid_if_possible"):
        where: Where = getattr(spec, what)
        names = (*where.nodes, *where.classes, *where.jobs, *(key for key, _ in where.labels))
        if len(names) > NAMES_MAX:
            yield _bad(len(names), what, f"at most {NAMES_MAX} names")
        if any(not name or len(name) > NAME_CHARACTERS_MAX for name in names):
            yield _bad(what, what, f"names of 1 to {NAME_CHARACTERS_MAX} characters")
    for pattern in spec.outputs:
        steps = set(pattern.split("/"))
        if pattern.startswith("/") or "\0" in pattern or ".." in steps or steps <= {"", "."}:
            yield _bad(pattern, "outputs", "patterns within the job's directory; ** is all of it")


def _of_array(array: Array) -> Iterator[GridError]:
    ranges = array.parts if array.stop is None else ((array.start, array.stop, array.step),)
    for start, stop, step in ranges:
        if not (0 <= start < stop <= INDEX_MAX + 1 and 1 <= step <= INDEX_MAX):
            yield _bad((start, stop, step), "array", f"rising, 0 to {INDEX_MAX}")
            return
    if len(array.indices) > INDICES_MAX:
        yield _bad(len(array.indices), "array", f"at most {INDICES_MAX} indices")
    if not 0 <= array.width <= INDEX_MAX:
        yield _bad(array.width, "array.width", f"0 to {INDEX_MAX}")


def _of_size(spec: JobSpec) -> Iterator[GridError]:
    """Whatever was not looked at above can at least be stored."""
    try:
        size = len(_encoder.encode(spec))
    except (OverflowError, UnicodeEncodeError) as problem:
        yield _bad(str(problem), "the job", "numbers below 2^63 and valid text")
        return
    if size > SPEC_BYTES_MAX:
        yield _bad(size, "the job", f"at most {SPEC_BYTES_MAX} bytes")


def _bad(value: object, what: str, expected: str) -> BadValue:
    return BadValue(value, expected=f"{what}: {expected}", remedy="See /openapi.json", field=what)
