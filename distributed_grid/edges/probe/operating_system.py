"""The operating system, from os-release and /proc/sys/kernel.

Lives here: its name, version and kernel. Source: os-release(5), the kernel's
Documentation/admin-guide/sysctl/kernel.rst.
"""

import re

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import Os


def operating_system(tree: Tree, absent: dict[str, str]) -> Os:
    """Distribution and kernel."""
    text = tree.text("/etc/os-release") or tree.text("/usr/lib/os-release") or ""
    told = dict(re.findall(r"""^([A-Z_]{1,40})=["']?([^"'\n]{0,200})["']?$""", text, re.MULTILINE))
    kernel = tree.line("/proc/sys/kernel/osrelease")
    if "NAME" not in told:
        absent["os.name"] = "there is no os-release file"
    if kernel is None:
        absent["os.kernel"] = "/proc/sys/kernel/osrelease cannot be read"
    return Os(
        name=told.get("NAME") or None,
        version=told.get("VERSION_ID") or None,
        pretty_name=told.get("PRETTY_NAME") or None,
        kernel=kernel,
        hostname=tree.line("/proc/sys/kernel/hostname"),
    )
