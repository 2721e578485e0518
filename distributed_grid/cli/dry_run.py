"""What `grid run --dry-run` shows: the files that would travel, and those that stay at home.

Lives here: the words. Never here: which files do (`edges.artifacts`). Nothing is submitted.
"""

from typing import Any, Final

import msgspec

from distributed_grid.cli.agent import print_json
from distributed_grid.client import across_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.shipping import wanted_of
from distributed_grid.client.specification import Wishes
from distributed_grid.model import bytesize
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across_api import LeftOut, Travelling

SHOWN_MAX: Final = 5  # Of what stays, for each reason; --json has more.


def show(
    agent: Caller, spec: JobSpec, wishes: Wishes, *, files: tuple[str, ...], as_json: bool
) -> int:
    """List what would travel; `files` are where defaults were read, and then variables."""
    file, *env_files = files
    wanted = wanted_of(spec, wishes)
    answer = agent.run(across_calls.pack(msgspec.structs.replace(wanted, is_dry=True)))
    found = answer.travelling or Travelling()
    if as_json:
        told: dict[str, Any] = {"directory": wanted.directory, "defaults": file or None}
        env = {"python_env": wanted.python_env or None, "env_files": env_files}
        print_json({**told, **env, **msgspec.to_builtins(found)})
        return 0
    if file:
        print(f"defaults of {file}")  # noqa: T201  (what the command gives)
    for env_file in env_files:
        print(f"variables of {env_file}")  # noqa: T201
    print("\n".join(_lines(found, wanted.directory)))  # noqa: T201
    if wanted.python_env:
        print(f"environment built from {wanted.python_env}")  # noqa: T201
    return 0


def _lines(found: Travelling, directory: str) -> list[str]:
    if found.note:
        return [found.note]
    links = f" and {_count(found.links, 'link')}" if found.links else ""
    size = bytesize.text(found.size_bytes)
    lines = [f"{_count(len(found.files), 'file')}{links}, {size}, would travel from {directory}"]
    lines += [f"{bytesize.text(size):>12}  {path}" for path, size in found.files]
    if found.left_out:
        lines.append("stays at home")
    return lines + [f"  {one.why}: {_paths(one)}" for one in found.left_out]


def _paths(one: LeftOut) -> str:
    more = one.count - len(one.paths[:SHOWN_MAX])
    return ", ".join(one.paths[:SHOWN_MAX]) + (f" and {more} more" if more else "")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
