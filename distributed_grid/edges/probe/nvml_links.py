"""How NVIDIA devices reach each other: NVLink, NVSwitch, PCIe.

Lives here: links between pairs. Never here: facts of one device (`nvml_device`).
Invariant: links are told from both ends, nearest kind first by LINK_KINDS.
"""

from typing import Any, Final

import msgspec

from distributed_grid.edges.probe.nvml_device import pci_text, plain_text
from distributed_grid.model.hardware_gpu import GpuDevice, GpuLink

NVLINKS_MAX: Final = 36  # NVML_NVLINK_MAX_LINKS; Blackwell has 18.
_REMOTE_SWITCH: Final = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH.
_ANCESTORS: Final = {
    0: "same-board",
    10: "pcie-switch",
    20: "pcie-switches",
    30: "host-bridge",
    40: "numa-node",
    50: "system",
}


def linked(nvml: Any, devices: list[GpuDevice], handles: dict[str, Any]) -> list[GpuDevice]:
    """The same devices, each with its links to the others."""
    lanes = {device.device: _lanes(nvml, handles[device.device]) for device in devices}
    return [
        msgspec.structs.replace(
            device,
            nvlinks_active=None
            if lanes[device.device] is None
            else len(lanes[device.device] or ()),
            nvswitch=_SWITCH in (lanes[device.device] or ()),
            links=tuple(
                link
                for other in devices
                if other is not device and (link := _link(nvml, device, other, lanes, handles))
            ),
        )
        for device in devices
    ]


_SWITCH: Final = "switch"


def _lanes(nvml: Any, handle: Any) -> list[str] | None:
    """The PCI id at the far end of each active NVLink, or `switch`; None if it has no links."""
    found: list[str] = []
    for number in range(NVLINKS_MAX):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, number) != 1:
                continue
        except nvml.NVMLError:
            return found if number else None  # Past the last link, or a device without any.
        found.append(_far_end(nvml, handle, number))
    return found


def _far_end(nvml: Any, handle: Any, number: int) -> str:
    try:
        if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number) == _REMOTE_SWITCH:
            return _SWITCH
    except nvml.NVMLError:
        pass  # Drivers before 515 do not tell; the PCI id below still does for direct links.
    try:
        remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number)
    except nvml.NVMLError:
        return "unknown"
    return pci_text(plain_text(remote.busId))


def _link(
    nvml: Any,
    device: GpuDevice,
    other: GpuDevice,
    lanes: dict[str, list[str] | None],
    handles: dict[str, Any],
) -> GpuLink | None:
    mine, theirs = lanes[device.device] or [], lanes[other.device] or []
    direct = mine.count(other.pci_id or "")
    switched = min(mine.count(_SWITCH), theirs.count(_SWITCH))
    if direct or switched:
        return GpuLink(to=other.device, kind="nvlink", lanes=direct or switched)
    try:
        level = nvml.nvmlDeviceGetTopologyCommonAncestor(
            handles[device.device], handles[other.device]
        )
    except nvml.NVMLError:
        return None
    kind = _ANCESTORS.get(level)
    return GpuLink(to=other.device, kind=kind) if kind else None
