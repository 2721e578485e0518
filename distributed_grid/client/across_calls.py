"""What can be asked about jobs and nodes across the mesh, as `calls` has it for jobs.

Lives here: one generator for each route. Never here: what a job asks of nodes (`placing`).
"""

from typing import Any, Final

import msgspec

from distributed_grid.client.calls import WAIT_MS, Call, decoded, quoted
from distributed_grid.client.exchange import Request
from distributed_grid.errors import BadValue
from distributed_grid.wire.across_api import (
    ACROSS_ROUTES,
    BringOutputs,
    DrainView,
    MeshSnapshot,
    OutputPlace,
    Outputs,
    OutputsBrought,
    Pack,
    Packed,
    Safety,
    SharingEverywhere,
)
from distributed_grid.wire.api import JobView, NodeStatus
from distributed_grid.wire.mesh_api import WORD_CHARACTERS_MAX
from distributed_grid.wire.sharing import Queue, SharingStatus

PACK_MS: Final = 600_000  # Reading and hashing 100 GB from a disk.
OUTPUTS_MS: Final = 6 * 3_600_000  # 100 GB over a home's line; what came stays if it breaks.
_ROUTES: Final = {route.name: route for route in ACROSS_ROUTES}


def requeue(word: str) -> Call[JobView]:
    """Run a job that is untracked."""
    return decoded((yield _request("requeue", job=_job(word))), JobView)


def rerun(word: str, new: str, *, only_failed: bool = False) -> Call[JobView]:
    """Submit a job that has ended once more, under a new id; of an array maybe what failed."""
    query = {"id": new} | ({"failed": "1"} if only_failed else {})
    return decoded((yield _request("rerun", query=query, job=_job(word))), JobView)


def cancel_index(word: str, index: int) -> Call[JobView]:
    """Cancel one index of an array."""
    request = _request("cancel_index", query={"index": str(index)}, job=_job(word))
    return decoded((yield request), JobView)


def force(word: str) -> Call[JobView]:
    """Go on with an at-most-once job whose voters are lost; it may run twice."""
    return decoded((yield _request("force", job=_job(word))), JobView)


def output(word: str, *, index: int | None = None) -> Call[OutputPlace]:
    """Which node has the output of a job."""
    query = {} if index is None else {"index": str(index)}
    return decoded((yield _request("output", query=query, job=_job(word))), OutputPlace)


def outputs(word: str) -> Call[Outputs]:
    """The files that a job left behind, and which node has them."""
    return decoded((yield _request("outputs", job=_job(word))), Outputs)


def bring_outputs(word: str, directory: str, *, overwrite: bool = False) -> Call[OutputsBrought]:
    """Put them into a directory of this machine."""
    wanted = BringOutputs(directory=directory, overwrite=overwrite)
    request = _request("bring_outputs", body=wanted, wait_ms=OUTPUTS_MS, job=_job(word))
    return decoded((yield request), OutputsBrought)


def safe(word: str, *, timeout_ms: int | None = 0) -> Call[Safety]:
    """Whether a job is on a second machine; waits for it, as long as told (None: for ever)."""
    left_ms = timeout_ms
    while True:
        ask_ms = WAIT_MS if left_ms is None else min(WAIT_MS, left_ms)
        response = yield _request("safe", query=_timeout(ask_ms), wait_ms=ask_ms, job=_job(word))
        found = decoded(response, Safety)
        if left_ms is not None:
            left_ms -= max(response.took_ms, 1)
        if found.is_safe or found.why or (left_ms is not None and left_ms <= 0):
            return found


def drain(node: str, *, timeout_ms: int | None = 0, now: bool = False) -> Call[DrainView]:
    """Give a node's work away; waits until it is empty, as long as told (None: for ever)."""
    left_ms, more = timeout_ms, {"now": "1"} if now else {}
    while True:
        ask_ms = WAIT_MS if left_ms is None else min(WAIT_MS, left_ms)
        query = _timeout(ask_ms) | more
        response = yield _request("drain", query=query, wait_ms=ask_ms, node=_node(node))
        found = decoded(response, DrainView)
        if left_ms is not None:
            left_ms -= max(response.took_ms, 1)
        if found.state != "draining" or (left_ms is not None and left_ms <= 0):
            return found


def undrain(node: str) -> Call[DrainView]:
    """Let a node take work again."""
    return decoded((yield _request("undrain", node=_node(node))), DrainView)


def snapshot() -> Call[MeshSnapshot]:
    """The nodes as placement sees them from here."""
    return decoded((yield _request("snapshot")), MeshSnapshot)


def pack(wanted: Pack) -> Call[Packed]:
    """Take files as they are now, to travel with a job; or list them."""
    return decoded((yield _request("pack", body=wanted, wait_ms=PACK_MS)), Packed)


def status_of(node: str) -> Call[NodeStatus]:
    """A node in one glance."""
    return decoded((yield _request("node_status", node=_node(node))), NodeStatus)


def sharing_of(node: str) -> Call[SharingStatus]:
    """What a node offers, what it does not and why, what is borrowed of it."""
    return decoded((yield _request("node_sharing", node=_node(node))), SharingStatus)


def sharing_everywhere() -> Call[SharingEverywhere]:
    """The same of every node of the mesh, this one first."""
    return decoded((yield _request("sharing_everywhere")), SharingEverywhere)


def queue_of(node: str, *, limit: int = 0) -> Call[Queue]:
    """The jobs that wait on a node, in the order of service."""
    query = {"limit": str(limit)} if limit else {}
    return decoded((yield _request("node_queue", query=query, node=_node(node))), Queue)


def _timeout(ask_ms: int) -> dict[str, str]:
    return {"timeout_ms": str(ask_ms)} if ask_ms else {}


def _job(word: str) -> str:
    if word:
        return word
    raise BadValue(word, expected="a job", remedy="Give its id, its name or the start of its id")


def _node(word: str) -> str:
    if 1 <= len(word) <= WORD_CHARACTERS_MAX:
        return word
    remedy = "Give its id, its name or the start of its id; see: grid nodes"
    raise BadValue(word, expected="a node", remedy=remedy)


def _request(
    operation: str,
    *,
    query: dict[str, str] | None = None,
    body: Any = None,
    wait_ms: int = 0,
    **named: str,
) -> Request:
    route = _ROUTES[operation]
    target = route.path
    for kind, word in named.items():
        target = target.replace(f"{{{kind}}}", quoted(word))
    pairs = "&".join(f"{key}={quoted(word)}" for key, word in (query or {}).items())
    return Request(
        method=route.method,
        target=f"{target}?{pairs}" if pairs else target,
        body=b"" if body is None else msgspec.json.encode(body),
        wait_ms=wait_ms,
        is_repeatable=True,  # All of them change nothing the second time.
    )
