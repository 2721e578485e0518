"""The real agent as it was before jobs across machines: what it did not know yet is undone here.

It speaks the previous wire version only, says nothing of jobs, and takes for junk whatever comes
on another lane than its own: it hangs up, and counts it.

python -m tests.mesh.older_app --data-dir DIR …
"""

import asyncio
import functools
import sys
from typing import Any

import msgspec

from distributed_grid import app
from distributed_grid.agent.across import AcrossSide
from distributed_grid.agent.mesh_values import profile_of
from distributed_grid.app import across as app_across
from distributed_grid.app import mesh as app_mesh
from distributed_grid.kernel.mesh.rules import MeshRules
from distributed_grid.wire.mesh import PREVIOUS
from distributed_grid.wire.mesh_records import NodeProfile


def jobless(*machine: Any, **words: Any) -> NodeProfile:
    """What it is, without what it did not say yet."""
    return msgspec.structs.replace(profile_of(*machine, **words), jobs=0)


async def never(_side: AcrossSide) -> None:
    """There are no other nodes, as far as its jobs are concerned."""
    await asyncio.Event().wait()


def main() -> int:
    app.profile_of = jobless
    app_mesh.MeshRules = functools.partial(MeshRules, jobs=0, speaks=(PREVIOUS,))
    app_across.everywhere = lambda agent, _mesh, *, user: agent
    AcrossSide.begin = lambda _side: 0
    AcrossSide.look = never
    AcrossSide._heard = lambda *_: False
    return app.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
