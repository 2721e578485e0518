"""A job specification from the words of people: `submit(...)` in Python, `grid run` in a shell.

Lives here: what each word means, and its bounds. Never here: sending it (`calls`), where it may run
(`placing`), taking the files that travel with it (`shipping`).
"""
# pathlib would cost every `grid run` some milliseconds.
# ruff: noqa: PTH100, PTH109, PTH119

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypedDict, TypeVar

from distributed_grid.client import environment, importance
from distributed_grid.client.importance import Moment
from distributed_grid.errors import BadValue, UnknownName
from distributed_grid.model import bytesize, duration, milli
from distributed_grid.model.gpus import ANY, GPUS_MAX, GpuRequest, canonical_model
from distributed_grid.model.ids import JobId, job_id
from distributed_grid.model.job import (
    NOWHERE,
    PARTS_MAX,
    After,
    Array,
    JobSpec,
    Preempt,
    Where,
    Work,
)
from distributed_grid.model.priority import priority
from distributed_grid.model.resources import Request, custom_kind, sorted_amounts

NAME_CHARACTERS_MAX: Final = 253  # As long as a host name may be.
INDICES_MAX: Final = 10_000_000  # Of one array; the counts of the story fit in memory.
RETRIES_MAX: Final = 1_000_000
INDEX_MAX: Final = 10**9
FIRST_WORD_CHARACTERS_MAX: Final = 4_096  # A path: what Linux takes as one.
# More digits than an index may have, so that one that is too large is told so.
_PART: Final = r"(\d{1,15})(?:-(\d{1,15})(?::(\d{1,9}))?)?"
_ARRAY: Final = r"([^%]*)(?:%(\d{1,9}))?"
_ARRAY_REMEDY: Final = "Write 0-999, 0-9:2, 27,47,60-69 or 0-999%50"

T = TypeVar("T")
V = TypeVar("V")
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
    array: str | int | range | None  # "0-999%50", "27,47,60-69", 1000, range(0, 10, 2).
    retries: int  # 0.
    max_losses: int  # 3.
    timeout: float | str | None  # Seconds, or "5m". None: none.
    log: str | os.PathLike[str] | None  # A file for what it wrote: out.%a, %j; from cwd on.
    image: str  # A container image; empty: a plain process.
    wait_for_capacity: bool  # False.
    id: str | None  # Made, unless told.
    priority: str  # urgent, high, medium, low; normal and critical are understood.
    project: str  # Beside the user, whose share it counts for.
    shared: bool  # True: on what the owner offers only.
    preferred_nodes: Sequence[str]  # Names; there if possible.
    strict_nodes: bool  # True: nowhere else.
    preempt_signal: int | str | None  # SIGTERM: the warning before it gives way.
    preempt_grace: float | str | None  # Seconds, or "30s", from the warning to the end.
    on_preempt: Command | None  # Run when it is warned, to save its state.
    no_preempt: bool  # True: never stopped for others; borrowed work needs permission.
    start_at: Moment | None  # Not before.
    deadline: Moment | None  # Ended by then, one way or the other.
    booking: str  # The name of the booking it may use.
    node: str | Sequence[str]  # Names or ids: on one of these or nowhere.
    on_class: str | Sequence[str]  # datacenter, workstation, laptop, edge: on these only.
    labels: Mapping[str, str] | None  # Only where all of them are set.
    avoid: str | Sequence[str]  # Not on this: a name, "class:laptop", "rack=r7", "job:train".
    policy: str  # How nodes are ordered: BestFit, Spread, …; empty: as the mesh has it.
    locality: str  # data, rack, zone, region; empty: wherever it fits.
    max_latency: float | str | None  # Seconds, or "20ms": only on nodes that are so near.
    no_battery: bool  # True: never on a node that runs on battery.
    at_most_once: bool  # True: never two processes of it, at the price of waiting.
    voters: int  # Of an at-most-once job: 3, or 5, which survive the loss of any two.
    copies: int  # Refused if fewer machines keep its record; 0: as many as answer in a second.
    gang: int  # So many ranks, all at once or none.
    ship: str | Sequence[str]  # Paths that travel with it, "none"; else its directory does.
    ship_ignored: bool  # True: also what ignore files leave out, but no secrets.
    outputs: str | Sequence[str] | None  # Only these of what it changes come back; None: nothing.
    overwrite: bool  # True: also over newer files here.
    python_env: str | os.PathLike[str] | None  # requirements.txt, uv.lock, pyproject.toml; "auto".


