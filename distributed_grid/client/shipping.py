"""The files that travel with a job: the agent takes them before the job is submitted.

Lives here: what `ship` and `python_env` mean for a job. Never here: reading the files (the agent),
what is brought back (`placing`). Loaded only if a job has such a wish.
"""

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from distributed_grid.client import across_calls
from distributed_grid.client.calls import Call
from distributed_grid.errors import BadValue
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across_api import PATHS_MAX

if TYPE_CHECKING:
    from distributed_grid.client.specification import Wishes


def shipped(spec: JobSpec, wishes: "Wishes") -> Call[JobSpec]:
    """The job with its files: they are as they were at this moment, whatever changes afterwards."""
    paths, described = _paths(wishes.get("ship", ())), wishes.get("python_env")
    env = "" if described is None else _path(described, "python_env")
    if not paths and not env:
        return spec
    assert spec.work is not None, "it has a command"
    packed = yield from across_calls.pack(spec.work.cwd, paths, python_env=env)
    return msgspec.structs.replace(spec, ship=packed.ship, python_env=packed.python_env)


def _paths(told: Any) -> list[str]:
    listed = () if told is None else told
    several = isinstance(listed, Collection) and not isinstance(told, str)
    paths = [_path(path, "ship") for path in (listed if several else (told,))]
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
