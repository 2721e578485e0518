"""The class of a machine: every rule, every device type, the order in which they are asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.classification import (
    DEVICE_TYPES,
    RULES,
    classify,
    classify_capabilities,
    classify_with_reason,
)
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice
from distributed_grid.model.hardware_parts import (
    Battery,
    Board,
    Cpu,
    Memory,
    Nic,
    Power,
    Virtualisation,
)
from distributed_grid.model.node_class import DataCenter, Edge, Laptop, NodeClass, Workstation

GIB = 1 << 30


def a_machine(
    *,
    cores: int = 8,
    gib: int = 32,
    gpus: int = 0,
    mbps: int | None = None,
    cpu: str = "some CPU",
    battery: int | None = None,
    virtual: str | None = "none",
    cloud: str | None = None,
    **board: object,
) -> HardwareProfile:
    return HardwareProfile(
        board=Board(**board),  # type: ignore[arg-type]
        cpu=Cpu(model=cpu, physical_cores=cores, logical_cores=cores),
        memory=Memory(total_bytes=gib * GIB),
        gpus=tuple(
            GpuDevice(index=n, vendor="nvidia", name="NVIDIA L4", device=f"GPU-{n}")
            for n in range(gpus)
        ),
        nics=(Nic(name="eth0", kind="ethernet", up=True, speed_mbps=mbps),),
        power=Power(battery=None if battery is None else Battery(percent=battery)),
        virtualisation=Virtualisation(kind=virtual, cloud=cloud),
    )


@pytest.mark.rows("S2-05", "S2-06", "S2-07", "S2-33")
@pytest.mark.parametrize(
    ("machine", "device_type"),
    [
        (a_machine(device_tree_model="Raspberry Pi 4 Model B Rev 1.4"), "raspberry-pi"),
        (a_machine(device_tree_model="Raspberry Pi Zero 2 W"), "raspberry-pi"),
        (a_machine(cpu="BCM2711 Cortex-A72"), "raspberry-pi"),
        (
            a_machine(device_tree_model="NVIDIA Jetson Nano Developer Kit", cores=4, gib=4),
            "jetson-nano",
        ),
        (a_machine(device_tree_model="NVIDIA Jetson Xavier NX Developer Kit"), "jetson-xavier"),
        (a_machine(device_tree_model="NVIDIA Jetson AGX Orin"), "jetson-orin"),
        (
            a_machine(
                device_tree_model="NVIDIA Orin Nano Developer Kit",
                device_tree_compatible=("nvidia,tegra234",),
            ),
            "jetson-orin",
        ),
        (
            a_machine(
                device_tree_model="a board", device_tree_compatible=("nvidia,tegra210",), gib=4
            ),
            "jetson-nano",
        ),
        (a_machine(cpu="Tegra", gib=16), "jetson-xavier"),
        (a_machine(cpu="Tegra", gib=32), "jetson-orin"),
        (a_machine(product="NUC11TNHi5"), "nuc"),
        (a_machine(product="System", board="NUC7i3BNB"), "nuc"),
        (a_machine(product="Intel NUC 13 Pro"), "nuc"),
        (a_machine(chassis_type=34), "generic"),
        (a_machine(chassis_type=35, product="Beelink SER5"), "generic"),
        (a_machine(device_tree_model="Radxa ROCK 5B", gib=8), "generic"),
        (a_machine(cpu="Intel(R) Celeron(R) J4125", cores=4, gib=8), "generic"),
        (a_machine(cpu="Intel(R) Atom(TM) x5-Z8350", cores=4, gib=4), "generic"),
    ],
)
def test_edge_devices(machine: HardwareProfile, device_type: str) -> None:
    assert classify(machine) == NodeClass.Edge(device_type=device_type)
    assert device_type in DEVICE_TYPES


@pytest.mark.rows("S2-04", "S2-32")
@pytest.mark.parametrize(
    ("machine", "level"),
    [
        (a_machine(chassis_type=9, battery=80), 80),
        (a_machine(chassis_type=31), None),
        (a_machine(battery=17), 17),
        (a_machine(battery=60, product="NUC X15 laptop kit"), 60),
        (a_machine(chassis_type=10, product="NUC M15"), None),
        (a_machine(battery=60, cpu="Intel Celeron N4020", cores=2, gib=4), 60),
        (a_machine(chassis_type=10, cpu="Intel Celeron N4020", cores=2, gib=4), None),
        (a_machine(battery=60, device_tree_model="Apple MacBook Air (M1, 2020)", gib=8), 60),
        (a_machine(battery=5, gpus=8), 5),
    ],
)
def test_laptops(machine: HardwareProfile, level: int | None) -> None:
    assert classify(machine) == NodeClass.Laptop(battery_level=level)


@pytest.mark.rows("S2-02", "S2-30")
@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (a_machine(cloud="aws", virtual="kvm", cores=1, gib=1), DataCenter(gpus=0)),
        (a_machine(chassis_type=23, mbps=25_000), DataCenter(gpus=0, bandwidth=25_000)),
        (a_machine(gpus=4, mbps=100), DataCenter(gpus=4, bandwidth=100)),
        (a_machine(cores=32, gib=120, mbps=10_000), DataCenter(gpus=0, bandwidth=10_000)),
    ],
)
def test_data_centres(machine: HardwareProfile, expected: DataCenter) -> None:
    assert classify(machine) == expected


@pytest.mark.rows("S2-03", "S2-31")
@pytest.mark.parametrize(
    ("machine", "gpu_capable"),
    [
        (a_machine(), False),
        (a_machine(gpus=1), True),
        (a_machine(gpus=3, cores=128, gib=1_024, mbps=1_000), True),
        (a_machine(cores=31, gib=256, mbps=10_000), False),
        (a_machine(cores=64, gib=100, mbps=10_000), False),
        (a_machine(chassis_type=23, virtual="qemu"), False),
        (a_machine(device_tree_model="linux,dummy-virt", virtual="kvm", gib=4), False),
        (a_machine(device_tree_model="Apple Mac mini (M1, 2020)", gib=16), False),
        (a_machine(device_tree_model="Ampere something", cores=80, gib=256), False),
        (a_machine(cpu="Intel Celeron G6900", cores=6, gib=8), False),
        (HardwareProfile(), False),
    ],
)
def test_workstations(machine: HardwareProfile, gpu_capable: bool) -> None:
    assert classify(machine) == NodeClass.Workstation(gpu_capable=gpu_capable)


def test_a_gpu_that_cannot_be_granted_makes_no_capable_workstation() -> None:
    broken = GpuDevice(index=0, vendor="nvidia", name="x", device="x", healthy=False)

    assert classify(HardwareProfile(gpus=(broken,))) == Workstation(gpu_capable=False)


def test_the_reason_names_the_fact_that_decided() -> None:
    reasons = {
        "the device tree says Raspberry Pi 5": a_machine(device_tree_model="Raspberry Pi 5"),
        "a Tegra with 4 GiB": a_machine(cpu="Tegra", gib=4),
        "the firmware calls the case a notebook": a_machine(chassis_type=10),
        "it has a battery": a_machine(battery=1),
        "the firmware names the cloud azure": a_machine(cloud="azure"),
        "the firmware calls the case a rack mount chassis": a_machine(chassis_type=23),
        "it has 8 GPUs, 4 are enough": a_machine(gpus=8),
        "at least 128 GB, 32 cores and 10 Gbit/s": a_machine(cores=64, gib=256, mbps=40_000),
        "nothing says edge device, laptop or data centre": a_machine(),
    }

    assert {reason: classify_with_reason(machine)[1] for reason, machine in reasons.items()} == {
        reason: reason for reason in reasons
    }


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (dict(battery_percent=40), Laptop(battery_level=40)),
        (dict(on_battery=True), Laptop(battery_level=None)),
        (dict(on_battery=False), Workstation()),
        (dict(gpu_count=4), DataCenter(gpus=4)),
        (
            dict(cpu_milli=32_000, memory_bytes=128 * 10**9, bandwidth_mbps=10_000),
            DataCenter(gpus=0, bandwidth=10_000),
        ),
        (dict(cpu_milli=32_000, memory_bytes=128 * 10**9), Workstation()),
        (dict(cpu_milli=4_000, memory_bytes=8 * GIB, arch="aarch64"), Edge()),
        (dict(cpu_milli=4_000, memory_bytes=8 * GIB, arch="armv7l"), Edge()),
        (dict(cpu_milli=4_000, memory_bytes=8 * GIB, arch="x86_64"), Workstation()),
        (dict(cpu_milli=8_000, memory_bytes=8 * GIB, arch="aarch64"), Workstation()),
        (dict(gpu_count=1), Workstation(gpu_capable=True)),
    ],
)
def test_a_node_that_gives_only_amounts(facts: dict[str, object], expected: object) -> None:
    known = dict(
        cpu_milli=8_000,
        memory_bytes=16 * GIB,
        gpu_count=0,
        bandwidth_mbps=None,
        arch="x86_64",
        on_battery=None,
        battery_percent=None,
    )

    assert classify_capabilities(**{**known, **facts}) == expected  # type: ignore[arg-type]


words = (
    st.none()
    | st.text(max_size=20)
    | st.sampled_from(["NUC", "Jetson", "Tegra", "celeron", "Apple"])
)
numbers = st.none() | st.integers(0, 1 << 62)


@given(
    board=st.builds(
        Board, vendor=words, product=words, board=words, chassis_type=st.none() | st.integers(0, 255),
        device_tree_model=words,
    ),
    cpu=st.builds(Cpu, model=words, physical_cores=numbers, logical_cores=numbers),
    memory=st.builds(Memory, total_bytes=numbers),
    kind=words,
    pretended=st.none() | st.sampled_from(["datacenter", "workstation", "laptop", "edge", "phone"]),
)  # fmt: skip
def test_every_machine_gets_one_class_and_one_reason(
    board: Board, cpu: Cpu, memory: Memory, kind: str | None, pretended: str | None
) -> None:
    machine = HardwareProfile(
        board=board,
        cpu=cpu,
        memory=memory,
        virtualisation=Virtualisation(kind=kind),
        pretended_class=pretended,
    )

    made, reason = classify_with_reason(machine)

    assert made.name in {"datacenter", "workstation", "laptop", "edge"}
    assert reason
    assert sum(rule(machine) is not None for rule in RULES) >= 1
