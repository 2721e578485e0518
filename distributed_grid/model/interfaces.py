"""Which network interfaces lead anywhere: containers' bridges and cable ends do not.

Lives here: the names. Never here: looking at interfaces (`edges.probe`, `edges.transport`).
"""

import re
from typing import Final

# What docker, podman, CNI plug-ins, libvirt and LXC name their bridges and cable ends.
_CONTAINER_BRIDGE: Final = re.compile(
    r"docker|veth|cni|podman|virbr|vnet\d|flannel|cali|tunl\d|cbr\d|lxcbr|lxdbr|lxc\w|incusbr|weave|"
    r"cilium|kube-|nerdctl|vxlan\.calico|br-[0-9a-f]{12}$|nodelocaldns"
)


def is_container_bridge(name: str) -> bool:
    """True if only containers of this machine are behind it."""
    return _CONTAINER_BRIDGE.match(name) is not None