# Those that `placing` understands; few jobs have any, and the others do not load it.
_PLACING: Final = frozenset(
    ("node", "on_class", "labels", "avoid", "policy", "locality", "max_latency", "no_battery",
     "at_most_once", "voters", "copies", "gang", "outputs", "overwrite")
)  # fmt: skip


# Those for which the agent takes files before the job is submitted.
SHIPPING: Final = frozenset(("ship", "ship_ignored", "python_env"))


def specification(command: Command, wishes: Wishes, *, after: tuple[After, ...] = ()) -> JobSpec:
    """The job that these words mean."""
    argv = argv_of(command)
    _refuse_unknown(wishes)
    told = wishes.get("id")
    array = wishes.get("array")
    start_ms, deadline_ms = importance.window(wishes.get("start_at"), wishes.get("deadline"))
    spec = JobSpec(
        id=new_id() if told is None else job_id(told),
        name=_name(wishes.get("name"), command),
        request=request_of(wishes),
        work=Work(
            argv=argv,
            cwd=_directory(wishes.get("cwd")),
            env=_environment(wishes),
            told=tuple(sorted(wishes.get("env") or ())),
            image=_word(wishes.get("image", ""), "image"),
            log=_log(wishes),
            timeout_ms=_meant("timeout", _timeout_ms, wishes.get("timeout")),
        ),
        array=None if array is None else array_of(array),
        after=after,
        retries=_count(wishes.get("retries", 0), "retries"),
        losses_max=_count(wishes.get("max_losses", 3), "max_losses"),
        wait_for_capacity=_choice(wishes.get("wait_for_capacity", False), "wait_for_capacity"),
        user=user_name(),
        priority=priority(wishes.get("priority", "medium")),
        project=importance.word(wishes.get("project", ""), "project"),
        is_shared=_choice(wishes.get("shared", False), "shared"),
        require=_nodes(wishes, strict=True),
        prefer=_nodes(wishes, strict=False),
        preempt=_preempt(wishes),
        start_ms=start_ms,
        deadline_ms=deadline_ms,
        booking=importance.word(wishes.get("booking", ""), "booking"),
        brings_changes=wishes.get("outputs", ()) is not None,
    )
    if _PLACING.isdisjoint(wishes):
        return spec
    from distributed_grid.client.placing import placed

    return placed(spec, wishes)


def _log(wishes: Wishes) -> str:
    """The file for what a job wrote, from the root on; each index of an array has its own."""
    if (told := wishes.get("log")) is None:
        return ""
    path = os.fspath(told)
    has_index = "%a" in path.replace("%%", "")
    if not path or "\0" in path or (not has_index and wishes.get("array") is not None):
        expected = "a file, of an array with %a in its name, for log"
        raise BadValue(told, expected=expected, remedy="Write -o out.%a", field="log")
    return os.path.join(_directory(wishes.get("cwd")), path)  # noqa: PTH118


def new_id() -> JobId:
    """An id nobody else has."""
    return JobId(os.urandom(32).hex())


def argv_of(command: Command) -> tuple[str, ...]:
    """A list is executed as it is, a string runs under a shell."""
    words: tuple[str, ...] = ()
    if isinstance(command, str):
        words = ("/bin/sh", "-c", command)
    elif isinstance(command, Sequence):
        words = tuple(command)
    if not words or not command or not words[0] or not all(isinstance(word, str) for word in words):
        raise BadValue(
            command,
            expected="a command",
            remedy="Give a command and its words, such as: python train.py",
            field="command",
        )
    for word in words:
        if "\0" in word or not environment.is_text(word):
            raise BadValue(
                word,
                expected="a command of UTF-8 text without zero bytes",
                remedy="Use a file",
                field="command",
            )
    return words


