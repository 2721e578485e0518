"""A lease: what one attempt of a job holds on one node, by name.

Lives here: the noun that the ledger grants and the store keeps. Never here: granting
(`kernel.ledger`), writing it down (`edges.store`).
Invariant: the shares of the cores add up to the granted `cpu_milli`.
"""

from typing import Annotated, Literal

import msgspec

from distributed_grid.model.bounds import CORES_MAX, Count, Milli, Moment, Word
from distributed_grid.model.ids import JobId
from distributed_grid.model.resources import Resources

LeaseState = Literal["reserved", "committed"]


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds what, since when, and until when if nobody commits it."""

    id: Word  # 128 random bits as text, made by whoever asks.
    job: JobId
    attempt: Word
    cores: Annotated[
        tuple[tuple[Count, Milli], ...], msgspec.Meta(max_length=CORES_MAX)
    ]  # (core id, thousandths of it), sorted.
    resources: Resources  # With its GPUs named.
    state: LeaseState
    granted_ms: Moment
    expires_ms: Moment | None = None  # None: committed, held until it is released.
