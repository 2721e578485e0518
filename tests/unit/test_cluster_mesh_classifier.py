"""The classifier of seed 002, name for name."""

import asyncio
from pathlib import Path

import pytest

import distributed_grid.cluster_mesh
from distributed_grid.cluster_mesh import NodeClass, NodeClassifier
from distributed_grid.edges.probe.machine import profile
from distributed_grid.model.hardware import HardwareProfile
from tests.trees.planting import plant


async def example_of_the_seed(classifier: NodeClassifier) -> str:
    # Classify local node
    node_class = await classifier.classify_local()

    match node_class:
        case NodeClass.DataCenter(gpus=gpus, bandwidth=_):
            return f"Data center node with {gpus} GPUs"
        case NodeClass.Workstation(gpu_capable=gpu_capable):
            return f"Workstation {'with GPU' if gpu_capable else 'CPU only'}"
        case NodeClass.Laptop(battery_level=battery_level):
            return f"Laptop at {battery_level}% battery"
        case NodeClass.Edge(device_type=device_type):
            return f"Edge device: {device_type}"
    raise AssertionError(node_class)


@pytest.mark.rows("S2-27", "S2-28", "S2-29")
def test_the_example_runs_on_this_machine() -> None:
    told = asyncio.run(example_of_the_seed(NodeClassifier()))

    assert told.startswith(
        ("Data center node with ", "Workstation ", "Laptop at ", "Edge device: ")
    )


@pytest.mark.rows("S2-30", "S2-31", "S2-32", "S2-33")
@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ("gpu-server-8", "Data center node with 8 GPUs"),
        ("desktop-gpu", "Workstation with GPU"),
        ("container-cgroup-v2", "Workstation CPU only"),
        ("laptop-battery", "Laptop at 46% battery"),
        ("raspberry-pi-4", "Edge device: raspberry-pi"),
    ],
)
def test_the_example_says_the_right_thing_on_each_machine(
    tmp_path: Path, tree: str, told: str
) -> None:
    root = str(plant(tree, tmp_path))

    assert asyncio.run(example_of_the_seed(NodeClassifier(lambda: profile(root)))) == told


def test_a_profile_at_hand_is_classified_and_explained() -> None:
    classifier = NodeClassifier()

    assert classifier.classify(HardwareProfile()) == NodeClass.Workstation(gpu_capable=False)
    assert (
        classifier.explain(HardwareProfile()) == "nothing says edge device, laptop or data centre"
    )


def test_names_are_found_on_first_use_and_unknown_ones_are_not() -> None:
    assert {"NodeClass", "NodeClassifier"} <= set(dir(distributed_grid.cluster_mesh))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = distributed_grid.cluster_mesh.Nothing
