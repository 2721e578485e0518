"""Pretended hardware: taken from a configuration, and marked in every view."""

import json
from pathlib import Path

import pytest

from distributed_grid.config.pretend import find_pretend, read_pretend
from distributed_grid.edges.probe.machine import profile
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.kernel.classification import classify, classify_with_reason
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.node_class import DataCenter, Edge, Laptop, Workstation
from tests.conftest import Grid
from tests.trees.planting import plant

DESIGN = {
    "cpus": 16,
    "memory": "64GiB",
    "gpus": [{"model": "RTX4090", "count": 2}],
    "class": "laptop",
    "battery_percent": 40,
}


def pretending(tmp_path: Path, **mapping: object) -> HardwareProfile:
    return profile(str(plant("desktop-gpu", tmp_path)), pretend=read_pretend(mapping))


def test_the_example_of_the_design_gives_a_node_hardware(tmp_path: Path) -> None:
    machine = pretending(tmp_path, **DESIGN)

    assert classify(machine) == Laptop(battery_level=40)
    assert classify_with_reason(machine)[1] == "the configuration pretends it"
    assert machine.pretended == ("cpu", "memory", "gpus", "power", "class")
    for amounts in (machine.total(), machine.free()):
        assert amounts.cpu_milli == 16_000
        assert amounts.memory_bytes == 64 << 30
        assert [(gpu.device, gpu.model) for gpu in amounts.gpus] == [
            ("RTX4090#0000", "RTX4090"),
            ("RTX4090#0001", "RTX4090"),
        ]
    assert machine.power.on_battery is True
    assert all(gpu.pretended for gpu in machine.gpus)
    # What is not pretended stays as it was read.
    assert machine.cpu.model == "AMD Ryzen 9 7950X 16-Core Processor"
    assert len(machine.storage.disks) == 4


def test_everything_can_be_pretended_as_text_as_yaml_gives_it(tmp_path: Path) -> None:
    machine = pretending(
        tmp_path,
        cpus="0.5",
        memory="1GiB",
        storage="2TiB",
        gpus=[
            {"model": "H100", "count": "2", "memory": "80GiB", "compute_capability": "9.0"},
            "T4",
        ],
        bandwidth_mbps="25000",
        arch="aarch64",
        power="ac",
        battery_percent="100",
        **{"class": "datacenter"},
    )

    total = machine.total()

    assert total.cpu_milli == 500
    assert total.storage_bytes == 2 << 40
    assert [(g.model, g.memory_bytes, g.compute_capability) for g in total.gpus] == [
        ("H100", 80 << 30, 90), ("H100", 80 << 30, 90), ("T4", 0, 0),
    ]  # fmt: skip
    assert classify(machine) == DataCenter(gpus=3, bandwidth=25_000)
    assert machine.cpu.arch == "aarch64"
    assert machine.power.source == "ac"
    assert machine.pretended == ("cpu", "memory", "storage", "gpus", "power", "network", "class")


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"class": "edge", "device_type": "jetson-nano"}, Edge(device_type="jetson-nano")),
        ({"class": "edge"}, Edge(device_type="generic")),
        ({"class": "workstation"}, Workstation(gpu_capable=True)),
        ({"gpus": [], "class": "workstation"}, Workstation(gpu_capable=False)),
        ({"power": "battery"}, Laptop(battery_level=None)),
        ({"power": "ac"}, Workstation(gpu_capable=True)),
        ({"arch": "riscv64"}, Workstation(gpu_capable=True)),
    ],
)
def test_the_class_follows(tmp_path: Path, mapping: dict[str, object], expected: object) -> None:
    assert classify(pretending(tmp_path, **mapping)) == expected


def test_pretending_is_about_limits_too(tmp_path: Path) -> None:
    """The container's own limits must not cut what is pretended."""
    root = str(plant("container-cgroup-v2", tmp_path))
    machine = profile(root, pretend=read_pretend({"cpus": 8, "memory": "32GiB"}))

    assert machine.free().cpu_milli == 8_000
    assert machine.free().memory_bytes == 32 << 30