def array_of(value: str | int | range) -> Array:
    """`0-999%50`: a thousand, fifty at once; `0-9:2`: every second; 1000 and range(…) in Python.

    `27,47,60-69`: these, in rising order.
    """
    width = 0
    if isinstance(value, range):
        ranges = [value]
    elif isinstance(value, int) and not isinstance(value, bool):
        ranges = [range(max(min(value, INDICES_MAX + 1), 0))]  # Python counts no longer ranges.
    else:
        ranges, width = _array_from_text(value)
    for indices in ranges:
        if not indices or indices.step < 1 or indices.start < 0:
            raise _bad_array(value, "rising indices from 0 on")
        if indices[-1] > INDEX_MAX:
            raise _bad_array(value, f"indices up to {INDEX_MAX}")
    if sum(map(len, ranges)) > INDICES_MAX:
        raise _bad_array(value, f"at most {INDICES_MAX} indices", "Submit several arrays")
    parts = tuple((one.start, one[-1] + 1, one.step) for one in sorted(ranges, key=_first))
    if len(parts) == 1:
        start, stop, step = parts[0]
        return Array(start=start, stop=stop, step=step, width=width)
    try:
        return Array(parts=parts, width=width)
    except ValueError:
        raise _bad_array(value, "each index once, in ranges that do not overlap") from None


def _first(indices: range) -> int:
    return indices.start


def _array_from_text(value: object) -> tuple[list[range], int]:
    plain = value.replace(" ", "") if isinstance(value, str) else ""
    found = re.fullmatch(_ARRAY, plain, re.ASCII)
    words = found[1].split(",", PARTS_MAX) if found is not None else []
    parts = [re.fullmatch(_PART, word, re.ASCII) for word in words]
    if found is None or len(parts) > PARTS_MAX or None in parts:
        raise _bad_array(value, "indices such as 0-999")
    width = 0 if found[2] is None else int(found[2])
    numbers = [found[2], *(part[3] for part in parts if part is not None)]
    if any(number is not None and not int(number) for number in numbers):
        raise _bad_array(value, "a step and a width of 1 or more", "See 0-9:2")
    return [_range(*part.groups()) for part in parts if part is not None], width


def _range(first: str, last: str | None, step: str | None) -> range:
    return range(int(first), int(last or first) + 1, int(step or 1))


def _bad_array(value: object, expected: str, remedy: str = _ARRAY_REMEDY) -> BadValue:
    return BadValue(value, expected=f"{expected} for array", remedy=remedy, field="array")


def gpus_of(value: float | str | None) -> GpuRequest | None:
    """`2`, `0.5`, `H100:2`, `H100:0.5`; 0 is none."""
    if value is None:
        return None
    model, colon, count = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if colon and not model.strip():
        raise BadValue(value, expected="GPUs such as 2 or H100:2", remedy="Write MODEL:COUNT")
    share = milli.parse(count if isinstance(value, str) else value, what="GPUs, or MODEL:GPUs")
    if share > GPUS_MAX * milli.WHOLE:
        raise BadValue(value, expected=f"at most {GPUS_MAX} GPUs", remedy="Check the count")
    if not share:
        return None
    named = colon and model.strip().lower() != ANY
    return GpuRequest(milli=share, model=canonical_model(model) if named else ANY)


def resource_pair(word: str) -> tuple[str, str]:
    """`tpu=4` is four of the kind tpu."""
    kind, equals, amount = word.partition("=")
    if not equals:
        raise BadValue(word, expected="KIND=N", remedy="Write --resource tpu=4")
    return kind, amount


def request_of(wishes: Wishes) -> Request:
    """What these words ask of a node."""
    kinds = _pairs(wishes.get("resources"), "resources")
    custom = {
        custom_kind(kind): _meant("resources", partial(milli.parse, what=kind), amount)
        for kind, amount in kinds.items()
    }
    cores = partial(milli.parse, what="cores")
    return Request(
        cpu_milli=_meant("cpus", cores, wishes.get("cpus", 1)),
        memory_bytes=_meant("memory", bytesize.parse, wishes.get("memory", 0)),
        storage_bytes=_meant("storage", bytesize.parse, wishes.get("storage", 0)),
        gpus=_meant("gpus", gpus_of, wishes.get("gpus")),
        custom=sorted_amounts(custom),
    )


def _nodes(wishes: Wishes, *, strict: bool) -> Where:
    nodes = wishes.get("preferred_nodes") or ()
    if not nodes or wishes.get("strict_nodes", False) != strict:
        return NOWHERE
    return Where(nodes=tuple(sorted({importance.word(node, "node") for node in nodes})))


