"""What a job inherits of the caller's environment.

Lives here: the one list of what counts as a secret, and of what Grid itself sets for a job.
Invariant: a secret reaches a job only if somebody names it with `--env`.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Final

from distributed_grid.errors import BadInput, BadValue

# Names, with * for anything, in any case. A job gets none of them unless it is named with --env.
SECRETS: Final = (
    "*APIKEY*",
    "*CREDENTIAL*",
    "*PASSPHRASE*",
    "*PASSWD*",
    "*PASSWORD*",
    "*PRIVATE_KEY*",
    "*SECRET*",
    "*TOKEN*",
    "*_KEY",
    "*_PAT",
    "AWS_*",
    "GRID_TICKET",
)
# Set by Grid for each job, so neither inherited (by a job of a job) nor given.
JOB_VARIABLES: Final = (
    "GRID_ARRAY_INDEX",
    "GRID_ATTEMPT",
    "GRID_CHECKPOINT_DIR",
    "GRID_CPUS",
    "GRID_FENCE",
    "GRID_GPUS",
    "GRID_JOB_*",
    "GRID_PEERS",
    "GRID_RANK",
    "GRID_WORKDIR",
    "GRID_WORLD_SIZE",
)


def is_secret(name: str) -> bool:
    """Whether a variable of this name is on the list of secrets."""
    return _is_listed(name, SECRETS)


def is_reserved(name: str) -> bool:
    """Whether Grid sets this variable for a job."""
    return _is_listed(name, JOB_VARIABLES)


@cache  # A client that submits much asks the same names again; environments are bounded.
def _is_listed(name: str, patterns: tuple[str, ...]) -> bool:
    # By hand: compiling the patterns would cost every `grid run` a millisecond.
    upper = name.upper()
    for pattern in patterns:
        word = pattern.strip("*")
        open_left, open_right = pattern.startswith("*"), pattern.endswith("*")
        if (
            (open_left and open_right and word in upper)
            or (open_left and upper.endswith(word))
            or (open_right and upper.startswith(word))
            or upper == word
        ):
            return True
    return False


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables without secrets, without a job's own, without what is no text."""
    return dict(_inherited(tuple(dict(environ).items())))


@lru_cache(maxsize=1)  # A client that submits much does so from one environment.
def _inherited(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in pairs
        if not is_secret(name) and not is_reserved(name) and is_text(name + value)
    }


def given(pairs: Mapping[str, str]) -> dict[str, str]:
    """Variables a person names, checked."""
    for name, value in pairs.items():
        if not is_name(name):
            raise BadValue(
                name,
                expected="the name of a variable, without spaces and =",
                remedy="Write --env NAME=value",
                field="env",
            )
        if not isinstance(value, str) or "\0" in value or not is_text(value):
            raise BadValue(
                value,
                expected=f"text without zero bytes for env {name}",
                remedy="Put it in quotes",
                field="env",
            )
        if is_reserved(name):
            raise BadValue(
                name, expected="a variable that Grid does not set itself", remedy="Use another name"
            )
    return dict(pairs)


def is_name(name: str) -> bool:
    """Whether a variable can be called so, and any shell can show it."""
    return bool(name) and name.isprintable() and not set(name) & {" ", "="}


def from_words(words: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables from `NAME=value`, or `NAME` for the caller's own value (so a secret can pass)."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and name not in environ:
            raise BadValue(
                word, expected="NAME=value, or a variable that is set", remedy="Write NAME=value"
            )
        found[name] = value if equals else environ[name]
    return given(found)


def from_file(text: str, *, file: str) -> dict[str, str]:
    """Variables from lines `NAME=value`; empty lines and lines with # are skipped, quotes go."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.strip().removeprefix("export ").lstrip()
        if not plain or plain.startswith("#"):
            continue
        name, equals, value = plain.partition("=")
        if not equals or not name.strip():
            raise BadInput(
                file,
                path=f"line {number}",
                problem="is no NAME=value",
                remedy="Write one NAME=value a line; # begins a comment",
            )
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name.strip()] = value
    return given(found)


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: bytes that are no text arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
