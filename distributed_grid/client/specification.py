"""A job specification from the words of people: `submit(...)` in Python, `grid run` in a shell.

Lives here: what each word means, and its bounds. Never here: sending it (`calls`).
"""
# pathlib would cost every `grid run` some milliseconds.
# ruff: noqa: PTH100, PTH109, PTH119

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from distributed_grid.client import environment
from distributed_grid.errors import BadValue
from distributed_grid.model import bytesize, duration, milli
from distributed_grid.model.gpus import ANY, GPUS_MAX, GpuRequest, canonical_model
from distributed_grid.model.ids import JobId, job_id
from distributed_grid.model.job import After, Array, JobSpec, Work
from distributed_grid.model.resources import Request, custom_kind, sorted_amounts

NAME_CHARACTERS_MAX: Final = 253  # As long as a host name may be.
INDICES_MAX: Final = 10_000_000  # Of one array; the counts of the story fit in memory.
RETRIES_MAX: Final = 1_000_000
_ARRAY: Final = r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?(?:%(\d{1,9}))?"

Command = str | Sequence[str]


class Wishes(TypedDict, total=False):
    """What `submit` takes beside the command; all of it may be left out."""

    name: str | None  # The first word of the command.
    cpus: float | str  # 1; in steps of 0.001.
    memory: int | str  # 0: not limited; 16GiB.
    storage: int | str
    gpus: float | str | None  # 2, 0.5, "H100:2".
    resources: Mapping[str, float | str] | None  # Custom kinds: {"tpu": 4}.
    env: Mapping[str, str] | None  # Beside what is inherited.
    inherit_env: bool  # The caller's environment without secrets: True, in a container False.
    cwd: str | os.PathLike[str] | None  # The caller's directory.
    array: str | int | range | None  # "0-999%50", 1000, range(0, 10, 2).
    retries: int  # 0.
    max_losses: int  # 3.
    timeout: float | str | None  # Seconds, or "5m". None: none.
    image: str  # A container image; empty: a plain process.
    wait_for_capacity: bool  # False.
    id: str | None  # Made, unless told.


def specification(command: Command, wishes: Wishes, *, after: tuple[After, ...] = ()) -> JobSpec:
    """The job that these words mean."""
    argv = argv_of(command)
    told = wishes.get("id")
    array = wishes.get("array")
    return JobSpec(
        id=new_id() if told is None else job_id(told),
        name=_name(wishes.get("name"), command),
        request=_request(wishes),
        work=Work(
            argv=argv,
            cwd=_directory(wishes.get("cwd")),
            env=_environment(wishes),
            image=wishes.get("image", ""),
            timeout_ms=_timeout_ms(wishes.get("timeout")),
        ),
        array=None if array is None else array_of(array),
        after=after,
        retries=_count(wishes.get("retries", 0), "retries"),
        losses_max=_count(wishes.get("max_losses", 3), "losses"),
        wait_for_capacity=wishes.get("wait_for_capacity", False),
        user=_user(),
    )


def new_id() -> JobId:
    """An id nobody else has."""
    return JobId(os.urandom(32).hex())


def argv_of(command: Command) -> tuple[str, ...]:
    """A list is executed as it is, a string runs under a shell."""
    words = ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)
    if not command or not words[0] or not all(isinstance(word, str) for word in words):
        raise BadValue(command, expected="a command", remedy='Write ["python", "train.py"] or text')
    for word in words:
        if "\0" in word or not environment.is_text(word):
            raise BadValue(word, expected="UTF-8 text without zero bytes", remedy="Use a file")
    return words


