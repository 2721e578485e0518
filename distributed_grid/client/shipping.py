"""The files that travel with a job: the agent takes them before the job is submitted.

Lives here: what `ship` and `python_env` mean for a job. Never here: reading the files (the agent),
what is brought back (`placing`). Loaded only if a job has such a wish.
"""

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import msgspec

from distributed_grid.client import across_calls
from distributed_grid.client.calls import Call
from distributed_grid.client.upwards import upwards
from distributed_grid.errors import BadValue
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across_api import PATHS_MAX, Pack

if TYPE_CHECKING:
    from distributed_grid.client.specification import Wishes

NOTHING: Final = "none"  # As a path: nothing travels.
AUTO: Final = "auto"
DESCRIPTIONS: Final = ("uv.lock", "requirements.txt", "pyproject.toml")  # The first that is there.


def shipped(spec: JobSpec, wishes: "Wishes") -> Call[JobSpec]:
    """The job with its files: they are as they were at this moment, whatever changes afterwards."""
    wanted = wanted_of(spec, wishes)
    if wanted == Pack(directory=wanted.directory):
        return spec
    packed = yield from across_calls.pack(wanted)
    return msgspec.structs.replace(spec, ship=packed.ship, python_env=packed.python_env)


def wanted_of(spec: JobSpec, wishes: "Wishes") -> Pack:
    """What is to travel with a job."""
    assert spec.work is not None, "it has a command"
    told, is_ignored = _told(wishes.get("ship")), wishes.get("ship_ignored", False)
    is_nothing = NOTHING in told
    if is_nothing and (len(told) > 1 or is_ignored):
        raise BadValue(
            NOTHING,
            expected="none for ship and nothing beside it",
            remedy=f"Write ./{NOTHING} for a file of that name",
            field="ship",
        )
    return Pack(
        directory=spec.work.cwd,
        paths=() if is_nothing else tuple(_path(path, "ship") for path in told),
        python_env=_environment(spec.work.cwd, wishes.get("python_env")),
        ship_ignored=is_ignored,
        is_nothing=is_nothing,
    )


def _environment(directory: str, told: Any) -> str:
    """The file that an environment is made from; empty: none is."""
    if told is None:
        return ""
    if told != AUTO:
        return _path(told, "python_env")
    found = description_of(directory)
    if not found:
        raise BadValue(
            told,
            expected=f"{', '.join(DESCRIPTIONS)} in {directory}, or above it, for python_env",
            remedy="Write one, or name the file",
            field="python_env",
        )
    return found


def description_of(directory: str) -> str:
    """The file that says which packages a project needs, the nearest; empty: there is none."""
    paths = (f"{folder}/{name}" for folder in upwards(directory) for name in DESCRIPTIONS)
    return next(filter(os.path.isfile, paths), "")


def _told(told: Any) -> list[Any]:
    listed = () if told is None else told
    several = isinstance(listed, Collection) and not isinstance(told, str)
    paths = list(listed if several else (told,))
    if len(paths) > PATHS_MAX:
        raise BadValue(
            len(paths),
            expected=f"at most {PATHS_MAX} paths for ship",
            remedy="Put them into one directory",
            field="ship",
        )
    return paths


def _path(told: Any, wish: str) -> str:
    """A path from the root on: the agent is in another directory."""
    path = os.fspath(told) if isinstance(told, str | os.PathLike) else b""
    if isinstance(path, str) and path and "\0" not in path:
        return os.path.abspath(path)  # noqa: PTH100  (pathlib would normalise less)
    raise BadValue(told, expected=f"a path for {wish}", remedy="Give a file", field=wish)