def _preempt(wishes: Wishes) -> Preempt:
    command = wishes.get("on_preempt")
    return Preempt(
        signal=importance.signal_of(wishes.get("preempt_signal")),
        grace_ms=importance.grace_ms(wishes.get("preempt_grace")),
        command=() if command is None else argv_of(command),
        is_forbidden=wishes.get("no_preempt", False),
    )


def _name(told: str | None, command: Command) -> str:
    if told is None:
        words = command.split(maxsplit=1) if isinstance(command, str) else command
        # Cut before and after: the end of a long path is its name, and its start a long name's.
        first = os.path.basename(words[0][-FIRST_WORD_CHARACTERS_MAX:]) if words else ""
        plain = "".join(letter for letter in first if letter.isprintable())
        return plain[:NAME_CHARACTERS_MAX] or "job"
    if (
        not isinstance(told, str)
        or not told.strip()
        or not told.isprintable()
        or len(told) > NAME_CHARACTERS_MAX
    ):
        raise BadValue(
            told,
            expected=f"a name of 1 to {NAME_CHARACTERS_MAX} printable characters",
            remedy="Write a shorter, plain name",
            field="name",
        )
    return told


def _directory(told: str | os.PathLike[str] | None) -> str:
    """Where it starts; a relative path is meant from where the caller is."""
    try:
        path = os.getcwd() if told is None else os.fspath(told)
        is_path = isinstance(path, str) and "\0" not in path and environment.is_text(path)
        if is_path and path:
            return os.path.abspath(path)
    except FileNotFoundError:
        raise BadValue(
            ".", expected="a working directory that exists", remedy="Change to one, or give --cwd"
        ) from None
    except TypeError:
        pass  # Nothing that names a path.
    raise BadValue(told, expected="a directory for cwd", remedy="Give its path", field="cwd")


def _environment(wishes: Wishes) -> dict[str, str]:
    # A container has a PATH and a HOME of its own: the caller's would only be wrong there.
    inherits = _choice(wishes.get("inherit_env", not wishes.get("image")), "inherit_env")
    own = environment.inherited(os.environ) if inherits else {}
    return {**own, **environment.given(_pairs(wishes.get("env"), "env"))}


def _timeout_ms(value: float | str | None) -> int:
    if value is None:
        return 0
    span_ms = duration.parse(value)
    if not span_ms:
        raise BadValue(value, expected="a span above zero", remedy="Leave it out for none")
    return span_ms


def _meant(wish: str, meaning: Callable[[Any], T], value: object) -> T:
    """What the value of a wish means; if it means nothing, the error says which wish it is."""
    try:
        return meaning(value)
    except BadValue as error:
        expected = f"{error.expected} for {wish}"
        raise BadValue(value, expected=expected, remedy=error.remedy, field=wish) from None


def _count(value: int, wish: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= RETRIES_MAX:
        raise BadValue(
            value,
            expected=f"{wish} from 0 to {RETRIES_MAX}",
            remedy="Check the number",
            field=wish,
        )
    return value


def _word(value: str, wish: str) -> str:
    if not isinstance(value, str) or not environment.is_text(value):
        raise BadValue(value, expected=f"text for {wish}", remedy="Put it in quotes", field=wish)
    return value


def _choice(value: object, wish: str) -> bool:
    if isinstance(value, bool):
        return value
    expected = f"True or False for {wish}"
    raise BadValue(value, expected=expected, remedy="Write one of them", field=wish)


def _pairs(value: Mapping[str, V] | None, wish: str) -> Mapping[str, V]:
    pairs = {} if value is None else value
    if isinstance(pairs, Mapping) and all(isinstance(key, str) for key in pairs):
        return pairs
    raise BadValue(value, expected=f"names and values for {wish}", remedy="Give a dict", field=wish)


def _refuse_unknown(wishes: Wishes) -> None:
    unknown = wishes.keys() - Wishes.__annotations__.keys()
    if unknown:
        raise UnknownName("wish", min(unknown), known=sorted(Wishes.__annotations__))


def user_name() -> str:
    """Who submits."""
    return _user_name(os.getuid())


@cache  # Asking costs a look into a file.
def _user_name(number: int) -> str:
    import pwd  # Not on every system.

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
