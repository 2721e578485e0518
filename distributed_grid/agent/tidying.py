"""Removing what nobody remembers.

Lives here: the output of forgotten jobs. Never here: which jobs are forgotten (`edges.store`).
"""

import asyncio
import os
import shutil
from collections.abc import Container

from distributed_grid.edges.store import Store

FOLDERS_MAX = 10_000  # In one go; the next one finds the rest.


async def remove_folder(path: str) -> None:
    """Remove a folder, if it is there."""
    await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


async def remove_output(root: str, known: Container[str], store: Store) -> int:
    """Remove the output folders of jobs that are neither in memory nor in the store."""
    removed = 0
    for name in sorted(await asyncio.to_thread(os.listdir, root))[:FOLDERS_MAX]:
        if name not in known and await store.job(name) is None:
            await asyncio.to_thread(shutil.rmtree, f"{root}/{name}", ignore_errors=True)
            removed += 1
    return removed
