"""How far the files of a job are, as this node knows it.

Lives here: what is said of packing, sending, receiving, building, collecting, bringing. Never here:
doing it (`setting_out`, `shipping`, `housing`, `bringing`), what another node does (`anywhere`).
Invariant: nothing is said of what is over.
"""

from collections.abc import Callable, Iterator

from distributed_grid.agent.bringing import Bringing
from distributed_grid.agent.housing import Housing
from distributed_grid.agent.preparing import BUILDING, RECEIVING, UNPACKING
from distributed_grid.agent.setting_out import SettingOut, manifests_of
from distributed_grid.agent.shipping import Shipping
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.model.across import HERE
from distributed_grid.model.artifact import ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.model.transit import Doing, Transit


class Transits:
    """Looks at everything of one node that moves files of jobs."""

    def __init__(
        self,
        shipping: Shipping,
        setting_out: SettingOut,
        housing: Housing,
        bringing: Bringing,
        *,
        name_of: Callable[[NodeId], str],
    ) -> None:
        self._shipping, self._setting_out = shipping, setting_out
        self._housing, self._bringing = housing, bringing
        self._name_of = name_of  # Of any node; of none: this one.

    def of(self, job: Job) -> tuple[Transit, ...]:
        """What is under way for a job, the most important first."""
        return () if job.has_ended else tuple(self._under_way(job))

    def _under_way(self, job: Job) -> Iterator[Transit]:
        if self._setting_out.is_packing(job.spec.id):
            yield Transit(doing="packing", node=self._name_of(HERE))
        for attempt in job.live_attempts:
            if attempt.host != HERE:
                yield from self._to(job, attempt.host, attempt.node)
            elif self._housing.is_collecting(attempt.id):
                yield Transit(doing="collecting", node=attempt.node)
            elif attempt.state == "granted":
                yield from self._here(job, attempt)
        coming = self._bringing.coming.get(job.spec.id)
        if coming is not None:
            yield self._counted("bringing", self._name_of(HERE), coming)
        hosts = {attempt.host for attempt in job.live_attempts}
        for guardian in job.guardians:
            if guardian not in hosts and not job.is_guest:
                yield from self._to(job, guardian, self._name_of(guardian), copying=True)

    def _to(self, job: Job, peer: NodeId, name: str, *, copying: bool = False) -> Iterator[Transit]:
        """What this node sends to another for it."""
        ship = job.spec.ship
        for manifest in manifests_of(job.spec):
            sent = self._shipping.shipment(manifest, peer)
            if sent is None or sent.over.is_set():
                continue
            told = sent.progress()
            yield Transit(
                doing="copying" if copying else "receiving",
                node=name,
                bytes_done=told.bytes_total - told.bytes_left,
                bytes_total=told.bytes_total,
                files=ship.files if ship and ship.manifest == manifest else 0,
            )

    def _here(self, job: Job, attempt: Attempt) -> Iterator[Transit]:
        """What this node does before it starts an attempt."""
        stage, files = self._housing.stage(attempt.id), job.spec.ship.files if job.spec.ship else 0
        if stage == RECEIVING:
            under_way = [one for one in manifests_of(job.spec) if self._shipping.coming(one)]
            name = under_way[0] if under_way else ManifestId("")
            is_all = job.spec.ship is not None and job.spec.ship.manifest == name
            yield self._counted("receiving", attempt.node, name, files=files if is_all else 0)
        elif stage == UNPACKING:
            yield Transit(doing="unpacking", node=attempt.node, files=files)
        elif stage == BUILDING:
            yield Transit(doing="building", node=attempt.node)

    def _counted(self, doing: Doing, node: str, manifest: ManifestId, *, files: int = 0) -> Transit:
        done, total = self._shipping.coming(manifest) or (0, 0)
        return Transit(doing=doing, node=node, bytes_done=done, bytes_total=total, files=files)
