"""What a profile yields: totals, what is free, what it is known by."""

import msgspec

from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice, MigSlice
from distributed_grid.model.hardware_parts import (
    Cpu,
    Disk,
    Limits,
    Memory,
    Nic,
    Storage,
    ThermalSensor,
)

GIB = 1 << 30


def a_gpu(index: int = 0, **more: object) -> GpuDevice:
    facts = {
        "index": index,
        "vendor": "nvidia",
        "name": "NVIDIA L4",
        "device": f"GPU-{index}",
        "memory_bytes": 24 * GIB,
        "compute_capability": 89,
    }
    return GpuDevice(**{**facts, **more})  # type: ignore[arg-type]


def a_machine(**more: object) -> HardwareProfile:
    facts = {
        "cpu": Cpu(logical_cores=8, load_milli=2_500),
        "memory": Memory(total_bytes=32 * GIB, available_bytes=20 * GIB),
        "storage": Storage(file_system_bytes=500 * GIB, free_bytes=100 * GIB),
        "gpus": (a_gpu(),),
    }
    return HardwareProfile(**{**facts, **more})  # type: ignore[arg-type]


def test_the_total_is_what_the_machine_can_do() -> None:
    total = a_machine().total()

    assert (total.cpu_milli, total.memory_bytes, total.storage_bytes) == (
        8_000,
        32 * GIB,
        500 * GIB,
    )
    assert [(g.device, g.model, g.memory_bytes, g.compute_capability) for g in total.gpus] == [
        ("GPU-0", "L4", 24 * GIB, 89)
    ]


def test_what_is_free_is_less_by_load_and_use() -> None:
    free = a_machine().free()

    assert (free.cpu_milli, free.memory_bytes, free.storage_bytes) == (5_500, 20 * GIB, 100 * GIB)
    assert a_machine().total().covers(free)


def test_an_overloaded_machine_has_nothing_free_and_not_less() -> None:
    assert a_machine(cpu=Cpu(logical_cores=2, load_milli=9_000)).free().cpu_milli == 0


def test_limits_count_before_the_machine() -> None:
    limits = Limits(cpu_milli=1_500, memory_bytes=4 * GIB, memory_used_bytes=1 * GIB)
    machine = a_machine(limits=limits)

    assert (machine.total().cpu_milli, machine.total().memory_bytes) == (1_500, 4 * GIB)
    assert (machine.free().cpu_milli, machine.free().memory_bytes) == (1_500, 3 * GIB)


def test_a_limit_that_is_overdrawn_leaves_nothing() -> None:
    limits = Limits(memory_bytes=1 * GIB, memory_used_bytes=2 * GIB)

    assert a_machine(limits=limits).free().memory_bytes == 0


def test_a_limit_without_a_count_of_use_is_free_as_far_as_known() -> None:
    assert a_machine(limits=Limits(memory_bytes=1 * GIB)).free().memory_bytes == 1 * GIB


def test_an_empty_profile_has_nothing_and_says_so_without_failing() -> None:
    nothing = HardwareProfile()

    assert nothing.total() == nothing.free()
    assert nothing.total().cpu_milli == 0
    assert nothing.bandwidth_mbps is None
    assert nothing.temperature_centi is None
    assert nothing.capable_gpus == 0


def test_without_a_file_system_the_fixed_disks_count() -> None:
    disks = (
        Disk(name="sda", kind="ssd", capacity_bytes=10 * GIB),
        Disk(name="sdb", kind="hdd", capacity_bytes=90 * GIB),
        Disk(name="sdc", kind="ssd", capacity_bytes=7 * GIB, removable=True),
    )

    assert a_machine(storage=Storage(disks=disks)).total().storage_bytes == 100 * GIB


def test_integrated_and_unhealthy_devices_are_not_given_away() -> None:
    machine = a_machine(
        gpus=(
            a_gpu(0, integrated=True),
            a_gpu(1, healthy=False, health=("broken",)),
            a_gpu(2, healthy=True),
            a_gpu(3, healthy=None),
        )
    )

    assert [gpu.device for gpu in machine.total().gpus] == ["GPU-1", "GPU-2", "GPU-3"]
    assert [gpu.device for gpu in machine.free().gpus] == ["GPU-2", "GPU-3"]
    assert machine.capable_gpus == 3


def test_slices_stand_in_for_the_card_they_were_cut_from() -> None:
    pieces = (
        MigSlice(uuid="MIG-b", name="NVIDIA A100 MIG 1g.5gb"),
        MigSlice(uuid="MIG-a", name="x MIG 2g"),
    )
    parts = (
        a_machine(gpus=(a_gpu(mig_enabled=True, mig=pieces, compute_capability=None),)).total().gpus
    )

    assert [part.device for part in parts] == ["MIG-a", "MIG-b"]
    assert parts[1].model == "A100-MIG-1G.5GB"
    assert parts[1].memory_bytes == 0


def test_a_device_told_twice_counts_once() -> None:
    assert len(a_machine(gpus=(a_gpu(0), a_gpu(0))).total().gpus) == 1


def test_the_bandwidth_is_that_of_the_fastest_real_card_with_a_link() -> None:
    nics = (
        Nic(name="veth0", kind="virtual", up=True, speed_mbps=400_000),
        Nic(name="eth0", kind="ethernet", up=False, speed_mbps=100_000),
        Nic(name="eth1", kind="ethernet", up=True, speed_mbps=1_000),
        Nic(name="wlan0", kind="wifi", up=True),
    )

    assert a_machine(nics=nics).bandwidth_mbps == 1_000


def test_the_hottest_sensor_is_the_temperature() -> None:
    sensors = (
        ThermalSensor(name="a", temperature_centi=4_000),
        ThermalSensor(name="b"),
        ThermalSensor(name="c", temperature_centi=6_500),
    )

    assert a_machine(thermals=sensors).temperature_centi == 6_500


def test_amounts_that_no_machine_has_are_cut_to_what_can_be_counted() -> None:
    machine = a_machine(cpu=Cpu(logical_cores=1 << 40), memory=Memory(total_bytes=1 << 62))

    assert machine.total().cpu_milli == 1_000_000_000
    assert machine.total().memory_bytes == 1 << 60


def test_a_profile_survives_json() -> None:
    machine = a_machine(absent={"power": "none"}, pretended=("gpus",))

    assert msgspec.json.decode(msgspec.json.encode(machine), type=HardwareProfile) == machine
