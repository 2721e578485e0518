"""What jobs left behind, for people: from whoever has it into a directory of this machine.

Lives here: fetching and placing what somebody asks for. Never here: what comes home by itself
(`bringing`), writing among files of people (`edges.artifacts`).
Invariant: nothing that is there is replaced unless that was wanted; of an array, what came later
counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from distributed_grid.agent.fetching import Fetching
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.edges.artifacts import Brought, Files
from distributed_grid.errors import NotFound
from distributed_grid.model.artifact import ManifestId, is_id
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across_api import BringOutputs, Outputs, OutputsBrought

ANY_AGE: Final = -1  # Whatever is there, and however old: it is somebody's.
NAMED_MAX: Final = 1_000  # Paths in an answer; nobody reads more.


class HandingOut:
    """Puts outputs where somebody wants them."""

    def __init__(self, files: Files, fetching: Fetching, *, me: Callable[[], NodeId]) -> None:
        self._files, self._fetching, self._me = files, fetching, me
        self._numbers = count()

    async def bring(self, found: Outputs, wanted: BringOutputs) -> OutputsBrought:
        """All of them. Raises NotFound, NotFetched, ArtifactError."""
        written: list[str] = []
        unchanged: list[str] = []
        conflicts: dict[str, str] = {}
        # Of two the newer stays: as the first that is there, or as the last that replaces it.
        all_of_them = (*found.manifests, *found.kept)
        names = all_of_them if wanted.overwrite else all_of_them[::-1]
        for name in names:
            if not is_id(name):
                raise NotFound("outputs of", found.name)
            brought = await self._one(ManifestId(name), found, wanted)
            known = {*written, *unchanged}
            written += [path for path in brought.written if path not in known]
            unchanged += [path for path in brought.unchanged if path not in known]
            conflicts |= {one.path: one.why for one in brought.conflicts if one.path not in known}
        return OutputsBrought(
            job=found.job,
            written=tuple(written[:NAMED_MAX]),
            unchanged=tuple(unchanged[:NAMED_MAX]),
            conflicts=tuple(conflicts.items())[:NAMED_MAX],
            files=len(written),
        )

    async def _have(self, manifest: ManifestId, found: Outputs, owner: str) -> None:
        """From whoever has it: the home, or who ran it. Raises NotFetched, CacheError."""
        failed: NotFetched | None = None
        for node in (found.node or self._me(), *found.nodes):
            try:
                return await self._fetching.have_from(NodeId(node), manifest, owner=owner)
            except NotFetched as error:
                failed = failed or error
        assert failed is not None, "somebody was asked"
        raise failed

    async def _one(self, manifest: ManifestId, found: Outputs, wanted: BringOutputs) -> Brought:
        owner = f"handing:{next(self._numbers)}"
        try:
            await self._have(manifest, found, owner)
            return await asyncio.to_thread(
                self._files.bring,
                manifest,
                wanted.directory,
                globs=found.globs,
                since_ns=ANY_AGE,
                overwrite=wanted.overwrite,
            )
        except NotFetched as error:
            if error.reason in ("unknown", "gone"):
                error.remedy = "They made room for others there, or its machine is gone"
            raise
        finally:
            self._fetching.let_go(manifest, owner=owner)


def merged(told: Sequence[OutputsBrought]) -> OutputsBrought:
    """What came from several nodes, as one."""
    return OutputsBrought(
        job=told[0].job,
        written=tuple(path for one in told for path in one.written)[:NAMED_MAX],
        unchanged=tuple(path for one in told for path in one.unchanged)[:NAMED_MAX],
        conflicts=tuple(each for one in told for each in one.conflicts)[:NAMED_MAX],
        files=sum(one.files for one in told),
    )
