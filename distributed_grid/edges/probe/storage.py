"""Storage devices, from /sys/block, and the file system that jobs write to.

Lives here: kind and capacity of each device. Never here: what is stored on them.
Source: the kernel's Documentation/ABI/stable/sysfs-block (size is in sectors of 512 bytes,
whatever the device's own sectors are; queue/rotational).
"""

import os
import re
from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.hardware_parts import Disk, Storage

SECTOR_BYTES: Final = 512
DISKS_MAX: Final = 1_024  # A full rack of drives behind one host.

# Made of other devices, of memory or of files, or not a place to keep things.
_NOT_A_DISK: Final = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd|mtdblock|drbd)\d|nvme\d+c\d+n\d")
_VIRTUAL: Final = re.compile(r"(vd|xvd)[a-z]|ubd[a-z]")
_FLASH: Final = re.compile(r"mmcblk\d+$")
_PART_OF_FLASH: Final = re.compile(r"mmcblk\d+(boot|rpmb)\d*")


def storage(tree: Tree, absent: dict[str, str], *, work_path: str | None = None) -> Storage:
    """The disks, and how much the file system of `work_path` holds (on this machine only)."""
    disks = []
    for name in tree.names("/sys/block")[:DISKS_MAX]:
        if _NOT_A_DISK.match(name) or _PART_OF_FLASH.match(name):
            continue
        where = f"/sys/block/{name}"
        sectors = tree.integer(f"{where}/size", least=1, most=BYTES_MAX // SECTOR_BYTES)
        if sectors is None:
            absent[f"storage.{name}"] = (
                "it tells no capacity: an empty drive, or an unreadable file"
            )
            continue
        kind = _kind(tree, name)
        if kind == "virtual":
            absent[f"storage.{name}.type"] = "a virtual disk does not tell what is behind it"
        disks.append(
            Disk(
                name=name,
                kind=kind,
                capacity_bytes=sectors * SECTOR_BYTES,
                model=tree.line(f"{where}/device/model") or tree.line(f"{where}/device/name"),
                removable=tree.integer(f"{where}/removable") == 1,
            )
        )
    if not disks:
        absent["storage.disks"] = "/sys/block lists no disk"
    if not tree.is_this_machine or work_path is None:
        absent["storage.free"] = (
            "free space is asked of a running machine, not of a copy of its files"
        )
        return Storage(disks=tuple(disks))
    return _with_space(tuple(disks), work_path, absent)


def _kind(tree: Tree, name: str) -> str:
    if name.startswith("nvme"):
        return "nvme"
    if _FLASH.match(name):
        return "flash"
    # Virtio and Xen disks say "rotational" out of habit.
    if _VIRTUAL.match(name) or (tree.line(f"/sys/block/{name}/device/vendor") or "") in {
        "QEMU",
        "VMware",
        "Msft",
        "Google",
        "DO",
        "VBOX",
    }:
        return "virtual"
    rotational = tree.integer(f"/sys/block/{name}/queue/rotational")
    return {0: "ssd", 1: "hdd"}.get(-1 if rotational is None else rotational, "unknown")


def _with_space(disks: tuple[Disk, ...], path: str, absent: dict[str, str]) -> Storage:
    try:
        told = os.statvfs(path)
    except OSError as error:
        absent["storage.free"] = f"the file system of {path} does not answer: {error.strerror}"
        return Storage(disks=disks)
    return Storage(
        disks=disks,
        path=path,
        file_system_bytes=min(told.f_blocks * told.f_frsize, BYTES_MAX),
        free_bytes=min(told.f_bavail * told.f_frsize, BYTES_MAX),
    )
