"""Whether a specification means something: what its types alone cannot tell.

Lives here: the one check of every specification that comes from elsewhere, be it a client, another
node or a disk. Never here: how large its parts may be (`bounds`), whether it fits (`kernel`), what
people's words mean (`client.specification`, which has the same rules with better sentences).
Invariant: a job that passes can be stored, sent to a keeper and shown; its id is a file name.
"""

from collections.abc import Iterator

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model.bounds import INDEX_MAX, INDICES_MAX, NAMES_MAX
from distributed_grid.model.ids import is_id
from distributed_grid.model.job import NOWHERE, Array, JobSpec, Where, Work

NAME_CHARACTERS_MAX = 253
IMAGE_CHARACTERS_MAX = 1_024  # A registry, a path, a tag and a digest.


def check(spec: JobSpec) -> None:
    """Raise ValidationError, as for any other junk, for the first flaw of what another node says.

    What was asked for is never a guest already: only whoever runs it makes it one.
    """
    if not is_id(spec.id) or spec.origin is not None:
        raise msgspec.ValidationError("not a job that somebody asked for")
    for flaw in flaws(spec):
        raise msgspec.ValidationError(str(flaw))


def flaws(spec: JobSpec) -> Iterator[BadValue]:
    """Everything in it that no client of ours would send."""
    yield from flaws_of_names(
        name=spec.name,
        user=spec.user.partition("@")[0],  # After it: the node that knows them.
        project=spec.project,
        booking=spec.booking,
    )
    if not spec.user.isprintable():
        yield bad(spec.user, "user", "printable characters")
    if spec.work is not None:
        yield from _of_work(spec.work)
    if _has_zero_byte(*spec.preempt.command):
        yield bad(spec.preempt.command, "preempt.command", "words without zero bytes")
    for what in ("require", "avoid", "prefer", "avoid_if_possible"):
        where: Where = getattr(spec, what)
        if where is not NOWHERE and where != NOWHERE:
            yield from _of_place(where, what)
    for pattern in spec.outputs:
        steps = set(pattern.split("/"))
        if pattern.startswith("/") or "\0" in pattern or ".." in steps or steps <= {"", "."}:
            yield bad(pattern, "outputs", "patterns within the job's directory; ** is all of it")
    if spec.array is not None:
        yield from _of_array(spec.array)
        if spec.gang > 1:
            yield bad(spec.gang, "gang", "1 for an array")


def flaws_of_names(**names: str) -> Iterator[BadValue]:
    """What cannot be shown, or found, or is too long for that."""
    for what, text in names.items():
        if (
            len(text) > NAME_CHARACTERS_MAX
            or not text.isprintable()
            or (what == "name" and not text)
        ):
            yield bad(text, what, f"up to {NAME_CHARACTERS_MAX} printable characters")


def bad(value: object, what: str, expected: str) -> BadValue:
    """One flaw, at its field."""
    return BadValue(value, expected=f"{what}: {expected}", remedy="See /openapi.json", field=what)


def _of_work(work: Work) -> Iterator[BadValue]:
    if not work.argv or not work.argv[0]:
        yield bad(work.argv, "work.argv", "a command")
    if not work.cwd.startswith("/"):
        yield bad(work.cwd, "work.cwd", "a path from / on")
    if work.log and (not work.log.startswith("/") or "\0" in work.log):
        yield bad(work.log, "work.log", "a path from / on")
    if len(work.image) > IMAGE_CHARACTERS_MAX or not work.image.isprintable():
        yield bad(work.image, "work.image", f"up to {IMAGE_CHARACTERS_MAX} printable characters")
    names = "\0".join(work.env)
    if "" in work.env or "=" in names or names.count("\0") >= max(len(work.env), 1):
        yield bad(names, "work.env", "names without = and zero bytes")
    if _has_zero_byte(*work.env.values()):
        yield bad("a value", "work.env", "values without zero bytes")
    if _has_zero_byte(work.cwd, *work.argv):
        yield bad(work.argv, "work.argv", "words without zero bytes")


def _has_zero_byte(*words: str) -> bool:
    return "\0" in "".join(words)  # Once for all: this is asked of every job that comes.


def _of_place(where: Where, what: str) -> Iterator[BadValue]:
    names = (*where.nodes, *where.classes, *where.jobs, *(key for key, _ in where.labels))
    if len(names) > NAMES_MAX:
        yield bad(len(names), what, f"at most {NAMES_MAX} names")
    if any(not 0 < len(name) <= NAME_CHARACTERS_MAX for name in names):
        yield bad(what, what, f"names of 1 to {NAME_CHARACTERS_MAX} characters")


def _of_array(array: Array) -> Iterator[BadValue]:
    for start, stop, step in array.ranges:
        if start >= stop:
            yield bad((start, stop, step), "array", f"rising, 0 to {INDEX_MAX}")
            return
    if len(array.indices) > INDICES_MAX:
        yield bad(len(array.indices), "array", f"at most {INDICES_MAX} indices")
