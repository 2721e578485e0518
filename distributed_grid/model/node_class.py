"""What sort of machine a node is, as in seed 002: data centre, workstation, laptop, edge.

Lives here: the four classes and what each carries. Never here: deciding which one a machine is
(`kernel.classification`).
"""

from typing import ClassVar

import msgspec

from distributed_grid.model.bounds import Count, Name

CLASS_NAMES = ("datacenter", "workstation", "laptop", "edge")


class NodeClass(msgspec.Struct, frozen=True, tag_field="class"):
    """A tagged union, `NodeClass.Laptop(battery_level=80)`: match on members, or read `name`."""

    DataCenter: ClassVar[type["DataCenter"]]
    Workstation: ClassVar[type["Workstation"]]
    Laptop: ClassVar[type["Laptop"]]
    Edge: ClassVar[type["Edge"]]
    name: ClassVar[str]


class DataCenter(NodeClass, frozen=True, tag="datacenter"):
    """A server: many GPUs, or much of everything, behind a fast network."""

    name: ClassVar[str] = "datacenter"
    gpus: Count = 0
    bandwidth: Count | None = None  # Mbit/s of the fastest link; None: not known.


class Workstation(NodeClass, frozen=True, tag="workstation"):
    """A machine that stays where it is and is somebody's own."""

    name: ClassVar[str] = "workstation"
    gpu_capable: bool = False


class Laptop(NodeClass, frozen=True, tag="laptop"):
    """A machine that moves, sleeps, and lives on a battery."""

    name: ClassVar[str] = "laptop"
    battery_level: Count | None = None  # Percent; None: the battery does not tell.


class Edge(NodeClass, frozen=True, tag="edge"):
    """A small device: Raspberry Pi, Jetson, NUC."""

    name: ClassVar[str] = "edge"
    device_type: Name = "generic"


NodeClass.DataCenter = DataCenter
NodeClass.Workstation = Workstation
NodeClass.Laptop = Laptop
NodeClass.Edge = Edge

AnyNodeClass = DataCenter | Workstation | Laptop | Edge
