"""Where a job may run, how it is kept and what travels with it, from the words of people.

Lives here: nodes, classes, labels, distances, policies, copies, gangs, patterns. Never here: what
follows from them (`kernel`). Loaded only if a job has such a wish: most have none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from distributed_grid.client.importance import word
from distributed_grid.errors import BadValue, UnknownName
from distributed_grid.model import duration
from distributed_grid.model.bounds import GANG_MAX, NAMES_MAX
from distributed_grid.model.ids import ID_DIGITS
from distributed_grid.model.job import (
    COPIES_MAX,
    NOWHERE,
    OUTPUTS_MAX,
    PATTERN_CHARACTERS_MAX,
    POLICY_CHARACTERS_MAX,
    VOTERS,
    VOTERS_CHOICE,
    JobSpec,
    Locality,
    Where,
)
from distributed_grid.model.node_class import CLASS_NAMES

if TYPE_CHECKING:
    from distributed_grid.client.specification import Wishes

LATENCY_MS_MAX: Final = 3_600_000  # An hour; a satellite is at a second.
LABEL_CHARACTERS_MAX: Final = 128
EVERYTHING: Final = "**"
LOCALITIES: Final[tuple[str, ...]] = tuple(name for name in get_args(Locality) if name)
_CLASSES: Final = {name.replace("-", ""): name for name in CLASS_NAMES}


def placed(spec: JobSpec, wishes: "Wishes") -> JobSpec:
    """The job with what these words mean for it."""
    require = _required(wishes, spec.require)
    is_none = wishes.get("outputs", ()) is None
    gang = _whole(wishes.get("gang", 1), "gang", least=1, most=GANG_MAX)
    if gang > 1 and spec.array is not None:
        raise BadValue(
            gang, expected="a gang or an array, not both", remedy="Submit two jobs", field="gang"
        )
    return msgspec.structs.replace(
        spec,
        require=require,
        avoid=avoided(_several(wishes.get("avoid", ()), "avoid")),
        policy=_policy(wishes.get("policy", "")),
        locality=_locality(wishes.get("locality", "")),
        battery_safe=not _choice(wishes.get("no_battery", False), "no_battery"),
        at_most_once=_choice(wishes.get("at_most_once", False), "at_most_once"),
        voters=_voters(wishes),
        copies=_whole(wishes.get("copies", 0), "copies", least=0, most=COPIES_MAX),
        gang=gang,
        outputs=_patterns(() if is_none else _several(wishes.get("outputs", ()), "outputs")),
        overwrite=_choice(wishes.get("overwrite", False), "overwrite"),
    )


def avoided(words: Iterable[str]) -> Where:
    """`gpu1`: a node; `class:laptop`; `rack=r7`: a label; `job:train`: wherever that runs."""
    nodes, classes, labels, jobs = set(), set(), set(), set()
    for told in words:
        kind, colon, rest = told.partition(":")
        if colon and kind == "class":
            classes.add(_class(rest))
        elif colon and kind == "job":
            jobs.add(_name(rest, "avoid"))
        elif "=" in told:
            labels.add(label_pair(told))
        else:
            nodes.add(_node(told))
    return Where(
        nodes=tuple(sorted(nodes)),
        classes=tuple(sorted(classes)),
        labels=tuple(sorted(labels)),
        jobs=tuple(sorted(jobs)),
    )


def label_pair(told: str) -> tuple[str, str]:
    """`rack=r7` is the label rack with the value r7."""
    key, equals, value = told.partition("=")
    if not equals or not key:
        raise BadValue(
            told, expected="KEY=VALUE for a label", remedy="Write rack=r7", field="label"
        )
    return _label(key), _label(value)


def _required(wishes: "Wishes", before: Where) -> Where:
    labels = wishes.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise BadValue(labels, expected="labels and values", remedy="Give a dict", field="labels")
    nodes = {_node(node) for node in _several(wishes.get("node", ()), "node")}
    classes = {_class(name) for name in _several(wishes.get("on_class", ()), "on_class")}
    pairs = {_label(key): _label(value) for key, value in labels.items()}
    latency_us = _latency_us(wishes.get("max_latency"))
    if not nodes and not classes and not pairs and latency_us is None:
        return before
    if before is not NOWHERE and nodes and before.nodes:
        raise BadValue(
            sorted(nodes),
            expected="node, or preferred_nodes with strict_nodes, not both",
            remedy="Name the nodes once",
            field="node",
        )
    return Where(
        nodes=tuple(sorted(nodes)) or before.nodes,
        classes=tuple(sorted(classes)),
        labels=tuple(sorted(pairs.items())),
        latency_us_max=latency_us,
    )


def _several(told: Any, wish: str) -> Sequence[str]:
    """One word, or several."""
    listed = () if told is None else told
    words = (
        tuple(listed) if isinstance(listed, Collection) and not isinstance(told, str) else (told,)
    )
    if len(words) > NAMES_MAX or not all(isinstance(one, str) for one in words):
        raise BadValue(
            told,
            expected=f"a word or at most {NAMES_MAX} for {wish}",
            remedy="Give text, or a list of it",
            field=wish,
        )
    return words


def _name(told: str, wish: str) -> str:
    if not told:
        raise BadValue(told, expected=f"a name for {wish}", remedy="See: grid nodes", field=wish)
    return word(told, "name")


def _node(told: str) -> str:
    name = _name(told, "node")
    is_id = len(name) == ID_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in name)
    return name.lower() if is_id else name


def _class(told: str) -> str:
    plain = told.strip().lower().replace("-", "").replace("_", "").replace(" ", "")
    if plain not in _CLASSES:
        raise UnknownName("class", told, known=CLASS_NAMES)
    return _CLASSES[plain]


def _label(told: Any) -> str:
    if not isinstance(told, str) or not told.isprintable() or len(told) > LABEL_CHARACTERS_MAX:
        raise BadValue(
            told,
            expected=f"a label of at most {LABEL_CHARACTERS_MAX} printable characters",
            remedy="Write rack=r7",
            field="label",
        )
    return told


def _latency_us(told: float | str | None) -> int | None:
    if told is None:
        return None
    span_ms = duration.parse(told)
    if not 1 <= span_ms <= LATENCY_MS_MAX:
        raise BadValue(
            told,
            expected="a distance from 1ms to 1h for max_latency",
            remedy="Write 20ms",
            field="max_latency",
        )
    return span_ms * 1_000


def _policy(told: str) -> str:
    if not isinstance(told, str) or not told.isprintable() or len(told) > POLICY_CHARACTERS_MAX:
        raise BadValue(
            told,
            expected=f"a policy of at most {POLICY_CHARACTERS_MAX} printable characters",
            remedy="Write BestFit, Spread or another; grid place --help lists them",
            field="policy",
        )
    return told


def _locality(told: str) -> Locality:
    plain = told.lower() if isinstance(told, str) else ""
    for name in get_args(Locality):
        if plain == name and isinstance(told, str):
            found: Locality = name
            return found
    raise UnknownName("locality", str(told), known=LOCALITIES)


def _patterns(told: Sequence[str]) -> tuple[str, ...]:
    """Patterns of files below the directory in which the job starts; `.` is all of it."""
    if len(told) > OUTPUTS_MAX:
        raise BadValue(
            len(told),
            expected=f"at most {OUTPUTS_MAX} patterns for outputs",
            remedy="Write them into one directory",
            field="outputs",
        )
    for pattern in told:
        parts = pattern.split("/")
        if (
            not pattern
            or len(pattern) > PATTERN_CHARACTERS_MAX
            or "\0" in pattern
            or pattern.startswith("/")
            or ".." in parts
        ):
            raise BadValue(
                pattern,
                expected="a pattern within the job's directory for outputs",
                remedy="Write results/*.csv, without / at the start and without ..",
                field="outputs",
            )
    return tuple(dict.fromkeys(_meant(pattern) for pattern in told))


def _meant(pattern: str) -> str:
    """The name of a folder means all that is in it; that of the job's own has a pattern for it."""
    return EVERYTHING if set(pattern.split("/")) <= {"", "."} else pattern


def _whole(told: Any, wish: str, *, least: int, most: int) -> int:
    if not isinstance(told, int) or isinstance(told, bool) or not least <= told <= most:
        raise BadValue(
            told, expected=f"{wish} from {least} to {most}", remedy="Check the number", field=wish
        )
    return told


def _voters(wishes: "Wishes") -> int:
    """Two or four would stop more often than one or three, and survive no more."""
    told = wishes.get("voters", VOTERS)
    if told not in VOTERS_CHOICE or isinstance(told, bool):
        raise BadValue(told, expected="3 or 5 voters", remedy="Write voters=5", field="voters")
    if told != VOTERS and not wishes.get("at_most_once", False):
        raise BadValue(
            told,
            expected="voters only of a job that is to run at most once",
            remedy="Add --at-most-once, or leave --voters out",
            field="voters",
        )
    return told


def _choice(told: object, wish: str) -> bool:
    if isinstance(told, bool):
        return told
    expected = f"True or False for {wish}"
    raise BadValue(told, expected=expected, remedy="Write one of them", field=wish)
