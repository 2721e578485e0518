"""Programs that run containers: which are installed, and whether their socket is there.

Lives here: finding them. Never here: starting anything (`edges.runner`).
"""

from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import ContainerRuntime

_PLACES: Final = (
    "/usr/bin",
    "/usr/local/bin",
    "/bin",
    "/usr/sbin",
    "/opt/bin",
    "/snap/bin",
    "/opt/homebrew/bin",
)
_SOCKETS: Final = {
    "docker": ("/run/docker.sock", "/var/run/docker.sock"),
    "podman": ("/run/podman/podman.sock",),
    "containerd": ("/run/containerd/containerd.sock",),
    "crio": ("/run/crio/crio.sock",),
    "nerdctl": ("/run/containerd/containerd.sock",),
}
_NAMES: Final = (
    "podman",
    "docker",
    "nerdctl",
    "containerd",
    "crio",
    "apptainer",
    "singularity",
    "crun",
    "runc",
)


def runtimes(tree: Tree, absent: dict[str, str]) -> tuple[ContainerRuntime, ...]:
    """The installed ones, the ones we prefer first."""
    # A user's own podman listens below /run/user; any of them will do to say that there is one.
    users = [f"/run/user/{user}/podman/podman.sock" for user in tree.names("/run/user")[:64]]
    found = []
    for name in _NAMES:
        path = next(
            (f"{place}/{name}" for place in _PLACES if tree.exists(f"{place}/{name}")), None
        )
        if path is None:
            continue
        sockets = [*_SOCKETS.get(name, ()), *(users if name == "podman" else ())]
        socket = next((candidate for candidate in sockets if tree.exists(candidate)), None)
        found.append(ContainerRuntime(name=name, path=path, socket=socket))
    if not found:
        absent["runtimes"] = f"none of {', '.join(_NAMES)} is installed in the usual places"
    return tuple(found)
