"""What is plugged together for files that travel: the store of chunks, and all that uses it.

Lives here: where in the data directory they are. Never here: what they do (`edges.artifacts`).
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from distributed_grid.agent.caching import Cache
from distributed_grid.agent.luggage import Luggage, Store
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.edges.artifacts.chunks import CACHE_BYTES_MAX, ChunkStore
from distributed_grid.edges.artifacts.environments import Environments
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.edges.runner import Runner
from distributed_grid.kernel.node import Node
from distributed_grid.model.home import Home

DISK_PARTS: Final = 4  # Of a small disk the cache takes a quarter at most.


def artifacts(
    home: Home,
    environ: Mapping[str, str],
    *,
    node: Node,
    mesh: MeshSide,
    runner: Runner,
    clock_ms: Callable[[], int],
) -> Luggage:
    """Open the store, and plug the rest into it. Raises CacheFailed."""
    whole_bytes = shutil.disk_usage(home.data).total
    bytes_max = min(CACHE_BYTES_MAX, whole_bytes // DISK_PARTS)
    chunks = ChunkStore(f"{home.data}/cache", bytes_max=bytes_max)
    chunks.open()
    node.host.files_bytes_max = bytes_max  # What is larger can never be brought here.
    work = Path(home.data, "work")
    work.mkdir(mode=0o700, exist_ok=True)
    files = DiskFiles(chunks, user_home=str(Path.home()), own=(home.data,))
    store = Store(
        root=str(work),
        chunks=chunks,
        files=files,
        pythons=Environments(f"{home.data}/environments", environ=environ),
        cache=Cache(chunks, files),
    )
    return Luggage(node, mesh, runner, store, clock_ms)
