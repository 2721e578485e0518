"""One number for what placement reads of a set of nodes, so that people can compare two views.

Lives here: what counts. Never here: the view itself (`agent`).
Invariant: two nodes that have heard the same from everybody come to the same hash, in any order and
at any distance: ages and distances, which each measures for itself, do not count.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from distributed_grid.model.node import Network, NodeRecord

_encoder = msgspec.msgpack.Encoder(order="sorted")  # Labels are a dict: told in any order.


def snapshot_hash(nodes: Iterable[NodeRecord]) -> str:
    """64 hex digits."""
    told = sorted(
        _encoder.encode(msgspec.structs.replace(node, age_ms=0, network=Network()))
        for node in nodes
    )
    return hashlib.sha256(msgspec.msgpack.encode(told)).hexdigest()
