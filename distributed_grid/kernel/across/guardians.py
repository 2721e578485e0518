"""Who is to hold copies of a job's record: chosen once, by rank, and then written in the record.

Lives here: the choice, and how a list is mended. Never here: copying (`holders`).
Invariant: a list changes only when somebody on it is gone or refuses, or when it is too short;
newcomers of a lower rank push nobody out.
"""

from bisect import bisect_left
from collections.abc import Callable, Container
from typing import Final

from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.across.rights import is_keeper
from distributed_grid.kernel.placement.rank import rank_key
from distributed_grid.model.ids import JobId, NodeId

GUARDIANS: Final = 3  # Two may be lost with the home at once, and one still knows.
TIERS: Final = 4
RANKED_MAX: Final = 64  # In a larger mesh so many neighbours of the job's id are ranked, not all.


class Choice:
    """The live nodes that may hold copies, the best suited first."""

    def __init__(self) -> None:
        self._tiers: list[list[NodeId]] = [[] for _ in range(TIERS)]
        self._peers: Peers = NOBODY

    def see(self, peers: Peers) -> None:
        """The nodes as they are now."""
        before, self._peers = self._peers, peers
        changed = [node for node, peer in peers.items() if before.get(node) is not peer]
        if before.keys() != peers.keys() or any(
            _tier(before[node]) != _tier(peers[node]) for node in changed
        ):
            self._tiers = [
                sorted(node for node, peer in peers.items() if _tier(peer) == tier)
                for tier in range(TIERS)
            ]

    def is_full(self, node: NodeId) -> bool:
        """Whether the disk of a node is, as it told."""
        peer = self._peers.get(node)
        return peer is not None and peer.is_disk_full

    @property
    def is_empty(self) -> bool:
        """Whether there is nobody else."""
        return not any(self._tiers)

    def first(self, job: JobId, count: int, without: Callable[[NodeId], bool]) -> list[NodeId]:
        """The first so many by rank: those that all can dial, laptops, the rest, full disks."""
        found: list[NodeId] = []
        for tier in self._tiers:
            ranked = sorted(_near(tier, job), key=lambda node: rank_key("even", job, node))
            found += [node for node in ranked if not without(node)]
        return found[:count]


def mended(
    job: JobId,
    listed: tuple[NodeId, ...],
    *,
    choice: Choice,
    gone: Container[NodeId],
    refusing: Container[NodeId],
) -> tuple[NodeId, ...]:
    """The list with others for those that are gone, as far as there are others."""
    live = [node for node in listed if node not in gone]
    lacking = max(0, GUARDIANS - len(live))
    fresh = choice.first(job, lacking, without=lambda node: node in listed or node in refusing)
    # Whoever is gone has its copy: it stays until it is replaced.
    dead = [node for node in listed if node in gone]
    return (*live, *fresh, *dead[: lacking - len(fresh)])


def _tier(peer: Peer) -> int | None:
    """How well suited; None: not at all."""
    if not (peer.is_alive and is_keeper(peer)):
        return None
    if peer.is_disk_full:
        return 3  # It refuses, unless there is room by then.
    if not peer.is_dialable:
        return 2
    return 1 if peer.is_laptop else 0


def _near(tier: list[NodeId], job: JobId) -> list[NodeId]:
    """All, or the ids that follow the job's: which those are differs from job to job."""
    if len(tier) <= RANKED_MAX:
        return tier
    at = bisect_left(tier, job)
    return tier[at : at + RANKED_MAX] + tier[: max(0, at + RANKED_MAX - len(tier))]
