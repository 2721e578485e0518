"""What class this machine is, as in seed 002.

    from distributed_grid.cluster_mesh import NodeClass, NodeClassifier

    match await NodeClassifier().classify_local():
        case NodeClass.DataCenter(gpus=gpus):
            print(f"Data center node with {gpus} GPUs")
        case NodeClass.Workstation(gpu_capable=gpu_capable):
            print(f"Workstation {'with GPU' if gpu_capable else 'CPU only'}")

Lives here: the seed's class around the probe. Never here: the rules (`kernel.classification`).
"""

import asyncio
from collections.abc import Callable

from distributed_grid.edges.probe.machine import profile
from distributed_grid.kernel.classification import classify, classify_with_reason
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.node_class import AnyNodeClass


class NodeClassifier:
    """Tells the class of a machine."""

    def __init__(self, probe: Callable[[], HardwareProfile] = profile) -> None:
        self._probe = probe

    async def classify_local(self) -> AnyNodeClass:
        """The class of the machine this runs on."""
        # Reading files and a driver may take a while; the caller's loop goes on meanwhile.
        return classify(await asyncio.to_thread(self._probe))

    def classify(self, hardware: HardwareProfile) -> AnyNodeClass:
        """The class of a machine whose profile is at hand."""
        return classify(hardware)

    def explain(self, hardware: HardwareProfile) -> str:
        """Why it is of that class, in a few words."""
        return classify_with_reason(hardware)[1]