def array_of(value: str | int | range) -> Array:
    """`0-999%50`: a thousand, fifty at once; `0-9:2`: every second; 1000 and range(…) in Python."""
    width = 0
    match value:
        case range():
            indices = value
        case int():
            indices = range(value)
        case _:
            found = re.fullmatch(_ARRAY, value.replace(" ", ""), re.ASCII)
            if found is None:
                raise BadValue(
                    value, expected="indices such as 0-999", remedy="Write 0-999, 0-9:2 or 0-999%50"
                )
            first = int(found[1])
            last = first if found[2] is None else int(found[2])
            indices = range(first, last + 1, max(int(found[3] or 1), 1))
            width = int(found[4] or 0)
            if found[3] == "0" or found[4] == "0":
                raise BadValue(
                    value, expected="a step and a width of 1 or more", remedy="See 0-9:2"
                )
    if not 0 < len(indices) <= INDICES_MAX or indices.start < 0 or indices.step < 1:
        raise BadValue(
            value, expected=f"1 to {INDICES_MAX} rising indices from 0 on", remedy="Write 0-999"
        )
    return Array(start=indices.start, stop=indices[-1] + 1, step=indices.step, width=width)


def gpus_of(value: float | str | None) -> GpuRequest | None:
    """`2`, `0.5`, `H100:2`, `H100:0.5`; 0 is none."""
    if value is None:
        return None
    model, colon, count = str(value).rpartition(":")
    if colon and not model.strip():
        raise BadValue(value, expected="GPUs such as 2 or H100:2", remedy="Write MODEL:COUNT")
    share = milli.parse(count if isinstance(value, str) else value, what="GPUs, or MODEL:GPUs")
    if share > GPUS_MAX * milli.WHOLE:
        raise BadValue(value, expected=f"at most {GPUS_MAX} GPUs", remedy="Check the count")
    if not share:
        return None
    named = colon and model.strip().lower() != ANY
    return GpuRequest(milli=share, model=canonical_model(model) if named else ANY)


def _request(wishes: Wishes) -> Request:
    kinds = wishes.get("resources") or {}
    custom = {custom_kind(kind): milli.parse(n, what=kind) for kind, n in kinds.items()}
    return Request(
        cpu_milli=milli.parse(wishes.get("cpus", 1), what="cores"),
        memory_bytes=bytesize.parse(wishes.get("memory", 0)),
        storage_bytes=bytesize.parse(wishes.get("storage", 0)),
        gpus=gpus_of(wishes.get("gpus")),
        custom=sorted_amounts(custom),
    )


def _name(told: str | None, command: Command) -> str:
    if told is None:
        words = command.split() if isinstance(command, str) else command
        first = os.path.basename(words[0]) if words else ""
        plain = "".join(letter for letter in first if letter.isprintable())
        return plain[:NAME_CHARACTERS_MAX] or "job"
    if not told.strip() or not told.isprintable() or len(told) > NAME_CHARACTERS_MAX:
        raise BadValue(
            told,
            expected=f"a name of 1 to {NAME_CHARACTERS_MAX} printable characters",
            remedy="Write a shorter, plain name",
        )
    return told


def _directory(told: str | os.PathLike[str] | None) -> str:
    try:
        return os.getcwd() if told is None else os.path.abspath(told)
    except FileNotFoundError:
        raise BadValue(
            ".", expected="a working directory that exists", remedy="Change to one, or give --cwd"
        ) from None


def _environment(wishes: Wishes) -> dict[str, str]:
    # A container has a PATH and a HOME of its own: the caller's would only be wrong there.
    inherits = wishes.get("inherit_env", not wishes.get("image"))
    own = environment.inherited(os.environ) if inherits else {}
    return {**own, **environment.given(wishes.get("env") or {})}


def _timeout_ms(value: float | str | None) -> int:
    if value is None:
        return 0
    span_ms = duration.parse(value)
    if not span_ms:
        raise BadValue(value, expected="a timeout above zero", remedy="Leave it out for none")
    return span_ms


def _count(value: int, what: str) -> int:
    if not 0 <= value <= RETRIES_MAX:
        raise BadValue(value, expected=f"{what} from 0 to {RETRIES_MAX}", remedy="Check the number")
    return value


def _user() -> str:
    import pwd  # Not on every system.

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