@pytest.mark.parametrize(
    ("mapping", "part"),
    [
        ([], "pretend as a mapping"),
        ({"cpu": 4}, "Did you mean cpus?"),
        ({"zzz": 4}, "Keys are arch, bandwidth_mbps"),
        ({5: 4}, "a key of pretend"),
        ({"cpus": 0}, "pretend.cpus: more than 0 cores"),
        ({"cpus": "many"}, "pretend.cpus"),
        ({"memory": "64GiBs"}, "pretend.memory"),
        ({"gpus": "RTX4090"}, "a list of GPUs"),
        ({"gpus": [5]}, "gpus as a mapping"),
        ({"gpus": [{"count": 2}]}, "a GPU with a model"),
        ({"gpus": [{"model": "T4", "cuont": 2}]}, "Did you mean count?"),
        ({"gpus": [{"model": "T4", "count": 0}]}, "a whole number from 1"),
        (
            {"gpus": [{"model": "T4", "count": 1000}, {"model": "T4", "count": 1000}]},
            "at most 1024",
        ),
        ({"gpus": [{"model": ""}]}, "a word of 1 to 100"),
        ({"gpus": [{"model": ["T4"]}]}, "a word"),
        ({"gpus": [{"model": "T4", "compute_capability": "8.95"}]}, "a compute capability"),
        ({"class": "phone"}, "one of datacenter, workstation, laptop, edge"),
        ({"class": "laptop", "device_type": "nuc"}, "only beside class: edge"),
        ({"battery_percent": 101}, "a whole number from 0 to 100"),
        ({"battery_percent": True}, "a whole number"),
        ({"battery_percent": "4²"}, "a whole number"),
        ({"power": "solar"}, "one of ac, battery"),
        ({"bandwidth_mbps": -1}, "a whole number from 1"),
    ],
)
def test_nonsense_is_refused_with_the_key_and_a_remedy(mapping: object, part: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_pretend(mapping)

    assert part in str(caught.value)


def test_a_file_holds_the_mapping_itself_or_a_configuration(tmp_path: Path) -> None:
    bare, whole = tmp_path / "bare.json", tmp_path / "whole.json"
    bare.write_text(json.dumps(DESIGN))
    whole.write_text(json.dumps({"cluster": {"name": "demo"}, "pretend": DESIGN}))

    assert find_pretend(str(bare)) == find_pretend(str(whole)) == read_pretend(DESIGN)


@pytest.mark.parametrize("place", [".", "config"])
def test_the_configuration_of_the_directory_is_found(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "cluster_config.yaml").write_text("pretend: {cpus: 16, memory: 64GiB}\n")

    found = find_pretend(None, directory=str(tmp_path))

    assert found is not None
    assert found.cpu_milli == 16_000


def test_without_a_word_on_it_nothing_is_pretended(tmp_path: Path) -> None:
    assert find_pretend(None, directory=str(tmp_path)) is None
    (tmp_path / "cluster_config.yaml").write_text("nodes: [a, b]\n")
    assert find_pretend(None, directory=str(tmp_path)) is None


def test_a_bad_value_in_a_file_names_the_file_and_the_path(tmp_path: Path) -> None:
    (tmp_path / "cluster_config.yaml").write_text("pretend: {cpus: many}\n")
    with pytest.raises(BadInput) as caught:
        find_pretend(None, directory=str(tmp_path))

    assert caught.value.path == "$.pretend"
    assert "cluster_config.yaml" in str(caught.value)


def test_every_view_marks_it(grid: Grid, tmp_path: Path) -> None:
    (tmp_path / "cluster_config.yaml").write_text(
        "pretend: {cpus: 16, memory: 64GiB, gpus: [{model: RTX4090, count: 2}], class: laptop, battery_percent: 40}\n"
    )

    told = json.loads(grid("probe", "--json").stdout)
    text = grid("probe").stdout

    assert told["pretended"] == ["cpu", "memory", "gpus", "power", "class"]
    assert [gpu["pretended"] for gpu in told["gpus"]] == [True, True]
    assert told["class"] == {"class": "laptop", "battery_level": 40}
    lines = [line.split()[0] for line in text.splitlines() if "(pretended)" in line]
    assert lines == ["class", "cpu", "memory", "gpu", "power"]


def test_a_bad_pretend_file_is_one_line_and_exit_code_2(grid: Grid, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("cpus: 4\nmemroy: 4GiB\n")

    done = grid("probe", "--pretend", bad)

    assert done.returncode == 2
    assert "Did you mean memory?" in done.stderr
    assert done.stderr.count("\n") == 1
