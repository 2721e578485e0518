"""The nouns of seed 003: types, offers, requests and allocations of resources.

Lives here: their fields, in the units of the seed (devices, cores, GiB). Never here: doing anything
with them (`resource_sharing`).
"""

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

import msgspec

from distributed_grid.client.borrowing import SYNONYMS, WAIT_S_DEFAULT, kind_of
from distributed_grid.client.status_dicts import allocation_dict, offer_dict, resource_type
from distributed_grid.model.lending import Offer
from distributed_grid.wire.sharing import AllocationView


class ResourceType(StrEnum):
    """What can be borrowed; a kind of one's own is its name, as text."""

    GPU = "gpu"
    MEMORY = "memory"
    CPU = "cpu"
    DISK = "disk"

    @classmethod
    def _missing_(cls, value: object) -> "ResourceType | None":
        """Any case, and the other names of the same: `GPU`, `storage`, `cores`."""
        plain = str(value).strip().lower()
        kind = SYNONYMS.get(plain, plain)
        return cls.DISK if kind == "storage" else next((one for one in cls if one == kind), None)


def type_named(word: ResourceType | str) -> ResourceType | str:
    """The type of a word; a kind of one's own stays text. Raises BadValue for what is neither."""
    name = resource_type(kind_of(word))
    return ResourceType(name) if name in set(ResourceType) else name


class ResourceOffer(msgspec.Struct, frozen=True, kw_only=True):
    """An advertisement of what a node does not need now."""

    node_id: str
    resource_type: ResourceType | str
    amount: float
    total: float
    available_until: datetime
    conditions: dict[str, Any] = {}

    @classmethod
    def of(cls, offer: Offer, node: str) -> Self:
        """The same from the wire."""
        found = offer_dict(offer, node)
        return cls(
            **{
                **found,
                "resource_type": type_named(offer.kind),
                "available_until": datetime.fromisoformat(found["available_until"]),
            }
        )


class ResourceAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request got, until it is released."""

    request_id: str
    node_id: str
    resource_type: ResourceType | str
    amount: float
    allocated_at: datetime
    expires_at: datetime | None = None  # None: when it is released.
    devices: tuple[str, ...] = ()
    job_id: str = ""  # Of the job that holds it.

    @classmethod
    def of(cls, allocation: AllocationView, node: str) -> Self:
        """The same from the wire."""
        found = allocation_dict(allocation, node)
        expires = found["expires_at"]
        return cls(
            request_id=allocation.name,
            node_id=node,
            resource_type=type_named(allocation.kind),
            amount=found["amount"],
            allocated_at=datetime.fromisoformat(found["allocated_at"]),
            expires_at=None if expires is None else datetime.fromisoformat(expires),
            devices=allocation.devices,
            job_id=allocation.request_id,
        )


def _new_request_id() -> str:
    return f"request-{uuid.uuid4().hex[:12]}"


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants something, and would wait so many seconds for it."""

    resource_type: ResourceType | str
    amount: float
    request_id: str = msgspec.field(default_factory=_new_request_id)
    priority: str = "medium"
    max_wait_time: float = WAIT_S_DEFAULT
    job_id: str | None = None
    preferred_nodes: tuple[str, ...] = ()
