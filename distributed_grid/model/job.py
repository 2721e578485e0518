"""A job as somebody asks for it: what it needs, where it must, may and should not run.

Lives here: the specification that placement reads. Never here: a job's life (`kernel.jobs`).
"""

import msgspec

from distributed_grid.model.ids import JobId
from distributed_grid.model.resources import Request

NAMES_MAX = 10_000  # Nodes one job may list; more is a label.


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """A description of nodes. As `require` all parts must hold; as `avoid`, none may."""

    classes: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()  # Sorted by key.
    nodes: tuple[str, ...] = ()  # Names or ids.
    jobs: tuple[str, ...] = ()  # Nodes on which one of these runs: affinity.
    latency_us_max: int | None = None


NOWHERE = Where()


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a job needs of the node it runs on. Filters exclude; wishes only rank."""

    id: JobId
    name: str
    request: Request = Request()
    require: Where = NOWHERE  # Filter.
    avoid: Where = NOWHERE  # Filter.
    prefer: Where = NOWHERE  # Wish.
    avoid_if_possible: Where = NOWHERE  # Wish.
    arch: str = ""  # Empty: any.
    features: tuple[str, ...] = ()  # Sorted; the node must have them all.
    battery_safe: bool = True  # False: never on a node that runs on battery.
