"""The words of people's files: amounts, ids, names, classes, each with its bounds.

Lives here: one type per word, and the function that reads it. Never here: the shapes that use
them (`fleet`, `jobs`).
Invariant: what a word yields is plain, bounded, and safe to print on a terminal.
"""

from decimal import Decimal
from typing import Annotated, Any

from distributed_grid.config.shape import Word
from distributed_grid.errors import BadValue
from distributed_grid.model import bytesize, duration, ids, milli
from distributed_grid.model.gpus import ANY, GPUS_MAX, canonical_model
from distributed_grid.model.node import LABELS_MAX
from distributed_grid.model.node_class import CLASS_NAMES
from distributed_grid.model.resources import custom_kind

NAME_CHARACTERS_MAX = 253  # As long as a host name may be.
NAMES_MAX = 10_000  # In one list; more is a label.


def name(value: Any) -> str:
    """A name that can be printed on one line of a terminal."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise BadValue(value, expected="a name of printable characters", remedy="Write it as text")
    if len(value) > NAME_CHARACTERS_MAX:
        raise BadValue(
            value, expected=f"at most {NAME_CHARACTERS_MAX} characters", remedy="Shorten it"
        )
    return value


def names(value: Any) -> tuple[str, ...]:
    """One name or a list of them; sorted, each once."""
    return tuple(sorted({name(item) for item in _listed(value)}))


def nodes(value: Any) -> tuple[str, ...]:
    """Names or ids of nodes; an id is found however its digits are written."""
    return tuple(sorted({_as_id(word) or word for word in names(value)}))


def _as_id(word: str) -> str | None:
    try:
        return ids.node_id(word)
    except BadValue:
        return None


def command(value: Any) -> tuple[str, ...]:
    """A command: a list of words, or a text, which runs under a shell."""
    if isinstance(value, str) and value:
        return ("/bin/sh", "-c", value)
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return tuple(value)
    remedy = "Write [python, train.py], or one text for a shell"
    raise BadValue(value, expected="a command", remedy=remedy)


def node_class(value: Any) -> str:
    """The class of a node: `datacenter`, and `DataCenter` and `data-center` too."""
    plain = value.lower().replace("-", "").replace("_", "") if isinstance(value, str) else None
    if plain not in CLASS_NAMES:
        raise BadValue(
            value, expected=f"one of {', '.join(CLASS_NAMES)}", remedy="Use one of these"
        )
    return str(plain)


def node_classes(value: Any) -> tuple[str, ...]:
    """One class or a list of them; sorted, each once."""
    return tuple(sorted({node_class(item) for item in _listed(value)}))


def labels(value: Any) -> dict[str, str]:
    """Labels: names to text; in JSON too, a value is text and not a number."""
    if not isinstance(value, dict):
        raise BadValue(value, expected="a mapping of names to text", remedy='Write {zone: "home"}')
    if len(value) > LABELS_MAX:
        raise BadValue(
            len(value), expected=f"at most {LABELS_MAX} labels", remedy="Use fewer labels"
        )
    for key, text in value.items():
        name(key)
        if not isinstance(text, str) or not text.isprintable() or len(text) > NAME_CHARACTERS_MAX:
            raise BadValue(text, expected="text", remedy="Put the value in quotes", field=f".{key}")
    return value


def custom(value: Any) -> dict[str, int]:
    """Custom kinds: `{tpu: 4, "licence:matlab": 2}`, in thousandths."""
    if not isinstance(value, dict):
        raise BadValue(value, expected="a mapping of kinds to amounts", remedy="Write {tpu: 4}")
    return {custom_kind(kind): milli.parse(amount, what=kind) for kind, amount in value.items()}


def gpu_model(value: Any) -> str:
    """A canonical GPU model, or any."""
    return ANY if str(value).lower() == ANY else canonical_model(name(value))


def gpu_count(value: Any) -> int:
    """GPUs of one kind, in thousandths."""
    count = milli.parse(value, what="GPUs")
    if count > GPUS_MAX * milli.WHOLE:
        raise BadValue(value, expected=f"at most {GPUS_MAX} GPUs", remedy="Check the count")
    return count


def boolean(value: Any) -> bool:
    """True or false; in YAML every scalar is text, so the two words are read here."""
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE"):
        return True
    if value in ("false", "False", "FALSE"):
        return False
    raise BadValue(value, expected="true or false", remedy="Write true or false")


def one_of(*choices: str) -> Word:
    """One of a few words."""

    def parse(value: Any) -> str:
        if value not in choices:
            expected = f"one of {', '.join(choices)}"
            raise BadValue(value, expected=expected, remedy="Use one of these")
        return str(value)

    return Word(parse)


def scaled(what: str, *, factor: int, low: int = 0, high: int, example: str) -> Word:
    """A decimal number between two bounds, times a factor, as an integer."""

    def parse(value: Any) -> int:
        number = milli.decimal(value)
        if number is None or not number.is_finite() or not low <= number <= high:
            expected = f"{what} from {low} to {high}"
            raise BadValue(value, expected=expected, remedy=f"Write it like {example}")
        if factor == 1 and number != int(number):
            raise BadValue(value, expected=f"whole {what}", remedy=f"Write it like {example}")
        return int(number * Decimal(factor))

    return Word(parse)


def whole(least: int, most: int, example: int, *, factor: int = 1) -> Word:
    """A whole number between two bounds, times a factor."""

    def parse(value: Any) -> int:
        number = milli.decimal(value)
        if (
            number is None
            or not number.is_finite()
            or not least <= number <= most
            or number != int(number)
        ):
            expected = f"a whole number from {least} to {most}"
            raise BadValue(value, expected=expected, remedy=f"Write it like {example}")
        return int(number) * factor

    return Word(parse)


def word_of(*choices: str, **synonyms: str) -> Word:
    """One of a few words in any case; synonyms mean one of them."""

    def parse(value: Any) -> str:
        lower = value.lower() if isinstance(value, str) else ""
        if lower not in choices and lower not in synonyms:
            expected = f"one of {', '.join(choices)}"
            raise BadValue(value, expected=expected, remedy="Use one of these")
        return synonyms.get(lower, lower)

    return Word(parse)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or len(value) > NAMES_MAX:
        raise BadValue(
            value, expected=f"a name or a list of at most {NAMES_MAX}", remedy="Write [one, other]"
        )
    return value


NodeIdWord = Annotated[ids.NodeId, Word(ids.node_id)]
JobIdWord = Annotated[ids.JobId, Word(ids.job_id)]
Name = Annotated[str, Word(name)]
Names = Annotated[tuple[str, ...], Word(names)]
Command = Annotated[tuple[str, ...], Word(command)]
NodeNames = Annotated[tuple[str, ...], Word(nodes)]
ClassWord = Annotated[str, Word(node_class)]
ClassWords = Annotated[tuple[str, ...], Word(node_classes)]
Labels = Annotated[dict[str, str], Word(labels)]
Custom = Annotated[dict[str, int], Word(custom)]
Flag = Annotated[bool, Word(boolean)]
Bytes = Annotated[int, Word(bytesize.parse)]
CpuMilli = Annotated[int, Word(lambda value: milli.parse(value, what="cores"))]
GpuModel = Annotated[str, Word(gpu_model)]
GpuMilli = Annotated[int, Word(gpu_count)]
ComputeCapability = Annotated[int, scaled("a capability", factor=10, high=99, example="8.9")]
Percent = Annotated[int, scaled("percent", factor=1, high=100, example="80")]
TemperatureCenti = Annotated[
    int, scaled("degrees Celsius", factor=100, low=-100, high=300, example="55")
]
PowerMw = Annotated[int, scaled("watts", factor=1_000, high=1_000_000, example="450")]
BandwidthKbps = Annotated[int, scaled("Mbit/s", factor=1_000, high=10**8, example="1000")]
LatencyUs = Annotated[int, scaled("milliseconds", factor=1_000, high=10**7, example="4")]
PriceMicro = Annotated[int, scaled("a price", factor=10**6, high=10**6, example="0.35")]
AgeMs = Annotated[int, scaled("seconds", factor=1_000, high=10**10, example="3")]
Natural = Annotated[int, whole(0, 10**9, 5)]
Positive = Annotated[int, whole(1, 10**9, 5)]
SpanMs = Annotated[int, Word(duration.parse)]
Count = Annotated[int, scaled("a count", factor=1, high=10**6, example="3")]
