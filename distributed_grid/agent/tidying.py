"""Removing what nobody remembers.

Lives here: the output of forgotten jobs. Never here: which jobs are forgotten (`edges.store`).
Invariant: what is there for a job that is remembered stays, drafts that are made for it too; what
is not goes in the end, however many others there are.
"""

import asyncio
import os
import shutil
from collections.abc import Collection, Container
from datetime import UTC, datetime
from pathlib import Path

from distributed_grid.edges.store import Store
from distributed_grid.kernel.node import Node
from distributed_grid.model.ids import ID_DIGITS, JobId

BEFORE = "-before-"  # In the name of a directory of output that was put elsewhere.
NAMED_MAX = 10  # Of damaged records.
FOLDERS_MAX = 10_000  # In one go; the next one finds the rest.


async def remove_folder(path: str) -> None:
    """Remove a folder, if it is there."""
    await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


class Remembered:
    """The jobs that a node has in memory: its own, and those of which it holds a whole record."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # Of what began here under another id the folders are called so.
        self._folders = {job.output_of for job in node.coordinator.jobs.values() if job.output_of}

    def __contains__(self, job: object) -> bool:
        across, job_id = self._node.across, JobId(str(job))
        record = across.guarding.find(job_id) if across is not None else None
        is_held = record is not None and not record.is_summary
        return is_held or job_id in self._node.coordinator.jobs or job in self._folders


def troubles_of(
    root: str, aside: Collection[tuple[str, str]], *, is_new: bool, now_ms: int
) -> tuple[str, ...]:
    """What a start finds that nobody should overlook, in sentences; `is_new`: the store is.

    Output of jobs that a new store does not know would be removed soon: it is put elsewhere.
    """
    here = Path(root)
    if is_new and any(here.iterdir()):
        at = datetime.fromtimestamp(now_ms / 1_000, UTC)
        here.rename(f"{root}{BEFORE}{at:%Y%m%d-%H%M%S}")
        here.mkdir(0o700)
    told = [
        f"grid.db was new or empty, and there was output of {sum(1 for _ in one.iterdir())} jobs: "
        f"it is in {one}. To have these jobs again put back a copy of grid.db while the agent is "
        "down, and rename that directory; else remove it. Was this node in a mesh, join it again"
        for one in sorted(here.parent.glob(f"{here.name}{BEFORE}*"))
    ]
    return (*told, *left_out(aside))


def left_out(aside: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """What of the store is of no use, in a sentence."""
    if not aside:
        return ()
    some = ", ".join(f"{kind} {name[:ID_DIGITS]}" for kind, name in sorted(aside)[:NAMED_MAX])
    told = (
        f"{len(aside)} damaged rows of grid.db are left out: {some}. Put back a copy of grid.db "
        "while the agent is down; all others are as before"
    )
    return (told,)


async def remove_output(root: str, known: Container[str], store: Store, *, turn: int = 0) -> int:
    """Remove the output folders of jobs that are neither in memory nor in the store.

    Most of those that are not in memory are in the store: each turn begins where the last one
    ended, else the same names would be looked at for ever.
    """
    names = sorted(await asyncio.to_thread(os.listdir, root))
    unknown = [name for name in names if _job_of(name) not in known]
    start = turn * FOLDERS_MAX % max(len(unknown), 1)
    removed = 0
    for name in (unknown[start:] + unknown[:start])[:FOLDERS_MAX]:
        job = _job_of(name)
        if await store.job(job) is None and job not in known:  # It may have come meanwhile.
            await asyncio.to_thread(shutil.rmtree, f"{root}/{name}", ignore_errors=True)
            removed += 1
    return removed


def _job_of(name: str) -> str:
    """Whose folder it is; a draft is called `<job>.made` and more, and is put in its place soon."""
    return name.partition(".")[0]
